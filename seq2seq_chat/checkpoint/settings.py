"""The settings that a checkpoint was trained with, and which of them must not change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from seq2seq_chat.config import FILE_SETTINGS, Config, flat_settings, upgrade_flat_settings

STREAM_SETTINGS = ("training.batch_size", "training.bptt_forward", "training.bptt_backward")  # they divide the text


def trained_settings(config: Config) -> dict[str, Any]:
    """The settings that a checkpoint keeps, by path: all but where the lexicon is, of which the run has a copy."""
    return {path: value for path, value in flat_settings(config).items() if path != "decoding.lexicon"}


def resume_settings(config: Config) -> dict[str, Any]:
    """The settings that must not change, by path: ``model.hidden_size``."""
    return {
        path: value
        for path, value in flat_settings(config).items()
        if path in ("seed", "task", "training.optimizer")  # another optimizer has other variables
        or (path in STREAM_SETTINGS and config.task == "language_model")
        or (path.startswith(("data.", "model.")) and path.partition(".")[2] not in FILE_SETTINGS["data"])
    }


def describe_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """The settings that have changed: ``model.hidden_size (16 → 17), …``; "" if there are none.

    Settings that only one of the two has were added or removed by another version, and are ignored.
    """
    before = upgrade_flat_settings(before)
    return ", ".join(
        f"{path} ({json.dumps(before[path])} → {json.dumps(now[path])})"
        for path in now
        if path in before and before[path] != now[path]
    )
