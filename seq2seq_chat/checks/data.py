"""Data: the files are readable, and vocabulary and steps suit them."""

from __future__ import annotations

import numpy as np

from seq2seq_chat.checks.check_context import CheckContext, CheckResult, OnProgress
from seq2seq_chat.data.build_codecs import build_codecs
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.report.scoring import find_leakage, sample_hashes
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.text.vocabulary import UNKNOWN

MAX_SAMPLES = 1_000_000  # from the beginning of the training corpus
MAX_HELD_OUT = 100_000  # from the beginning of the validation and of the test corpus
MIN_COVERAGE, MAX_TRUNCATED, MAX_OVERLAP = 80.0, 50.0, 25.0  # percent
REQUIRED = (
    f"files readable, coverage ≥ {MIN_COVERAGE:.0f} %, truncated ≤ {MAX_TRUNCATED:.0f} %, overlap ≤ {MAX_OVERLAP:.0f} %"
)


def check_data(context: CheckContext, on_progress: OnProgress) -> CheckResult:
    """Vocabulary coverage, samples truncated by the step limits, duplicates, and held-out samples seen in training."""
    data, model = context.config.data, context.config.model
    try:
        codecs = build_codecs(data)
        corpus = Dataset.open(data.train, codecs, data).select(slice(MAX_SAMPLES))
        held_out = [Dataset.open(files, codecs, data) for files in (data.validation, data.test) if files]
    except UserError as error:
        return CheckResult(False, "files not readable", REQUIRED, str(error))
    source, target = corpus.last_turn_lengths(), corpus.target_lengths()
    if data.max_length:
        fits = np.maximum(source, target) <= data.max_length
        corpus, source, target = corpus.select(fits), source[fits], target[fits]
    samples = len(corpus)
    if not samples:
        reason = f"{data.train} has no sample of at most {data.max_length} tokens"
        return CheckResult(False, "no samples", REQUIRED, reason)
    words = int(target.sum())
    unknown = sum(int((ids == UNKNOWN).sum()) for ids in corpus.targets(np.arange(samples)))
    truncated = int(((source > model.encoder_steps) | (target + 1 > model.decoder_steps)).sum())
    different = len(np.unique(sample_hashes(corpus, slice(None))[0]))
    leaks = [find_leakage(each, np.arange(min(len(each), MAX_HELD_OUT)), corpus).samples for each in held_out]
    overlap = max((_percent(leaked.sum(), len(leaked)) for leaked in leaks), default=0.0)
    coverage, truncated_share = 100 - _percent(unknown, words), _percent(truncated, samples)
    return CheckResult(
        passed=coverage >= MIN_COVERAGE and truncated_share <= MAX_TRUNCATED and overlap <= MAX_OVERLAP,
        measured=f"coverage {coverage:.1f} %, truncated {truncated_share:.1f} %, overlap {overlap:.1f} %",
        required=REQUIRED,
        detail=f"{'first ' if samples == MAX_SAMPLES else ''}{samples:,} samples, <unknown> "
        f"{_percent(unknown, words):.2f} % of the words, "
        f"duplicate samples {_percent(samples - different, samples):.1f} %",
    )


def _percent(part: float, total: float) -> float:
    return 100 * part / total if total else 0.0
