"""The command line: `seq2seq-chat VERB …`.

A verb reads its arguments, calls one function of the package and prints what it returns. Modules that need TensorFlow
are imported inside the verbs, so that `--help` answers at once.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Optional

import click

from seq2seq_chat import __version__
from seq2seq_chat.cli.experiments import experiments
from seq2seq_chat.cli.export import export
from seq2seq_chat.cli.options import results_option, snapshot_option, warn
from seq2seq_chat.cli.prepare import prepare
from seq2seq_chat.errors import UserError

if TYPE_CHECKING:
    from seq2seq_chat.config import Decoding
    from seq2seq_chat.training.cluster import Cluster

WRONG_INPUT, FAILED = 2, 1  # exit statuses: what the user wrote, what went wrong


def main() -> NoReturn:
    """Run the command line; every error that is meant for people becomes a sentence on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character must not end a training
    if os.getpid() == 1:  # in a container; of its first process the kernel drops signals that it does not handle
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        commands(standalone_mode=False)
    except UserError as error:
        _exit_with(str(error), WRONG_INPUT)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _exit_with("stopped", 130)
    sys.exit(0)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="seq2seq-chat")
def commands() -> None:
    """Train, check, analyse and talk to conversational sequence-to-sequence models.

    A RUN is the folder of a training, the name of one below results/, the beginning of a name, or `latest`.
    """


@commands.command()
@click.argument("config", required=False, metavar="CONFIG")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a setting: training.steps=100.")
@click.option("--resume", metavar="RUN", help="Go on with a run that was stopped.")
@click.option("--workers", metavar="HOST:PORT,...", help="Train on several machines: the address of each.")
@click.option("--index", type=click.IntRange(0), metavar="N", help="Which of --workers this machine is: 0, 1, ...")
@results_option
def train(
    config: Optional[str],
    overrides: tuple[str, ...],
    resume: Optional[str],
    workers: Optional[str],
    index: Optional[int],
    results: str,
) -> None:
    """Train the experiment described by CONFIG, a JSON file; prints the run's folder as its last line.

    With --resume a run goes on where its newest checkpoint left it. CONFIG may then be left out; settings of the
    training may be changed by it or by --set, those that shape the model may not.

    With --workers several machines train one model. The one with --index 0 leads and keeps the run; the others need
    neither CONFIG nor RUN, only the training corpus where the first one has it.
    """
    from seq2seq_chat.config import load_config
    from seq2seq_chat.environment import load_tensorflow
    from seq2seq_chat.runs import find_run
    from seq2seq_chat.training.cluster import cluster_of_environment, cluster_of_options

    cluster = cluster_of_options(workers, index)
    if cluster is not None:
        overrides = (*overrides, "training.strategy=multi_worker")
        if not cluster.leads:
            _train_along(cluster)
            return
    if config is None and resume is None:
        raise click.UsageError("name a CONFIG to train, or a RUN to --resume")
    run = find_run(resume, results) if resume else None
    settings = load_config(config or (run.path / "config.json" if run else ""), overrides)
    if cluster is None and settings.training.strategy == "multi_worker":
        cluster = cluster_of_environment()
        if cluster is not None and not cluster.leads:
            _train_along(cluster)
            return
    load_tensorflow()
    from seq2seq_chat.training.experiment import TrainingFailed, resume_experiment, start_experiment
    from seq2seq_chat.training.trainer import Interrupted

    try:
        if run is None:
            run = start_experiment(settings, results, cluster)
        else:
            resume_experiment(run, settings, cluster)
    except Interrupted as stop:
        go_on = f"seq2seq-chat train --resume {stop.run.path}" + (f" {cluster.arguments}" if cluster else "")
        click.echo(f"stopped and saved; go on with: {go_on}", err=True)
        click.echo(stop.run.path)
        sys.exit(128 + stop.signal_number)
    except TrainingFailed as error:
        _exit_with(str(error), FAILED)
    click.echo(run.path)


def _train_along(cluster: Cluster) -> None:
    """Train as another worker than the first."""
    from seq2seq_chat.environment import load_tensorflow

    load_tensorflow()
    from seq2seq_chat.training.distribution import WorkerLost
    from seq2seq_chat.training.follower import Dismissed, follow

    try:
        step = follow(cluster)
    except Dismissed as stop:
        click.echo(f"stopped at step {stop.step:,}; {cluster.named(0)} saves", err=True)
        sys.exit(128 + stop.signal_number)
    except WorkerLost as error:
        _exit_with(f"{error}; the training stopped. See what it said, and start every worker again", FAILED)
    click.echo(f"done at step {step:,}; {cluster.named(0)} has the run")


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
    _ensure_folder(json_file)
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


