"""The corpus of the copy task: repeat a sequence of numbers (the thesis, section 4.3)."""

from __future__ import annotations

import numpy as np

from seq2seq_chat.data.vocabulary import SPECIAL_WORDS, Vocabulary

SYMBOLS = 20  # the integers 0 to 19
TRAINING_SEQUENCES, HELD_OUT_SEQUENCES = 10_000, 500
MAX_LENGTH = 40


def copy_sequences(count: int, max_length: int, seed: int) -> list[str]:
    """Sequences of 1 to ``max_length`` symbols; lengths and symbols are uniformly distributed."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, max_length + 1, count)
    return [" ".join(map(str, rng.integers(0, SYMBOLS, length))) for length in lengths]


def copy_corpus(max_length: int, seed: int) -> tuple[list[str], list[str]]:
    """10,000 training sequences, and at most 500 held-out sequences that are not among them."""
    sequences = copy_sequences(2 * TRAINING_SEQUENCES, max_length, seed)
    training = sequences[:TRAINING_SEQUENCES]
    seen = set(training)
    held_out = [sequence for sequence in sequences[TRAINING_SEQUENCES:] if sequence not in seen]
    return training, held_out[:HELD_OUT_SEQUENCES]


def copy_vocabulary() -> Vocabulary:
    """The symbols, in numerical order."""
    return Vocabulary([*SPECIAL_WORDS, *map(str, range(SYMBOLS))])
