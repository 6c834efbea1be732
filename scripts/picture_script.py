"""What the analysis scripts share: the run, where pictures go and in which format, and errors as sentences."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

import click
from matplotlib.figure import Figure

from seq2seq_chat.analysis.style import FORMATS, save
from seq2seq_chat.errors import UserError

results_option = click.option("--results", default="results", show_default=True, metavar="DIR", help="Where runs are.")
snapshot_option = click.option("--snapshot", metavar="NAME", help="A snapshot's name, `best` or `latest`.")


class Pictures:
    """Where the pictures of a script go: a folder, or a file whose name others are made from.

    ``--output here/`` gives here/NAME.png for each picture; ``--output x.svg`` gives x.svg for the main picture and
    x_NAME.svg for others.
    """

    def __init__(self, output: Optional[str], form: Optional[str]) -> None:
        self._path = Path(output or ".")
        suffix = self._path.suffix.removeprefix(".").lower()
        self._is_file = suffix in FORMATS
        if form and self._is_file and suffix != form:
            raise UserError(f"--output {output} --format {form}: these are two formats; leave one of them out")
        self._form: Any = form or (suffix if self._is_file else "png")

    def folder(self) -> Path:
        """Where other files may be written as well."""
        folder = self._path.parent if self._is_file else self._path
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"{folder}: pictures cannot be written here: {error.strerror}") from error
        return folder

    def write(self, figure: Figure, name: str, main: bool = False) -> None:
        """Write a picture and say where."""
        if not self._is_file:
            path = self.folder() / f"{name}.{self._form}"
        else:
            path = self.folder() / (self._path.name if main else f"{self._path.stem}_{name}{self._path.suffix}")
        click.echo(f"written: {save(figure, path, self._form)}")


def picture_options(command: Callable[..., None]) -> Callable[..., None]:
    """--output and --format as ``pictures``, and errors meant for people as one sentence with exit status 2."""

    @click.option("--output", metavar="PATH", help="Folder of the pictures, or file of the main one.  [default: here]")
    @click.option("--format", "form", type=click.Choice(FORMATS), help="[default: the ending of --output, or png]")
    @functools.wraps(command)
    def with_pictures(output: Optional[str], form: Optional[str], **arguments: Any) -> None:
        try:
            command(pictures=Pictures(output, form), **arguments)
        except UserError as error:
            click.echo(f"Error: {error}", err=True)
            raise SystemExit(2) from error

    return with_pictures


def warn(text: str) -> None:
    """Tell of what others stand in for."""
    click.echo(f"warning: {text}", err=True)
