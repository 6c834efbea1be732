"""The copy task: repeat a sequence of numbers (the thesis, section 4.3)."""

from __future__ import annotations

import numpy as np

from seq2seq_chat.checks.learning import learn_to_answer
from seq2seq_chat.checks.subject import Finding, Progress, Subject
from seq2seq_chat.corpus.vocabulary import SPECIAL_WORDS, Vocabulary

SYMBOLS = 20  # the integers 0 to 19
SEQUENCES, HELD_OUT, LEAST = 10_000, 500, 0.99
LONGEST, LONGEST_FAST = 40, 10
LONGEST_WITHOUT_ATTENTION = 5  # all of it must pass through one small state
MOST_STEPS = 3000


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


def check_copy_task(subject: Subject, progress: Progress) -> Finding:
    """Trained on 10,000 sequences, the model copies 500 it has never seen, exactly. Dropout is off."""
    longest = LONGEST_FAST if subject.fast else LONGEST
    if subject.config.model.attention == "none":
        longest = min(longest, LONGEST_WITHOUT_ATTENTION)
    sequences, held_out = copy_corpus(longest, subject.config.seed)
    config = subject.sized(
        SYMBOLS + len(SPECIAL_WORDS),
        hidden=128,
        units=64,
        steps=longest + 1,
        model__dropout=0.0,
        training__batch_size=64,
        training__optimizer="adam",
        training__learning_rate=0.002,
        training__momentum=0.0,
        training__sampled_softmax=None,  # of so few words nothing is sampled in an experiment either
    )
    learned = learn_to_answer(
        subject,
        config,
        copy_vocabulary(),
        "copy_task",
        [(sequence, sequence) for sequence in sequences],
        asked=[(sequence, sequence) for sequence in held_out],
        least=LEAST,
        most_steps=MOST_STEPS,
        progress=progress,
    )
    return learned.finding(LEAST, f"sequences of 1 to {longest} symbols, not seen in training")
