"""Dropout: its rate, its scale, and a mask of its own for each use."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.config import Model
from seq2seq_chat.model import decoder, encoder, seq2seq
from seq2seq_chat.model.randomness import RandomContext, RowSlice, dropout
from seq2seq_chat.model.seq2seq import Seq2Seq


def context(step: int = 3, rate: float = 0.2, **changes: Any) -> RandomContext:
    return RandomContext(1, tf.constant(step, tf.int64), rate, **changes)


@pytest.mark.parametrize("rows", [None, RowSlice(100, 200, 500)], ids=["all rows", "some rows"])
def test_the_rate_is_the_share_of_zeros_and_the_others_are_scaled(rows: RowSlice | None) -> None:
    result = dropout(tf.fill([200, 100], 3.0), context(rows=rows), "purpose").numpy()
    assert np.mean(result == 0) == pytest.approx(0.2, abs=5 * math.sqrt(0.2 * 0.8 / result.size))
    np.testing.assert_allclose(result[result != 0], 3 / 0.8, rtol=1e-6)


def test_every_use_has_its_own_mask() -> None:
    """Steps, times within a step, purposes, micro-batches and seeds."""
    contexts = [
        *((context(step), "purpose", time) for step in range(4) for time in (None, 0, 1, 2, 3)),
        (context(), "other", None),
        (context(micro_batch=1), "purpose", None),
        (context()._replace(seed=2), "purpose", None),
    ]
    masks = {dropout(tf.ones([4, 40]), *use).numpy().tobytes() for use in contexts}
    assert len(masks) == len(contexts)
    assert dropout(tf.ones([4, 40]), *contexts[0]).numpy().tobytes() in masks


@pytest.mark.parametrize("sampling", [None, tf.constant(0.5)], ids=["teacher forcing", "scheduled sampling"])
def test_no_two_uses_of_a_training_step_share_a_mask(
    monkeypatch: pytest.MonkeyPatch, sampling: tf.Tensor | None
) -> None:
    """Embeddings, every layer but the last of the encoder and the decoder, and the output."""
    uses: Counter[tuple[str, Any]] = Counter()

    def recorded(x: tf.Tensor, random: RandomContext | None, purpose: str, time: Any = None) -> tf.Tensor:
        assert random is not None
        uses[purpose, time] += 1
        return dropout(x, random, purpose, time)

    for module in (encoder, decoder, seq2seq):
        monkeypatch.setattr(module, "dropout", recorded)
    sizes = {"hidden_size": 4, "embedding_size": 3, "projection_size": None, "encoder_steps": 3, "decoder_steps": 4}
    model = Seq2Seq(Model(layers=3, **sizes), 9, seed=1)
    batch = [tf.fill([2, 3], 5), tf.fill([2], 3), tf.fill([2, 4], 6), tf.fill([2], 4)]
    model.loss(*batch, random=context(sampling_probability=sampling))
    words = [("decoder/words", t) for t in ([None] if sampling is None else range(4))]
    expected = [(f"encoder/{layer}", None) for layer in range(3)]
    expected += [(f"decoder/{layer}", t) for layer in range(2) for t in range(4)]
    assert uses == Counter([*words, *expected, ("output", None)])
