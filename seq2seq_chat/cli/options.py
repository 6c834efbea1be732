"""What several verbs have in common."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn, Optional

import click

from seq2seq_chat.errors import UserError

WRONG_INPUT, FAILED = 2, 1  # exit statuses: what the user wrote, what went wrong

results_option = click.option(
    "--results", default="results", show_default=True, metavar="DIR", help="Folder of the runs."
)
snapshot_option = click.option(
    "--snapshot", metavar="NAME", help="A snapshot's name, `best` or `latest`.  [default: latest]"
)


def warn(text: str) -> None:
    """Tell people what goes on otherwise than they may think."""
    click.echo(f"warning: {text}", err=True)


def ensure_folder(file: Optional[str]) -> None:
    """Raises UserError before any work is done for a file that could not be written."""
    if file is not None and not Path(file).absolute().parent.is_dir():
        raise UserError(f"--json {file}: its folder does not exist; make it first")


def exit_with(message: str, status: int) -> NoReturn:
    """Say why and end."""
    click.echo(f"seq2seq-chat: {message}", err=True)
    sys.exit(status)
