"""The command line: `seq2seq-chat VERB …`, with a module for each verb or two.

A verb parses its arguments, calls one function of the package and prints the result. Modules that need TensorFlow are
imported inside the verbs, so that `--help` is fast.
"""

from __future__ import annotations

from typing import Literal, NoReturn

import click

from seq2seq_chat import __version__
from seq2seq_chat.cli.chat import chat, generate
from seq2seq_chat.cli.check import check
from seq2seq_chat.cli.evaluate import evaluate, report
from seq2seq_chat.cli.experiments import experiments
from seq2seq_chat.cli.export import average, export
from seq2seq_chat.cli.options import ensure_can_create, run_command
from seq2seq_chat.cli.prepare import prepare
from seq2seq_chat.cli.score import score
from seq2seq_chat.cli.serve import serve
from seq2seq_chat.cli.train import train
from seq2seq_chat.system.versions import describe_installation


def main() -> NoReturn:
    run_command(commands)


def _print_version(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        click.echo("\n".join([f"seq2seq-chat, version {__version__}", *describe_installation()]))
        context.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the versions and the hardware, for a bug report, and exit.",
)
def commands() -> None:
    """Train, check, analyze and talk to recurrent sequence-to-sequence models.

    RUN is the folder of a training run, the name of one below results/, a unique prefix of the name, or `latest`.
    """


@commands.command()
@click.option("--format", "output_format", type=click.Choice(["json", "markdown"]), default="json", show_default=True)
@click.option("--output", metavar="FILE", help="Write to FILE.  [default: stdout]")
def schema(output_format: Literal["json", "markdown"], output: str | None) -> None:
    """Print the reference of all settings.

    As a JSON schema, which editors use for completion and validation, or as Markdown.
    """
    from seq2seq_chat.config import json_schema, settings_reference
    from seq2seq_chat.system.files import write_atomically

    ensure_can_create("--output", output)
    text = json_schema() if output_format == "json" else settings_reference()
    if output is None:
        click.echo(text, nl=False)
    else:
        write_atomically(output, text)


for verb in (average, chat, check, evaluate, experiments, export, generate, prepare, report, score, serve, train):
    commands.add_command(verb)
