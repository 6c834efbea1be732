"""`seq2seq-chat export` and `seq2seq-chat average`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seq2seq_chat.cli.options import ensure_trained, results_option, run_argument, snapshot_option
from seq2seq_chat.system.errors import UserError

if TYPE_CHECKING:
    from seq2seq_chat.export.html.export import Assets
    from seq2seq_chat.runs.run import Run


@click.command()
@run_argument
@click.option("--output", required=True, metavar="DIR", help="Folder to create; if it exists, it must be empty.")
@click.option(
    "--format",
    "export_format",
    type=click.Choice(["saved_model", "onnx", "html"]),
    default="saved_model",
    show_default=True,
    help="What to write.",
)
@click.option("--quantize", type=click.Choice(["int8"]), help="onnx: store weights as 8-bit integers.")
@click.option("--beam-width", type=click.IntRange(1, 1000), metavar="N", help="Hypotheses of the beam search.")
@click.option("--n-best", type=click.IntRange(1, 1000), metavar="N", help="Replies that the beam search returns.")
@snapshot_option
@results_option
def export(
    run_name: str,
    output: str,
    export_format: str,
    quantize: str | None,
    beam_width: int | None,
    n_best: int | None,
    snapshot: str | None,
    results: str,
) -> None:
    """Export RUN for other programs.

    A TensorFlow SavedModel maps strings to replies in any program with TensorFlow. Its signatures `greedy` and `beam`
    give the same replies as `chat`; vocabularies, search and, except for unicode and subword, tokenizers are included.
    A language model has the signatures `generate` and `score`.

    With --format onnx, DIR has ONNX graphs of the encoder and of a step of the decoder. It can be used as a RUN, even
    where TensorFlow is not installed.

    With --format html, DIR has one file, index.html, a page that talks in any current browser, without a server or
    network.
    """
    from seq2seq_chat.runs.find import find_run
    from seq2seq_chat.system.versions import load_tensorflow

    run = find_run(run_name, results)
    ensure_trained(run, "export")
    if quantize and export_format != "onnx":
        raise UserError("--quantize is for --format onnx; omit it, or choose that format")
    if export_format != "saved_model" and (beam_width or n_best):
        raise UserError("--beam-width and --n-best are for --format saved_model; omit them and choose at run time")
    if run.config.task == "language_model" and (beam_width or n_best):
        raise UserError(f"run {run.name} is a language model, which has no beam search: omit --beam-width and --n-best")
    if export_format == "onnx":
        _export_onnx(run, output, snapshot, quantize)
        return
    load_tensorflow()
    if export_format == "html":
        _export_html(run, output, snapshot)
    else:
        _export_saved_model(run, output, snapshot, beam_width, n_best)


def _export_saved_model(
    run: Run, output: str, snapshot: str | None, beam_width: int | None, n_best: int | None
) -> None:
    from seq2seq_chat.export.saved_model.export import export_saved_model, tokens_note, usage_example

    about = export_saved_model(run, output, snapshot, beam_width, n_best)
    _print_summary(output, about)
    if note := tokens_note(about):
        click.echo(f"{note}\n")
    click.echo(usage_example(output, about), nl=False)


def _export_html(run: Run, output: str, snapshot: str | None) -> None:
    from seq2seq_chat.export.html.export import export_page

    file = export_page(run, output, _page_assets(), snapshot)
    click.echo(f"{file}: {run.name}, {snapshot or 'latest'}, {file.stat().st_size / 1e6:.1f} MB; open it in a browser")


def _page_assets() -> Assets:
    """What a page takes from the web UI."""
    import flask_bootstrap

    import webui
    from seq2seq_chat.export.html.export import Assets
    from webui.decoding_options import decoding_options, default_settings
    from webui.limits import Limits

    folder, limits = Path(webui.__file__).parent, Limits()
    return Assets(
        templates=folder / "templates",
        static=folder / "static",
        bootstrap=Path(flask_bootstrap.__file__).parent / "static" / "bootstrap5",
        limits=limits,
        options=decoding_options(limits),
        default_settings=lambda decoding: default_settings(decoding, limits),
    )


def _export_onnx(run: Run, output: str, snapshot: str | None, quantize: str | None) -> None:
    from seq2seq_chat.export.onnx import export_onnx

    about = export_onnx(run, output, snapshot, quantize)
    verb = "generate" if about["task"] == "language_model" else "chat"
    _print_summary(output, about)
    click.echo(f"seq2seq-chat {verb} {shlex.quote(output)}")


def _print_summary(output: str, about: dict[str, Any]) -> None:
    click.echo(f"{output}: {about['run']}, {about['snapshot']} (step {about['step']:,}), ", nl=False)
    click.echo(f"{about['vocabulary_size']:,} tokens, {about['parameters']:,} parameters; to use it:\n")


@click.command()
@run_argument
@click.option("--last", type=click.IntRange(2), metavar="N", help="The N newest weights.  [default: all]")
@click.option("--best", type=click.IntRange(2), metavar="N", help="The N weights with the lowest validation loss.")
@click.option("--output", required=True, metavar="NAME", help="Name of the new run, or a folder with a slash.")
@results_option
def average(run_name: str, last: int | None, best: int | None, output: str, results: str) -> None:
    """Average the weights of several checkpoints and snapshots of RUN.

    The mean of weights from the end of training is often better than the best of them. It becomes a run of its own,
    which can be used like any other, but not trained further.
    """
    from seq2seq_chat.checkpoint.arrays import average_weights, steps_to_average
    from seq2seq_chat.runs.find import find_run

    if last is not None and best is not None:
        raise click.UsageError("--last and --best cannot be used together")
    run = find_run(run_name, results)
    ensure_trained(run, "average")
    steps = steps_to_average(run, last, best)
    averaged = average_weights(run, steps, Path(output) if "/" in output else Path(results, output))
    click.echo(f"averaged {len(steps)} weights of {run.name}, of steps {', '.join(f'{step:,}' for step in steps)}")
    click.echo(averaged.path)
