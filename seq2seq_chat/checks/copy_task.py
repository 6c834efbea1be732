"""The copy task: repeat a sequence of numbers (the thesis, section 4.3)."""

from __future__ import annotations

import numpy as np

from seq2seq_chat.checks.check_context import CheckContext, CheckResult, OnProgress
from seq2seq_chat.checks.reply_task import ReplyTask, check_reply_task
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, Vocabulary

MAX_LENGTH_FAST = 10
MAX_LENGTH_WITHOUT_ATTENTION = 5  # the sequence must fit into one small state
MAX_STEPS = 3000


def check_copy_task(context: CheckContext, on_progress: OnProgress) -> CheckResult:
    """A model trained on 10,000 sequences copies 500 held-out ones exactly. Dropout is off."""
    max_length = MAX_LENGTH_FAST if context.fast else MAX_LENGTH
    if context.config.model.attention == "none":
        max_length = min(max_length, MAX_LENGTH_WITHOUT_ATTENTION)
    sequences, held_out = copy_corpus(max_length, context.config.seed)
    vocabulary = copy_vocabulary()
    config = context.small_config(
        len(vocabulary),
        hidden_size=128,
        embedding_size=64,
        steps=max_length + 1,
        model={"dropout": 0.0},
        training={
            "batch_size": 64,
            "optimizer": "adam",
            "learning_rate": 0.002,
            "momentum": 0.0,
            "sampled_softmax": None,  # as in configs/copy_task.json: the vocabulary is small
        },
    )
    task = ReplyTask(
        "copy_task",
        f"unseen sequences of 1 to {max_length} numbers",
        vocabulary,
        train_pairs=[(sequence, sequence) for sequence in sequences],
        test_pairs=[(sequence, sequence) for sequence in held_out],
        max_steps=MAX_STEPS,
    )
    return check_reply_task(context, config, task, on_progress)


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
