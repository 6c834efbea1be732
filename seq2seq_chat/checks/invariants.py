"""What holds for every model before training: its initial loss, padding, decoding, and memory."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from seq2seq_chat.architecture.variables import estimate_memory, gigabytes
from seq2seq_chat.checks.check_context import CheckContext, CheckResult, OnProgress, scale_weights
from seq2seq_chat.config import Decoding
from seq2seq_chat.data.dataset import Batch
from seq2seq_chat.engines.tensorflow.scorer import Scorer
from seq2seq_chat.engines.tensorflow.search import GraphSearch
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.search.engine import Hypotheses
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.hardware import available_memory
from seq2seq_chat.training.validation import corpus_loss


class Sizes(NamedTuple):
    """The sizes of a check."""

    words: int  # of the vocabulary
    steps: int  # of encoder and decoder
    samples: int
    tolerance: float
    padded_steps: int = 0  # of a second model
    width: int = 1  # of the beam


INITIAL_LOSS = Sizes(2000, 10, 128, tolerance=0.05)  # relative
PADDING = Sizes(60, 8, 16, tolerance=1e-4, padded_steps=13)  # nats per target token; reordered sums differ by 1e-6
DECODING = Sizes(40, 8, 16, tolerance=1e-3, width=40)  # nats per reply


def check_initial_loss(context: CheckContext, on_progress: OnProgress) -> CheckResult:
    """The validation loss before any training is ln(vocabulary size)."""
    config = context.small_config(INITIAL_LOSS.words, hidden_size=128, embedding_size=64, steps=INITIAL_LOSS.steps)
    corpus, _ = context.random_corpus("initial_loss", INITIAL_LOSS.words, INITIAL_LOSS.samples, INITIAL_LOSS.steps - 1)
    model = Seq2Seq(config.model, INITIAL_LOSS.words, config.seed)
    loss = corpus_loss(
        Scorer(model), corpus, [(INITIAL_LOSS.steps, INITIAL_LOSS.steps)], config.data.reverse_input
    ).loss
    expected = math.log(INITIAL_LOSS.words)
    return CheckResult(
        passed=abs(loss / expected - 1) <= INITIAL_LOSS.tolerance,
        measured=f"{loss:.3f} nats, {100 * (loss / expected - 1):+.1f} %",
        required=f"ln({INITIAL_LOSS.words}) = {expected:.3f} nats ± {100 * INITIAL_LOSS.tolerance:.0f} %",
    )


def check_memory(context: CheckContext, on_progress: OnProgress) -> CheckResult:
    """The training's own memory estimate does not exceed the free memory."""
    config, available = context.config, available_memory()
    sizes = config.data.target_text.vocabulary_size, config.data.source_text.vocabulary_size
    if config.task == "language_model":
        with suppress(UserError):  # which the check of the data reports
            sizes = context.text_setup.codecs.vocabulary_sizes
    estimate = estimate_memory(config, *sizes)
    return CheckResult(
        passed=estimate.total <= available,
        measured=f"about {gigabytes(estimate.total)}",
        required=f"≤ {gigabytes(available)} free",
        detail=estimate.describe(),
    )


