"""Options and helpers that several verbs share."""

from __future__ import annotations

import errno
import functools
import io
import logging
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import click
from click.core import ParameterSource

from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.signals import Terminated, signals_as_interrupt

if TYPE_CHECKING:
    from seq2seq_chat.config import CorpusFiles
    from seq2seq_chat.runs.run import Run
    from seq2seq_chat.system.hardware import EngineName


INVALID_INPUT, FAILED, NO_CORPUS = 2, 1, 3  # exit statuses

run_argument = click.argument("run_name", metavar="RUN")
results_option = click.option(
    "--results",
    default="results",
    show_default=True,
    envvar="SEQ2SEQ_CHAT_RESULTS",
    show_envvar=True,
    metavar="DIR",
    help="Folder of the runs.",
)
snapshot_option = click.option(
    "--snapshot",
    metavar="NAME",
    help="Name of a snapshot, step of a checkpoint, `best` or `latest`.  [default: latest]",
)


def engine_options(command: Any) -> Any:
    """Add --engine and --quantize to a command, whose function gets both as ``engine``, of type EngineOptions."""

    @functools.wraps(command)
    def with_engine(*, engine: EngineName, quantize: str | None, **options: Any) -> Any:
        from seq2seq_chat.system.hardware import EngineOptions

        return command(engine=EngineOptions(engine, quantize), **options)

    quantize_option = click.option(
        "--quantize",
        type=click.Choice(["int8"]),
        help="Store weight matrices as 8-bit integers: less memory, and faster, slightly different replies.",
    )
    engine_option = click.option(
        "--engine",
        type=click.Choice(["auto", "tensorflow", "onnx"]),
        default="auto",
        show_default=True,
        help="What computes the model; auto: ONNX Runtime, which starts faster, unless there is a GPU.",
    )
    return engine_option(quantize_option(with_engine))


set_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a setting, for example training.steps=100. Can be repeated.",
)
decoding_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="decoding.KEY=VALUE",
    help="Override a setting of the search, for example decoding.method=sample. Can be repeated.",
)
json_option = click.option("--json", "json_file", metavar="FILE", help="Also write the results as JSON to FILE.")
with_option = click.option(
    "--with",
    "others",
    multiple=True,
    metavar="RUN[:SNAPSHOT]",
    help="Average word probabilities with another run that has the same vocabularies. Can be repeated.",
)
limit_option = click.option(
    "--limit",
    type=click.IntRange(1),
    metavar="N",
    help="Use at most N samples, evenly spaced over the corpus.  [default: 250,000, or 2,000 with a beam]",
)
sent2vec_option = click.option(
    "--sent2vec", metavar="FILE", help="Binary Sent2Vec model.  [default: trained on the run's training corpus]"
)


def ensure_readable(*corpora: CorpusFiles | str | None, task: str | None = None) -> None:
    """Raise UserError, before TensorFlow is loaded, if a file of one of the corpora, for a task, cannot be opened."""
    from seq2seq_chat.data.corpus_file import corpus_paths
    from seq2seq_chat.system.lines import read_error

    for path in (path for corpus in corpora if corpus is not None for path in corpus_paths(corpus)):
        try:
            open(path, "rb").close()
        except OSError as error:
            problem = str(read_error(path, error, UserError))
            if isinstance(error, FileNotFoundError):
                problem = problem.rstrip(".") + _how_to_prepare(path, task)
            raise UserError(problem) from error


def _how_to_prepare(path: Path, task: str | None) -> str:
    """The command that creates a corpus file, known for pairs, texts, and if the folder is named like a corpus."""
    root: Any = click.get_current_context().find_root()
    by_task = {"language_model": "text", "translation": "pairs"}.get(task or "")
    folder = path.absolute().parent.name
    if folder == "copy_task":
        return "; to create it: python scripts/generate_copy_task.py"
    name = by_task or ("pairs" if path.suffix == ".tsv" else folder)
    if path.stem in ("train", "validation", "test") and name in root.command.get_command(root, "prepare").commands:
        command = f"seq2seq-chat prepare {name} INPUT --output {shlex.quote(str(path.parent))}"
        return f"; to create it: {command} (docs/corpora.md says how to get INPUT)"
    return "; `seq2seq-chat prepare` creates corpora, see docs/corpora.md"


def given_option(name: str) -> str | None:
    """The option of a parameter of the current command, such as --max-words, if it is given; None if it is not."""
    context = click.get_current_context()
    if context.get_parameter_source(name) is ParameterSource.DEFAULT:
        return None
    return next(parameter.opts[0] for parameter in context.command.params if parameter.name == name)


