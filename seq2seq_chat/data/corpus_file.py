"""The corpus file: UTF-8, one utterance per line, a marker line after each conversation."""

from __future__ import annotations

import difflib
import functools
import json
import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import atomic_write, file_checksum
from seq2seq_chat.system.lines import located_lines

logger = logging.getLogger(__name__)

END_OF_CONVERSATION = "<<<<<END-CONV>>>>>"
_MARKER_WORDS = ("endconv", "endconversation")
_LONGEST_LIKE_MARKER = 40
STATISTICS_FILE = "statistics.json"
"""Beside the files that ``seq2seq-chat prepare`` has written: describes them, with a checksum of each."""
WORKING_FOLDER = ".preparing"
COMPLETE_FOLDER = "complete"
"""In the working folder: complete results, until they have replaced those of an earlier preparation."""


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
    in_conversation, empty = False, True
    warned = False
    for number, (offset, line) in enumerate(located_lines(path, CorpusError, progress=progress), start=1):
        stripped = line.strip()
        if stripped == END_OF_CONVERSATION:
            conversation += in_conversation
            in_conversation = False
        elif stripped:
            in_conversation, empty = True, False
            if not warned and is_mistyped_marker(stripped):
                _warn_of_mistyped_marker(Path(path), number, stripped)
                warned = True
            yield conversation, offset, line
    if empty:
        raise CorpusError(f"{path} has no utterances. Write one utterance per line.")


@functools.cache  # a training run reads its corpus twice
def _warn_of_mistyped_marker(path: Path, number: int, line: str) -> None:
    logger.warning(
        "%s, line %d: %s is read as an utterance; the line that ends a conversation is %s",
        path,
        number,
        line,
        END_OF_CONVERSATION,
    )


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
        if (folder / WORKING_FOLDER / COMPLETE_FOLDER / STATISTICS_FILE).exists():
            raise CorpusError(
                f"{folder} has files of two preparations, because seq2seq-chat prepare was stopped while it replaced "
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


PACKAGE = Path(__file__).resolve().parents[1]


def bundled_conversations() -> Path:
    """The bundled training corpus."""
    return _bundled("conversations.txt")


@functools.cache
def bundled_questions() -> tuple[str, ...]:
    """Questions that show how a model develops."""
    return tuple(_bundled("questions.txt").read_text(encoding="utf-8").splitlines())


def _bundled(name: str) -> Path:
    installed = PACKAGE / "sample" / name
    return installed if installed.is_file() else PACKAGE.parent / "configs" / "sample" / name
