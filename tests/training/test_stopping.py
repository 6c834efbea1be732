"""Stopping when somebody asks for it."""

from __future__ import annotations

import os
import signal

import pytest

from seq2seq_chat.training.stopping import StopRequest


def test_a_request_is_heard_when_nobody_reads_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in ``train 2>&1 | tee log`` ends tee as well; the training must save all the same."""
    reading, writing = os.pipe()
    os.close(reading)
    write, request = os.write, StopRequest()
    monkeypatch.setattr("seq2seq_chat.training.stopping.os.write", lambda descriptor, text: write(writing, text))
    with request.heard():
        signal.raise_signal(signal.SIGINT)
        assert request.signal == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):  # asked twice
            signal.raise_signal(signal.SIGINT)
    os.close(writing)
