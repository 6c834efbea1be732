"""All that is measured for a report: a run looked at, at every moment of its training.

What cannot be measured leaves a sentence that says why, and the rest is measured all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from seq2seq_chat.analysis.diversity import Diversity
from seq2seq_chat.analysis.evaluate import FOLDER, LIMIT, figures, test_corpus
from seq2seq_chat.analysis.inside import Gradients, gradients
from seq2seq_chat.analysis.ngrams import Language, corpus_language, language
from seq2seq_chat.analysis.predictions import Prediction, Predictions, predict
from seq2seq_chat.analysis.replies import QUESTIONS, Column, ask
from seq2seq_chat.analysis.sent2vec import Sent2Vec
from seq2seq_chat.analysis.sentence_vectors import sentence_vectors
from seq2seq_chat.analysis.subject import Subject, moments
from seq2seq_chat.errors import UserError
from seq2seq_chat.runs import Run

EXAMPLES = 24  # test samples that are shown, and whose expected replies are looked for in beams


@dataclass(frozen=True)
class Options:
    """What a person may choose about a report."""

    data: str | None = None  # corpus to evaluate on; None: each run's own
    limit: int | None = LIMIT
    sent2vec: str | None = None  # an official model; None: one is learned from the first run's corpus
    questions: Sequence[str] = QUESTIONS
    transcripts: Sequence[Column] = ()
    liked: Column | None = None  # the replies a person likes best to the questions
    most_points: int = 2000  # utterances whose thought vectors are drawn


class Moments(NamedTuple):
    """What a run was like at one moment."""

    label: str
    step: int
    figures: dict[str, Any] | None
    language: Language | None
    answers: Column
    gradients: Gradients | None


@dataclass
class Findings:
    """What was found out about a run."""

    run: Run
    subject: Subject | None = None  # with the newest weights, once all moments were looked at
    corpus_file: str | Path | None = None
    moments: list[Moments] = field(default_factory=list)
    corpus: Language | None = None
    expected: Language | None = None
    people: Diversity | None = None  # of the expected replies
    examples: list[Prediction] = field(default_factory=list)
    test_sources: list[str] = field(default_factory=list)
    faults: dict[str, str] = field(default_factory=dict)  # by part, each told once

    @contextmanager
    def attempt(self, part: str) -> Iterator[None]:
        """Go on where a part cannot be found out, and remember why."""
        try:
            yield
        except UserError as fault:
            self.faults.setdefault(part, str(fault))


def shared_vectors(runs: Sequence[Run], options: Options) -> tuple[Sent2Vec | None, str]:
    """The sentence vectors for all runs, as distances compare only where they are the same; or why there are none.

    Raises:
        UserError: the model that was named cannot be used.
    """
    if options.sent2vec is not None:
        return sentence_vectors(runs[0], runs[0].path / FOLDER, options.sent2vec)
    origin = ""
    for run in runs:
        try:
            vectors, origin = sentence_vectors(run, run.path / FOLDER)
            return vectors, origin if len(runs) == 1 else origin.replace("this run's", f"{run.name}'s")
        except UserError as fault:
            origin = str(fault)
    return None, origin


def find_out(
    run: Run,
    options: Options,
    vectors: Sent2Vec | None,
    tell: Callable[[str], object],
    warn: Callable[[str], object],
) -> Findings:
    """Look at a run at every moment whose weights are there."""
    found = Findings(run)
    with found.attempt("evaluation"):
        found.corpus_file = test_corpus(run, options.data)
    with found.attempt("language"):
        tell(f"{run.name}: counting the training corpus")
        found.corpus = corpus_language(run)
    there = moments(run)
    for moment in there:
        with found.attempt(f"snapshot {moment.label}"):
            if found.subject is None:
                found.subject = Subject(run, moment.snapshot, warn)
            found.subject.go_to(moment.snapshot)
            tell(f"{run.name}: evaluating at {moment.label}")
            found.moments.append(_at_moment(found, found.subject, options, vectors))
    with found.attempt("model"):
        if found.subject is None:
            found.subject = Subject(run, None, warn)  # which tells why there is none
    return found


def _at_moment(found: Findings, subject: Subject, options: Options, vectors: Sent2Vec | None) -> Moments:
    measured, spoken, slopes = None, None, None
    data = subject.config.data
    with found.attempt("evaluation"):
        if found.corpus_file is not None:
            predictions = predict(subject, found.corpus_file, found.run.path / FOLDER, limit=options.limit)
            measured = figures(predictions, vectors)
            spoken = language(
                f"replies at {subject.label}", (p.reply for p in predictions), subject.vocabulary, data.level
            )
            _look_at_expected(found, subject, predictions, options)
    with found.attempt("gradients"):
        if found.corpus_file is not None:
            slopes = gradients(subject, found.corpus_file)
    answers = ask(subject, options.questions, f"at {subject.label}")
    return Moments(subject.label, subject.step, measured, spoken, answers, slopes)


def _look_at_expected(found: Findings, subject: Subject, predictions: Predictions, options: Options) -> None:
    """The expected replies, which are the same at all moments, and some samples of the newest one."""
    step = max(1, predictions.samples // EXAMPLES)
    found.examples = [p for place, p in enumerate(predictions) if place % step == 0][:EXAMPLES]
    if found.people is None:
        level = subject.config.data.level
        found.people = Diversity()
        found.people.add(p.expected for p in predictions)
        found.expected = language("expected replies", (p.expected for p in predictions), subject.vocabulary, level)
        step = max(1, predictions.samples // options.most_points)
        sources = [p.source for place, p in enumerate(predictions) if place % step == 0]
        found.test_sources = sources[: options.most_points]
