"""The corpus file: UTF-8, one utterance a line, a marker line after every conversation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from seq2seq_chat.atomic import atomic_write
from seq2seq_chat.corpus.lines import numbered_lines
from seq2seq_chat.errors import UserError

END_OF_CONVERSATION = "<<<<<END-CONV>>>>>"


class CorpusError(UserError):
    """A corpus that cannot be used; the message says where, why and what to do."""


def read_utterances(path: str | Path, progress: bool = False) -> Iterator[tuple[int, str]]:
    """Yield (conversation index, utterance as written) of a corpus file, plain or gzip.

    Reads as it goes and holds one line at a time. Blank lines are skipped, and conversations
    without any utterance are not counted, so that indices are consecutive from 0. A file without
    markers is a single conversation.

    Raises:
        CorpusError: While iterating: the file cannot be read, is not UTF-8 or has no utterance.
    """
    conversation = 0
    inside = found = False
    for _, line in numbered_lines(path, CorpusError, progress=progress):
        stripped = line.strip()
        if stripped == END_OF_CONVERSATION:
            conversation += inside
            inside = False
        elif stripped:
            inside = found = True
            yield conversation, line
    if not found:
        raise CorpusError(f"{path} holds no utterance. It needs text, one utterance a line.")


def write_conversation(stream: IO[str], utterances: Iterable[str]) -> int:
    """Write one conversation with its marker; return its number of utterances.

    A conversation without any utterance leaves no trace.

    Raises:
        CorpusError: An utterance would not be read back as one: blank, with a line break, or
            equal to the marker.
    """
    count = 0
    for utterance in utterances:
        breaks = "\n" in utterance or "\r" in utterance
        if breaks or utterance.strip() in ("", END_OF_CONVERSATION):
            raise CorpusError(
                f"{utterance!r} cannot be an utterance of a corpus file. Leave out blank ones "
                "and markers, and put each on a single line."
            )
        stream.write(f"{utterance}\n")
        count += 1
    if count:
        stream.write(f"{END_OF_CONVERSATION}\n")
    return count


def write_conversations(path: str | Path, conversations: Iterable[Iterable[str]]) -> None:
    """Write a corpus file whole: on any error the file at ``path`` stays as it was.

    Raises:
        CorpusError: An utterance is none, see ``write_conversation``.
        UserError: The file could not be written.
    """
    with atomic_write(path) as stream:
        for utterances in conversations:
            write_conversation(stream, utterances)
