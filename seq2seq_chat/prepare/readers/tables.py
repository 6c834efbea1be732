"""Tables that hold pairs: spreadsheets saved as text, .csv, JSON lines, exports of Anki."""

from __future__ import annotations

import csv
import html
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from seq2seq_chat.data.corpus_file import BadRow, CorpusError, Pair, is_license, parallel_row
from seq2seq_chat.prepare.readers.inputs import START_BYTES, read_start_of
from seq2seq_chat.prepare.shards import Piece
from seq2seq_chat.system.compressed import DamagedFile
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.lines import read_error

Columns = tuple[str, str]
"""Source and target: the names of two columns, or their numbers from 1 on."""

MAX_ROW_LINES = 100
_TABLES = re.compile(r".*\.(csv|jsonl|ndjson)(\.\w+)?", re.IGNORECASE)
_QUOTED = re.compile(r'(?:^|[\t,;])"(?:[^"]*""|[^"]*$|[^"]*"(?:[\t,;]|$))')
_ALL_QUOTED = re.compile(r'"[^"]*"(\t"[^"]*")+')
_ANKI = re.compile(r"#(separator|html|columns|tags|deck|notetype|if matches|(?:tags|guid|notetype|deck) column):(.*)")
_ANKI_SEPARATORS = {"tab": "\t", "comma": ",", "semicolon": ";", "colon": ":", "pipe": "|", "space": " "}
_NO_TEXT = ("tags column", "guid column", "notetype column", "deck column")  # of Anki
_WORD = re.compile(r"[^\W\d_][\w -]{0,19}")
_NAME = re.compile(r"[^\W\d_]+")
_TAG = re.compile(r"<[^<>]*>")


class Table(NamedTuple):
    """How a table is read."""

    delimiter: str  # empty: each line is a JSON object
    is_quoted: bool  # cells may be in quotation marks, with line breaks in them
    first_row: int  # before it are a header and comments; blank lines do not count
    is_html: bool
    columns: tuple[Any, Any]  # of source and target: indices, or the keys of objects
    width: int = 0  # a row of more columns is damaged
    header: str = ""  # the names of the columns if the file has them

    def rows(self, piece: Piece, lines: Iterable[str]) -> Iterator[tuple[int, Any]]:
        """Yield (number of the line, cells, or the text if it is JSON) of each row. The lines have no line ends.

        Raises:
            CorpusError: A quotation mark is not closed, so that a cell would have the rest of the file.
        """
        if not self.delimiter:
            yield from ((number, line) for number, line in enumerate(lines, start=1) if line.strip())
            return
        quoting: Any = csv.QUOTE_MINIMAL if self.is_quoted else csv.QUOTE_NONE
        reader = csv.reader((f"{line}\n" for line in lines), delimiter=self.delimiter, quoting=quoting)
        number = end = 0
        while True:
            start = end + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error:  # a cell is too long
                end = start + MAX_ROW_LINES
            else:
                end = reader.line_num
            if end - start >= MAX_ROW_LINES:
                raise CorpusError(f"{piece}, line {start}: a quotation mark is not closed. Close or remove it.")
            is_blank = not cells or (len(cells) == 1 and not cells[0].strip())
            number += not is_blank
            if not is_blank and number > self.first_row:
                yield end, cells

    def pair(self, row: Any) -> Pair:
        """The pair in a row. Raises BadRow."""
        if not self.delimiter:
            try:
                row = _flat(json.loads(row))
            except (ValueError, RecursionError):
                raise BadRow("the line is not a JSON object") from None
        elif len(row) > self.width:
            raise BadRow(f"{len(row)} columns instead of {self.width}")
        try:
            source, target = (row[column] for column in self.columns)
        except LookupError:
            raise BadRow(f"a column is missing; there are {len(row)}") from None
        if not (isinstance(source, str) and isinstance(target, str)):
            raise BadRow("a side is not a text")
        return parallel_row(_plain(source), _plain(target)) if self.is_html else parallel_row(source, target)


def is_table(piece: Piece) -> bool:
    """Whether a file is named like a table."""
    return bool(_TABLES.fullmatch(piece.name))


def start_of(piece: Piece) -> bytes:
    """The first bytes of a file. Raises CorpusError if it cannot be read."""
    try:
        return read_start_of(piece)
    except (OSError, DamagedFile) as error:
        raise CorpusError(str(read_error(piece.path, error, UserError))) from error  # CorpusError advises to prepare


