"""Handling of SIGINT and SIGTERM."""

import os
import signal
import threading
from contextlib import nullcontext

import pytest

from seq2seq_chat.system.signals import StopRequest, Terminated, handle_signals, signals_as_interrupt


def test_a_stop_request_is_recorded_although_the_reader_of_stderr_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in ``train 2>&1 | tee log`` also ends tee; the training must still save."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    write, request = os.write, StopRequest()
    monkeypatch.setattr("seq2seq_chat.system.signals.os.write", lambda descriptor, text: write(write_end, text))
    with request.on_signals():
        assert not request
        signal.raise_signal(signal.SIGINT)
        assert request
        assert request.signal_number == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    os.close(write_end)


def test_handlers_are_restored_after_the_block() -> None:
    previous, received = signal.getsignal(signal.SIGTERM), []
    with handle_signals(lambda number, frame: received.append(number)):
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
    assert received == [signal.SIGTERM, signal.SIGINT]
    assert signal.getsignal(signal.SIGTERM) == previous


def test_outside_the_main_thread_signals_are_not_handled() -> None:
    previous, errors = signal.getsignal(signal.SIGINT), []

    def listen() -> None:
        try:
            with handle_signals(lambda number, frame: None), StopRequest().on_signals():
                assert signal.getsignal(signal.SIGINT) == previous
        except BaseException as error:  # a thread's exceptions do not fail the test
            errors.append(error)

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    assert not errors


@pytest.mark.parametrize(("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)])
@pytest.mark.parametrize("requested", [False, True])
def test_the_clean_up_is_not_interrupted(number: int, error: type[BaseException], requested: bool) -> None:
    def receive() -> None:
        try:
            signal.raise_signal(number)
            signal.raise_signal(number)
        finally:
            for _ in range(2):
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGTERM)

    before = signal.getsignal(number)
    with pytest.raises(error), signals_as_interrupt():
        try:
            with StopRequest().on_signals() if requested else nullcontext():
                receive()
        finally:
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(number) == before
