"""Corpus files, all UTF-8.

Conversations have one utterance per line, and a marker line after each conversation. Pairs of texts are in two columns
separated by a tab, or in two files of parallel lines.
"""

from __future__ import annotations

import difflib
import functools
import json
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import BUNDLED, atomic_write, file_checksum
from seq2seq_chat.system.lines import located_lines
from seq2seq_chat.system.tables import pluralize

if TYPE_CHECKING:  # imports pydantic, which the reader processes of prepare do not need
    from seq2seq_chat.config import CorpusFiles

logger = logging.getLogger(__name__)

END_OF_CONVERSATION = "<<<<<END-CONV>>>>>"
_MARKER_WORDS = ("endconv", "endconversation")
_LONGEST_LIKE_MARKER = 40
STATISTICS_FILE = "statistics.json"
"""Beside the files that ``seq2seq-chat prepare`` has written: describes them, with a checksum of each."""
WORKING_FOLDER = ".preparing"
COMPLETE_FOLDER = "complete"
"""In the working folder: complete results, until they have replaced the results of an earlier preparation."""


class CorpusError(UserError):
    """An invalid corpus file."""

    missing_file_remedy = "run seq2seq-chat prepare to create corpora"


@contextmanager
def explain_validation() -> Iterator[None]:
    """Opening the validation corpus: an error says how to train without one, too. Raises UserError."""
    try:
        yield
    except UserError as error:
        message = str(error).removesuffix(".")
        raise type(error)(f"{message}; or train without validation (data.validation: null).") from error


def is_mistyped_marker(line: str) -> bool:
    """Whether a line was probably meant to be the marker, but is not, as ``<<<<END-CONV>>>>`` or ``<<EDN-CONV>>``."""
    stripped = line.strip()
    if not (stripped.startswith("<") or stripped.endswith(">")):  # nearly all lines: this must be fast
        return False
    if stripped == END_OF_CONVERSATION or len(stripped) > _LONGEST_LIKE_MARKER:
        return False
    letters = re.sub(r"[^a-z]", "", stripped.lower())
    return bool(difflib.get_close_matches(letters, _MARKER_WORDS, cutoff=0.8))


def read_utterances(path: str | Path, progress: bool = False) -> Iterator[tuple[int, str]]:
    """Yield (conversation index, verbatim utterance) of a corpus file; see :func:`located_utterances`."""
    return ((conversation, line) for conversation, _, line in located_utterances(path, progress))


def located_utterances(path: str | Path, progress: bool = False) -> Iterator[tuple[int, int, str]]:
    """Yield (conversation index, offset, verbatim utterance) of a corpus file, plain or compressed.

    The file is streamed. Blank lines and empty conversations are skipped; indices are consecutive from 0. A file
    without markers is a single conversation. Warns of the first mistyped marker. For offsets, see ``located_lines``.

    Raises:
        CorpusError: While iterating: the file cannot be read, is not UTF-8, has a line that is too long, or has no
            utterances.
    """
    conversation = 0
    in_conversation = warned = False
    for number, (offset, line) in enumerate(located_lines(path, CorpusError, progress=progress), start=1):
        stripped = line.strip()
        if stripped == END_OF_CONVERSATION:
            conversation += in_conversation
            in_conversation = False
        elif stripped:
            in_conversation = True
            if not warned and is_mistyped_marker(stripped):
                warn_once(
                    f"{path}, line {number}: {stripped} is read as an utterance; the line that ends a conversation is "
                    f"{END_OF_CONVERSATION}"
                )
                warned = True
            yield conversation, offset, line
    if not (conversation or in_conversation):
        raise CorpusError(f"{path} has no utterances. Write one utterance per line.")


@functools.cache  # a training run reads its corpus twice
def warn_once(message: str) -> None:
    """Log a warning, unless this process has done so before."""
    logger.warning("%s", message)


def write_conversations(path: str | Path, conversations: Iterable[Iterable[str]]) -> None:
    """Write a corpus file atomically. Empty conversations are skipped.

    Raises:
        CorpusError: An utterance is blank, contains a line break or a NUL character, or is the marker, and would not
            be read back as one utterance.
        UserError: The file could not be written.
    """
    with atomic_write(path) as stream:
        for utterances in map(list, conversations):
            for utterance in utterances:
                if any(character in utterance for character in "\n\r\0") or utterance.strip() in (
                    "",
                    END_OF_CONVERSATION,
                ):
                    raise CorpusError(
                        f"{utterance!r} cannot be an utterance of a corpus file. Remove blank utterances, "
                        "markers, line breaks and NUL characters."
                    )
            if utterances:
                stream.writelines(f"{line}\n" for line in [*utterances, END_OF_CONVERSATION])