def find_table(piece: Piece, columns: Columns | None) -> Table | None:
    """How a file is read, by how it begins; None for two columns separated by tabs, without marks and header.

    Raises:
        CorpusError: The columns must be chosen or do not exist, or the file cannot be read.
    """
    start = start_of(piece)
    lines = re.split("\r\n?|\n", start.decode("utf-8-sig", "replace"))
    lines = lines[:-1] if len(start) == START_BYTES else lines  # the last one is cut
    settings: dict[str, str] = {}
    for line in lines:
        if not (match := _ANKI.fullmatch(line)):
            break
        settings[match[1]] = match[2].strip()
    texts = [line for line in lines[len(settings) :] if line.strip()]
    if not texts:
        return None
    if texts[0].lstrip().startswith("{") and is_table(piece):
        return _json_table(piece, texts[0], columns)
    named = settings.get("separator", "")
    delimiter = _ANKI_SEPARATORS.get(named.lower(), named[:1]) or (_delimiter(texts) if is_table(piece) else "\t")
    is_quoted = is_table(piece) or any('""' in line and _QUOTED.search(line) for line in texts) or _is_all_quoted(texts)
    quoting: Any = csv.QUOTE_MINIMAL if is_quoted else csv.QUOTE_NONE
    written = (f"{text}\n".replace("\0", "") for text in texts)  # NUL is an error in Python 3.10
    rows = list(csv.reader(written, delimiter=delimiter, quoting=quoting))
    width = Counter(map(len, rows)).most_common(1)[0][0]
    has_header = not settings and _is_header(rows, width)
    names = rows[0] if has_header else [str(number) for number in range(1, width + 1)]
    is_plain = columns is None and delimiter == "\t" and not (is_quoted or settings or _has_more_columns(texts))
    if is_plain and not (has_header and width == 2 and all(map(_NAME.fullmatch, names))):
        return None
    without_text = {int(settings[key]) - 1 for key in _NO_TEXT if settings.get(key, "").isdecimal()}
    usable = [index for index in range(width) if index not in without_text]
    chosen = choose_columns(piece, names, usable, columns)
    return Table(
        delimiter,
        is_quoted,
        len(settings) + has_header,
        settings.get("html") == "true",
        chosen,
        max(width, len(rows[0])),
        "\t".join(names) if has_header else "",
    )


def _is_all_quoted(lines: list[str]) -> bool:
    """Whether all cells of nearly all lines are in quotation marks, as some programs write them."""
    return sum(bool(_ALL_QUOTED.fullmatch(line)) for line in lines) > 0.9 * len(lines)


def _has_more_columns(lines: list[str]) -> bool:
    """Whether most lines have more than two columns, the third of which is no license as in the files of Tatoeba."""
    return sum(line.count("\t") > 1 and not is_license(line.split("\t")[2]) for line in lines) > len(lines) / 2


def _json_table(piece: Piece, line: str, columns: Columns | None) -> Table:
    try:
        found = _flat(json.loads(line))
    except (ValueError, RecursionError) as error:
        raise CorpusError(f"{piece}: its first line is not a JSON object ({error}).") from None
    names = [name for name, value in found.items() if isinstance(value, str)]
    first, second = choose_columns(piece, names, range(len(names)), columns)
    return Table("", False, 0, False, (names[first], names[second]))


def _flat(value: Any) -> dict[str, Any]:
    """An object, or that under its only key: ``{"translation": {"en": …, "fr": …}}``. Raises ValueError."""
    while isinstance(value, dict) and len(value) == 1 and isinstance(next(iter(value.values())), dict):
        value = next(iter(value.values()))
    if not isinstance(value, dict):
        raise ValueError("no object")
    return value


def choose_columns(piece: Piece, names: list[str], usable: Iterable[int], columns: Columns | None) -> tuple[int, int]:
    """The indices of two columns. Raises CorpusError."""
    usable = list(usable)
    if columns is None:
        if len(usable) != 2:
            listed = ", ".join(names[index] for index in usable)
            raise CorpusError(
                f"{piece} has {len(usable)} columns with text ({listed}). Choose source and target by name or number, "
                "such as --columns 2,3."
            )
        return usable[0], usable[1]
    indices = []
    for column in columns:
        if column in names:
            indices.append(names.index(column))
        elif column.isdecimal() and 1 <= int(column) <= len(names):
            indices.append(int(column) - 1)
        else:
            raise CorpusError(f"{piece} has no column {column}; its columns are {', '.join(names)}.")
    return indices[0], indices[1]


def _delimiter(lines: list[str]) -> str:
    """Of tab, semicolon and comma, the one that divides most lines into equally many cells, at least two."""

    def agreement(delimiter: str) -> int:
        widths = Counter(map(len, csv.reader((f"{line}\n" for line in lines), delimiter=delimiter)))
        return max((count for width, count in widths.items() if width > 1), default=0)

    return max("\t;,", key=agreement)


def _is_header(rows: list[list[str]], width: int) -> bool:
    """Whether the first row has short names, and most others have longer texts."""
    first, *others = rows
    if len(first) != width or not others or not all(_WORD.fullmatch(cell.strip()) for cell in first):
        return False
    longer = sum(any(" " in cell.strip() for cell in row) for row in others)
    return not any(len(cell.split()) > 2 for cell in first) and longer >= 0.8 * len(others)


def _plain(text: str) -> str:
    return html.unescape(_TAG.sub("", re.sub(r"<br ?/?>|</?(?:div|p)>", " ", text))).replace("\xa0", " ")
