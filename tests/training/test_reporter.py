"""What is reported of training: sums of metrics by hand, the terminal, and TensorBoard."""

import gc
import io
import math
import os
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tqdm import tqdm

from seq2seq_chat.model.seq2seq import Loss
from seq2seq_chat.runs.json_lines import read_json_lines
from seq2seq_chat.runs.run import Run
from seq2seq_chat.training import reporter
from seq2seq_chat.training.reporter import MAX_PENDING, Console, Meter, Reporter
from seq2seq_chat.training.step import StepResult


def two_steps() -> Meter:
    """6 nats for 3 tokens in 2 s, and 1 nat for one token in 1 s."""
    meter = Meter(sampled=True)
    for nats, tokens, norm, seconds in ((6.0, 3.0, 1.0, 2.0), (1.0, 1.0, 4.0, 1.0)):
        result = StepResult(Loss(tf.constant(nats), tf.constant(tokens)), tf.constant(norm), tf.constant(0.0))
        meter.add(result, seconds, data_seconds=0.25)
    return meter


def test_means_by_hand() -> None:
    assert two_steps().metrics(7) == {
        "step": 7,
        "kind": "train",
        "loss": 7 / 4,
        "perplexity": pytest.approx(math.exp(7 / 4)),
        "tokens": 4,
        "seconds": 3.0,
        "data_seconds": 0.5,
        "gradient_norm": 2.5,
        "softmax": "sampled",
    }


def test_results_do_not_stay_on_the_device_until_they_are_logged() -> None:
    def results_in_memory() -> int:
        gc.collect()
        return sum(isinstance(thing, StepResult) for thing in gc.get_objects())

    meter, before = Meter(sampled=False), results_in_memory()
    for _ in range(3 * MAX_PENDING + 1):
        result = StepResult(Loss(tf.constant(2.0), tf.constant(1.0)), tf.constant(1.0), tf.constant(0.0))
        meter.add(result, 1.0, data_seconds=0.0)
    assert 0 < results_in_memory() - before <= MAX_PENDING
    assert meter.metrics(1)["tokens"] == 3 * MAX_PENDING + 1


def test_tensorboard_forgets_what_is_reported_again(tmp_path: Path) -> None:
    """A killed training has reported steps after its checkpoint of step 2; the resumed one reports other values."""
    run = Run(tmp_path)
    for first, loss in ((1, 1.0), (3, 2.0)):
        reporter = Reporter(run, Console())
        reporter.discard_after(first - 1 or None, {})
        for step in range(first, 6):
            metrics = {"step": step, "kind": "train", "loss": loss, "perplexity": 1.0, "gradient_norm": 1.0}
            reporter.log_metrics(metrics | {"tokens": 1, "seconds": 1.0, "softmax": "full"})
        tf.summary.flush(reporter._tensorboard)
    events = EventAccumulator(str(run.tensorboard)).Reload().Tensors("train/loss")
    losses = [(event.step, float(tf.make_ndarray(event.tensor_proto))) for event in events]
    assert losses == [(1, 1.0), (2, 1.0), (3, 2.0), (4, 2.0), (5, 2.0)]


def test_tensorboard_has_the_metrics(tiny_run: Path) -> None:
    events = EventAccumulator(str(tiny_run / "tensorboard")).Reload()
    lines = list(read_json_lines(tiny_run / "metrics.jsonl"))
    for line in lines:
        line["target_tokens_per_second"] = line["tokens"] / line["seconds"]
    train = ("loss", "perplexity", "gradient_norm", "target_tokens_per_second")
    validation = {"validation/loss", "validation/perplexity"}
    assert set(events.Tags()["tensors"]) == {f"train/{name}" for name in train} | validation
    for tag in events.Tags()["tensors"]:
        kind, name = tag.split("/")
        expected = [(line["step"], line[name]) for line in lines if line["kind"] == kind]
        written = [(event.step, float(tf.make_ndarray(event.tensor_proto))) for event in events.Tensors(tag)]
        assert [step for step, _ in written] == [step for step, _ in expected]
        values = [value for _, value in expected]
        assert [value for _, value in written] == pytest.approx(values, rel=2e-2 if "second" in name else 1e-5)


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
    monkeypatch.setattr(reporter, "time", SimpleNamespace(monotonic=lambda: time[0]))
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


def test_a_new_number_of_steps_starts_the_clock_again(
    meter: MagicMock, clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    console = Console()
    console.start_progress(0, 100)
    clock[0] += 50
    console.set_steps(30, 10)
    clock[0] += 10
    console.log_metrics({**METRICS, "step": 20})
    assert capsys.readouterr().out.splitlines()[-1].endswith("0:10 left")


def test_progress_bar(
    meter: MagicMock, clock: list[float], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal, fast = Terminal(), {"mininterval": 0, "dynamic_ncols": False, "ncols": 100}
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(reporter, "tqdm", lambda **settings: tqdm(**settings | fast))
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
        monkeypatch.setattr(reporter.sys, "stderr", stderr)
        assert stderr.isatty()
        train(Console(), meter, clock)
    assert len(capsys.readouterr().out.splitlines()) == 3
