"""Options and error handling shared by the analysis scripts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from matplotlib.figure import Figure

from seq2seq_chat.analysis.figures.style import FORMATS, save
from seq2seq_chat.cli.options import log_to_stderr
from seq2seq_chat.system.errors import UserError

results_option = click.option(
    "--results", default="results", show_default=True, metavar="DIR", help="Folder of the runs."
)
snapshot_option = click.option("--snapshot", metavar="NAME", help="Name of a snapshot, `best` or `latest`.")


class Pictures:
    """Writes the pictures of a script to a folder, or to a file and others named after it.

    ``--output folder/`` writes folder/NAME.png for each picture; ``--output x.svg`` writes x.svg for the main picture
    and x_NAME.svg for the others.
    """

    def __init__(self, output: str | None, file_format: str | None) -> None:
        self._path = Path(output or ".")
        suffix = self._path.suffix.removeprefix(".").lower()
        self._is_file = suffix in FORMATS
        if file_format and self._is_file and suffix != file_format:
            raise UserError(f"--output {output} and --format {file_format} are different formats; omit one of them")
        self._format: Any = file_format or (suffix if self._is_file else "png")

    def folder(self) -> Path:
        """The folder of the pictures, which is created if necessary."""
        folder = self._path.parent if self._is_file else self._path
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"{folder}: could not write pictures: {error.strerror}") from error
        return folder

    def write(self, figure: Figure, name: str, main: bool = False) -> None:
        """Write a picture and print its path."""
        if not self._is_file:
            path = self.folder() / f"{name}.{self._format}"
        else:
            path = self.folder() / (self._path.name if main else f"{self._path.stem}_{name}{self._path.suffix}")
        save(figure, path, self._format)
        click.echo(f"written: {path}")


def picture_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --output and --format, passed as ``pictures``, show warnings, and exit with status 2 on a UserError."""

    @click.option("--output", metavar="PATH", help="Folder for the pictures, or file of the main one.  [default: .]")
    @click.option("--format", "file_format", type=click.Choice(FORMATS), help="[default: suffix of --output, or png]")
    @functools.wraps(command)
    def with_pictures(output: str | None, file_format: str | None, **arguments: Any) -> None:
        log_to_stderr()
        try:
            command(pictures=Pictures(output, file_format), **arguments)
        except UserError as error:
            click.echo(f"Error: {error}", err=True)
            raise SystemExit(2) from error

    return with_pictures
