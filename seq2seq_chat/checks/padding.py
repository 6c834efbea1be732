"""Padding: what a model says does not depend on how far a batch is padded, or on who else is in it."""

from __future__ import annotations

import numpy as np

from seq2seq_chat.checks.subject import Finding, Progress, Subject, agitate
from seq2seq_chat.config import Decoding
from seq2seq_chat.corpus.encoded import Batch
from seq2seq_chat.decoding.reply_search import ReplySearch
from seq2seq_chat.model.seq2seq import Seq2Seq

VOCABULARY, STEPS, FURTHER, SAMPLES = 60, 8, 13, 16
TOLERANCE = 1e-4  # nats per target token; float32 sums in another order differ by 1e-6


def check_padding(subject: Subject, progress: Progress) -> Finding:
    """Losses and greedy replies of samples alone, together with longer ones, and padded further."""
    config = subject.sized(VOCABULARY, hidden=32, units=24, steps=STEPS)
    further = subject.sized(VOCABULARY, hidden=32, units=24, steps=FURTHER).model
    corpus, _ = subject.random_corpus("padding", VOCABULARY, SAMPLES, STEPS - 1)
    model, wide = (Seq2Seq(settings, VOCABULARY, config.seed) for settings in (config.model, further))
    agitate(model)
    agitate(wide)

    def batch(samples: list[int], steps: int) -> Batch:
        reverse = config.data.reverse_input
        return corpus.batch(samples, size=len(samples), source_steps=steps, target_steps=steps, reverse=reverse)

    together = batch(list(range(SAMPLES)), STEPS)
    padded = batch(list(range(SAMPLES)), FURTHER)
    # each sample alone, with no step of padding at all in the encoder
    alone, padded_alone = [], []
    for sample in range(SAMPLES):
        words = int(together.source_length[sample])
        rows = Batch(*(part[sample : sample + 1] for part in together))
        alone.append(float(model.loss(rows.source[:, :words], *rows[1:]).nats))
        padded_alone.append(float(wide.loss(*(part[sample : sample + 1] for part in padded)).nats))
    tokens = together.target_length.astype(float)
    differences = np.abs(np.array(alone) - padded_alone) / tokens
    shared = abs(float(model.loss(*together).nats) - sum(alone)) / tokens.sum()
    worst = max(float(differences.max()), shared)
    changed = _changed_replies(model, wide, together, padded)
    return Finding(
        passed=worst <= TOLERANCE and not changed,
        figure=f"losses differ by {worst:.1e} nats per token, {changed} of {SAMPLES} replies change",
        threshold=f"≤ {TOLERANCE:.0e} nats per token, no reply",
    )


def _changed_replies(model: Seq2Seq, wide: Seq2Seq, batch: Batch, padded: Batch) -> int:
    """Utterances whose greedy reply, as far as the shorter model goes, is another where all is padded further."""
    decoding = Decoding(method="greedy", allow_unknown=True)
    short = ReplySearch(model, decoding)(batch.source, batch.source_length)
    long = ReplySearch(wide, decoding)(padded.source, padded.source_length)
    return int(np.any(short.words[:, 0] != long.words[:, 0, :STEPS], axis=1).sum())
