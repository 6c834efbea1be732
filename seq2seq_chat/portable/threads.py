"""How many threads ONNX Runtime uses for an operation."""

from __future__ import annotations

_LIMITS = {"threads": 0}


def limit_threads(count: int) -> None:
    """Limit the threads of models that are opened from now on; 0: one for each core."""
    _LIMITS["threads"] = count


def thread_limit() -> int:
    """The limit, 0 for none."""
    return _LIMITS["threads"]