def ensure_unused(run: str, *names: str) -> None:
    """Raise UserError if an option is given that does not apply to language models; ``names`` are those parameters."""
    for name in names:
        if option := given_option(name):
            raise UserError(f"run {run} is a language model, to which {option} does not apply; remove it")


def ensure_trained(run: Run, verb: str) -> None:
    """Raise UserError if RUN is an exported model, which lacks what a verb needs."""
    if run.is_exported:
        raise UserError(f"{run.name} is an exported model, which `{verb}` does not support; use its original run")


def ensure_beam_search(overrides: Sequence[str]) -> None:
    """Raise UsageError if --set selects another search than --beam-width and --n-best do."""
    method = dict(override.partition("=")[::2] for override in overrides).get("decoding.method", "beam")
    if method.strip('"') != "beam":
        raise click.UsageError(
            f"--beam-width and --n-best select beam search; omit them, or --set decoding.method={method}"
        )


def ensure_can_create(option: str, file: str | Path | None) -> None:
    """Raise UserError, before any work is done, if the file of an option is a folder, or its folder is missing."""
    if file is None:
        return
    if Path(file).is_dir():
        raise UserError(f"{option} {shlex.quote(str(file))} is a folder; name a file in it")
    if not Path(file).absolute().parent.is_dir():
        raise UserError(f"{option} {file}: the folder does not exist; create it first")


class StderrHandler(logging.Handler):
    """Prints progress as plain lines, and warnings and errors as `seq2seq-chat: warning: …`, on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        if record.levelno >= logging.WARNING:
            text = f"seq2seq-chat: {record.levelname.lower()}: {text}"
        with suppress(OSError):  # no reason to stop a training run
            click.echo(text, err=True)


def exit_with(message: str, status: int) -> NoReturn:
    """Print a message on stderr and exit."""
    click.echo(f"seq2seq-chat: {message}", err=True)
    sys.exit(status)


def open_missing_streams() -> None:
    """Discard what is written to stdout or stderr if the program was started without it (``>&-``).

    With PYTHONUNBUFFERED, Python drops the rest of what a nearly full disk takes only in part. Buffering by lines
    raises OSError instead.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  open until the end
        elif isinstance(getattr(stream, "buffer", None), io.FileIO):
            lines = open(stream.fileno(), "w", buffering=1, encoding=stream.encoding, closefd=False)  # noqa: SIM115
            setattr(sys, name, lines)


def discard_if_unwritable(stream: TextIO) -> None:
    """Discard what a stream still holds if it cannot be written, so that Python does not try again when it exits."""
    try:
        stream.flush()
    except OSError:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


_INACCESSIBLE = (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG)  # files that the user names
_WRITE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE)  # of open streams


def run_command(command: click.Command) -> NoReturn:
    """Run a command or script: print an error as one line on stderr and set the exit status."""
    open_missing_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # characters that the terminal cannot display
    for name in ("seq2seq_chat", "webui"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.INFO)
        logger.handlers = [StderrHandler()]
    try:
        with signals_as_interrupt():
            _run(command)
    except OSError as error:
        is_inaccessible = error.errno in _INACCESSIBLE and error.filename is not None
        if not (is_inaccessible or (error.filename is None and error.errno in _WRITE_ERRORS)):
            raise
        with suppress(OSError):
            if is_inaccessible:
                exit_with(f"{error.filename}: {error.strerror}", INVALID_INPUT)
            if not isinstance(error, BrokenPipeError):
                exit_with(f"could not write the output: {error.strerror}", FAILED)
        sys.exit(FAILED)
    finally:
        for stream in (sys.stdout, sys.stderr):
            discard_if_unwritable(stream)


def _run(command: click.Command) -> NoReturn:
    """Run a command. Raises OSError if its output cannot be written."""
    try:
        command(standalone_mode=False)
        sys.stdout.flush()
    except UserError as error:
        exit_with(str(error), INVALID_INPUT)
    except ModuleNotFoundError as error:
        if (package := (error.name or "").partition(".")[0]) in ("", "seq2seq_chat", "webui"):
            raise
        needs = f"this needs the package {package}, which is not installed"
        exit_with(f"{needs}; install all packages with: pip install -c constraints.txt -e .", INVALID_INPUT)
    except MemoryError:
        exit_with("not enough memory; close other programs, or use a smaller model, batch or corpus", FAILED)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt) as stop:
        reason = stop.__cause__ if isinstance(stop, click.Abort) else stop
        message = "; ".join(["stopped", *(str(note) for note in (reason.args if reason else ()))])
        exit_with(message, 128 + (signal.SIGTERM if isinstance(reason, Terminated) else signal.SIGINT))
    sys.exit(0)
