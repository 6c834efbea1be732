"""A request to end (SIGTERM, SIGHUP) is obeyed like Ctrl-C: what is temporary is removed, what can be saved is."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


class Terminated(KeyboardInterrupt):
    """Raised in the main thread when the process is asked to end.

    Attributes:
        number: The signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """Raise Terminated for SIGTERM and SIGHUP; a signal that is ignored, as under nohup, remains so.

    (Of the first process of a container the kernel drops signals that it does not handle.)
    """

    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise Terminated(number)

    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, end) for number in numbers if signal.getsignal(number) != signal.SIG_IGN}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
