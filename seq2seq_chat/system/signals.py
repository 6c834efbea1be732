"""Handlers for SIGINT (Ctrl-C) and SIGTERM."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn


class Terminated(KeyboardInterrupt):
    """Raised in the main thread when the process receives SIGTERM."""


class StopRequest:
    """Turns the first SIGINT or SIGTERM into a request to stop after the current step; a second one stops at once."""

    def __init__(self) -> None:
        self.signal_number: int | None = None

    def __bool__(self) -> bool:
        """Whether a signal was received."""
        return self.signal_number is not None

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Record signals as requests while the block runs."""

        def record(number: int, frame: FrameType | None) -> None:
            if self:
                interrupt_once(number, frame)
            self.signal_number = number
            with suppress(OSError):  # in a pipeline, Ctrl-C also ends the process that reads our output
                # os.write instead of print: the signal may have interrupted a print, which is not reentrant
                os.write(2, b"\nstopping after this step ... (press Ctrl-C again to stop at once)\n")

        with handle_signals(record):
            yield


SIGNALS = (signal.SIGINT, signal.SIGTERM)
Handler = Callable[[int, FrameType | None], object]


@contextmanager
def handle_signals(handler: Handler, numbers: Sequence[int] = SIGNALS) -> Iterator[None]:
    """Call ``handler`` for signals while the block runs; outside the main thread, do nothing."""
    if threading.current_thread() is not threading.main_thread():  # the only one that may set handlers
        yield
        return
    previous = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, previous_handler in previous.items():
            if previous_handler is not interrupt_once or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, previous_handler)


@contextmanager
def explain_interrupt(consequence: Callable[[], str]) -> Iterator[None]:
    """Add to the message after Ctrl-C or SIGTERM in the block what becomes of the work."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise type(stop)(consequence()) from stop


def interrupt_once(number: int, frame: FrameType | None) -> NoReturn:
    """Raise KeyboardInterrupt, or Terminated for SIGTERM; further signals are ignored: they must not stop the clean-up.

    A handler.
    """
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


@contextmanager
def signals_as_interrupt() -> Iterator[None]:
    """Handle SIGINT and SIGTERM by :func:`interrupt_once` while the block runs.

    A signal that is already ignored stays ignored. (The kernel drops signals without a handler for the first process
    of a container.)
    """
    numbers = [each for each in SIGNALS if signal.getsignal(each) not in (signal.SIG_IGN, None)]
    with handle_signals(interrupt_once, numbers):
        yield
