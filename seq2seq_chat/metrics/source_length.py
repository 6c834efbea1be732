"""BLEU by the length of the source, in bins that fit the corpus.

Source: Bahdanau et al. 2014, figure 2, whose bins are single lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from seq2seq_chat.metrics.scores import CorpusScores

MAX_BINS = 14  # up to the length that 99 % of the samples do not exceed
MIN_SAMPLES = 30  # in a bin
_WIDTHS = (5, 10, 20, 50)  # of the bins, or ten times as much, and so on


class LengthBin(NamedTuple):
    """Sources of ``first`` to ``last`` tokens, both inclusive."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}–{self.last}"


def length_bins(*source_lengths: npt.NDArray[np.int32]) -> list[LengthBin]:
    """The bins for one or several runs: all equally wide, except where too few samples make them wider.

    The width is 5 tokens if that makes at most MAX_BINS bins, or else 10, 20, 50, 100, and so on. Bins are joined with
    the following ones until they have MIN_SAMPLES samples, in the mean of the runs; the last bin ends at the longest
    source.

    Args:
        source_lengths: of the samples of each run, in tokens; at least one sample in total.
    """
    lengths = np.concatenate(source_lengths)
    longest, needed = int(lengths.max()), MIN_SAMPLES * len(source_lengths)
    width = _bin_width(float(np.quantile(lengths, 0.99)))
    counts, bins, first, count = np.bincount(lengths), [], 1, 0
    for last in range(width, longest + width, width):
        count += int(counts[last - width + 1 : last + 1].sum())
        if count >= needed:
            bins.append(LengthBin(first, last))
            first, count = last + 1, 0
    if first <= longest:  # too few samples for a bin of their own
        first = bins.pop().first if bins else first
        bins.append(LengthBin(first, longest))
    bins[-1] = bins[-1]._replace(last=longest)
    return bins


def _bin_width(length: float) -> int:
    scale = 1
    while True:
        for width in _WIDTHS:
            if width * scale * MAX_BINS >= length:
                return width * scale
        scale *= 10


def bleu_by_source_length(
    scores: CorpusScores, bins: Sequence[LengthBin] | None = None, *, lowercase: bool = False
) -> list[dict[str, Any]]:
    """The BLEU of the samples in each bin, or in those that fit the samples.

    Args:
        lowercase: See :meth:`CorpusScores.bleu`.

    Returns:
        For each bin its tokens (``words``), the number of ``samples``, their ``mean_length``, ``bleu`` and 95 %
        ``bleu_interval``; None in an empty bin.
    """
    rows = []
    for length_bin in bins or length_bins(scores.source_lengths):
        selected = (length_bin.first <= scores.source_lengths) & (scores.source_lengths <= length_bin.last)
        bleu = scores.bleu(lowercase).select(selected)
        rows.append(
            {
                "words": str(length_bin),
                "samples": bleu.samples,
                "mean_length": float(scores.source_lengths[selected].mean()) if bleu.samples else None,
                "bleu": bleu.value(),
                "bleu_interval": bleu.interval(),
            }
        )
    return rows
