"""`seq2seq-chat report`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from seq2seq_chat.cli.options import (
    data_option,
    decoding_option,
    ensure_readable,
    ensure_trained,
    ensure_unused,
    limit_option,
    results_option,
    sent2vec_option,
)
from seq2seq_chat.system.signals import explain_interrupt

if TYPE_CHECKING:
    from seq2seq_chat.runs.run import Run


@click.command()
@click.argument("run_names", nargs=-1, required=True, metavar="RUN...")
@data_option
@limit_option
@decoding_option
@sent2vec_option
@click.option(
    "--questions",
    metavar="FILE",
    help="What to reply to, or to continue, at every snapshot, one per line.",
)
@click.option(
    "--transcript",
    "transcripts",
    multiple=True,
    metavar="FILE",
    help="Replies of another system: lines of question<TAB>reply, or one reply per line. Without --questions, its "
    "questions are asked, too. Can be repeated.",
)
@click.option(
    "--liked", metavar="FILE", help="The replies you like best, as a transcript: shows their ranks in the widest beam."
)
@click.option("--output", metavar="FILE", help="HTML file to write.  [default: report.html in the first run's folder]")
@results_option
def report(
    run_names: tuple[str, ...],
    data: str | None,
    limit: int | None,
    overrides: tuple[str, ...],
    sent2vec: str | None,
    questions: str | None,
    transcripts: tuple[str, ...],
    liked: str | None,
    output: str | None,
    results: str,
) -> None:
    """Write a report on RUNs as one HTML page.

    The last line printed is its path. The page shows metrics on the test corpus, language and replies at every
    snapshot, learning curves, attention, beams, thought vectors, word embeddings, gates and gradients. If something is
    missing, it says why. Replies are searched for with the decoding settings of each run unless --set changes them; the
    captions say which. The figures are also written as files next to the page. The report on language models shows
    their loss and what they write at every snapshot.
    """
    from seq2seq_chat.runs.find import find_run
    from seq2seq_chat.system.versions import load_tensorflow

    runs = [find_run(name, results) for name in dict.fromkeys(run_names)]
    for run in runs:
        ensure_trained(run, "report")
    ensure_readable(data)
    load_tensorflow()
    if any(run.config.task == "language_model" for run in runs):
        report_on_texts(runs, questions, data, output, overrides)
        return
    from seq2seq_chat.report.build import write_report
    from seq2seq_chat.report.measure import ReportOptions
    from seq2seq_chat.report.predictions import (
        default_questions,
        further_questions,
        read_questions,
        read_transcript,
    )

    utterances = read_questions(questions) if questions is not None else default_questions(runs[0], data)
    others = [read_transcript(file, utterances) for file in transcripts]
    further = further_questions(others, utterances) if questions is None else []
    options = ReportOptions(
        data=data,
        limit=limit,
        overrides=overrides,
        sent2vec=sent2vec,
        questions=utterances,
        further_questions=further,
        transcripts=[transcript.column([*utterances, *further]) for transcript in others],
        favorites=read_transcript(liked, utterances).column(utterances) if liked else None,
    )
    with explain_interrupt(lambda: "run the same command again to continue; finished replies are kept"):
        page = write_report(runs, options, Path(output) if output else None, click.echo)
    click.echo(page)


def report_on_texts(
    runs: Sequence[Run], prompts: str | None, data: str | None, output: str | None, overrides: Sequence[str]
) -> None:
    """Write a report on language models; ``prompts`` is a file with one per line. Raises UserError."""
    from seq2seq_chat.report.language_model_chapters import ensure_same_kind, write_text_report
    from seq2seq_chat.report.predictions import read_questions

    ensure_same_kind(runs)
    ensure_unused(runs[0].name, "limit", "sent2vec", "transcripts", "liked")
    texts = read_questions(prompts) if prompts is not None else None
    click.echo(write_text_report(runs, texts, data, Path(output) if output else None, click.echo, overrides))
