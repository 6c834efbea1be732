"""BLEU and chrF against sacrebleu, its bootstrap and one written out; BLEU by bins of lengths."""

import math
import random
from itertools import pairwise

import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from seq2seq_chat.metrics import scores as bootstrap
from seq2seq_chat.metrics.scores import (
    MAX_BINS,
    MIN_SAMPLES,
    SCORES,
    CorpusScores,
    LengthBin,
    Score,
    ScoreKind,
    bleu_by_source_length,
    corpus_bleu,
    length_bins,
    sample_statistics,
)

WORDS = ["The", "the", "cat", "dog", "sat", "lay", "on", "under", "a", "mat", ".", ",", "3.5", "Étonnant", "!"]
KINDS = {kind.key: kind for kind in SCORES["translation"]}


def sentences(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(0, 9))) for _ in range(count)]


def noisy(lines: list[str], seed: int, share: float) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choice(WORDS) if rng.random() < share else word for word in line.split()) for line in lines]


REFERENCES = [sentences(30, 1), sentences(30, 2)]
SYSTEM, BASELINE = noisy(REFERENCES[0], 3, 0.3), noisy(REFERENCES[0], 4, 0.4)


def score(kind: ScoreKind, hypotheses: list[str]) -> Score:
    """Score two blocks, as in an evaluation."""
    metric = kind.metric()
    blocks = [
        sample_statistics(metric, hypotheses[rows], [lines[rows] for lines in REFERENCES])
        for rows in (slice(0, 15), slice(15, None))
    ]
    return Score(kind, metric, np.concatenate(blocks))


def expected_score(key: str, hypotheses: list[str], references: list[list[str]]) -> float:
    """By the functions that sacrebleu exports."""
    if key == "chrf":
        return sacrebleu.corpus_chrf(hypotheses, references).score
    options = {"bleu_lowercase": {"lowercase": True}, "bleu_tokenized": {"tokenize": "none"}}.get(key, {})
    return sacrebleu.corpus_bleu(hypotheses, references, force=True, **options).score


def test_bleu_by_hand() -> None:
    """Of a pair: 5 of 6 words, 3 of 5 pairs, 1 of 4 triples, and 1/2 of 3 for no quadruple; as long as expected.

    Of a short reply whose words are all right: 4 words where 8 were expected, e^(1 - 8 / 4).
    """
    # matches: the cat on the mat | the-cat on-the the-mat | on-the-mat | none, smoothed to 1 / (2 · 3)
    by_hand = 100 * math.exp((math.log(5 / 6) + math.log(3 / 5) + math.log(1 / 4) + math.log(1 / 6)) / 4)
    assert corpus_bleu(["the cat sat on the mat"], ["the cat is on the mat"]) == pytest.approx(by_hand)
    assert corpus_bleu(["a b c d"], ["a b c d e f g h"]) == pytest.approx(100 * math.exp(1 - 8 / 4))
    assert corpus_bleu(SYSTEM, REFERENCES[0]) == expected_score("bleu", SYSTEM, REFERENCES[:1])
    assert corpus_bleu([], []) is None


@pytest.mark.parametrize("key", KINDS)
def test_scores_of_a_corpus_and_of_a_part_of_it(key: str) -> None:
    ours = score(KINDS[key], SYSTEM)
    assert ours.value() == expected_score(key, SYSTEM, REFERENCES)
    part = np.arange(30) % 3 == 0
    chosen = [[line for line, is_chosen in zip(lines, part, strict=True) if is_chosen] for lines in REFERENCES]
    assert ours.select(part).value() == expected_score(key, SYSTEM[::3], chosen)
    assert ours.select(np.zeros(30, bool)).metrics()[key] is None


