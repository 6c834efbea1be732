"""Compare the scores of two runs on the same samples."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from seq2seq_chat.analysis.loaded_run import LoadedRun
from seq2seq_chat.analysis.metrics.scores import SCORES, CorpusScores
from seq2seq_chat.analysis.predictions import beam, predict
from seq2seq_chat.analysis.scoring import References, score_predictions
from seq2seq_chat.data.codec import are_equal
from seq2seq_chat.data.pairs import Corpus
from seq2seq_chat.data.samples import read_samples
from seq2seq_chat.runs.find import RunSnapshot
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.errors import UserError


def ensure_comparable(run: Run, data: Corpus, baseline: Run, baseline_data: Corpus) -> None:
    """Check that the scores of two runs are computed from the same samples, and any of them in the same way.

    Raises:
        UserError: The test corpora or their samples differ, or the runs have no score in common.
    """
    if not _common_scores(run, baseline):
        raise UserError(
            f"{run.name} and {baseline.name} have different tokenizers, so their tokenized scores cannot be "
            "compared; compare runs with the same tokenizer"
        )
    pairs = [
        ((sample.source, sample.target) for sample in read_samples(files, one.config.data, one.codecs.tokenizers))
        for one, files in ((run, data), (baseline, baseline_data))
    ]
    if all(one == other for one, other in zip_longest(*pairs)):
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


def compare_with_baseline(
    scores: CorpusScores,
    run: Run,
    baseline: RunSnapshot,
    data: Corpus,
    folder: Path,
    references: Sequence[References],
    limit: int | None,
    beam_width: int | None,
) -> dict[str, Any]:
    """Predict the same samples with another run, and test the differences between the scores by paired bootstrap.

    Args:
        scores: of the run.
        data: the corpus of the baseline, which has the same samples.
        folder: where to keep its predictions.
        beam_width: None for greedy search.

    Returns:
        The ``run``, ``snapshot`` and ``step`` of the baseline, the file of its ``predictions``, and its ``scores``:
        those of :meth:`Score.compare` for each key that both runs have in common.

    Raises:
        UserError: The baseline cannot be loaded, or its predictions cannot be written.
    """
    loaded = LoadedRun(baseline.run, baseline.snapshot)
    decoding = None if beam_width is None else beam(loaded.config.decoding, beam_width)
    predictions = predict(loaded, data, folder, limit=limit, decoding=decoding)
    others = score_predictions(predictions, run.config.task, references)
    common = _common_scores(run, baseline.run)
    return {
        "run": baseline.run.name,
        "snapshot": baseline.snapshot or "latest",
        "step": loaded.step,
        "predictions": str(predictions.path),
        "scores": {
            score.kind.key: score.compare(other)
            for score, other in zip(scores.scores, others.scores, strict=True)
            if score.kind.key in common
        },
    }
