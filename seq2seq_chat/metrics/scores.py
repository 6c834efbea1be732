"""Corpus BLEU and chrF by sacrebleu, from statistics of each sample that are computed once; BLEU by length; perplexity.

The statistics are what sacrebleu's own significance tests resample: numbers of matching and of all n-grams, and
lengths. Their sums over any samples give the score of these samples, so subsets and intervals cost little.

Sources: Papineni et al. 2002 (BLEU); Popović 2015 (chrF); Post 2018, "A call for clarity in reporting BLEU scores";
Bahdanau et al. 2014, figure 2 (BLEU by the length of the source, in bins of single lengths; ours fit the corpus).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF


class ScoreKind(NamedTuple):
    """A score, and what it is computed from."""

    key: str  # in the JSON file of an evaluation
    label: str
    metric: Callable[[], Metric]
    of_tokens: bool  # of tokens separated by spaces, rather than of texts as people write them


_BLEU = functools.partial(BLEU, force=True)  # sacrebleu would warn about tokenized texts
SCORES: dict[str, tuple[ScoreKind, ...]] = {
    "conversation": (
        ScoreKind("bleu", "BLEU, tokenized", _BLEU, True),
        ScoreKind("chrf", "chrF, tokenized", CHRF, True),
    ),
    "translation": (
        ScoreKind("bleu", "BLEU, detokenized", _BLEU, False),
        ScoreKind("bleu_lowercase", "BLEU, detokenized, case ignored", functools.partial(_BLEU, lowercase=True), False),
        ScoreKind("bleu_tokenized", "BLEU, tokenized", functools.partial(_BLEU, tokenize="none"), True),
        ScoreKind("chrf", "chrF, detokenized", CHRF, False),
    ),
}
"""The scores of each task; each has a ``bleu``."""
SCORE_KEYS = tuple(dict.fromkeys(kind.key for kinds in SCORES.values() for kind in kinds))


def sample_statistics(
    metric: Metric, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> npt.NDArray[np.int32]:
    """The statistics of each sample, [samples, columns]. sacrebleu holds the n-grams of all references in memory.

    Args:
        references: [references][samples].
    """
    return np.array(metric._extract_corpus_statistics(hypotheses, references), np.int32)


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> float | None:
    """The BLEU of texts as people write them, 0 to 100, as ``sacrebleu`` computes it; None without texts."""
    kind = SCORES["translation"][0]
    metric = kind.metric()
    return Score(kind, metric, sample_statistics(metric, hypotheses, [references])).value() if hypotheses else None


class Score:
    """A score of samples, 0 to 100.

    Attributes:
        kind: what it is computed from.
        statistics: see :func:`sample_statistics`.
    """

    def __init__(self, kind: ScoreKind, metric: Metric, statistics: npt.NDArray[np.int32]) -> None:
        self.kind, self.statistics, self._metric = kind, statistics, metric

    @property
    def samples(self) -> int:
        return len(self.statistics)

    @property
    def signature(self) -> str:
        """sacrebleu's signature: references, case, tokenization, smoothing and version."""
        return str(self._metric.get_signature())

    def select(self, selected: npt.NDArray[np.bool_]) -> Score:
        return Score(self.kind, self._metric, self.statistics[selected])

    def value(self) -> float | None:
        """The score, bit for bit as sacrebleu computes it; None without samples."""
        return self._of_sums(self.statistics.sum(axis=0, dtype=np.int64)) if self.samples else None

    def resampled(self) -> npt.NDArray[np.float64]:
        """The score of each resample; see :func:`resampled_sums`."""
        return np.array([self._of_sums(sums) for sums in resampled_sums(self.statistics)])

    def interval(self) -> tuple[float, float] | None:
        """The 95 % confidence interval; None without samples."""
        return confidence_interval(self.resampled()) if self.samples else None

    def metrics(self) -> dict[str, Any]:
        """The score with its label, signature and interval, under keys that begin with the key of the score."""
        key = self.kind.key
        return {
            key: self.value(),
            f"{key}_label": self.kind.label,
            f"{key}_signature": self.signature,
            f"{key}_interval": self.interval(),
        }

    def compare(self, baseline: Score) -> dict[str, Any]:
        """Compare with the score of another system on the same samples, by paired bootstrap.

        Returns:
            The ``score`` and the ``baseline``'s, their ``difference`` with its 95 % ``interval``, and the
            ``p_value`` of :func:`p_value`.
        """
        value, other = self.value(), baseline.value()
        assert value is not None and other is not None, "there are no samples"
        ours, theirs = self.resampled(), baseline.resampled()
        return {
            "score": value,
            "baseline": other,
            "difference": value - other,
            "interval": confidence_interval(ours - theirs),
            "p_value": p_value(ours, theirs, value - other),
        }

    def _of_sums(self, sums: npt.NDArray[Any]) -> float:
        return float(self._metric._compute_score_from_stats(sums.tolist()).score)


