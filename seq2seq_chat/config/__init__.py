"""The configuration of an experiment: one typed, strict JSON file. Start reading with :mod:`.experiment`."""

from __future__ import annotations

from seq2seq_chat.config.data import TARGET_SETTINGS, CorpusFiles, Data, ParallelFiles, TextSettings, is_pairs
from seq2seq_chat.config.decoding import OPTIONS_OF_METHOD, Decoding
from seq2seq_chat.config.experiment import LABELS, RUN_NAME, Config, Labels, unused_settings
from seq2seq_chat.config.legacy import upgrade_flat_settings
from seq2seq_chat.config.loading import (
    FILE_SETTINGS,
    describe_changes,
    flat_settings,
    json_schema,
    load_config,
    override_decoding,
    parse_config,
    resume_settings,
    set_decoding,
    trained_settings,
)
from seq2seq_chat.config.model import Model
from seq2seq_chat.config.reference import settings_reference
from seq2seq_chat.config.section import ConfigError, conditions
from seq2seq_chat.config.training import Training, Truncation

__all__ = [
    "FILE_SETTINGS",
    "LABELS",
    "OPTIONS_OF_METHOD",
    "RUN_NAME",
    "TARGET_SETTINGS",
    "Config",
    "ConfigError",
    "CorpusFiles",
    "Data",
    "Decoding",
    "Labels",
    "Model",
    "ParallelFiles",
    "TextSettings",
    "Training",
    "Truncation",
    "conditions",
    "describe_changes",
    "flat_settings",
    "is_pairs",
    "json_schema",
    "load_config",
    "override_decoding",
    "parse_config",
    "resume_settings",
    "set_decoding",
    "settings_reference",
    "trained_settings",
    "unused_settings",
    "upgrade_flat_settings",
]
