"""What a language model needs of the other settings: it has no source, and its text is not divided into samples."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from seq2seq_chat.config.data import TARGET_SETTINGS, Data, is_pairs
from seq2seq_chat.config.decoding import Decoding
from seq2seq_chat.config.model import Model
from seq2seq_chat.config.section import Section
from seq2seq_chat.config.training import Training

NO_SOURCE, NO_SAMPLES = "has no source", "is trained on running text, not on samples"
REQUIRED = {
    "model.attention": ("none", NO_SOURCE),
    "model.bidirectional": (False, NO_SOURCE),
    "model.context": ("initial_state", NO_SOURCE),
    "model.shared_embeddings": (False, NO_SOURCE),
    "model.unrolling": ("static", "is unrolled statically"),
    "data.reverse_input": (False, NO_SOURCE),
    **{f"data.{name}": (None, NO_SOURCE) for name in TARGET_SETTINGS},
    "data.swap_source_target": (False, NO_SAMPLES),
    "data.context_turns": (1, NO_SAMPLES),
    "data.buckets": (None, NO_SAMPLES),
    "data.max_length": (None, NO_SAMPLES),
    "training.source_noise": (0.0, NO_SOURCE),
    "training.scheduled_sampling": ("none", "is trained with teacher forcing only"),
    "training.strategy": ("single", "is trained on a single device"),
    "decoding.method": ("sample", "generates text by sampling"),
}
"""Path of a setting → the value that a language model requires, and why."""

DIFFERENT_DEFAULTS = (("model", "attention", "none"), ("decoding", "method", "sample"))


def fill_in_defaults(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a language model, with the required values where none is given and the default is another one."""
    filled = dict(settings)
    for section, key, value in DIFFERENT_DEFAULTS:
        given = filled.get(section, {})
        if isinstance(given, Section) and key not in given.model_fields_set:
            filled[section] = given.model_copy(update={key: value})
        elif isinstance(given, Mapping):
            filled[section] = {key: value, **given}
    return filled


def ensure_applicable(data: Data, model: Model, training: Training, decoding: Decoding) -> None:
    """Raise ValueError if a setting does not apply to language models."""
    sections = {"data": data, "model": model, "training": training, "decoding": decoding}
    for path, (required, reason) in REQUIRED.items():
        section, _, key = path.partition(".")
        value = getattr(sections[section], key)
        if value != required:
            text = f"a language model {reason}, so {path} {json.dumps(value)} does not apply to it"
            raise ValueError(f"{text}; remove the setting")
    if data.shared_vocabulary is False:
        raise ValueError("a language model has no source, so data.shared_vocabulary does not apply to it; remove it")
    for name in ("train", "validation", "test"):
        files = getattr(data, name)
        if files is not None and is_pairs(files):
            raise ValueError(f"task is language_model, but data.{name} ({files}) has pairs; use a text file")