class CorpusScores(NamedTuple):
    """All scores of the samples of a corpus, or of some of them."""

    scores: Sequence[Score]
    source_lengths: npt.NDArray[np.int32]  # in tokens, [samples]

    def select(self, selected: npt.NDArray[np.bool_]) -> CorpusScores:
        return CorpusScores([score.select(selected) for score in self.scores], self.source_lengths[selected])

    def bleu(self, lowercase: bool = False) -> Score:
        """BLEU, or BLEU without regard to case if ``lowercase`` is set and the task has it."""
        scores = {score.kind.key: score for score in self.scores}
        return scores.get("bleu_lowercase", scores["bleu"]) if lowercase else scores["bleu"]

    def metrics(self) -> dict[str, Any]:
        """See :meth:`Score.metrics`; what the task does not have is None."""
        names = [f"{key}{suffix}" for key in SCORE_KEYS for suffix in ("", "_label", "_signature", "_interval")]
        values = {name: value for score in self.scores for name, value in score.metrics().items()}
        return dict.fromkeys(names) | values


RESAMPLES, SEED = 1000, 12345  # sacrebleu's defaults
BLOCK = 400_000  # counts held together, of as many resamples as that allows
MAX_KEPT_SAMPLES = 10_000  # about a byte for each and each resample


def resampled_sums(statistics: npt.NDArray[np.int32 | np.float64]) -> npt.NDArray[np.float64]:
    """The sums over ``RESAMPLES`` samples with replacement: float64 [resamples, columns], exact.

    The samples are the same as in ``sacrebleu --confidence`` and ``--paired-bs``, and the same for all statistics of an
    equal number of samples, so the scores of two systems are paired.

    Args:
        statistics: the statistics of each sample, [samples, columns].
    """
    samples, values = len(statistics), statistics.astype(np.float64)
    count = _kept_counts if samples <= MAX_KEPT_SAMPLES else _resample_counts
    return np.concatenate([counts @ values for counts in count(samples, RESAMPLES)])


def _resample_counts(samples: int, resamples: int) -> Iterator[npt.NDArray[np.int64]]:
    """How often each sample occurs in the resamples, block by block: [resamples of the block, samples]."""
    rng, size = np.random.default_rng(SEED), max(1, BLOCK // samples)
    for start in range(0, resamples, size):
        chosen = (rng.integers(0, samples, size=samples) for _ in range(min(size, resamples - start)))
        yield np.stack([np.bincount(resample, minlength=samples) for resample in chosen])


@functools.lru_cache(maxsize=32)
def _kept_counts(samples: int, resamples: int) -> list[npt.NDArray[np.integer[Any]]]:
    """Like :func:`_resample_counts`, kept for the other scores and snapshots of an evaluation."""
    return [counts.astype(np.min_scalar_type(counts.max())) for counts in _resample_counts(samples, resamples)]


def confidence_interval(resampled: npt.NDArray[np.float64]) -> tuple[float, float]:
    """The 95 % confidence interval: what lies between the lowest and the highest 2.5 % of the resampled values."""
    ordered, cut = np.sort(resampled), len(resampled) // 40
    return float(ordered[cut]), float(ordered[-1 - cut])


def p_value(system: npt.NDArray[np.float64], baseline: npt.NDArray[np.float64], difference: float) -> float:
    """How likely a difference of this size is if the two systems are equally good, two-sided, as in sacrebleu.

    Args:
        system, baseline: the resampled scores of both, paired.
        difference: between their scores on all samples.
    """
    differences = np.abs(system - baseline)
    exceeding = np.count_nonzero(differences - differences.mean() > abs(difference))
    return float((exceeding + 1) / (len(differences) + 1))


class CorpusLoss(NamedTuple):
    """The exact loss of a model on a corpus."""

    nats: float  # sum over all target tokens
    tokens: int  # target tokens, end markers included
    samples: int | None  # None for running text

    @property
    def loss(self) -> float:
        """Nats per target token."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        return perplexity(self.loss)

    @property
    def bits_per_token(self) -> float:
        """The loss in bits: of a character, if these are the tokens."""
        return self.loss / math.log(2)


def loss_metrics(loss: CorpusLoss, nats: npt.ArrayLike, tokens: npt.ArrayLike) -> dict[str, Any]:
    """``loss`` in nats per token, ``loss_bits`` in bits, and ``perplexity``, each with its 95 % interval.

    Args:
        nats, tokens: of the parts of the corpus, [n] each, that are resampled: samples, or stretches of running text.
    """
    sums = resampled_sums(np.stack([nats, tokens], axis=1))
    low, high = confidence_interval(sums[:, 0] / sums[:, 1])
    ends = CorpusLoss(low, 1, None), CorpusLoss(high, 1, None)
    return {
        "loss": loss.loss,
        "loss_interval": (low, high),
        "loss_bits": loss.bits_per_token,
        "loss_bits_interval": tuple(end.bits_per_token for end in ends),
        "perplexity": loss.perplexity,
        "perplexity_interval": tuple(end.perplexity for end in ends),
    }


def perplexity(loss: float) -> float:
    """e^loss of a loss in nats per token, or infinity if that is too large for a float."""
    return math.exp(loss) if loss < 700 else math.inf


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
        source_lengths: the lengths of the samples of each run, in tokens; at least one sample in total.
    """
    lengths = np.concatenate(source_lengths)
    longest, needed = int(lengths.max()), MIN_SAMPLES * len(source_lengths)
    usual = float(np.quantile(lengths, 0.99))
    widths = (width * 10**power for power in itertools.count() for width in _WIDTHS)
    width = next(width for width in widths if width * MAX_BINS >= usual)
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
