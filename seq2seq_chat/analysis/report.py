"""Everything the thesis's results chapter shows, for one run or several, as one page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from seq2seq_chat.analysis import chapters, model_chapters
from seq2seq_chat.analysis.findings import Options, find_out, shared_vectors
from seq2seq_chat.analysis.page import Page
from seq2seq_chat.atomic import told_as_user_error
from seq2seq_chat.errors import UserError
from seq2seq_chat.runs import Run

FILE, PICTURES = "report.html", "report"


def write_report(
    runs: Sequence[Run],
    options: Options,
    output: Path | None = None,
    tell: Callable[[str], object] = lambda text: None,
    warn: Callable[[str], object] = lambda text: None,
) -> Path:
    """Measure and write. Evaluations that were stopped go on, so a report that was stopped may be asked for again.

    Args:
        output: the page's file; else ``report.html`` in the first run's folder. Pictures lie beside it as well.
        tell: is told what is being done.
        warn: is told of damaged files that others stand in for.

    Returns:
        the page's file.

    Raises:
        UserError: nothing can be written, or a file that was named cannot be used.
    """
    path = output or runs[0].path / FILE
    if not path.absolute().parent.is_dir():
        raise UserError(f"{path}: its folder does not exist; make it first")
    for run in runs:
        _ = run.config, run.vocabulary  # a damaged folder is told at once
    tell("sentence vectors")
    vectors, origin = shared_vectors(runs, options)
    pictures = path.with_name(PICTURES if path.name == FILE else path.stem + "_pictures")
    with told_as_user_error(pictures):  # before hours of measuring, not after them
        pictures.mkdir(exist_ok=True)
    found = [find_out(run, options, vectors, tell, warn) for run in runs]
    names = ", ".join(run.config.name for run in runs)
    page = Page(f"Report on {names}", pictures)
    tell("drawing")
    chapters.overview(page, found)
    chapters.evaluation(page, found, origin)
    chapters.language_over_time(page, found)
    chapters.replies_over_time(page, found, options)
    chapters.learning_curves(page, found)
    model_chapters.attention(page, found, options)
    model_chapters.beam_study(page, found, options, vectors, tell)
    model_chapters.thoughts(page, found, options, tell)
    model_chapters.words(page, found, tell)
    model_chapters.model_inside(page, found, options)
    chapters.how_it_was_made(page, found)
    page.write(path, tell)
    return path
