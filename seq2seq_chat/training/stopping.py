"""Stopping a training when a person, or the system, asks for it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Optional


class StopRequest:
    """SIGINT or SIGTERM asks for a stop after the step that is being computed; a second one stops at once."""

    def __init__(self) -> None:
        self.signal: Optional[int] = None

    @property
    def made(self) -> bool:
        """Whether a signal came."""
        return self.signal is not None

    @contextmanager
    def heard(self) -> Iterator[None]:
        """While this lasts, signals are requests."""

        def ask(number: int, frame: Any) -> None:
            if self.made:  # asked twice: the person does not want to wait
                raise KeyboardInterrupt
            self.signal = number
            with suppress(OSError):  # Ctrl-C in a pipeline ends its reader, too
                # not print: it may be what the signal interrupted, and it cannot be entered twice
                os.write(2, b"\nstopping after this step ...\n")

        try:
            before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
        except ValueError:  # not the main thread: whoever started it handles signals
            before = {}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
