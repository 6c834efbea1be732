"""Build the report: everything that the results chapter of the thesis shows, for one or several runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path

from seq2seq_chat.config import set_decoding
from seq2seq_chat.report import chapters, evaluation_chapter, model_chapters
from seq2seq_chat.report.measure import (
    OnProgress,
    Report,
    ReportOptions,
    RunMeasurements,
    measure_run,
    measure_text_run,
    shared_vectors,
)
from seq2seq_chat.report.page import Chapter, start_page
from seq2seq_chat.report.predictions import evaluation_decoding
from seq2seq_chat.runs.find import distinct_names
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.threads import run_in_thread

Chapters = tuple[tuple[str, Callable[[Chapter, Report], None]], ...]
CHAPTERS: Chapters = (
    ("Experiment", chapters.overview),
    ("Evaluation on the test corpus", evaluation_chapter.evaluation),
    ("Language over time", chapters.language_over_time),
    ("{outputs} over time", chapters.replies_over_time),
    ("Blind evaluation", evaluation_chapter.votes),
    ("Learning curves", chapters.learning_curves),
    ("Attention", model_chapters.attention),
    ("Beam study", model_chapters.beam_study),
    ("Thought vectors", model_chapters.thought_vectors),
    ("Word embeddings", model_chapters.word_embeddings),
    ("Model internals", model_chapters.internals),
    ("Configuration", chapters.configuration),
)
TEXT_CHAPTERS: Chapters = (
    ("Experiment", chapters.overview),
    ("Loss over time", chapters.text_loss),
    ("Samples over time", chapters.texts),
    ("Learning curves", chapters.learning_curves),
    ("How far back gradients reach", chapters.text_gradients),
    ("Configuration", chapters.configuration),
)
"""The chapters on language models."""


def write_report(
    runs: Sequence[Run], options: ReportOptions, output: Path | None = None, on_progress: OnProgress = lambda text: None
) -> Path:
    """Measure the runs and write the page. Interrupted evaluations are resumed, so the same call continues a report.

    Args:
        runs: language models, or none of them.
        output: file of the page; None for ``report.html`` in the first run's folder. Figures are also written to a
            folder next to it.
        on_progress: called before each step.

    Returns:
        The file of the page.

    Raises:
        UserError: The output cannot be written, a given file cannot be read, or a decoding setting is not valid.
    """
    is_text = runs[0].config.task == "language_model"
    if any((run.config.task == "language_model") != is_text for run in runs):
        raise UserError("language models and other runs have different reports: write one for each kind")
    decide = set_decoding if is_text else evaluation_decoding
    decodings = [decide(run.config, options.overrides) for run in runs]
    vectors = None if is_text else run_in_thread(functools.partial(shared_vectors, runs, options))
    if options.sent2vec is not None and vectors is not None:
        vectors.result()  # fail now if it cannot be read
    path, page = start_page(runs, output)
    prefixes = [f"{run.name}: " if len(runs) > 1 else "" for run in runs]
    measurements = list(map(RunMeasurements, runs, distinct_names(runs), decodings, prefixes))
    report = Report(measurements, options, vectors, on_progress)
    for run in measurements:
        (measure_text_run if is_text else measure_run)(run, report)
    on_progress("drawing figures")
    for title, write in TEXT_CHAPTERS if is_text else CHAPTERS:
        write(page.chapter(title.format(outputs=report.labels.outputs.capitalize())), report)
    page.write(path, on_progress)
    return path
