"""Settings that cannot change when a run goes on: they shape the variables, or the meaning of what was learned."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from seq2seq_chat.config import Config, flat_settings
from seq2seq_chat.errors import UserError

FILES = ("train", "validation", "test", "vocabulary")  # may move; what is in them is compared when it is read


def fixed_settings(config: Config) -> dict[str, Any]:
    """Those that cannot change, by their paths."""
    return {
        path: value
        for path, value in flat_settings(config).items()
        if path in ("seed", "training.optimizer")  # what an optimizer remembers is of no use to another
        or (path.startswith(("data.", "model.")) and path.partition(".")[2] not in FILES)
    }


def ensure_same_settings(run: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Compare the fixed settings of a run with those it shall go on with.

    Settings that one of the two does not know are those of another version of this program, which had one way only.

    Raises:
        UserError: some differ; the message lists them.
    """
    differing = [
        f"{path} ({json.dumps(before[path])} → {json.dumps(now[path])})"
        for path in now
        if path in before and before[path] != now[path]
    ]
    if differing:
        raise UserError(
            f"run {run} cannot go on with other settings of {', '.join(differing)}; "
            "set them back, or start a new run without --resume"
        )
