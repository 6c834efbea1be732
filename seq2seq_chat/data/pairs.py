"""Pairs of texts: a file of two columns separated by a tab, or two files of parallel lines."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.system.lines import located_lines

if TYPE_CHECKING:  # imports pydantic, which the reader processes of prepare do not need
    from seq2seq_chat.config import CorpusFiles

logger = logging.getLogger(__name__)

Corpus: TypeAlias = "CorpusFiles | str | Path"
"""A corpus: a file of conversations or of pairs, or two files of parallel lines."""

MAX_BAD_PERCENT = 1.0
"""Percentage of the rows that may be bad when a run is trained or evaluated."""

_LICENSE = "CC-BY"  # what the third column of the sentence pairs of Tatoeba starts with


class Pair(NamedTuple):
    """A source text and the target text that belongs to it, neither of them empty."""

    source: str
    target: str

    def swapped(self) -> Pair:
        """The pair in the other direction."""
        return Pair(self.target, self.source)


class BadRow(Exception):
    """A row that is not a pair; the message says why."""


def corpus_paths(files: Corpus) -> list[Path]:
    """The files of a corpus: one, or two parallel ones."""
    return [Path(files)] if isinstance(files, (str, Path)) else [Path(files.source), Path(files.target)]


def parse_row(line: str) -> Pair:
    """The pair in a row of two columns; a third one that names a license, as in the files of Tatoeba, is ignored.

    Raises:
        BadRow: There is another number of columns, or a side is empty.
    """
    columns = line.split("\t")
    if len(columns) == 3 and is_license(columns[2]):
        del columns[2]
    if len(columns) != 2:
        raise BadRow(f"{len(columns)} column{'s' * (len(columns) != 1)} instead of 2, separated by a tab")
    return parallel_row(*columns)


def is_license(text: str) -> bool:
    """Whether a cell names a license, as in the files of Tatoeba."""
    return text.strip().startswith(_LICENSE)


def parallel_row(source: str, target: str) -> Pair:
    """The pair of two lines. Raises BadRow if a side is empty."""
    pair = Pair(source.strip(), target.strip())
    if not pair.source:
        raise BadRow("the source is empty")
    if not pair.target:
        raise BadRow("the target is empty")
    return pair


def read_row(lines: Sequence[str]) -> Pair:
    """The pair in a line of two columns, or in the lines of two files. Raises BadRow; see :func:`parse_row`."""
    return parse_row(*lines) if len(lines) == 1 else parallel_row(*lines)


def read_pairs(files: Corpus, *, progress: bool = False) -> Iterator[Pair]:
    """Yield the pairs of a corpus; see :func:`located_pairs`."""
    return (pair for _, pair in located_pairs(files, progress=progress))


def located_pairs(files: Corpus, *, progress: bool = False) -> Iterator[tuple[tuple[int, ...], Pair]]:
    """Yield (offset of the line in each file, pair) of a corpus; for offsets, see ``located_lines``.

    Bad rows are left out, with a warning that counts them and names the first.

    Raises:
        CorpusError: While iterating: a file cannot be read, the two files differ in their numbers of lines, more than
            MAX_BAD_PERCENT of the rows are bad, or there is no pair.
    """
    damaged: dict[int, str] = {}
    number = bad = 0
    first_bad = ""
    for number, row in enumerate(_rows(files, damaged, progress), start=1):
        try:
            if number in damaged:
                raise BadRow(damaged[number])
            pair = read_row([line for _, line in row])
        except BadRow as error:
            bad += 1
            first_bad = first_bad or f"{files}, line {number}: {error}".removesuffix(".")
            damaged.clear()  # its lines have been passed; a file may have many
            continue
        yield tuple(offset for offset, _ in row), pair
    if not number:
        raise CorpusError(f"{files} has no pairs of texts. Write one per line.")
    if 100 * bad > MAX_BAD_PERCENT * number:
        raise CorpusError(
            f"{first_bad}. In total, {bad:,} of {number:,} rows are bad; repair them, or leave them out with "
            "seq2seq-chat prepare pairs --max-bad."
        )
    if bad:
        _warn_of_bad_rows(first_bad, bad)


@functools.cache  # a training run reads its corpus twice
def _warn_of_bad_rows(first: str, count: int) -> None:
    logger.warning("left out %s bad row%s; the first is %s", f"{count:,}", "s" * (count > 1), first)


def _rows(files: Corpus, damaged: dict[int, str], progress: bool) -> Iterator[tuple[tuple[int, str], ...]]:
    """The lines of a .tsv, or the lines of two files side by side, each with its offset."""
    if isinstance(files, (str, Path)):
        return ((line,) for line in located_lines(files, CorpusError, progress=progress, damaged=damaged))
    return parallel_lines(files.source, files.target, damaged, progress=progress)


def parallel_lines(
    source: str | Path,
    target: str | Path,
    damaged: dict[int, str],
    *,
    progress: bool = False,
    on_progress: Callable[[int], object] | None = None,
) -> Iterator[tuple[tuple[int, str], tuple[int, str]]]:
    """Yield the lines of two files side by side, each as (offset, line). One may have another empty line at its end.

    Args:
        damaged: See ``located_lines``.
        on_progress: Called with the number of bytes read since the last call.

    Raises:
        CorpusError: While iterating: a file cannot be read, or they differ in their numbers of lines.
    """
    sources = located_lines(source, CorpusError, progress=progress, on_progress=on_progress, damaged=damaged)
    targets = located_lines(target, CorpusError, on_progress=on_progress, damaged=damaged)
    for number, (source_line, target_line) in enumerate(zip_longest(sources, targets)):
        if source_line is None or target_line is None:
            source_count = number + (source_line is not None) + sum(1 for _ in sources)
            target_count = number + (target_line is not None) + sum(1 for _ in targets)
            _, extra = source_line or target_line or (0, "")
            if abs(source_count - target_count) == 1 and not (extra or damaged):
                return  # a file of Moses may have an empty line at its end
            raise CorpusError(
                f"{source} has {_lines(source_count)}, but {target} has {_lines(target_count)}. Each line of one "
                "must correspond to the same line of the other."
            )
        yield source_line, target_line


def _lines(count: int) -> str:
    return f"{count:,} line{'s' * (count != 1)}"
