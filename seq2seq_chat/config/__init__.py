"""The configuration of an experiment: one typed, strict JSON file. Start reading with :mod:`.experiment`."""

from __future__ import annotations

from seq2seq_chat.config.data import TARGET_SETTINGS, CorpusFiles, Data, ParallelFiles, TextSettings, is_pairs
from seq2seq_chat.config.decoding import OPTIONS_OF_METHOD, Decoding
from seq2seq_chat.config.experiment import LABELS, RUN_NAME, Config, Labels, unused_settings
from seq2seq_chat.config.legacy import upgrade_flat_settings
from seq2seq_chat.config.loading import (
    FILE_SETTINGS,
    flat_settings,
    json_schema,
    load_config,
    override_decoding,
    parse_config,
    set_decoding,
)
from seq2seq_chat.config.model import Model
from seq2seq_chat.config.reference import settings_reference
from seq2seq_chat.config.section import AppliesIf, ConfigError, Section, conditions, describe
from seq2seq_chat.config.training import Training, Truncation

__all__ = [
    "FILE_SETTINGS",
    "LABELS",
    "OPTIONS_OF_METHOD",
    "RUN_NAME",
    "TARGET_SETTINGS",
    "AppliesIf",
    "Config",
    "ConfigError",
    "CorpusFiles",
    "Data",
    "Decoding",
    "Labels",
    "Model",
    "ParallelFiles",
    "Section",
    "TextSettings",
    "Training",
    "Truncation",
    "conditions",
    "describe",
    "flat_settings",
    "is_pairs",
    "json_schema",
    "load_config",
    "override_decoding",
    "parse_config",
    "set_decoding",
    "settings_reference",
    "unused_settings",
    "upgrade_flat_settings",
]
