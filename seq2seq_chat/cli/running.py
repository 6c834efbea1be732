"""Run a command of the command line or a script: errors, signals and exit statuses."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn, TextIO

import click

from seq2seq_chat.cli.options import FAILED, INVALID_INPUT, exit_with, log_to_stderr
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.signals import Terminated, sigterm_as_interrupt

_WRITE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE}


def open_missing_streams() -> None:
    """Discard what is written to stdout or stderr if the program was started without it (``>&-``)."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  open until the end


def is_write_error(error: OSError) -> bool:
    """Whether writing to an open stream failed, which is no bug."""
    return error.filename is None and error.errno in _WRITE_ERRORS


def discard_if_unwritable(stream: TextIO) -> None:
    """Discard what a stream still holds if it cannot be written, so that Python does not try again when it exits."""
    try:
        stream.flush()
    except OSError:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


INACCESSIBLE = (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG)  # files that the user names


def run_command(command: click.Command) -> NoReturn:
    """Run a command or script: print an error as one line on stderr and set the exit status."""
    open_missing_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # characters that the terminal cannot display
    log_to_stderr()
    try:
        _run(command)
    except OSError as error:
        is_inaccessible = error.errno in INACCESSIBLE and error.filename is not None
        if not (is_inaccessible or is_write_error(error)):
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
        with sigterm_as_interrupt():
            command(standalone_mode=False)
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
