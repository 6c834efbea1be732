"""The corpus of the copy task: sequences of numbers that are to be repeated (the thesis, section 4.3)."""

from __future__ import annotations

import numpy as np

from seq2seq_chat.corpus.vocabulary import SPECIAL_WORDS, Vocabulary

SYMBOLS = 20  # the integers 0 to 19
SEQUENCES, HELD_OUT = 10_000, 500
LONGEST = 40


def copy_sequences(count: int, longest: int, seed: int) -> list[str]:
    """Sequences of 1 to ``longest`` symbols, length and content equally likely, as a function of the seed."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, count)
    return [" ".join(map(str, rng.integers(0, SYMBOLS, length))) for length in lengths]


def copy_corpus(longest: int, seed: int) -> tuple[list[str], list[str]]:
    """10,000 sequences to learn from, and 500 others that are none of them."""
    sequences = copy_sequences(2 * SEQUENCES, longest, seed)
    known = set(sequences[:SEQUENCES])
    held_out = [sequence for sequence in sequences[SEQUENCES:] if sequence not in known]
    return sequences[:SEQUENCES], held_out[:HELD_OUT]


def copy_vocabulary() -> Vocabulary:
    """The symbols, in their own order."""
    return Vocabulary([*SPECIAL_WORDS, *map(str, range(SYMBOLS))])
