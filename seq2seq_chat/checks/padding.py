"""Padding: neither padding nor the other samples of a batch change a loss or a reply."""

from __future__ import annotations

import numpy as np

from seq2seq_chat.checks.check_context import CheckContext, CheckResult, OnProgress, scale_weights
from seq2seq_chat.config import Decoding
from seq2seq_chat.data.dataset import Batch
from seq2seq_chat.engines.tensorflow.graph_search import GraphSearch
from seq2seq_chat.model.seq2seq import Seq2Seq

VOCABULARY_SIZE, STEPS, PADDED_STEPS, SAMPLES = 60, 8, 13, 16
TOLERANCE = 1e-4  # nats per target token; reordered float32 sums differ by about 1e-6


def check_padding(context: CheckContext, on_progress: OnProgress) -> CheckResult:
    """Losses and greedy replies are the same alone, in a batch with longer samples, and with more padding."""
    config, padded_config = (
        context.small_config(VOCABULARY_SIZE, hidden_size=32, embedding_size=24, steps=steps)
        for steps in (STEPS, PADDED_STEPS)
    )
    corpus, _ = context.random_corpus("padding", VOCABULARY_SIZE, SAMPLES, STEPS - 1)
    model, padded_model = (Seq2Seq(c.model, VOCABULARY_SIZE, config.seed) for c in (config, padded_config))
    scale_weights(model)
    scale_weights(padded_model)

    def make_batch(steps: int) -> Batch:
        reverse = config.data.reverse_input
        return corpus.batch(range(SAMPLES), size=SAMPLES, source_steps=steps, target_steps=steps, reverse=reverse)

    batch, padded = make_batch(STEPS), make_batch(PADDED_STEPS)
    single, single_padded = np.zeros(SAMPLES), np.zeros(SAMPLES)  # losses of samples on their own, nats
    for sample in range(SAMPLES):
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
        passed=difference <= TOLERANCE and not changed,
        measured=f"losses differ by {difference:.1e} nats per token, {changed} of {SAMPLES} replies change",
        required=f"≤ {TOLERANCE:.0e} nats per token, no reply",
    )


def _changed_replies(model: Seq2Seq, padded_model: Seq2Seq, batch: Batch, padded: Batch) -> int:
    """The number of greedy replies that padding changes, up to the shorter model's step limit."""
    decoding = Decoding(method="greedy", allow_unknown=True)
    replies = GraphSearch(model, decoding)(batch.source, batch.source_length).words[:, 0]
    padded_replies = GraphSearch(padded_model, decoding)(padded.source, padded.source_length).words[:, 0, :STEPS]
    return int(np.any(replies != padded_replies, axis=1).sum())
