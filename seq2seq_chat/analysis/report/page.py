"""A page of chapters: text, tables and pictures, in one HTML file that needs nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Union

from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure

from seq2seq_chat.analysis.style import data_uri, render
from seq2seq_chat.atomic import atomic_write
from seq2seq_chat.errors import UserError

NOTHING = "–"


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    kind: str = "text"


@dataclass(frozen=True)
class Missing:
    """What could not be made, and why."""

    text: str
    kind: str = "missing"


@dataclass(frozen=True)
class Table:
    """A table; columns from ``numbers_from`` on are numbers and stand to the right."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    numbers_from: int | None = None
    kind: str = "table"


@dataclass(frozen=True)
class Picture:
    """A picture, in the page and as a file."""

    source: str
    caption: str
    kind: str = "picture"


@dataclass(frozen=True)
class Fold:
    """What is shown only to those who ask for it."""

    title: str
    blocks: Sequence[Block]
    kind: str = "fold"


@dataclass(frozen=True)
class Listing:
    """Text as it is."""

    text: str
    kind: str = "listing"


Block = Union[Text, Missing, Table, Picture, Fold, Listing]


@dataclass
class Chapter:
    """A part of the page."""

    title: str
    blocks: list[Block] = field(default_factory=list)

    @property
    def anchor(self) -> str:
        """What the list of contents points to."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")

    def add(self, *blocks: Block) -> None:
        """Put something at the end."""
        self.blocks.extend(blocks)

    @contextmanager
    def attempt(self, what: str) -> Iterator[None]:
        """Make a part of the chapter; where it cannot be made, the page says why and goes on."""
        try:
            yield
        except UserError as fault:
            self.add(Missing(f"{what}: {fault}"))


@dataclass
class Page:
    """The whole page."""

    title: str
    pictures: Path  # folder that the pictures are written to as well; it is there
    chapters: list[Chapter] = field(default_factory=list)

    def chapter(self, title: str) -> Chapter:
        """Begin a new chapter."""
        self.chapters.append(Chapter(title))
        return self.chapters[-1]

    def picture(self, name: str, figure: Figure, caption: str) -> Picture:
        """Keep a picture as a file of this name, and have it for the page."""
        drawn = render(figure, "png")
        with atomic_write(self.pictures / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}.png", "wb") as file:
            file.write(drawn)
        return Picture(data_uri(drawn), caption)

    def write(self, path: Path, tell: Callable[[str], object] = lambda text: None) -> None:
        """Write the page whole. Raises UserError where it cannot be written."""
        environment = Environment(
            loader=PackageLoader("seq2seq_chat.analysis"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        html = environment.get_template("report.html").render(page=self)
        with atomic_write(path) as file:
            file.write(html)
        missing = sum(block.kind == "missing" for chapter in self.chapters for block in chapter.blocks)
        tell(f"{len(html) / 1e6:.1f} MB" + (f"; {missing} parts are missing and say why" if missing else ""))


def number(value: float | None, digits: int = 3) -> str:
    """A figure for people: 1,234.568, or a dash where there is none."""
    if value is None:
        return NOTHING
    return f"{value:,.{digits}f}" if abs(value) < 1e9 else f"{value:.3g}"


def percent(share: float | None, digits: int = 1) -> str:
    """A share as a percentage."""
    return NOTHING if share is None else f"{100 * share:.{digits}f} %"
