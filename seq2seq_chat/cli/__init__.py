"""The command line: `seq2seq-chat VERB …`.

A verb reads its arguments, calls one function of the package and prints what it returns. Modules that need TensorFlow
are imported inside the verbs, so that `--help` answers at once.
"""

from __future__ import annotations

import io
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Optional

import click

from seq2seq_chat import __version__
from seq2seq_chat.cli.analysis import evaluate, report
from seq2seq_chat.cli.experiments import experiments
from seq2seq_chat.cli.export import export
from seq2seq_chat.cli.options import (
    FAILED,
    WRONG_INPUT,
    ensure_folder,
    exit_with,
    results_option,
    snapshot_option,
    warn,
)
from seq2seq_chat.cli.prepare import prepare
from seq2seq_chat.cli.train import train
from seq2seq_chat.errors import UserError
from seq2seq_chat.termination import Terminated, terminated_like_interrupted

if TYPE_CHECKING:
    from seq2seq_chat.config import Decoding


def main() -> NoReturn:
    """Run the command line; every error that is meant for people becomes a sentence on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character must not end a training
    try:
        with terminated_like_interrupted():
            commands(standalone_mode=False)
    except UserError as error:
        exit_with(str(error), WRONG_INPUT)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt) as stop:
        reason = stop.__cause__ if isinstance(stop, click.Abort) else stop
        exit_with("stopped", 128 + (signal.SIGTERM if isinstance(reason, Terminated) else signal.SIGINT))
    sys.exit(0)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="seq2seq-chat")
def commands() -> None:
    """Train, check, analyse and talk to conversational sequence-to-sequence models.

    A RUN is the folder of a training, the name of one below results/, the beginning of a name, or `latest`.
    """


@commands.command()
@click.argument("run", metavar="RUN")
@click.option("--beam-width", type=click.IntRange(1, 1000), metavar="N", help="Beam search with N hypotheses.")
@click.option("--n-best", type=click.IntRange(1, 1000), metavar="N", help="Show the N best replies with their scores.")
@snapshot_option
@results_option
def chat(run: str, beam_width: Optional[int], n_best: Optional[int], snapshot: Optional[str], results: str) -> None:
    """Talk to a trained RUN in the terminal.

    When the input is no terminal: one utterance a line in, one reply a line out (with --n-best N: up to N lines
    `score<TAB>reply` and an empty line).
    """
    from seq2seq_chat.environment import load_tensorflow
    from seq2seq_chat.runs import find_run

    found = find_run(run, results)
    decoding = _decoding(found.config.decoding, beam_width, n_best)
    load_tensorflow()
    from seq2seq_chat.chatbot import Chatbot
    from seq2seq_chat.terminal import answer_lines, converse

    bot = Chatbot.load(found, snapshot, warn)
    if sys.stdin.isatty():
        converse(bot, decoding, n_best is not None)
    else:
        answer_lines(bot, decoding, n_best is not None, sys.stdin.buffer, sys.stdout)


def _decoding(decoding: Decoding, beam_width: Optional[int], n_best: Optional[int]) -> Decoding:
    """The run's way of decoding, with what was asked for on the command line."""
    from seq2seq_chat.config import decoding_with

    if beam_width is None and n_best is None:
        return decoding
    width = beam_width or max(decoding.beam_width, n_best or 1)
    return decoding_with(decoding, method="beam", beam_width=width, n_best=n_best or 1)


