"""Configuration and data: are the files there, and do vocabulary and steps fit them?"""

from __future__ import annotations

from itertools import islice

from seq2seq_chat.checks.subject import Finding, Progress, Subject
from seq2seq_chat.corpus.experiment_data import training_vocabulary
from seq2seq_chat.corpus.samples import iterate_samples, read_tokens
from seq2seq_chat.errors import UserError

SAMPLES = 1_000_000  # samples of a corpus that are looked at, from its beginning
LEAST_COVERAGE, MOST_CUT, MOST_OVERLAP = 80.0, 50.0, 25.0  # percent
THRESHOLD = f"files readable, coverage ≥ {LEAST_COVERAGE:.0f} %, cut ≤ {MOST_CUT:.0f} %, overlap ≤ {MOST_OVERLAP:.0f} %"


def check_data(subject: Subject, progress: Progress) -> Finding:
    """Vocabulary coverage, samples cut by the step limits, repeated samples, and test samples seen in training."""
    data, model = subject.config.data, subject.config.model
    try:
        vocabulary = training_vocabulary(data)
        seen: set[int] = set()
        words = unknown = cut = samples = 0
        for source, target in islice(iterate_samples(read_tokens(data.train, data.level), data.pairing), SAMPLES):
            samples += 1
            words += len(target)
            unknown += sum(word not in vocabulary for word in target)
            cut += len(source) > model.encoder_steps or len(target) + 1 > model.decoder_steps
            seen.add(hash((tuple(source), tuple(target))))
            if samples % 20_000 == 0:
                progress(f"{samples:,} samples read")
        if not samples:
            return Finding(False, "no samples", THRESHOLD, f"{data.train} has no two utterances that belong together")
        held_out = [path for path in (data.validation, data.test) if path]
        overlap = max((_seen_share(path, subject, seen) for path in held_out), default=0.0)
    except UserError as error:
        return Finding(False, "not usable", THRESHOLD, str(error))
    coverage, cut_share = 100 - _percent(unknown, words), _percent(cut, samples)
    return Finding(
        passed=coverage >= LEAST_COVERAGE and cut_share <= MOST_CUT and overlap <= MOST_OVERLAP,
        figure=f"coverage {coverage:.1f} %, cut {cut_share:.1f} %, overlap {overlap:.1f} %",
        threshold=THRESHOLD,
        detail=f"{samples:,} samples{' (the first)' if samples == SAMPLES else ''}, <unknown> "
        f"{_percent(unknown, words):.2f} % of the words, "
        f"repeated samples {_percent(samples - len(seen), samples):.1f} %",
    )


def _seen_share(path: str, subject: Subject, seen: set[int]) -> float:
    """Percent of the samples of a held-out corpus that the training corpus has word for word."""
    data = subject.config.data
    samples = islice(iterate_samples(read_tokens(path, data.level), data.pairing), SAMPLES)
    hits = [hash((tuple(source), tuple(target))) in seen for source, target in samples]
    return _percent(sum(hits), len(hits))


def _percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0
