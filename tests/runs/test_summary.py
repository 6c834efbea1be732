"""How a run stands, told from its folder while anything may be happening to it."""

from __future__ import annotations

import json
import math
import threading
import time
from pathlib import Path
from typing import Any, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.config import parse_config
from seq2seq_chat.corpus.vocabulary import SPECIAL_WORDS, Vocabulary
from seq2seq_chat.experiments import metrics, read_ending, summarize
from seq2seq_chat.runs import Run, create_run

STEPS = 100


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run of 100 steps that has just been made."""
    config = parse_config({"name": "new", "data": {"train": "train.txt"}, "training": {"steps": STEPS}}, "x")
    return create_run(tmp_path / "results", config, Vocabulary([*SPECIAL_WORDS, "hello"]), {})


def line(step: int, loss: Optional[float] = 1.0, kind: str = "train") -> str:
    return (
        json.dumps({"step": step, "kind": kind, "loss": loss, "perplexity": None, "tokens": 9, "seconds": 0.1}) + "\n"
    )


def end(run: Run, **told: Any) -> None:
    (run.path / "end.json").write_text(json.dumps(told), encoding="utf-8")


def test_a_run_that_has_not_begun(run: Run) -> None:
    before = time.time()
    summary = summarize(run)
    assert (summary.name, summary.state, summary.step, summary.steps) == (run.name, "interrupted", 0, STEPS)
    assert (summary.best_perplexity, summary.best_step, summary.reason) == (None, None, None)
    assert before - 60 < summary.changed <= time.time() + 1


def test_a_run_that_is_being_trained(run: Run) -> None:
    run.metrics_file.write_text(line(10) + line(20), encoding="utf-8")
    end(run, state="failed", step=5, reason="of the time before")
    with run.lock():
        summary = summarize(run)
    assert (summary.state, summary.step, summary.reason) == ("training", 20, None)


@pytest.mark.parametrize(("step", "state"), [(STEPS - 1, "interrupted"), (STEPS, "finished"), (STEPS + 1, "finished")])
def test_a_run_that_does_not_tell_how_it_ended(run: Run, step: int, state: str) -> None:
    run.metrics_file.write_text(line(step), encoding="utf-8")
    assert summarize(run).state == state


@pytest.mark.parametrize("state", ["finished", "interrupted", "failed"])
def test_a_run_that_tells_how_it_ended(run: Run, state: str) -> None:
    run.metrics_file.write_text(line(50), encoding="utf-8")
    end(run, state=state, step=57, reason="why", time="2026-05-04 17:03:22")
    summary = summarize(run)
    assert (summary.state, summary.step, summary.reason) == (state, 57, "why")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"null", b"[]", b'{"state": "asleep", "step": 3}', b"\xff\xfe", b"[" * 100_000, b'{"state": 3}'],
)
def test_an_ending_that_says_nothing_is_passed_over(run: Run, content: bytes) -> None:
    (run.path / "end.json").write_bytes(content)
    assert read_ending(run) is None
    assert summarize(run).state == "interrupted"


def test_an_ending_with_a_strange_step(run: Run) -> None:
    end(run, state="finished", step="many", reason=7)
    assert summarize(run)._replace(changed=0)[1:] == ("finished", 0, STEPS, None, None, 0, None)


def test_a_damaged_configuration_is_the_reason_of_a_failure(run: Run) -> None:
    (run.path / "config.json").write_text("{", encoding="utf-8")
    summary = summarize(run)
    assert (summary.state, summary.steps) == ("failed", None)
    assert summary.reason is not None and "JSON" in summary.reason


def test_the_best_validation_is_that_of_the_lowest_loss(run: Run) -> None:
    losses = [(10, 4.0), (20, None), (30, 2.5), (40, 3.0)]
    text = "".join(line(step, loss, "validation") + line(step, 0.1) for step, loss in losses)
    run.metrics_file.write_text(text, encoding="utf-8")
    summary = summarize(run)
    assert summary.best_step == 30
    assert summary.best_perplexity == pytest.approx(math.exp(2.5))


def test_a_perplexity_too_large_for_a_number_is_none(run: Run) -> None:
    run.metrics_file.write_text(line(10, 10_000.0, "validation"), encoding="utf-8")
    assert summarize(run).best_perplexity is None


@given(st.integers(0, 200))
def test_a_last_line_half_written_is_passed_over(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.mktemp("cut") / "metrics.jsonl"
    whole = line(10) + line(20)
    path.write_text(whole[: len(line(10)) + cut], encoding="utf-8")
    steps = [found["step"] for found in metrics(path)]
    complete = cut >= len(line(20)) - 1  # but for the end of the line
    assert steps == ([10, 20] if complete else [10])


def test_of_a_huge_file_the_end_is_read(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(line(step) for step in range(1000)), encoding="utf-8")
    length = len(line(999))
    assert [found["step"] for found in metrics(path, most_bytes=3 * length + 5)] == [997, 998, 999]


def test_lines_that_are_no_metrics_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    odd = ["", "null", "[1]", '{"kind": "train"}', '{"step": -1}', '{"step": true}', '{"step": "4"}', "[" * 50_000]
    path.write_bytes("\n".join(odd).encode() + b"\n\xff\xfe\n" + line(7).encode())
    assert [found["step"] for found in metrics(path)] == [7]


def test_a_file_that_grows_while_it_is_read_ends(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(line(0), encoding="utf-8")
    read = 0
    for found in metrics(path):  # every line that is read brings another one
        read += 1
        assert read < 10
        with open(path, "a", encoding="utf-8") as file:
            file.write(line(found["step"] + 1))
    assert read == 1


def test_looking_at_a_run_does_not_keep_it_from_being_trained(run: Run) -> None:
    done = threading.Event()
    looks = []

    def look() -> None:
        while not done.is_set():
            looks.append(run.is_locked())

    with run.lock():  # so that there is a file
        pass
    thread = threading.Thread(target=look)
    thread.start()
    try:
        for _ in range(300):
            with run.lock():
                pass
    finally:
        done.set()
        thread.join()
    assert looks
