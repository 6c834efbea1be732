"""Decoding: greedy and beam search agree with each other and with the loss."""

from __future__ import annotations

import numpy as np

from seq2seq_chat.checks.check_context import CheckContext, CheckResult, OnProgress, scale_weights
from seq2seq_chat.config import Decoding
from seq2seq_chat.engines.tensorflow.graph_search import GraphSearch
from seq2seq_chat.engines.tensorflow.scorer import Scorer
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.search.hypotheses import Hypotheses

VOCABULARY_SIZE, STEPS, SAMPLES, WIDTH = 40, 8, 16, 40
TOLERANCE = 1e-3  # nats per reply


def check_decoding(context: CheckContext, on_progress: OnProgress) -> CheckResult:
    """A beam of 1 is greedy search, a wide beam is not worse, and scores equal teacher-forced log-probabilities."""
    config = context.small_config(VOCABULARY_SIZE, hidden_size=32, embedding_size=24, steps=STEPS)
    corpus, _ = context.random_corpus("decoding", VOCABULARY_SIZE, SAMPLES, STEPS - 1)
    model = Seq2Seq(config.model, VOCABULARY_SIZE, config.seed)
    scale_weights(model)
    batch = corpus.batch(
        range(SAMPLES), size=SAMPLES, source_steps=STEPS, target_steps=STEPS, reverse=config.data.reverse_input
    )

    def search(**decoding: object) -> Hypotheses:
        settings = Decoding.model_validate({"allow_unknown": True, **decoding})
        return GraphSearch(model, settings)(batch.source, batch.source_length)

    greedy = search(method="greedy")
    on_progress("beam search")
    narrow = search(method="beam", beam_width=1)
    wide = search(method="beam", beam_width=WIDTH, n_best=WIDTH)
    different = int(np.any(narrow.words != greedy.words, axis=(1, 2)).sum())
    worse = int(np.sum(wide.scores[:, 0] < greedy.scores[:, 0] - TOLERANCE))
    on_progress("teacher forcing")
    scorer = Scorer(model)
    error = max(_score_error(scorer, batch.source, batch.source_length, h) for h in (greedy, wide))
    return CheckResult(
        passed=not different and not worse and error <= TOLERANCE,
        measured=f"beam 1 differs from greedy {different} times, beam {WIDTH} is worse {worse} times, "
        f"scores are off by {error:.1e} nats",
        required=f"0, 0, ≤ {TOLERANCE:.0e}",
        detail=f"{SAMPLES} utterances, {SAMPLES * WIDTH} hypotheses",
    )


def _score_error(scorer: Scorer, source: np.ndarray, lengths: np.ndarray, hypotheses: Hypotheses) -> float:
    """The largest difference between a hypothesis's score and its teacher-forced log-probability, in nats."""
    row, n = np.nonzero(np.isfinite(hypotheses.scores))
    words, word_lengths = hypotheses.words[row, n], hypotheses.lengths[row, n]
    expected = scorer.log_probabilities(source[row], lengths[row], words, word_lengths)
    return float(np.max(np.abs(expected - hypotheses.scores[row, n])))
