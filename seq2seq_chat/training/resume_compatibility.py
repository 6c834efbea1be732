"""Settings that must not change when a run is resumed, because the weights depend on them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from seq2seq_chat.config import Config, flat_settings, upgrade_flat_settings
from seq2seq_chat.system.errors import UserError

FILES = (
    *("train", "validation", "test"),
    *("vocabulary", "target_vocabulary", "tokenizer_file", "target_tokenizer_file"),
)  # may move; their contents are compared when they are read

STREAM_SETTINGS = ("training.batch_size", "training.bptt_forward", "training.bptt_backward")  # they divide the text


def resume_settings(config: Config) -> dict[str, Any]:
    """The settings that must not change, by path: ``model.hidden_size``."""
    return {
        path: value
        for path, value in flat_settings(config).items()
        if path in ("seed", "task", "training.optimizer")  # another optimizer has other variables
        or (path in STREAM_SETTINGS and config.task == "language_model")
        or (path.startswith(("data.", "model.")) and path.partition(".")[2] not in FILES)
    }


def ensure_same_settings(run: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Compare the settings of a run with those it is resumed with.

    Settings that only one of the two has were added or removed by another version, and are ignored.

    Raises:
        UserError: some settings differ; the message lists them.
    """
    before = upgrade_flat_settings(before)
    differing = [
        f"{path} ({json.dumps(before[path])} → {json.dumps(now[path])})"
        for path in now
        if path in before and before[path] != now[path]
    ]
    if differing:
        raise UserError(
            f"run {run} cannot be resumed with other settings of {', '.join(differing)}; "
            "restore them, or start a new run without --resume"
        )