data_option = click.option(
    "--data", metavar="FILE", help="Corpus file.  [default: the run's data.test, else data.validation]"
)
limit_option = click.option(
    "--limit",
    type=click.IntRange(1),
    default=250_000,
    show_default=True,
    metavar="N",
    help="Use N samples, evenly spread over the corpus.",
)
sent2vec_option = click.option(
    "--sent2vec", metavar="FILE", help="Binary Sent2Vec model.  [default: one learned from the training corpus]"
)


@commands.command()
@click.argument("run", metavar="RUN")
@data_option
@snapshot_option
@limit_option
@click.option(
    "--beam-width", type=click.IntRange(1, 1000), metavar="N", help="Search replies with a beam, not greedily."
)
@sent2vec_option
@click.option("--output", metavar="DIR", help="Folder for the predictions.  [default: RUN/evaluation]")
@click.option("--json", "json_file", metavar="FILE", help="Write the figures to a file as well.")
@results_option
def evaluate(
    run: str,
    data: Optional[str],
    snapshot: Optional[str],
    limit: int,
    beam_width: Optional[int],
    sent2vec: Optional[str],
    output: Optional[str],
    json_file: Optional[str],
    results: str,
) -> None:
    """Loss, perplexity and word accuracy of a RUN on a test corpus, exactly, and what its replies are like.

    Replies are kept in a file; an evaluation that was stopped goes on from it.
    """
    from seq2seq_chat.atomic import atomic_write
    from seq2seq_chat.config import decoding_with
    from seq2seq_chat.environment import load_tensorflow
    from seq2seq_chat.runs import find_run

    found = find_run(run, results)
    _ensure_folder(json_file)
    decoding = None
    if beam_width is not None:
        decoding = decoding_with(found.config.decoding, method="beam", beam_width=beam_width, n_best=1)
    load_tensorflow()
    from seq2seq_chat.analysis.evaluate import evaluate_run, summary
    from seq2seq_chat.training.metrics import finite_or_null

    figures = evaluate_run(found, data, snapshot, limit, warn, decoding=decoding, sent2vec=sent2vec, folder=output)
    click.echo(f"{found.name}, {figures['snapshot']} (step {figures['step']:,}), on {figures['data']}")
    click.echo(summary(figures))
    if json_file:
        with atomic_write(Path(json_file)) as file:
            file.write(json.dumps(finite_or_null(figures), indent=2, ensure_ascii=False) + "\n")


@commands.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@data_option
@limit_option
@sent2vec_option
@click.option("--questions", metavar="FILE", help="Utterances to ask at every snapshot, one a line.")
@click.option(
    "--transcript",
    "transcripts",
    multiple=True,
    metavar="FILE",
    help="Somebody else's answers: lines of question<TAB>answer, or an answer a line. May be given several times.",
)
@click.option("--liked", metavar="FILE", help="The replies you like best, like a transcript: where do beams have them?")
@click.option("--output", metavar="FILE", help="The page.  [default: report.html in the first run's folder]")
@results_option
def report(
    runs: tuple[str, ...],
    data: Optional[str],
    limit: int,
    sent2vec: Optional[str],
    questions: Optional[str],
    transcripts: tuple[str, ...],
    liked: Optional[str],
    output: Optional[str],
    results: str,
) -> None:
    """Everything there is to see of RUNs, at every snapshot, as one HTML page; prints its file as the last line.

    Figures on the test corpus, language and replies over time, learning curves, attention, beams, thought vectors,
    word embeddings, gates and gradients. What cannot be made says why. Pictures lie beside the page as well.
    """
    from seq2seq_chat.environment import load_tensorflow
    from seq2seq_chat.runs import find_run

    found = [find_run(run, results) for run in dict.fromkeys(runs)]
    load_tensorflow()
    from seq2seq_chat.analysis.findings import Options
    from seq2seq_chat.analysis.replies import read_questions, read_transcript
    from seq2seq_chat.analysis.report import write_report

    asked = read_questions(questions)
    options = Options(
        data=data,
        limit=limit,
        sent2vec=sent2vec,
        questions=asked,
        transcripts=[read_transcript(file, asked) for file in transcripts],
        liked=read_transcript(liked, asked) if liked else None,
    )
    click.echo(write_report(found, options, Path(output) if output else None, click.echo, warn))


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


commands.add_command(experiments)
commands.add_command(export)
commands.add_command(prepare)


def _ensure_folder(file: Optional[str]) -> None:
    """Raises UserError before any work is done for a file that could not be written."""
    if file is not None and not Path(file).absolute().parent.is_dir():
        raise UserError(f"--json {file}: its folder does not exist; make it first")


def _exit_with(message: str, status: int) -> NoReturn:
    click.echo(f"seq2seq-chat: {message}", err=True)
    sys.exit(status)
