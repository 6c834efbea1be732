"""Compare the replies of runs, snapshots and other systems to the same questions.

python scripts/compare_replies.py latest                                 # every snapshot of one run
python scripts/compare_replies.py run_a run_b --transcript cleverbot.txt # newest weights, and a transcript

A transcript contains lines of question<TAB>reply, or one reply per line in the order of the questions.
"""

from __future__ import annotations

import csv
import io

import click
from picture_script import Pictures, picture_options, results_option

from seq2seq_chat.cli.running import run_command
from seq2seq_chat.runs.find import distinct_names, find_run
from seq2seq_chat.system.files import write_atomically
from seq2seq_chat.system.tables import format_table
from seq2seq_chat.system.versions import load_tensorflow


@click.command(help=__doc__)
@click.argument("runs", nargs=-1, required=True)
@click.option("--questions", metavar="FILE", help="Utterances to reply to, one per line.")
@click.option("--transcript", "transcripts", multiple=True, metavar="FILE", help="Replies of another system.")
@results_option
@picture_options
def main(
    runs: tuple[str, ...], questions: str | None, transcripts: tuple[str, ...], results: str, pictures: Pictures
) -> None:
    """Print a table of replies, and write it to replies.csv and as a picture."""
    trained_runs = [find_run(name, results) for name in runs]
    load_tensorflow()
    from seq2seq_chat.analysis.figures.replies import draw_replies
    from seq2seq_chat.analysis.loaded_run import LoadedRun, available_snapshots
    from seq2seq_chat.analysis.replies import read_questions, read_transcript, reply_to_all

    utterances = read_questions(questions)
    others = [read_transcript(file, utterances) for file in transcripts]
    columns = []
    for run, name in zip(trained_runs, distinct_names(trained_runs), strict=True):
        snapshots = available_snapshots(run)
        loaded = LoadedRun(run, snapshots[-1].name if snapshots else None)
        for snapshot in snapshots if len(trained_runs) == 1 else snapshots[-1:]:
            loaded.load_snapshot(snapshot.name)
            columns.append(reply_to_all(loaded, utterances, f"{name}, {snapshot.label}"))
    columns += others
    stream = io.StringIO()
    table = csv.writer(stream)
    table.writerow(["utterance", *(column.label for column in columns)])
    for number, utterance in enumerate(utterances):
        click.echo(utterance)
        click.echo(format_table([("", column.label, column.replies[number] or "(empty)") for column in columns]))
        table.writerow([utterance, *(column.replies[number] for column in columns)])
    path = pictures.folder() / "replies.csv"
    write_atomically(path, stream.getvalue())
    click.echo(f"written: {path}")
    pictures.write(draw_replies(utterances, columns), "replies", main=True)


if __name__ == "__main__":
    run_command(main)
