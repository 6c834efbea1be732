"""All measurements for a report: every run at every snapshot.

What cannot be measured is recorded as an error, and the rest is measured anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from seq2seq_chat.config import LABELS, Config, Decoding, Labels
from seq2seq_chat.data.corpus_file import Corpus, bundled_questions
from seq2seq_chat.metrics.ngrams import Diversity, NgramProfile, corpus_profile, text_profile
from seq2seq_chat.metrics.scores import CorpusScores
from seq2seq_chat.metrics.sent2vec import Sent2Vec
from seq2seq_chat.metrics.sentence_vectors import load_sentence_vectors
from seq2seq_chat.report.evaluate import (
    FOLDER,
    compute_all_metrics,
    default_limit,
    describe_search,
    evaluation_corpus,
    measure_leakage,
)
from seq2seq_chat.report.figures.model_internals import GradientNorms, gradient_norms
from seq2seq_chat.report.figures.vectors import Vectors, start_tsne, thought_vectors, word_vectors
from seq2seq_chat.report.loaded_run import LoadedRun, available_snapshots
from seq2seq_chat.report.predictions import Prediction, Predictions, ReplyColumn, predict, reply_to_all
from seq2seq_chat.report.scoring import Leakage, score_predictions
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.errors import UserError

EXAMPLES = 24  # test samples to show and to study with beams
OnProgress = Callable[[str], object]


@dataclass(frozen=True)
class ReportOptions:
    """Options of a report."""

    data: str | None = None  # corpus to evaluate on; None: each run's own
    limit: int | None = None  # samples; None for the default of the search
    overrides: Sequence[str] = ()  # decoding.key=value, for all runs
    sent2vec: str | None = None  # official model; None: train one on the first run's corpus
    questions: Sequence[str] = field(default_factory=bundled_questions)
    further_questions: Sequence[str] = ()  # those of transcripts: only their replies are shown
    transcripts: Sequence[ReplyColumn] = ()
    favorites: ReplyColumn | None = None  # your favorite replies to the questions
    max_points: int = 2000  # utterances whose thought vectors are drawn

    @property
    def asked(self) -> list[str]:
        """All questions."""
        return [*self.questions, *self.further_questions]


class SnapshotMeasurements(NamedTuple):
    """Measurements of a run at one snapshot."""

    label: str
    step: int
    metrics: dict[str, Any] | None
    profile: NgramProfile | None  # of the replies
    replies: ReplyColumn
    gradients: GradientNorms | None
    scores: CorpusScores | None  # of the samples that the metrics are of


class Projection(NamedTuple):
    """Vectors, and their t-SNE, which is computed while the rest is measured and drawn."""

    vectors: Vectors
    tsne: Future[np.ndarray]


@dataclass
class RunMeasurements:
    """Measurements of a run."""

    run: Run
    label: str  # names it in files and legends, see distinct_names
    decoding: Decoding  # how it replies
    loaded: LoadedRun | None = None  # with the newest weights
    corpus_file: Corpus | None = None
    snapshots: list[SnapshotMeasurements] = field(default_factory=list)
    training_profile: NgramProfile | None = None  # of the training targets
    reference_profile: NgramProfile | None = None  # of the expected replies
    reference_diversity: Diversity | None = None
    examples: list[Prediction] = field(default_factory=list)  # at the newest snapshot
    test_sources: list[str] = field(default_factory=list)
    leakage: Leakage | str | None = None  # of the predicted samples, or why it is unknown
    thoughts: Projection | None = None  # of the newest model
    words: Projection | None = None
    errors: dict[str, str] = field(default_factory=dict)  # the first error of each part

    @property
    def name(self) -> str:
        """The name of the run."""
        return self.run.name

    @property
    def config(self) -> Config:
        """The configuration of the run."""
        return self.run.config

    @contextmanager
    def record_errors(self, part: str) -> Iterator[None]:
        """Record a UserError in this block instead of raising it."""
        try:
            yield
        except UserError as error:
            self.errors.setdefault(part, str(error))


class Report(NamedTuple):
    """What the chapters of a report are made from."""

    runs: list[RunMeasurements]
    options: ReportOptions
    vectors: Sent2Vec | None  # shared by all runs, as distances are only comparable with the same vectors
    vectors_origin: str  # where they come from, or why there are none
    on_progress: OnProgress

    @property
    def task(self) -> str:
        """The task of the first run, for the words of the report."""
        return self.runs[0].config.task

    @property
    def labels(self) -> Labels:
        """What source, output and target are called in the report."""
        return LABELS[self.task]

    def searches(self, *runs: RunMeasurements) -> str:
        """How the replies of some runs were searched for: "replies by beam search, width 5"."""
        by_name = {run.name: describe_search(run.decoding, self.options.limit) for run in runs}
        distinct = set(by_name.values())
        texts = distinct if len(distinct) == 1 else [f"{search} ({name})" for name, search in by_name.items()]
        return f"{self.labels.outputs} by {', '.join(texts)}"


def shared_vectors(runs: Sequence[Run], options: ReportOptions) -> tuple[Sent2Vec | None, str]:
    """The sentence vectors for all runs, and where they come from or why there are none.

    Raises:
        UserError: The specified model cannot be read.
    """
    if options.sent2vec is not None:
        return load_sentence_vectors(runs[0], runs[0].path / FOLDER, options.sent2vec)
    origin = ""
    for run in runs:
        try:
            vectors, origin = load_sentence_vectors(run, run.path / FOLDER)
            return vectors, origin if len(runs) == 1 else origin.replace("this run's", f"{run.name}'s")
        except UserError as error:
            origin = str(error)
    return None, origin


def measure_run(
    result: RunMeasurements, options: ReportOptions, vectors: Sent2Vec | None, on_progress: OnProgress
) -> None:
    """Measure a run at every available snapshot."""
    run = result.run
    with result.record_errors("evaluation"):
        result.corpus_file = evaluation_corpus(run, options.data)
    with result.record_errors("language"):
        on_progress(f"{run.name}: counting the training corpus")
        result.training_profile = corpus_profile(run)
    for snapshot in available_snapshots(run):
        with result.record_errors(f"snapshot {snapshot.label}"):
            if result.loaded is None:
                result.loaded = LoadedRun(run, snapshot.name)
            result.loaded.load_snapshot(snapshot.name)
            on_progress(f"{run.name}: evaluating snapshot {snapshot.label}")
            result.snapshots.append(_measure_snapshot(result, result.loaded, options, vectors, on_progress))
    with result.record_errors("model"):
        if result.loaded is None:
            result.loaded = LoadedRun(run)  # raises an error that says why there is no model
    if result.loaded is not None:
        on_progress(f"{run.name}: thought vectors and word embeddings")
        with result.record_errors("thoughts"):
            texts = [*options.questions, *result.test_sources]
            points = thought_vectors(result.loaded, texts)
            result.thoughts = Projection(points, start_tsne(points))
        with result.record_errors("words"):
            points = word_vectors(result.loaded)
            result.words = Projection(points, start_tsne(points))


def _measure_snapshot(
    result: RunMeasurements,
    loaded: LoadedRun,
    options: ReportOptions,
    vectors: Sent2Vec | None,
    on_progress: OnProgress,
) -> SnapshotMeasurements:
    metrics, profile, gradients, scores = None, None, None, None
    with result.record_errors("evaluation"):
        if result.corpus_file is not None:
            limit, folder = options.limit or default_limit(result.decoding), result.run.path / FOLDER
            predictions = predict(loaded, result.corpus_file, folder, limit=limit, decoding=result.decoding)
            if result.leakage is None:  # the same for all snapshots
                on_progress(f"{result.name}: looking for the samples in the training corpus")
                result.leakage = measure_leakage(loaded, result.corpus_file, predictions)
            scores = score_predictions(predictions, result.config.task)
            metrics = compute_all_metrics(predictions, vectors, result.leakage, scores)
            profile = _profile(f"replies at {loaded.label}", [p.reply_tokens for p in predictions], loaded)
            step = max(1, predictions.samples // EXAMPLES)
            result.examples = [p for index, p in enumerate(predictions) if index % step == 0][:EXAMPLES]
            if result.reference_diversity is None:  # the same for all snapshots
                _measure_references(result, loaded, predictions, options.max_points)
    with result.record_errors("gradients"):
        if result.corpus_file is not None:
            gradients = gradient_norms(loaded, result.corpus_file)
    replies = reply_to_all(loaded, options.asked, result.decoding, f"at {loaded.label}")
    return SnapshotMeasurements(loaded.label, loaded.step, metrics, profile, replies, gradients, scores)


def _measure_references(result: RunMeasurements, loaded: LoadedRun, predictions: Predictions, max_points: int) -> None:
    references = [p.expected_tokens for p in predictions]
    result.reference_diversity = Diversity()
    result.reference_diversity.add(references)
    result.reference_profile = _profile("expected replies", references, loaded)
    step = max(1, predictions.samples // max_points)
    sources = [p.source for index, p in enumerate(predictions) if index % step == 0]
    result.test_sources = sources[:max_points]


def _profile(label: str, texts: Sequence[str], loaded: LoadedRun) -> NgramProfile:
    return text_profile(label, map(str.split, texts), loaded.codecs.target.vocabulary)
