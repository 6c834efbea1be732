"""An HTML page of chapters with text, tables and figures, in one file without external resources."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure

from seq2seq_chat.report.figures.style import render
from seq2seq_chat.runs.find import distinct_names
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import as_user_error, write_atomically
from seq2seq_chat.system.tables import NO_VALUE, pluralize

FILE, FIGURES = "report.html", "report"


class Paragraph(NamedTuple):
    text: str


class Unavailable(NamedTuple):
    """Why something is missing from the page."""

    text: str


class Preformatted(NamedTuple):
    text: str


class Table(NamedTuple):
    """A table; columns from index ``numbers_from`` on are right-aligned numbers."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    numbers_from: int | None = None


class Picture(NamedTuple):
    """An image, embedded as a data URI."""

    source: str
    caption: str


class Details(NamedTuple):
    """Blocks that are collapsed until clicked."""

    title: str
    blocks: Sequence[Block]
    is_open: bool = False


Block = Paragraph | Unavailable | Table | Picture | Details | Preformatted


@dataclass
class Chapter:
    """A chapter of the page."""

    title: str
    figures: Path  # folder that figures are also written to; exists
    blocks: list[Block] = field(default_factory=list)

    @property
    def anchor(self) -> str:
        """The HTML id of the chapter."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")

    def add(self, *blocks: Block) -> None:
        self.blocks.extend(blocks)

    def add_picture(self, name: str, figure: Figure, caption: str) -> None:
        """Append a figure; see :meth:`picture`."""
        self.add(self.picture(name, figure, caption))

    def picture(self, name: str, figure: Figure, caption: str) -> Picture:
        """Write a figure to ``NAME.png`` and return it as a block."""
        png = render(figure, "png")
        write_atomically(self.figures / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}.png", png)
        return Picture(f"data:image/png;base64,{base64.b64encode(png).decode()}", caption)

    @contextmanager
    def show_errors(self, name: str) -> Iterator[None]:
        """Show a UserError in this block on the page instead of raising it."""
        try:
            yield
        except UserError as error:
            self.add(Unavailable(f"{name}: {error}"))


@dataclass
class Page:
    title: str
    figures: Path  # see Chapter
    chapters: list[Chapter] = field(default_factory=list)

    def chapter(self, title: str) -> Chapter:
        self.chapters.append(Chapter(title, self.figures))
        return self.chapters[-1]

    def write(self, path: Path, on_progress: Callable[[str], object]) -> None:
        """Write the page atomically. Raises UserError if it cannot be written."""
        environment = Environment(
            loader=PackageLoader("seq2seq_chat.report"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        html = environment.get_template("report.html").render(page=self)
        write_atomically(path, html)
        missing = sum(isinstance(block, Unavailable) for chapter in self.chapters for block in chapter.blocks)
        note = f"; {pluralize(missing, 'unavailable part')}, with the reasons" if missing else ""
        on_progress(f"the page has {len(html) / 1e6:.1f} MB{note}")


def start_page(runs: Sequence[Run], output: Path | None) -> tuple[Path, Page]:
    """The file of a report and its page, whose folder for figures is made, before hours of measuring.

    Raises:
        UserError: A run is damaged, the file is a folder, or its folder is missing or cannot be written.
    """
    path = output or runs[0].path / FILE
    if path.is_dir():
        raise UserError(f"{path} is a folder; name a file in it")
    if not path.absolute().parent.is_dir():
        raise UserError(f"{path}: the folder does not exist; create it first")
    for run in runs:
        _ = run.config, run.codecs
    figures = path.with_name(FIGURES if path.name == FILE else path.stem + "_pictures")
    with as_user_error(figures):
        figures.mkdir(exist_ok=True)
    return path, Page(f"Report on {', '.join(distinct_names(runs))}", figures)


def format_number(value: float | None, digits: int = 3) -> str:
    """1234.5678 → "1,234.568", None → a dash."""
    if value is None:
        return NO_VALUE
    return f"{value:,.{digits}f}" if abs(value) < 1e9 else f"{value:.3g}"


def format_percent(share: float | None) -> str:
    """0.1234 → "12.3 %", None → a dash."""
    return NO_VALUE if share is None else f"{100 * share:.1f} %"
