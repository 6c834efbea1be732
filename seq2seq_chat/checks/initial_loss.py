"""Initial loss: an untrained model considers all words equally likely."""

from __future__ import annotations

import math

from seq2seq_chat.checks.check_context import CheckContext, CheckResult, OnProgress
from seq2seq_chat.engines.tensorflow.scorer import Scorer
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.training.validation import corpus_loss

VOCABULARY_SIZE, STEPS, SAMPLES = 2000, 10, 128
TOLERANCE = 0.05  # relative


def check_initial_loss(context: CheckContext, on_progress: OnProgress) -> CheckResult:
    """The validation loss before any training is ln(vocabulary size)."""
    config = context.small_config(VOCABULARY_SIZE, hidden_size=128, embedding_size=64, steps=STEPS)
    corpus, _ = context.random_corpus("initial_loss", VOCABULARY_SIZE, SAMPLES, STEPS - 1)
    model = Seq2Seq(config.model, VOCABULARY_SIZE, config.seed)
    loss = corpus_loss(Scorer(model), corpus, [(STEPS, STEPS)], config.data.reverse_input).loss
    expected = math.log(VOCABULARY_SIZE)
    return CheckResult(
        passed=abs(loss / expected - 1) <= TOLERANCE,
        measured=f"{loss:.3f} nats, {100 * (loss / expected - 1):+.1f} %",
        required=f"ln({VOCABULARY_SIZE}) = {expected:.3f} nats ± {100 * TOLERANCE:.0f} %",
    )
