"""The command line: `seq2seq-chat VERB …`.

A verb reads its arguments, calls one function of the package and prints what it returns. Modules that need TensorFlow
are imported inside the verbs, so that `--help` answers at once.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Optional

import click

from seq2seq_chat import __version__
from seq2seq_chat.errors import UserError

if TYPE_CHECKING:
    from seq2seq_chat.config import Decoding

WRONG_INPUT, FAILED = 2, 1  # exit statuses: what the user wrote, what went wrong

results_option = click.option(
    "--results", default="results", show_default=True, metavar="DIR", help="Folder of the runs."
)
snapshot_option = click.option(
    "--snapshot", metavar="NAME", help="A snapshot's name, `best` or `latest`.  [default: latest]"
)


def main() -> NoReturn:
    """Run the command line; every error that is meant for people becomes a sentence on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character must not end a training
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
@results_option
def train(config: Optional[str], overrides: tuple[str, ...], resume: Optional[str], results: str) -> None:
    """Train the experiment described by CONFIG, a JSON file; prints the run's folder as its last line.

    With --resume a run goes on where its newest checkpoint left it. CONFIG may then be left out; settings of the
    training may be changed by it or by --set, those that shape the model may not.
    """
    from seq2seq_chat.config import load_config
    from seq2seq_chat.environment import load_tensorflow
    from seq2seq_chat.runs import find_run

    if config is None and resume is None:
        raise click.UsageError("name a CONFIG to train, or a RUN to --resume")
    run = find_run(resume, results) if resume else None
    settings = load_config(config or (run.path / "config.json" if run else ""), overrides)
    load_tensorflow()
    from seq2seq_chat.training.experiment import TrainingFailed, resume_experiment, start_experiment
    from seq2seq_chat.training.trainer import Interrupted

    try:
        if run is None:
            run = start_experiment(settings, results)
        else:
            resume_experiment(run, settings)
    except Interrupted as stop:
        click.echo(f"stopped and saved; go on with: seq2seq-chat train --resume {stop.run.path}", err=True)
        click.echo(stop.run.path)
        sys.exit(128 + stop.signal_number)
    except TrainingFailed as error:
        _exit_with(str(error), FAILED)
    click.echo(run.path)


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

    bot = Chatbot.load(found, snapshot, _warn)
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
@click.argument("run", metavar="RUN")
@click.option("--data", metavar="FILE", help="Corpus file.  [default: the run's data.test, else data.validation]")
@snapshot_option
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Use N samples, evenly spread over the corpus.")
@click.option("--json", "json_file", metavar="FILE", help="Write the figures to a file as well.")
@results_option
def evaluate(
    run: str, data: Optional[str], snapshot: Optional[str], limit: Optional[int], json_file: Optional[str], results: str
) -> None:
    """Loss and perplexity of a RUN on a test corpus, exactly (full softmax)."""
    from seq2seq_chat.atomic import atomic_write
    from seq2seq_chat.environment import load_tensorflow
    from seq2seq_chat.runs import find_run

    found = find_run(run, results)
    _ensure_folder(json_file)
    load_tensorflow()
    from seq2seq_chat.analysis.evaluate import evaluate_run
    from seq2seq_chat.training.metrics import finite_or_null

    figures = evaluate_run(found, data, snapshot, limit, _warn)
    click.echo(f"{found.name}, {figures['snapshot']} (step {figures['step']:,}), on {figures['data']}")
    click.echo(f"loss        {figures['loss']:.4f} nats per target token")
    click.echo(f"perplexity  {figures['perplexity']:.2f}")
    click.echo(f"samples     {figures['samples']:,}")
    click.echo(f"tokens      {figures['tokens']:,}")
    if json_file:
        with atomic_write(Path(json_file)) as file:
            file.write(json.dumps(finite_or_null(figures), indent=2) + "\n")


@commands.command()
@click.argument("corpus", type=click.Choice(["dailydialog", "lines"]))
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option("--output", required=True, metavar="DIR", help="Folder for what is written.")
@click.option("--split", metavar="A,B,C", help="Shares of train, validation and test.  [default: official, or 97,1,2]")
@click.option("--seed", type=int, default=1, show_default=True, help="Another seed gives another split.")
@click.option(
    "--vocabulary-size", type=int, default=50_000, show_default=True, help="Words, the special ones included."
)
@click.option("--level", type=click.Choice(["word", "character"]), default="word", show_default=True)
@click.option("--pairing", type=click.Choice(["sliding", "alternating"]), default="sliding", show_default=True)
@click.option("--encoder-steps", type=click.IntRange(1), default=30, show_default=True, help="For the statistics.")
@click.option("--decoder-steps", type=click.IntRange(1), default=30, show_default=True, help="For the statistics.")
def prepare(
    corpus: str, inputs: tuple[str, ...], output: str, split: Optional[str], seed: int, vocabulary_size: int, **how: Any
) -> None:
    """Turn a raw corpus into train.txt, validation.txt, test.txt, vocabulary.txt and statistics.json.

    \b
    dailydialog  the files of DailyDialog, or their folder; their official split is kept
    lines        corpus files, or any text with one utterance a line
    """
    from seq2seq_chat.corpus import READERS
    from seq2seq_chat.corpus import prepare as prepare_corpus

    statistics = prepare_corpus(
        READERS[corpus],
        inputs,
        output,
        split=_shares(split),
        seed=seed,
        vocabulary_size=vocabulary_size,
        level=how["level"],
        pairing=how["pairing"],
        source_steps=how["encoder_steps"],
        target_steps=how["decoder_steps"],
    )
    columns = list(statistics)
    click.echo(f"{'':24}" + "".join(f"{name:>14}" for name in columns))
    for key in statistics[columns[0]]:
        cells = [statistics[name][key] for name in columns]  # type: ignore[literal-required]
        click.echo(f"{key.replace('_', ' '):24}" + "".join(f"{cell:>14,}" for cell in cells))
    click.echo(output)


def _shares(split: Optional[str]) -> Optional[tuple[float, float, float]]:
    if split is None:
        return None
    try:
        train_share, validation_share, test_share = (float(part) for part in split.split(","))
    except ValueError:
        raise click.UsageError(f"--split {split}: write three numbers, for example 97,1,2") from None
    return train_share, validation_share, test_share


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


def _ensure_folder(file: Optional[str]) -> None:
    """Raises UserError before any work is done for a file that could not be written."""
    if file is not None and not Path(file).absolute().parent.is_dir():
        raise UserError(f"--json {file}: its folder does not exist; make it first")


def _warn(text: str) -> None:
    click.echo(f"warning: {text}", err=True)


def _exit_with(message: str, status: int) -> NoReturn:
    click.echo(f"seq2seq-chat: {message}", err=True)
    sys.exit(status)
