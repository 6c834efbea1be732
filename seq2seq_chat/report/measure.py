"""All measurements for a report: every run at every snapshot.

What cannot be measured is recorded as an error, and the rest is measured anyway.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from seq2seq_chat.chat.generator import Generator
from seq2seq_chat.config import LABELS, Decoding, Labels
from seq2seq_chat.data.corpus_file import Corpus, bundled_questions
from seq2seq_chat.data.running_text import RunningText
from seq2seq_chat.engines.tensorflow.engine import load_trained_model
from seq2seq_chat.engines.tensorflow.language_model import TensorFlowLanguageModel
from seq2seq_chat.metrics.ngrams import Diversity, NgramProfile, corpus_profile, text_profile
from seq2seq_chat.metrics.scores import CorpusScores
from seq2seq_chat.metrics.sent2vec import Sent2Vec
from seq2seq_chat.metrics.sentence_vectors import load_sentence_vectors
from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.report.evaluate import (
    FOLDER,
    compute_all_metrics,
    default_limit,
    describe_search,
    evaluate_language_model,
    evaluation_corpus,
    measure_copies,
    measure_leakage,
)
from seq2seq_chat.report.figures.model_internals import GradientNorms, gradient_by_distance, gradient_norms
from seq2seq_chat.report.figures.vectors import Vectors, thought_vectors, tsne, word_vectors
from seq2seq_chat.report.loaded_run import LoadedRun, available_snapshots
from seq2seq_chat.report.predictions import Prediction, Predictions, ReplyColumn, predict
from seq2seq_chat.report.scoring import Leakage, score_predictions
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.threads import run_in_thread

MAX_POINTS = 2000  # utterances whose thought vectors are drawn
EXAMPLES = 24  # test samples to show and to study with beams
MAX_TEXT_SNAPSHOTS = 8  # of a language model that are measured, evenly spaced
TEXT_LENGTH, SEED = 300, 1  # tokens of each text, and of its random numbers
PASSAGES, DISTANCE = 64, 100  # passages, and tokens of each, for gradients
MAX_LINES = 5  # snapshots drawn in one figure, so that the lines remain distinguishable
OnProgress = Callable[[str], object]


@dataclass(frozen=True)
class ReportOptions:
    data: str | None = None  # corpus to evaluate on; None: each run's own
    limit: int | None = None  # samples; None for the default of the search
    overrides: Sequence[str] = ()  # decoding.key=value, for all runs
    sent2vec: str | None = None  # official model; None: train one on the first run's corpus
    questions: Sequence[str] = field(default_factory=bundled_questions)
    further_questions: Sequence[str] = ()  # of transcripts: only their replies are shown
    transcripts: Sequence[ReplyColumn] = ()
    favorites: ReplyColumn | None = None  # your favorite replies to the questions

    @property
    def asked(self) -> list[str]:
        return [*self.questions, *self.further_questions]


class SnapshotMeasurements(NamedTuple):
    label: str
    replies: ReplyColumn
    gradients: GradientNorms | None


class Evaluation(NamedTuple):
    """The evaluation of a run at one snapshot."""

    label: str
    step: int
    metrics: dict[str, Any]
    scores: CorpusScores  # of the samples that the metrics are of
    profile: NgramProfile  # of the replies


class TextMeasurements(NamedTuple):
    """Measurements of a language model at one snapshot."""

    label: str
    metrics: dict[str, Any] | None  # see evaluate_language_model
    texts: list[str]  # one for each prompt
    gradients: np.ndarray | None  # norm by distance


class Projection(NamedTuple):
    """Vectors, and their t-SNE, which is computed while the rest is measured and drawn."""

    vectors: Vectors
    tsne: Future[np.ndarray]


@dataclass
class RunMeasurements:
    run: Run
    label: str  # names it in files and legends, see distinct_names
    decoding: Decoding  # how it replies
    prefix: str = ""  # of captions: "NAME: " in a report on several runs
    loaded: LoadedRun | None = None  # with the newest weights
    corpus_file: Corpus | None = None
    snapshots: list[SnapshotMeasurements] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)
    texts: list[TextMeasurements] = field(default_factory=list)  # of a language model
    training_profile: NgramProfile | None = None  # of the training targets
    reference_profile: NgramProfile | None = None  # of the expected replies
    reference_diversity: Diversity | None = None
    examples: list[Prediction] = field(default_factory=list)  # at the newest snapshot
    test_sources: list[str] = field(default_factory=list)
    leakage: Leakage | str | None = None  # of the predicted samples, or why it is unknown
    projections: dict[str, Projection] = field(default_factory=dict)  # of the newest model's "thoughts" and "words"
    errors: dict[str, str] = field(default_factory=dict)  # the first error of each part

    def __post_init__(self) -> None:
        self.name, self.config = self.run.name, self.run.config

    @property
    def newest_model(self) -> LoadedRun:
        """The model with the newest weights. Raises UserError if there is none."""
        if self.loaded is None:
            raise UserError(self.errors.get("model", "the model could not be loaded"))
        return self.loaded

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
    shared_vectors: Future[tuple[Sent2Vec | None, str]] | None  # see shared_vectors; None for language models
    on_progress: OnProgress

    @property
    def vectors(self) -> Sent2Vec | None:
        """Shared by all runs, as distances are only comparable with the same vectors."""
        return self.shared_vectors.result()[0] if self.shared_vectors else None

    @property
    def vectors_origin(self) -> str:
        """Where they come from, or why there are none."""
        return self.shared_vectors.result()[1] if self.shared_vectors else ""

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


def measure_run(run: RunMeasurements, report: Report) -> None:
    """Measure a run at every available snapshot."""
    with run.record_errors("evaluation"):
        run.corpus_file = evaluation_corpus(run.run, report.options.data)
    for snapshot in available_snapshots(run.run):
        with run.record_errors(f"snapshot {snapshot.label}"):
            run.loaded = LoadedRun(run.run, snapshot.name, decoding=run.decoding)
            report.on_progress(f"{run.name}: evaluating snapshot {snapshot.label}")
            _measure_snapshot(run, run.loaded, report)
    with run.record_errors("language"):
        report.on_progress(f"{run.name}: counting the training corpus")
        run.training_profile = corpus_profile(run.run)
    with run.record_errors("model"):
        if run.loaded is None:
            run.loaded = LoadedRun(run.run, decoding=run.decoding)  # raises an error that says why there is no model
    if run.loaded is not None:
        report.on_progress(f"{run.name}: thought vectors and word embeddings")
        texts = [*report.options.questions, *run.test_sources]
        with run.record_errors("thoughts"):
            run.projections["thoughts"] = _project(thought_vectors(run.loaded, texts))
        with run.record_errors("words"):
            run.projections["words"] = _project(word_vectors(run.loaded))


def _project(points: Vectors) -> Projection:
    return Projection(points, run_in_thread(functools.partial(tsne, points.normalized)))


def _measure_snapshot(run: RunMeasurements, loaded: LoadedRun, report: Report) -> None:
    options, gradients = report.options, None
    if run.corpus_file is not None:
        with run.record_errors("evaluation"):
            limit, folder = options.limit or default_limit(run.decoding), run.run.path / FOLDER
            predictions = predict(loaded, run.corpus_file, folder, limit=limit, decoding=run.decoding)
            if run.leakage is None:  # the same for all snapshots
                report.on_progress(f"{run.name}: looking for the samples in the training corpus")
                run.leakage = measure_leakage(loaded, run.corpus_file, predictions)
            scores = score_predictions(predictions, run.config.task)
            metrics = compute_all_metrics(predictions, report.vectors, run.leakage, scores)
            metrics["copies"] = measure_copies(loaded, predictions, run.leakage)
            profile = _profile(f"replies at {loaded.label}", [p.reply_tokens for p in predictions], loaded)
            run.evaluations.append(Evaluation(loaded.label, loaded.step, metrics, scores, profile))
            step = max(1, predictions.samples // EXAMPLES)
            run.examples = list(itertools.islice(predictions, 0, step * EXAMPLES, step))
            if run.reference_diversity is None:  # the same for all snapshots
                _measure_references(run, loaded, predictions)
        with run.record_errors("gradients"):
            gradients = gradient_norms(loaded, run.corpus_file)
    replies = [reply.text for reply in loaded.chatbot.replies(options.asked, run.decoding)]
    column = ReplyColumn(f"at {loaded.label}", replies)
    run.snapshots.append(SnapshotMeasurements(loaded.label, column, gradients))


def _measure_references(run: RunMeasurements, loaded: LoadedRun, predictions: Predictions) -> None:
    references = [p.expected_tokens for p in predictions]
    run.reference_diversity = Diversity()
    run.reference_diversity.add(references)
    run.reference_profile = _profile("expected replies", references, loaded)
    step = max(1, predictions.samples // MAX_POINTS)
    run.test_sources = [p.source for p in itertools.islice(predictions, 0, step * MAX_POINTS, step)]


def _profile(label: str, texts: Sequence[str], loaded: LoadedRun) -> NgramProfile:
    return text_profile(label, map(str.split, texts), loaded.codecs.target.vocabulary)


def measure_text_run(run: RunMeasurements, report: Report) -> None:
    """Measure a language model at up to ``MAX_TEXT_SNAPSHOTS``, all with the same prompts and random numbers."""
    for snapshot in sample_evenly(available_snapshots(run.run), MAX_TEXT_SNAPSHOTS):
        report.on_progress(f"{run.name}: measuring snapshot {snapshot.label}")
        with run.record_errors(f"snapshot {snapshot.label}"):
            trained = load_trained_model(run.run, snapshot.name)
            generator = Generator(TensorFlowLanguageModel(trained.model), trained.codecs.source)
            prompts = report.options.questions
            texts = ["".join(generator.stream(prompt, TEXT_LENGTH, run.decoding, SEED)) for prompt in prompts]
            metrics, gradients = None, None
            with run.record_errors("evaluation"):
                metrics = evaluate_language_model(run.run, report.options.data, snapshot.name)
                gradients = _gradient_norms(run.run, trained.model, report.options.data)
            run.texts.append(TextMeasurements(snapshot.label, metrics, texts, gradients))


def _gradient_norms(run: Run, model: LanguageModel, data: str | None) -> np.ndarray | None:
    """Gradient norms by distance on passages of the text to evaluate on; None if it is too short."""
    tokens = RunningText.open(str(evaluation_corpus(run, data)), run.codecs, run.config.data).tokens
    length = min(DISTANCE, len(tokens) // PASSAGES - 1)
    if length < 1:
        return None
    passages = np.array(tokens[: PASSAGES * (length + 1)], np.int32).reshape(PASSAGES, length + 1)
    return gradient_by_distance(model, passages[:, :-1], passages[:, -1])


def sample_evenly(items: Sequence[Any], count: int = MAX_LINES) -> list[Any]:
    """Up to ``count`` evenly spaced items, including the first and the last."""
    if len(items) <= count:
        return list(items)
    return [items[(len(items) - 1) * index // (count - 1)] for index in range(count)]
