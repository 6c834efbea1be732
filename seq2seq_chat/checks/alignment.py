"""Alignment: attention learns which word of the source each word of the reply comes from."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.checks.check_context import CheckContext, CheckResult, OnProgress
from seq2seq_chat.checks.reply_task import ReplyTask, train_until
from seq2seq_chat.config import Decoding
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, Vocabulary

SYMBOLS = 40  # those of a sequence are distinct, so that each has one place
MIN_LENGTH, MAX_LENGTH = 10, 20  # shorter sequences fit into the state, and more attention is right by chance
TRAINING_SEQUENCES, HELD_OUT_SEQUENCES = 6000, 100
MAX_STEPS = 600
REQUIRED_SHARE = 0.8  # at most 0.3 by chance
DISTANCES = {"current": (0,), "previous": (-1, 0, 1)}
"""By ``model.attention_query``: distance from a symbol at which attention counts as right.

The encoder's outputs at the neighbours of a symbol contain it too. A decoder that has not read the previous word yet
(previous) finds it there as easily.
"""


def check_alignment(context: CheckContext, on_progress: OnProgress) -> CheckResult:
    """A model learns to copy sequences, and each symbol of a reply attends most to the symbol that it copies.

    Attention is that of the chatbot's replies to held-out sequences, as pictures show it. Dropout and noise are off.
    """
    attention, query = context.config.model.attention, context.config.model.attention_query
    required = f"≥ {100 * REQUIRED_SHARE:.0f} %"
    if attention == "none":
        return CheckResult(True, "no attention to measure", required, "model.attention is none")
    rng = np.random.default_rng(context.config.seed)
    sequences = [
        " ".join(map(str, rng.permutation(SYMBOLS)[: rng.integers(MIN_LENGTH, MAX_LENGTH + 1)]))
        for _ in range(TRAINING_SEQUENCES + HELD_OUT_SEQUENCES)
    ]
    training, held_out = sequences[:TRAINING_SEQUENCES], sequences[TRAINING_SEQUENCES:]
    vocabulary = Vocabulary([*SPECIAL_WORDS, *map(str, range(SYMBOLS))])
    config = context.small_config(
        len(vocabulary),
        hidden_size=64,
        embedding_size=32,
        steps=MAX_LENGTH + 1,
        model={"dropout": 0.0},
        training={
            **{"batch_size": 64, "optimizer": "adam", "learning_rate": 0.004, "momentum": 0.0},
            **{"sampled_softmax": None, "source_noise": 0.0},
        },
    )
    task = ReplyTask(
        "alignment",
        f"{HELD_OUT_SEQUENCES} unseen sequences of {MIN_LENGTH} to {MAX_LENGTH} different numbers",
        vocabulary,
        train_pairs=[(sequence, sequence) for sequence in training],
        test_pairs=[(sequence, sequence) for sequence in held_out],
        max_steps=MAX_STEPS,
    )
    learned = train_until(
        context,
        config,
        task,
        REQUIRED_SHARE,
        lambda chatbot: aligned_share(chatbot, held_out, DISTANCES[query]),
        on_progress,
    )
    return CheckResult(
        passed=learned.share >= REQUIRED_SHARE,
        measured=f"{100 * learned.share:.1f} % of the words attend most to what they copy",
        required=required,
        detail=learned.describe(task),
        curve=learned.curve,
    )


def aligned_share(chatbot: Chatbot, sequences: Sequence[str], distances: Collection[int]) -> float:
    """The share of words whose copies attend most to a position at one of the ``distances`` from them."""
    aligned = 0
    for sequence, reply in zip(sequences, chatbot.replies(sequences, Decoding(method="greedy")), strict=True):
        rows = reply.hypotheses[0].attention[: len(sequence.split())]
        aligned += sum(int(np.argmax(weights)) - step in distances for step, weights in enumerate(rows))
    return aligned / sum(len(sequence.split()) for sequence in sequences)
