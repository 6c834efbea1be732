"""Initial loss: a model that knows nothing finds all words equally likely."""

from __future__ import annotations

from seq2seq_chat.checks.subject import Finding, Progress, Subject
from seq2seq_chat.model.output import untrained_loss
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.training.validation import LossFunction

VOCABULARY, STEPS, SAMPLES = 2000, 10, 128
TOLERANCE = 0.05


def check_initial_loss(subject: Subject, progress: Progress) -> Finding:
    """The loss that is reported, before any training, is that of guessing: ln(vocabulary)."""
    config = subject.sized(VOCABULARY, hidden=128, units=64, steps=STEPS)
    corpus, vocabulary = subject.random_corpus("initial_loss", VOCABULARY, SAMPLES, STEPS - 1)
    model = Seq2Seq(config.model, len(vocabulary), config.seed)
    loss = LossFunction(model, [(STEPS, STEPS)], config.data.reverse_input)(corpus).loss
    expected = untrained_loss(len(vocabulary))
    return Finding(
        passed=abs(loss / expected - 1) <= TOLERANCE,
        figure=f"{loss:.3f} nats, {100 * (loss / expected - 1):+.1f} %",
        threshold=f"ln({len(vocabulary)}) = {expected:.3f} nats ± {100 * TOLERANCE:.0f} %",
    )
