"""Data: the files are readable, and vocabulary and steps suit them."""

from __future__ import annotations

import math
from itertools import islice

from seq2seq_chat.checks.check_context import CheckContext, CheckResult, OnProgress
from seq2seq_chat.data.build_codecs import build_codecs
from seq2seq_chat.data.leakage import LeakageFinder
from seq2seq_chat.data.samples import read_samples
from seq2seq_chat.system.errors import UserError

MAX_SAMPLES = 1_000_000  # read from the beginning of the training corpus
MAX_HELD_OUT = 100_000  # read from the beginning of the validation and of the test corpus
PROGRESS_EVERY = 20_000  # samples
MIN_COVERAGE, MAX_TRUNCATED, MAX_OVERLAP = 80.0, 50.0, 25.0  # percent
REQUIRED = (
    f"files readable, coverage ≥ {MIN_COVERAGE:.0f} %, truncated ≤ {MAX_TRUNCATED:.0f} %, overlap ≤ {MAX_OVERLAP:.0f} %"
)


def check_data(context: CheckContext, on_progress: OnProgress) -> CheckResult:
    """Vocabulary coverage, samples truncated by the step limits, duplicates, and held-out samples seen in training."""
    data, model = context.config.data, context.config.model
    try:
        codecs = build_codecs(data)
        held_out = [
            LeakageFinder(islice(read_samples(files, data, codecs.tokenizers), MAX_HELD_OUT))
            for files in (data.validation, data.test)
            if files
        ]
        seen: set[int] = set()
        words = unknown = truncated = samples = 0
        for sample in islice(read_samples(data.train, data, codecs.tokenizers), MAX_SAMPLES):
            _, _, source, target = sample
            if max(len(source), len(target)) > (data.max_length or math.inf):
                continue
            for finder in held_out:
                finder.add(sample)
            samples += 1
            words += len(target)
            unknown += sum(word not in codecs.target.vocabulary for word in target)
            truncated += len(source) > model.encoder_steps or len(target) + 1 > model.decoder_steps
            seen.add(hash((tuple(source), tuple(target))))
            if samples % PROGRESS_EVERY == 0:
                on_progress(f"{samples:,} samples read")
        if not samples:
            reason = f"{data.train} has no sample{f' of at most {data.max_length} tokens' if data.max_length else ''}"
            return CheckResult(False, "no samples", REQUIRED, reason)
        leaks = [finder.leakage().samples for finder in held_out]
        overlap = max((_percent(leaked.sum(), len(leaked)) for leaked in leaks), default=0.0)
    except UserError as error:
        return CheckResult(False, "files not readable", REQUIRED, str(error))
    coverage, truncated_share = 100 - _percent(unknown, words), _percent(truncated, samples)
    return CheckResult(
        passed=coverage >= MIN_COVERAGE and truncated_share <= MAX_TRUNCATED and overlap <= MAX_OVERLAP,
        measured=f"coverage {coverage:.1f} %, truncated {truncated_share:.1f} %, overlap {overlap:.1f} %",
        required=REQUIRED,
        detail=f"{'first ' if samples == MAX_SAMPLES else ''}{samples:,} samples, <unknown> "
        f"{_percent(unknown, words):.2f} % of the words, "
        f"duplicate samples {_percent(samples - len(seen), samples):.1f} %",
    )


def _percent(part: float, total: float) -> float:
    return 100 * part / total if total else 0.0
