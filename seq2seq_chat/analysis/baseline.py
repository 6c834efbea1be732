"""Compare the scores of two runs on the same samples."""

from __future__ import annotations

from typing import Any, NamedTuple

from seq2seq_chat.analysis.loaded_run import LoadedRun
from seq2seq_chat.analysis.predictions import Predictions
from seq2seq_chat.data.batches import evenly_spaced
from seq2seq_chat.data.codec import are_equal
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.data.pairs import Corpus
from seq2seq_chat.metrics.scores import SCORES, CorpusScores
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.errors import UserError


class ScoredRun(NamedTuple):
    """A run, its predictions of a corpus and their scores."""

    loaded: LoadedRun
    predictions: Predictions
    scores: CorpusScores


def ensure_comparable(run: Run, data: Corpus, baseline: Run, baseline_data: Corpus, limit: int | None) -> None:
    """Check that the scores of two runs are computed from the same samples, and any of them in the same way.

    Args:
        limit: Number of samples that are compared, evenly spaced; None for all.

    Raises:
        UserError: The test corpora or their samples differ, or the runs have no score in common.
    """
    if not _common_scores(run, baseline):
        raise UserError(
            f"{run.name} and {baseline.name} have different tokenizers, so their tokenized scores cannot be "
            "compared; compare runs with the same tokenizer"
        )
    one, other = (
        Dataset.open(files, each.codecs, each.config.data) for each, files in ((run, data), (baseline, baseline_data))
    )
    indices = evenly_spaced(len(one), limit)
    if len(one) == len(other) and all(one.text(index) == other.text(index) for index in indices):
        return
    if data == baseline_data:
        raise UserError(
            f"{run.name} and {baseline.name} read different samples from {data}, because their tokenizers, pairing or "
            "direction differ; compare runs that read the same samples"
        )
    raise UserError(
        f"the test corpora of {run.name} ({data}) and {baseline.name} ({baseline_data}) have different samples; "
        "specify one corpus for both with --data FILE"
    )


def _common_scores(run: Run, baseline: Run) -> list[str]:
    """The keys of the scores that mean the same for both runs: tokens are comparable if the tokenizers are equal."""
    same_tokens = are_equal(run.codecs.target.tokenizer, baseline.codecs.target.tokenizer)
    return [kind.key for kind in SCORES[run.config.task] if same_tokens or not kind.of_tokens]


def compare_with_baseline(run: ScoredRun, baseline: ScoredRun) -> dict[str, Any]:
    """Test the differences between the scores of two runs on the same samples by paired bootstrap.

    Returns:
        The ``run``, ``snapshot`` and ``step`` of the baseline, the file of its ``predictions``, and its ``scores``:
        those of :meth:`Score.compare` for each key that both runs have in common.
    """
    common = _common_scores(run.loaded.run, baseline.loaded.run)
    return {
        "run": baseline.loaded.run.name,
        "snapshot": baseline.loaded.snapshot,
        "step": baseline.loaded.step,
        "predictions": str(baseline.predictions.path),
        "scores": {
            score.kind.key: score.compare(other)
            for score, other in zip(run.scores.scores, baseline.scores.scores, strict=True)
            if score.kind.key in common
        },
    }
