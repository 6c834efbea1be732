"""SIGTERM is obeyed like Ctrl-C: what is temporary is removed, what can be saved is saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


class Terminated(KeyboardInterrupt):
    """Raised in the main thread when the process is asked to end."""


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """Raise Terminated for SIGTERM, once: what it ends is not disturbed while it tidies up.

    A signal that is ignored remains so. (Of the first process of a container the kernel drops signals that it does not
    handle.)
    """

    def end(number: int, frame: FrameType | None) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Terminated

    before = signal.getsignal(signal.SIGTERM)
    if before in (signal.SIG_IGN, None) or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
