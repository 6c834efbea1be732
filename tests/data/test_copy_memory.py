"""The copy-memory task."""

from __future__ import annotations

import numpy as np

from seq2seq_chat.data.copy_memory import BLANK, FIRST, KINDS, RECALL, VOCABULARY_SIZE, copy_memory_batch


def test_symbols_are_recalled_after_the_gap() -> None:
    batch = copy_memory_batch(rows=50, symbols=10, gap=7, seed=3, number=1)
    assert batch.inputs.shape == batch.targets.shape == (50, 7 + 2 * 10)
    assert np.all((batch.inputs == RECALL).sum(axis=1) == 1)
    for inputs, targets in zip(batch.inputs, batch.targets, strict=True):
        assert inputs[:10].tolist() == targets[-10:].tolist()
        assert (inputs[10:16] == BLANK).all()
        assert inputs[16] == RECALL  # is read in the step before the first symbol is expected
        assert (inputs[17:] == BLANK).all()
        assert (targets[:-10] == BLANK).all()
    assert set(np.unique(batch.inputs[:, :10])) == set(range(FIRST, FIRST + KINDS))
    assert max(RECALL, BLANK) < VOCABULARY_SIZE


def test_batches_are_a_function_of_seed_and_number() -> None:
    first = copy_memory_batch(4, 10, 3, seed=1, number=5)
    np.testing.assert_array_equal(first.inputs, copy_memory_batch(4, 10, 3, seed=1, number=5).inputs)
    for seed, number in ((2, 5), (1, 6)):
        assert (copy_memory_batch(4, 10, 3, seed, number).inputs != first.inputs).any()
