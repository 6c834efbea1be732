"""Handlers for SIGINT (Ctrl-C) and SIGTERM."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
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
                raise KeyboardInterrupt
            self.signal_number = number
            with suppress(OSError):  # in a pipeline, Ctrl-C also ends the process that reads our output
                # os.write instead of print: the signal may have interrupted a print, which is not reentrant
                os.write(2, b"\nstopping after this step ... (press Ctrl-C again to stop at once)\n")

        with handle_signals(record):
            yield


@contextmanager
def handle_signals(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Call ``handler`` for SIGINT and SIGTERM while the block runs; outside the main thread, do nothing."""
    if threading.current_thread() is not threading.main_thread():  # the only one that may set handlers
        yield
        return
    previous = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, previous_handler in previous.items():
            signal.signal(number, previous_handler)


@contextmanager
def explain_interrupt(consequence: Callable[[], str]) -> Iterator[None]:
    """Add to the message after Ctrl-C or SIGTERM in the block what becomes of the work."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise type(stop)(consequence()) from stop


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Raise Terminated for the first SIGTERM; ignore further ones, so that they do not interrupt the clean-up.

    If SIGTERM is already ignored, it stays ignored. (The kernel drops signals without a handler for the first process
    of a container.)
    """

    def terminate(number: int, frame: FrameType | None) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Terminated

    previous = signal.getsignal(signal.SIGTERM)
    if previous in (signal.SIG_IGN, None) or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
