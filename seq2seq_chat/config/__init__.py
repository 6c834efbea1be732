"""What an experiment is: one typed, strict JSON file. Reading order: sections, reading, explaining."""

from __future__ import annotations

from seq2seq_chat.config.reading import (
    changed_decoding,
    decoding_with,
    flat_settings,
    json_schema,
    load_config,
    parse_config,
)
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
    "changed_decoding",
    "decoding_with",
    "flat_settings",
    "json_schema",
    "load_config",
    "parse_config",
]