def ensure_published(paths: Iterable[Path]) -> None:
    """Raise CorpusError if a preparation was killed while it replaced files in a folder of one of the paths."""
    for folder in {path.parent for path in paths}:
        statistics = folder / WORKING_FOLDER / COMPLETE_FOLDER / STATISTICS_FILE
        if os.path.exists(statistics):  # noqa: PTH110  Path.exists fails for an inaccessible folder
            raise CorpusError(
                f"{folder} has files of two preparations, because seq2seq-chat prepare was stopped while replacing "
                "them. Run the same command again."
            )


def warn_of_edits(paths: Iterable[Path]) -> None:
    """Warn if files that ``prepare`` has written were changed since."""
    edited = []
    for path in paths:
        with suppress(OSError, ValueError, TypeError, KeyError):  # not from `prepare`, or from an earlier version
            files = json.loads((path.parent / STATISTICS_FILE).read_text(encoding="utf-8"))["files"]
            if path.name in files and file_checksum(path) != files[path.name]:
                edited.append(str(path))
    if edited:
        logger.warning("%s changed since `seq2seq-chat prepare` wrote it; it is used as it is", " and ".join(edited))


def bundled_conversations() -> Path:
    """The bundled training corpus."""
    return BUNDLED / "sample" / "conversations.txt"


@functools.cache
def bundled_questions() -> tuple[str, ...]:
    """Questions that show how a model develops."""
    return tuple((BUNDLED / "sample" / "questions.txt").read_text(encoding="utf-8").splitlines())


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
        raise BadRow(f"{pluralize(len(columns), 'column')} instead of 2, separated by a tab")
    return parallel_row(*columns)


def is_blank_row(line: str) -> bool:
    """Whether a line of a .tsv is not a row at all."""
    return "\t" not in line and not line.strip()


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

    Blank lines of a .tsv are no rows. Bad rows are left out, with a warning that counts them and names the first.

    Raises:
        CorpusError: While iterating: a file cannot be read, the two files differ in their numbers of lines, more than
            MAX_BAD_PERCENT of the rows are bad, or there is no pair.
    """
    damaged: dict[int, str] = {}
    rows = bad = 0
    first_bad = ""
    for number, row in enumerate(_rows(files, damaged, progress), start=1):
        if len(row) == 1 and is_blank_row(row[0][1]) and number not in damaged:
            continue
        rows += 1
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
    if not rows:
        raise CorpusError(f"{files} has no pairs of texts. Write one per line.")
    if 100 * bad > MAX_BAD_PERCENT * rows:
        raise CorpusError(
            f"{first_bad}. In total, {bad:,} of {rows:,} rows are bad; repair them, or leave them out with "
            "seq2seq-chat prepare pairs --max-bad."
        )
    if bad:
        warn_once(f"left out {pluralize(bad, 'bad row')}; the first is {first_bad}")


def _rows(files: Corpus, damaged: dict[int, str], progress: bool) -> Iterator[tuple[tuple[int, str], ...]]:
    """The lines of a .tsv, or the lines of two files side by side, each with its offset."""
    if isinstance(files, (str, Path)):
        return ((line,) for line in located_lines(files, CorpusError, progress=progress, damaged=damaged))
    sources = located_lines(files.source, CorpusError, progress=progress, damaged=damaged)
    targets = located_lines(files.target, CorpusError, damaged=damaged)
    return parallel_lines(files.source, files.target, sources, targets, damaged)


def parallel_lines(
    source: object,
    target: object,
    sources: Iterator[tuple[int, str]],
    targets: Iterator[tuple[int, str]],
    damaged: Mapping[int, str],
) -> Iterator[tuple[tuple[int, str], tuple[int, str]]]:
    """Yield the lines of two files side by side, each as (offset, line). One may have more empty lines at its end.

    Args:
        source: The name of a file, for the error message, as ``target``.
        damaged: See ``located_lines``.

    Raises:
        CorpusError: While iterating: the files differ in their numbers of lines.
    """
    for number, (source_line, target_line) in enumerate(zip_longest(sources, targets)):
        if source_line is None or target_line is None:
            count, has_text = number, False
            for _, line in chain([source_line or target_line or (0, "")], sources, targets):
                count += 1
                has_text = has_text or bool(line)
            if not (has_text or damaged):
                return
            source_count, target_count = (number, count) if source_line is None else (count, number)
            raise CorpusError(
                f"{source} has {pluralize(source_count, 'line')}, but {target} has {pluralize(target_count, 'line')}. "
                "Each line of one must correspond to the same line of the other."
            )
        yield source_line, target_line
