"""`seq2seq-chat export`."""

from __future__ import annotations

from typing import Optional

import click

from seq2seq_chat.cli.options import results_option, snapshot_option, warn


@click.command()
@click.argument("run", metavar="RUN")
@click.option("--output", required=True, metavar="DIR", help="Folder to be made; it must not exist, or be empty.")
@click.option("--beam-width", type=click.IntRange(1, 1000), metavar="N", help="Hypotheses of the beam.")
@click.option("--n-best", type=click.IntRange(1, 1000), metavar="N", help="Replies that the beam returns.")
@snapshot_option
@results_option
def export(
    run: str, output: str, beam_width: Optional[int], n_best: Optional[int], snapshot: Optional[str], results: str
) -> None:
    """Write RUN as a TensorFlow SavedModel, which answers strings with strings in any program with TensorFlow.

    It has two signatures, `greedy` and `beam`, which say what `chat` says; words, tokenising and search are inside.
    """
    from seq2seq_chat.environment import load_tensorflow
    from seq2seq_chat.runs import find_run

    found = find_run(run, results)
    load_tensorflow()
    from seq2seq_chat.exporting.folder import export_run, snippet

    about = export_run(found, output, snapshot, beam_width, n_best, warn)
    click.echo(f"{output}: {about['run']}, {about['snapshot']} (step {about['step']:,}), ", nl=False)
    click.echo(f"{about['vocabulary_size']:,} words, {about['parameters']:,} parameters; to use it:\n")
    click.echo(snippet(output, about), nl=False)
