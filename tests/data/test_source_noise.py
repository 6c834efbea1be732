"""Noise in the sources of training batches."""

from __future__ import annotations

import numpy as np
import pytest

from seq2seq_chat.data.batches import SourceNoise
from seq2seq_chat.data.dataset import Batch
from seq2seq_chat.text.vocabulary import PAD, SPECIAL_WORDS, TURN, UNKNOWN, Vocabulary

WORDS = Vocabulary([*SPECIAL_WORDS, ".", "!", "hello", "there", "you", TURN])
PERIOD, MARK, HELLO, THERE, YOU, BETWEEN = range(4, 10)


def batch_of(sources: list[list[int]], steps: int = 6) -> Batch:
    source = np.array([row + [PAD] * (steps - len(row)) for row in sources], np.int32)
    target = np.ones((len(sources), 3), np.int32)
    return Batch(source, np.array([len(row) for row in sources], np.int32), target, np.full(len(sources), 3, np.int32))


def test_shares_of_replaced_words_and_removed_punctuation_are_the_rate() -> None:
    batch = batch_of([[HELLO, THERE, PERIOD, YOU, MARK]] * 20_000)
    noisy = SourceNoise(0.2, WORDS, seed=1)(batch, step=3)
    words = 3 * len(batch.source)
    assert np.sum(noisy.source == UNKNOWN) / words == pytest.approx(0.2, abs=0.01)
    assert 1 - np.sum(np.isin(noisy.source, [PERIOD, MARK])) / (2 * len(batch.source)) == pytest.approx(0.2, abs=0.01)
    assert np.sum(noisy.source != PAD) == noisy.source_length.sum()


def test_words_keep_their_order_and_padding_is_last() -> None:
    batch = batch_of([[HELLO, PERIOD, THERE, MARK, YOU]] * 500)
    noisy = SourceNoise(0.5, WORDS, seed=1)(batch, step=0)
    for row, length in zip(noisy.source, noisy.source_length, strict=True):
        assert np.all(row[:length] != PAD)
        assert np.all(row[length:] == PAD)
        words = [word for word in row[:length] if word not in (PERIOD, MARK)]
        assert all(word in (UNKNOWN, original) for word, original in zip(words, (HELLO, THERE, YOU), strict=True))


def test_a_source_of_punctuation_never_becomes_empty() -> None:
    noisy = SourceNoise(0.9, WORDS, seed=1)(batch_of([[PERIOD], [MARK, PERIOD]] * 200), step=0)
    assert noisy.source_length.min() == 1


def test_turn_markers_targets_and_padding_rows_are_unchanged() -> None:
    batch = batch_of([[BETWEEN, HELLO, BETWEEN, YOU], []])
    for step in range(50):
        noisy = SourceNoise(0.9, WORDS, seed=1)(batch, step)
        assert list(noisy.source[0, [0, 2]]) == [BETWEEN, BETWEEN]
        assert noisy.source_length.tolist() == [4, 0]
        assert np.array_equal(noisy.target, batch.target)


def test_noise_is_a_function_of_seed_and_step() -> None:
    batch = batch_of([[HELLO, THERE, YOU, MARK]] * 100)
    first = SourceNoise(0.3, WORDS, seed=1)(batch, step=7)
    assert np.array_equal(first.source, SourceNoise(0.3, WORDS, seed=1)(batch, step=7).source)
    assert not np.array_equal(first.source, SourceNoise(0.3, WORDS, seed=1)(batch, step=8).source)
    assert not np.array_equal(first.source, SourceNoise(0.3, WORDS, seed=2)(batch, step=7).source)
