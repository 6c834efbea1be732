"""`seq2seq-chat export`."""

from __future__ import annotations

import click

from seq2seq_chat.cli.options import results_option, run_argument, snapshot_option
from seq2seq_chat.system.errors import UserError


@click.command()
@run_argument
@click.option("--output", required=True, metavar="DIR", help="Folder to create; it must be missing or empty.")
@click.option("--beam-width", type=click.IntRange(1, 1000), metavar="N", help="Hypotheses of the beam search.")
@click.option("--n-best", type=click.IntRange(1, 1000), metavar="N", help="Replies that the beam search returns.")
@snapshot_option
@results_option
def export(
    run_name: str, output: str, beam_width: int | None, n_best: int | None, snapshot: str | None, results: str
) -> None:
    """Export RUN as a TensorFlow SavedModel.

    It maps strings to replies in any program with TensorFlow. Its signatures `greedy` and `beam` give the same replies
    as `chat`; vocabularies, search and, except for unicode and subword, tokenizers are included. A language model has
    the signatures `generate` and `score`.
    """
    from seq2seq_chat.runs.find import find_run
    from seq2seq_chat.system.versions import load_tensorflow

    run = find_run(run_name, results)
    is_language_model = run.config.task == "language_model"
    if is_language_model and (beam_width or n_best):
        raise UserError(f"run {run.name} is a language model, which has no beam search: omit --beam-width and --n-best")
    load_tensorflow()
    from seq2seq_chat.export.saved_model import export_saved_model
    from seq2seq_chat.export.usage import generation_example, tokens_note, usage_example

    about = export_saved_model(run, output, snapshot, beam_width, n_best)
    click.echo(f"{output}: {about['run']}, {about['snapshot']} (step {about['step']:,}), ", nl=False)
    click.echo(f"{about['vocabulary_size']:,} words, {about['parameters']:,} parameters; to use it:\n")
    if note := tokens_note(about):
        click.echo(f"{note}\n")
    example = generation_example if is_language_model else usage_example
    click.echo(example(output, about), nl=False)