def check_padding(context: CheckContext, on_progress: OnProgress) -> CheckResult:
    """Losses and greedy replies are the same alone, in a batch with longer samples, and with more padding."""
    config, padded_config = (
        context.small_config(PADDING.words, hidden_size=32, embedding_size=24, steps=steps)
        for steps in (PADDING.steps, PADDING.padded_steps)
    )
    corpus, _ = context.random_corpus("padding", PADDING.words, PADDING.samples, PADDING.steps - 1)
    model, padded_model = (Seq2Seq(c.model, PADDING.words, config.seed) for c in (config, padded_config))
    scale_weights(model)
    scale_weights(padded_model)

    def make_batch(steps: int) -> Batch:
        reverse = config.data.reverse_input
        return corpus.batch(
            range(PADDING.samples), size=PADDING.samples, source_steps=steps, target_steps=steps, reverse=reverse
        )

    batch, padded = make_batch(PADDING.steps), make_batch(PADDING.padded_steps)
    single, single_padded = np.zeros(PADDING.samples), np.zeros(PADDING.samples)  # losses of samples on their own, nats
    for sample in range(PADDING.samples):
        row = Batch(*(field[sample : sample + 1] for field in batch))
        unpadded_source = row.source[:, : int(row.source_length[0])]
        single[sample] = float(model.loss(unpadded_source, *row[1:]).nats)
        single_padded[sample] = float(padded_model.loss(*(field[sample : sample + 1] for field in padded)).nats)
    tokens = batch.target_length.astype(float)
    padding_difference = float(np.max(np.abs(single - single_padded) / tokens))
    batch_difference = abs(float(model.loss(*batch).nats) - single.sum()) / tokens.sum()
    difference = max(padding_difference, batch_difference)
    changed = _changed_replies(model, padded_model, batch, padded)
    return CheckResult(
        passed=difference <= PADDING.tolerance and not changed,
        measured=f"losses differ by {difference:.1e} nats per token, {changed} of {PADDING.samples} replies change",
        required=f"≤ {PADDING.tolerance:.0e} nats per token, no reply",
    )


def _changed_replies(model: Seq2Seq, padded_model: Seq2Seq, batch: Batch, padded: Batch) -> int:
    """The number of greedy replies that padding changes, up to the shorter model's step limit."""
    decoding = Decoding(method="greedy", allow_unknown=True)
    replies = GraphSearch(model, decoding)(batch.source, batch.source_length).words[:, 0]
    padded_replies = GraphSearch(padded_model, decoding)(padded.source, padded.source_length).words[
        :, 0, : PADDING.steps
    ]
    return int(np.any(replies != padded_replies, axis=1).sum())


def check_decoding(context: CheckContext, on_progress: OnProgress) -> CheckResult:
    """A beam of 1 is greedy search, a wide beam is not worse, and scores equal teacher-forced log-probabilities."""
    config = context.small_config(DECODING.words, hidden_size=32, embedding_size=24, steps=DECODING.steps)
    corpus, _ = context.random_corpus("decoding", DECODING.words, DECODING.samples, DECODING.steps - 1)
    model = Seq2Seq(config.model, DECODING.words, config.seed)
    scale_weights(model)
    size, steps, reverse = DECODING.samples, DECODING.steps, config.data.reverse_input
    batch = corpus.batch(range(size), size=size, source_steps=steps, target_steps=steps, reverse=reverse)

    def search(**decoding: object) -> Hypotheses:
        settings = Decoding.model_validate({"allow_unknown": True, **decoding})
        return GraphSearch(model, settings)(batch.source, batch.source_length)

    greedy = search(method="greedy")
    on_progress("beam search")
    narrow = search(method="beam", beam_width=1)
    wide = search(method="beam", beam_width=DECODING.width, n_best=DECODING.width)
    different = int(np.any(narrow.words != greedy.words, axis=(1, 2)).sum())
    worse = int(np.sum(wide.scores[:, 0] < greedy.scores[:, 0] - DECODING.tolerance))
    on_progress("teacher forcing")
    scorer = Scorer(model)
    error = max(_score_error(scorer, batch.source, batch.source_length, h) for h in (greedy, wide))
    return CheckResult(
        passed=not different and not worse and error <= DECODING.tolerance,
        measured=f"beam 1 differs from greedy {different} times, beam {DECODING.width} is worse {worse} times, "
        f"scores are off by {error:.1e} nats",
        required=f"0, 0, ≤ {DECODING.tolerance:.0e}",
        detail=f"{DECODING.samples} utterances, {DECODING.samples * DECODING.width} hypotheses",
    )


def _score_error(scorer: Scorer, source: np.ndarray, lengths: np.ndarray, hypotheses: Hypotheses) -> float:
    """The largest difference between a hypothesis's score and its teacher-forced log-probability, in nats."""
    row, n = np.nonzero(np.isfinite(hypotheses.scores))
    words, word_lengths = hypotheses.words[row, n], hypotheses.lengths[row, n]
    expected = scorer.log_probabilities(source[row], lengths[row], words, word_lengths)
    return float(np.max(np.abs(expected - hypotheses.scores[row, n])))
