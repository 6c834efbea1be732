"""The command line: `seq2seq-chat VERB …`, with one module per verb.

A verb parses its arguments, calls one function of the package and prints the result. Modules that need TensorFlow are
imported inside the verbs, so that `--help` is fast.
"""

from __future__ import annotations

from typing import NoReturn

import click

from seq2seq_chat import __version__
from seq2seq_chat.cli.chat import chat
from seq2seq_chat.cli.check import check
from seq2seq_chat.cli.evaluate import evaluate
from seq2seq_chat.cli.experiments import experiments
from seq2seq_chat.cli.export import export
from seq2seq_chat.cli.generate import generate
from seq2seq_chat.cli.options import run_command
from seq2seq_chat.cli.prepare import prepare
from seq2seq_chat.cli.report import report
from seq2seq_chat.cli.schema import schema
from seq2seq_chat.cli.serve import serve
from seq2seq_chat.cli.train import train


def main() -> NoReturn:
    """Run the command line."""
    run_command(commands)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="seq2seq-chat")
def commands() -> None:
    """Train, check, analyze and talk to recurrent sequence-to-sequence models.

    RUN is the folder of a training run, the name of one below results/, a unique prefix of the name, or `latest`.
    """


for verb in (chat, check, evaluate, experiments, export, generate, prepare, report, schema, serve, train):
    commands.add_command(verb)
