"""Parallel streams of a text, checked token by token."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.data.running_text import Streams
from seq2seq_chat.text.vocabulary import PAD


@given(
    length=st.integers(1, 40),
    count=st.integers(1, 4),
    forward=st.integers(1, 12),
    backward=st.integers(1, 24),
    rest=st.data(),
)
def test_every_token_of_a_stream_is_new_once_in_a_pass(
    length: int, count: int, forward: int, backward: int, rest: st.DataObject
) -> None:
    """In order, each with its successor as the target; before them are the tokens that precede them in the stream."""
    steps = max(forward, backward)
    if length < steps:
        return
    tokens = np.arange(4, 4 + length * count + 1 + rest.draw(st.integers(0, count - 1)))
    streams = Streams(tokens, count, forward, backward)
    new: list[np.ndarray] = []
    for step in range(streams.batches_per_pass):
        batch = streams.batch(step)
        assert batch.inputs.shape == batch.targets.shape == (count, steps)
        exists = slice(int(batch.start), int(batch.end))
        np.testing.assert_array_equal(batch.targets[:, exists], batch.inputs[:, exists] + 1)
        assert np.all(np.diff(batch.inputs[:, exists], axis=1) == 1)
        outside = np.delete(batch.inputs, np.arange(exists.start, exists.stop), axis=1)
        assert np.all(outside == PAD)
        assert bool(batch.is_first) == (step == 0)
        assert exists.start == max(0, steps - (step + 1) * forward)
        new.append(batch.inputs[:, max(steps - forward, exists.start) : exists.stop])
    missing = length - sum(part.shape[1] for part in new)  # at the end, where no gradient would reach them
    assert 0 <= missing <= max(0, forward - backward)
    expected = tokens[: length * count].reshape(count, length)[:, : length - missing]
    np.testing.assert_array_equal(np.concatenate(new, axis=1), expected)
    again = streams.batch(streams.batches_per_pass)
    for one, other in zip(again, streams.batch(0), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_stream_shorter_than_a_batch_is_rejected() -> None:
    Streams(np.arange(21), 2, 10, 10)
    with pytest.raises(ValueError, match="2 streams of 9 tokens are shorter than 10 steps"):
        Streams(np.arange(20), 2, 10, 10)
