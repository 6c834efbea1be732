"""What the terminal shows of training: the time left, without the steps that trace graphs."""

import io
import os
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from tqdm import tqdm

from seq2seq_chat.training import reporter as console
from seq2seq_chat.training.reporter import Console

METRICS = {"loss": 2.0, "perplexity": 7.4, "tokens": 900, "seconds": 10.0, "softmax": "full"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def meter() -> MagicMock:
    meter = MagicMock()
    meter.sums.return_value = METRICS
    meter.metrics.return_value = METRICS
    return meter


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, which the test sets."""
    time = [1000.0]
    monkeypatch.setattr(console, "time", SimpleNamespace(monotonic=lambda: time[0]))
    return time


def train(progress: Console, meter: MagicMock, clock: list[float]) -> None:
    """Thirty seconds for the first graph, ten for a second one, and one second for each of nine other steps."""
    progress.start_progress(100, 211)
    for step in range(101, 112):
        tracing_seconds = {101: 30.0, 105: 10.0}.get(step, 0.0)
        clock[0] += tracing_seconds or 1.0
        progress.advance(step, meter, tracing_seconds)
        if step in (101, 111):
            progress.log_metrics({**METRICS, "step": step})
    progress.stop_progress()


def test_tracing_is_excluded_from_the_time_left(
    meter: MagicMock, clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    train(Console(), meter, clock)
    graph, first, last = capsys.readouterr().out.splitlines()
    assert graph == "building the graph…"
    assert first.startswith("step 101 of 211: loss 2.000, perplexity 7.4, 90 target tokens/s, time left unknown")
    assert last.endswith("90 target tokens/s, 1:40 left")


def test_progress_bar(
    meter: MagicMock, clock: list[float], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal, fast = Terminal(), {"mininterval": 0, "dynamic_ncols": False, "ncols": 100}
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(console, "tqdm", lambda **settings: tqdm(**settings | fast))
    train(Console(), meter, clock)
    assert capsys.readouterr().out == "building the graph…\n"
    assert "1:40 left, loss 2.000, perplexity 7.4, 90 tokens/s]" in terminal.getvalue()
    assert "time left unknown]" in terminal.getvalue()
    assert "111/211 steps [" in terminal.getvalue()


def test_a_terminal_without_a_size_gets_lines(
    meter: MagicMock, clock: list[float], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A progress bar would be empty there, and nothing would show the loss."""
    controller, terminal = os.openpty()  # of 0 columns
    with os.fdopen(terminal, "w", encoding="utf-8") as stderr, os.fdopen(controller):
        monkeypatch.setattr(console.sys, "stderr", stderr)
        assert stderr.isatty()
        train(Console(), meter, clock)
    assert len(capsys.readouterr().out.splitlines()) == 3
