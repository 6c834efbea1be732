"""Decoding: the searches agree with each other and with the loss."""

from __future__ import annotations

import numpy as np

from seq2seq_chat.checks.subject import Finding, Progress, Subject, agitate
from seq2seq_chat.config import Decoding
from seq2seq_chat.decoding.hypotheses import Hypotheses
from seq2seq_chat.decoding.reply_search import ReplySearch
from seq2seq_chat.model.seq2seq import Seq2Seq

VOCABULARY, STEPS, SAMPLES, WIDTH = 40, 8, 16, 40
TOLERANCE = 1e-3  # nats for a whole reply


def check_decoding(subject: Subject, progress: Progress) -> Finding:
    """Beam 1 is greedy, a wide beam is no worse, every hypothesis scores what teacher forcing gives to its words."""
    config = subject.sized(VOCABULARY, hidden=32, units=24, steps=STEPS)
    corpus, _ = subject.random_corpus("decoding", VOCABULARY, SAMPLES, STEPS - 1)
    model = Seq2Seq(config.model, VOCABULARY, config.seed)
    agitate(model)
    samples = list(range(SAMPLES))
    batch = corpus.batch(
        samples, size=SAMPLES, source_steps=STEPS, target_steps=STEPS, reverse=config.data.reverse_input
    )

    def search(**decoding: object) -> Hypotheses:
        settings = Decoding.model_validate({"allow_unknown": True, **decoding})
        return ReplySearch(model, settings)(batch.source, batch.source_length)

    greedy = search(method="greedy")
    progress("beam search")
    one = search(method="beam", beam_width=1)
    wide = search(method="beam", beam_width=WIDTH, n_best=WIDTH)
    unequal = int(np.any(one.words != greedy.words, axis=(1, 2)).sum())
    worse = int(np.sum(wide.scores[:, 0] < greedy.scores[:, 0] - TOLERANCE))
    progress("teacher forcing")
    off = max(_distance_from_loss(model, batch.source, batch.source_length, found) for found in (greedy, wide))
    return Finding(
        passed=not unequal and not worse and off <= TOLERANCE,
        figure=f"beam 1 differs from greedy {unequal} times, beam {WIDTH} is worse {worse} times, "
        f"scores are off by {off:.1e} nats",
        threshold=f"0, 0, ≤ {TOLERANCE:.0e}",
        detail=f"{SAMPLES} utterances, {SAMPLES * WIDTH} hypotheses",
    )


def _distance_from_loss(model: Seq2Seq, source: np.ndarray, lengths: np.ndarray, found: Hypotheses) -> float:
    """The largest difference between a hypothesis's score and the teacher-forced log-probability of its words."""
    row, n = np.nonzero(np.isfinite(found.scores))
    expected = model.log_probabilities(source[row], lengths[row], found.words[row, n], found.lengths[row, n])
    return float(np.max(np.abs(expected - found.scores[row, n])))
