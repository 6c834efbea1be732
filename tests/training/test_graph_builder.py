"""Graphs are built ahead of the batches that need them, in the order of these, and not after a request to stop."""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from seq2seq_chat.training.learner import GraphBuilder
from tests.training.test_step import configuration, make_step, random_batch

BUCKETS = [(5, 4), (3, 2), (5, 4), (2, 2), (3, 2)]


def bucket_batch(step: int) -> Any:
    return random_batch(step, *BUCKETS[step])


class FakeStep:
    """Records which batches it builds graphs for; waits for permission before each."""

    def __init__(self) -> None:
        self.built: list[Any] = []
        self.started, self.may_build = threading.Event(), threading.Event()

    def build(self, batch: Sequence[Any]) -> None:
        self.started.set()
        assert self.may_build.wait(60)
        self.built.append(batch)


@pytest.mark.slow
def test_graphs_that_were_built_ahead_give_the_same_results() -> None:
    losses, built = [], []
    for ahead in (False, True):
        _, step = make_step(configuration())
        builder = GraphBuilder(step, bucket_batch)
        if ahead:
            builder.start(range(1, 5))
            builder.start(range(5, 10))  # has no effect
            builder._thread.join()  # type: ignore[union-attr]
        built.append(len(step._graphs))
        losses.append([float(step(bucket_batch(number), number).loss.nats) for number in range(5)])
        assert step.traces == len(step._graphs) == 3
    assert built == [0, 3]
    np.testing.assert_array_equal(*losses)


def test_a_request_to_stop_ends_it_after_the_current_graph() -> None:
    step: Any = FakeStep()
    builder = GraphBuilder(step, lambda number: [number])
    builder.start(range(3, 9))
    assert step.started.wait(60)
    stopping = threading.Thread(target=builder.stop)
    stopping.start()
    assert builder._stop_request.wait(60)
    step.may_build.set()
    stopping.join(60)
    assert step.built == [[3]]


def test_an_error_is_left_to_the_step_that_needs_the_batch(capfd: pytest.CaptureFixture[str]) -> None:
    step: Any = FakeStep()
    step.may_build.set()
    builder = GraphBuilder(step, [["first"]].__getitem__)
    builder.start(range(5))
    builder._thread.join()  # type: ignore[union-attr]
    assert step.built == [["first"]]
    assert capfd.readouterr().err == ""
