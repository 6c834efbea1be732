"""Compare what runs, their snapshots and others answer to the same questions.

python scripts/compare_replies.py latest                                 # every snapshot of one run
python scripts/compare_replies.py run_a run_b --transcript cleverbot.txt # newest weights, and a transcript

A transcript has lines of question<TAB>answer, or an answer a line in the order of the questions.
"""

from __future__ import annotations

import csv
import io
from typing import Optional

import click
from matplotlib.figure import Figure
from picture_script import Pictures, picture_options, results_option, warn

from seq2seq_chat.atomic import atomic_write
from seq2seq_chat.environment import load_tensorflow
from seq2seq_chat.runs import find_run


@click.command(help=__doc__)
@click.argument("runs", nargs=-1, required=True)
@click.option("--questions", metavar="FILE", help="Utterances to ask, one a line.")
@click.option("--transcript", "transcripts", multiple=True, metavar="FILE", help="Somebody else's answers.")
@results_option
@picture_options
def main(
    runs: tuple[str, ...], questions: Optional[str], transcripts: tuple[str, ...], results: str, pictures: Pictures
) -> None:
    """Print a table of answers, and write it as replies.csv and as a picture."""
    found = [find_run(name, results) for name in runs]
    load_tensorflow()
    from seq2seq_chat.analysis.replies import ask, draw_replies, read_questions, read_transcript
    from seq2seq_chat.analysis.subject import Subject, moments

    asked = read_questions(questions)
    others = [read_transcript(file, asked) for file in transcripts]
    columns = []
    for run in found:
        there = moments(run)
        if len(found) > 1:
            there = there[-1:]
        subject: Optional[Subject] = None
        for snapshot, label in [(m.snapshot, m.label) for m in there] or [(None, "")]:
            if subject is None:
                subject = Subject(run, snapshot, warn)
            elif snapshot:
                subject.go_to(snapshot)
            columns.append(ask(subject, asked, f"{run.config.name}, {label}"))
    columns += others
    stream = io.StringIO()
    table = csv.writer(stream)
    table.writerow(["utterance", *(column.label for column in columns)])
    for number, question in enumerate(asked):
        click.echo(question)
        for column in columns:
            click.echo(f"  {column.label:<24} {column.answers[number] or '(nothing)'}")
        table.writerow([question, *(column.answers[number] for column in columns)])
    path = pictures.folder() / "replies.csv"
    with atomic_write(path) as file:
        file.write(stream.getvalue())
    click.echo(f"written: {path}")
    figure: Figure = draw_replies(asked, columns)
    pictures.write(figure, "replies", main=True)


if __name__ == "__main__":
    main()
