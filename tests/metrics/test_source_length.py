"""Bins of lengths, and the BLEU of the samples in them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.metrics.scores import (
    MAX_BINS,
    MIN_SAMPLES,
    SCORES,
    CorpusScores,
    LengthBin,
    Score,
    bleu_by_source_length,
    length_bins,
    sample_statistics,
)


def of_counts(counts: dict[int, int]) -> np.ndarray:
    return np.repeat(list(counts), list(counts.values())).astype(np.int32)


def test_bins_of_the_papers() -> None:
    """Up to 60 tokens in steps of 5; the few longer ones join the last bin."""
    bins = length_bins(of_counts(dict.fromkeys(range(1, 61), 10) | {75: 3}))
    assert list(map(str, bins)) == [*(f"{first}–{first + 4}" for first in range(1, 56, 5)), "56–75"]


def test_bins_with_too_few_samples_are_joined() -> None:
    assert length_bins(of_counts({3: 29, 8: 1, 12: 40, 17: 2})) == [(1, 10), (11, 17)]
    assert length_bins(of_counts({3: 2, 40: 3})) == [(1, 40)]


def test_characters_have_wide_bins() -> None:
    bins = length_bins(of_counts(dict.fromkeys(range(1, 281), 10)))
    assert [last - first + 1 for first, last in bins] == [20] * 14


@given(st.lists(st.lists(st.integers(1, 400), min_size=1, max_size=300), min_size=1, max_size=3))
def test_bins_of_several_runs(lengths: list[list[int]]) -> None:
    bins = length_bins(*(np.array(run, np.int32) for run in lengths))
    merged = [length for run in lengths for length in run]
    assert bins[0].first == 1 and bins[-1].last >= max(merged)
    assert all(one.last + 1 == other.first for one, other in pairwise(bins))
    assert len(bins) <= MAX_BINS + 0.01 * len(merged) / MIN_SAMPLES + 1
    if len(bins) > 1:
        for first, last in bins:
            assert sum(first <= length <= last for length in merged) >= MIN_SAMPLES * len(lengths)


def test_bleu_of_each_bin() -> None:
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 16, size=150).astype(np.int32)
    references = [" ".join(rng.choice(list("abcdef"), size=length)) for length in lengths]
    hypotheses = [" ".join(rng.permutation(line.split())) for line in references]
    kind = SCORES["conversation"][0]
    metric = kind.metric()
    scores = CorpusScores([Score(kind, metric, sample_statistics(metric, hypotheses, [references]))], lengths)
    rows = bleu_by_source_length(scores)
    assert [row["words"] for row in rows] == ["1–5", "6–10", "11–15"]
    for row, (first, last) in zip(rows, ((1, 5), (6, 10), (11, 15)), strict=True):
        chosen = [n for n, length in enumerate(lengths) if first <= length <= last]
        expected = sacrebleu.corpus_bleu([hypotheses[n] for n in chosen], [[references[n] for n in chosen]])
        assert (row["samples"], row["bleu"]) == (len(chosen), expected.score)
        assert row["mean_length"] == pytest.approx(lengths[chosen].mean())
        assert row["bleu_interval"][0] < row["bleu"] < row["bleu_interval"][1]
    assert bleu_by_source_length(scores, lowercase=True) == rows  # conversations have no score that ignores case
    (empty,) = bleu_by_source_length(scores, [LengthBin(60, 90)])
    assert (empty["samples"], empty["bleu"], empty["bleu_interval"], empty["mean_length"]) == (0, None, None, None)