def test_what_the_scores_look_at() -> None:
    values = {key: score(kind, [line.lower() for line in REFERENCES[0]]).value() for key, kind in KINDS.items()}
    assert values["bleu_lowercase"] == pytest.approx(100)
    assert all(values[key] < 95 for key in ("bleu", "bleu_tokenized", "chrf"))  # capitals count
    signatures = {key: score(kind, SYSTEM).signature for key, kind in KINDS.items()}
    assert signatures["bleu"].startswith("nrefs:2|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert "case:lc" in signatures["bleu_lowercase"] and "tok:none" in signatures["bleu_tokenized"]
    assert signatures["chrf"].startswith("nrefs:2|case:mixed|eff:yes|nc:6|nw:0|space:no|version:")


@pytest.mark.parametrize("key", ["bleu", "chrf"])
def test_bootstrap_written_out(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores of resampled texts; the interval leaves out 2.5 % on either side."""
    monkeypatch.setattr(bootstrap, "RESAMPLES", 40)
    samples = np.random.default_rng(bootstrap.SEED).integers(30, size=(40, 30))
    scores = {}
    for name, lines in {"system": SYSTEM, "baseline": BASELINE}.items():
        resampled = [[[text[n] for n in chosen] for text in (lines, *REFERENCES)] for chosen in samples]
        scores[name] = np.array([expected_score(key, texts[0], texts[1:]) for texts in resampled])
    ours = score(KINDS[key], SYSTEM)
    assert ours.resampled() == pytest.approx(scores["system"], abs=1e-9)
    assert ours.interval() == pytest.approx(np.sort(scores["system"])[[1, 38]], abs=1e-9)
    test = ours.compare(score(KINDS[key], BASELINE))
    assert test["difference"] == test["score"] - test["baseline"]
    assert test["score"] == expected_score(key, SYSTEM, REFERENCES)
    assert test["baseline"] == expected_score(key, BASELINE, REFERENCES)
    assert test["interval"] == pytest.approx(np.sort(scores["system"] - scores["baseline"])[[1, 38]], abs=1e-9)


@pytest.mark.parametrize("kept", [0, 1000])
def test_sums_of_resamples_written_out(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one block or several, whether counts are kept or not."""
    monkeypatch.setattr(bootstrap, "MAX_KEPT_SAMPLES", kept)
    monkeypatch.setattr(bootstrap, "BLOCK", 70 + kept)
    statistics = np.random.default_rng(3).integers(0, 1000, (31, 4)).astype(np.int32)
    chosen = np.random.default_rng(bootstrap.SEED).integers(31, size=(bootstrap.RESAMPLES, 31))
    np.testing.assert_array_equal(bootstrap.resampled_sums(statistics), statistics[chosen].sum(axis=1))


def test_paired_bootstrap_is_that_of_sacrebleu() -> None:
    systems = [("baseline", BASELINE), ("system", SYSTEM), ("same", BASELINE)]
    metrics = {"BLEU": BLEU(force=True), "chrF2": CHRF()}
    _, expected = PairedTest(systems, metrics, REFERENCES, test_type="bs")()
    for name, key in (("BLEU", "bleu"), ("chrF2", "chrf")):
        baseline, system, same = expected[name]
        ours, theirs = score(KINDS[key], SYSTEM), score(KINDS[key], BASELINE)
        assert ours.compare(theirs)["p_value"] == pytest.approx(system.p_value, abs=1e-12)
        assert theirs.compare(theirs)["p_value"] == pytest.approx(same.p_value, abs=1e-12)
        for one, result in ((ours, system), (theirs, baseline)):
            low, high = one.interval() or (0, 0)
            assert (high - low) / 2 == pytest.approx(result.ci, abs=1e-4)  # sacrebleu adds in single precision


# by the length of the source


def of_counts(counts: dict[int, int]) -> np.ndarray:
    return np.repeat(list(counts), list(counts.values())).astype(np.int32)


def test_bins_of_the_papers() -> None:
    """Up to 60 tokens in steps of 5; the few longer ones join the last bin."""
    bins = length_bins(of_counts(dict.fromkeys(range(1, 61), 10) | {75: 3}))
    assert list(map(str, bins)) == [*(f"{first}–{first + 4}" for first in range(1, 56, 5)), "56–75"]


def test_bins_with_too_few_samples_are_joined() -> None:
    assert length_bins(of_counts({3: 29, 8: 1, 12: 40, 17: 2})) == [(1, 10), (11, 17)]
    assert length_bins(of_counts({3: 2, 40: 3})) == [(1, 40)]
    assert length_bins(of_counts({5: 30, 6: 30})) == [(1, 5), (6, 6)]


@pytest.mark.parametrize("width", [5, 10, 20, 50, 100, 200, 500])
def test_long_sources_have_wide_bins(width: int) -> None:
    bins = length_bins(of_counts(dict.fromkeys(range(1, 14 * width + 1), 10)))
    assert [last - first + 1 for first, last in bins] == [width] * 14


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
