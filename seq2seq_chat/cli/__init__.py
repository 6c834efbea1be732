"""The command line: `seq2seq-chat VERB …`, with one module per verb.

A verb parses its arguments, calls one function of the package and prints the result. Modules that need TensorFlow are
imported inside the verbs, so that `--help` is fast.
"""

from __future__ import annotations

import io
import signal
import sys
from contextlib import suppress
from typing import NoReturn

import click

from seq2seq_chat import __version__
from seq2seq_chat.cli.chat import chat
from seq2seq_chat.cli.check import check
from seq2seq_chat.cli.evaluate import evaluate
from seq2seq_chat.cli.experiments import experiments
from seq2seq_chat.cli.export import export
from seq2seq_chat.cli.options import FAILED, INVALID_INPUT, exit_with, log_to_stderr
from seq2seq_chat.cli.prepare import prepare
from seq2seq_chat.cli.report import report
from seq2seq_chat.cli.schema import schema
from seq2seq_chat.cli.serve import serve
from seq2seq_chat.cli.streams import discard_if_unwritable, is_write_error, open_missing_streams
from seq2seq_chat.cli.train import train
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.signals import Terminated, sigterm_as_interrupt


def main() -> NoReturn:
    """Run the command line: print an error as one line on stderr and set the exit status."""
    open_missing_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # characters that the terminal cannot display
    log_to_stderr()
    try:
        _run()
    except OSError as error:
        if not is_write_error(error):
            raise
        with suppress(OSError):
            if not isinstance(error, BrokenPipeError):
                exit_with(f"could not write the output: {error.strerror}", FAILED)
        sys.exit(FAILED)
    finally:
        for stream in (sys.stdout, sys.stderr):
            discard_if_unwritable(stream)


def _run() -> NoReturn:
    """Run the verb. Raises OSError if its output cannot be written."""
    try:
        with sigterm_as_interrupt():
            commands(standalone_mode=False)
        sys.stdout.flush()
    except UserError as error:
        exit_with(str(error), INVALID_INPUT)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt) as stop:
        reason = stop.__cause__ if isinstance(stop, click.Abort) else stop
        message = "; ".join(["stopped", *(str(note) for note in (reason.args if reason else ()))])
        exit_with(message, 128 + (signal.SIGTERM if isinstance(reason, Terminated) else signal.SIGINT))
    sys.exit(0)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="seq2seq-chat")
def commands() -> None:
    """Train, check, analyze and talk to recurrent sequence-to-sequence models.

    RUN is the folder of a training run, the name of one below results/, a unique prefix of the name, or `latest`.
    """


for verb in (chat, check, evaluate, experiments, export, prepare, report, schema, serve, train):
    commands.add_command(verb)
