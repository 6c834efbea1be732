"""Build the report: everything that the results chapter of the thesis shows, for one or several runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from seq2seq_chat.report import chapters, evaluation_chapter, model_chapters
from seq2seq_chat.report import evaluation_chapter as votes_chapter
from seq2seq_chat.report.measure import (
    OnProgress,
    Report,
    ReportOptions,
    RunMeasurements,
    measure_run,
    shared_vectors,
)
from seq2seq_chat.report.page import Page, start_page
from seq2seq_chat.report.predictions import evaluation_decoding
from seq2seq_chat.runs.find import distinct_names
from seq2seq_chat.runs.run import Run

CHAPTERS: tuple[Callable[[Page, Report], None], ...] = (
    chapters.overview,
    evaluation_chapter.evaluation,
    chapters.language_over_time,
    chapters.replies_over_time,
    votes_chapter.votes,
    chapters.learning_curves,
    model_chapters.attention,
    model_chapters.beam_study,
    model_chapters.thought_vectors,
    model_chapters.word_embeddings,
    model_chapters.internals,
    chapters.configuration,
)


def write_report(
    runs: Sequence[Run],
    options: ReportOptions,
    output: Path | None = None,
    on_progress: OnProgress = lambda text: None,
) -> Path:
    """Measure the runs and write the page. Interrupted evaluations are resumed, so the same call continues a report.

    Args:
        output: file of the page; None for ``report.html`` in the first run's folder. Figures are also written to a
            folder next to it.
        on_progress: called before each step.

    Returns:
        The file of the page.

    Raises:
        UserError: The output cannot be written, a given file cannot be read, or a decoding setting is not valid.
    """
    decodings = [evaluation_decoding(run.config, options.overrides) for run in runs]
    path, page = start_page(runs, output)
    on_progress("loading sentence vectors")
    vectors, origin = shared_vectors(runs, options)
    measurements = list(map(RunMeasurements, runs, distinct_names(runs), decodings))
    for run in measurements:
        measure_run(run, options, vectors, on_progress)
    on_progress("drawing figures")
    report = Report(measurements, options, vectors, origin, on_progress)
    for chapter in CHAPTERS:
        chapter(page, report)
    page.write(path, on_progress)
    return path