@commands.command()
@results_option
@click.option(
    "--host",
    envvar="SEQ2SEQ_CHAT_HOST",
    default="127.0.0.1",
    show_default=True,
    show_envvar=True,
    help="Where to listen.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=9001, show_default=True, help="0: any free one.")
@click.option(
    "--token",
    envvar="SEQ2SEQ_CHAT_TOKEN",
    show_envvar=True,
    metavar="TEXT",
    help="Whoever asks must know it.  [default: none on 127.0.0.1, else made up]",
)
@click.option("--models", type=click.IntRange(1, 100), default=4, show_default=True, help="Models in memory at once.")
@click.option("--waiting", type=click.IntRange(1, 1000), default=64, show_default=True, help="People who wait for one.")
@click.option("--cores", type=click.IntRange(1, 1024), help="Cores for a batch.  [default: as suits the models]")
def serve(
    results: str, host: str, port: int, token: Optional[str], models: int, waiting: int, cores: Optional[int]
) -> None:
    """Talk to all runs in a web page, and watch them learn; also an HTTP interface for programs."""
    from seq2seq_chat.environment import load_tensorflow

    if token is not None and (not token or not token.isascii() or not token.isprintable() or " " in token):
        raise UserError("--token: use letters, digits and punctuation, without spaces")
    load_tensorflow()
    from webui.limits import Limits
    from webui.server import serve as serve_pages

    limits = Limits(models=models, waiting=waiting, waiting_in_all=max(160, 2 * waiting))
    serve_pages(results, host, port, token, limits, cores, click.echo, warn)


@commands.command()
@click.argument("config", metavar="CONFIG")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a setting.")
@click.option("--only", multiple=True, metavar="NAME", help="Run this check only; may be given several times.")
@click.option("--fast", is_flag=True, help="Copy sequences of at most 10 symbols, not 40.")
@click.option("--full-size", is_flag=True, help="Use the hidden, embedding and projection sizes of CONFIG.")
@click.option("--json", "json_file", metavar="FILE", help="Write the verdicts to a file as well.")
@results_option
def check(
    config: str,
    overrides: tuple[str, ...],
    only: tuple[str, ...],
    fast: bool,
    full_size: bool,
    json_file: Optional[str],
    results: str,
) -> None:
    """Check that the model of CONFIG can learn, before training it for weeks; exit status 1 if a check fails.

    \b
    data           files, vocabulary coverage, cut samples, overlap of train and test
    memory         does the training fit?
    initial-loss   an untrained model finds all words equally likely
    gradients      finite, reaching every unit, clipped
    padding        neither padding nor the rest of a batch changes a loss or a reply
    save-and-load  a fresh process gives the same bits and goes on learning
    decoding       greedy and beam search agree with each other and with the loss
    overfitting    a few dozen samples are learned by heart
    copy-task      sequences are copied exactly
    """
    from seq2seq_chat.config import load_config
    from seq2seq_chat.environment import load_tensorflow

    settings = load_config(config, overrides)
    ensure_folder(json_file)
    load_tensorflow()
    from seq2seq_chat.checks.subject import Subject
    from seq2seq_chat.checks.suite import CHECKS, run_checks, summary, tidy, write_verdicts
    from seq2seq_chat.runs import create_checks_folder
    from seq2seq_chat.training.precision import ensure_available

    ensure_available(settings.training.precision)

    unknown = [name for name in only if name not in CHECKS]
    if unknown:
        raise UserError(f"--only {unknown[0]}: there is no such check; there are {', '.join(CHECKS)}")
    folder = create_checks_folder(results, settings)
    subject = Subject(settings, folder, fast=fast, full_size=full_size)
    if subject.missing_data is not None:
        click.echo(f"{subject.missing_data}\nthe checks that need real samples use the bundled ones")
    verdicts = run_checks(subject, only)
    click.echo("\n" + summary(verdicts))
    write_verdicts(verdicts, folder / "checks.json")
    tidy(folder)
    if json_file:
        write_verdicts(verdicts, Path(json_file))
    click.echo(folder)
    if not all(verdict.finding.passed for verdict in verdicts):
        sys.exit(FAILED)


@commands.command()
@click.option("--output", metavar="FILE", help="Where to write it.  [default: the terminal]")
def schema(output: Optional[str]) -> None:
    """Write the JSON schema of a configuration, for editors that complete and check while typing."""
    from seq2seq_chat.atomic import atomic_write
    from seq2seq_chat.config import json_schema

    if output is None:
        click.echo(json_schema(), nl=False)
        return
    with atomic_write(Path(output)) as file:
        file.write(json_schema())


for verb in (evaluate, experiments, export, prepare, report, train):
    commands.add_command(verb)
