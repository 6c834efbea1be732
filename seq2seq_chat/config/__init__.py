"""The configuration of an experiment: one typed, strict JSON file. Start reading with :mod:`.sections`."""

from __future__ import annotations

from seq2seq_chat.config.legacy import upgrade_flat_settings
from seq2seq_chat.config.loading import (
    flat_settings,
    json_schema,
    load_config,
    override_decoding,
    parse_config,
)
from seq2seq_chat.config.reference import settings_reference
from seq2seq_chat.config.sections import (
    OPTIONS_OF_METHOD,
    RUN_NAME,
    Config,
    ConfigError,
    Data,
    Decoding,
    Model,
    Section,
    Training,
)
from seq2seq_chat.config.unused import unused_settings

__all__ = [
    "OPTIONS_OF_METHOD",
    "RUN_NAME",
    "Config",
    "ConfigError",
    "Data",
    "Decoding",
    "Model",
    "Section",
    "Training",
    "flat_settings",
    "json_schema",
    "load_config",
    "override_decoding",
    "parse_config",
    "settings_reference",
    "unused_settings",
    "upgrade_flat_settings",
]
