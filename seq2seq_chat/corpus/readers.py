"""Readers turn a raw file into conversations of cleaned utterances.

A reader takes a path and yields conversations, each an iterable of clean, non-empty utterances.
Use up one conversation before asking for the next: a long one is not held in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path

from seq2seq_chat.corpus.files import CorpusError, read_utterances
from seq2seq_chat.corpus.lines import numbered_lines
from seq2seq_chat.corpus.text import clean

Reader = Callable[[Path], Iterable[Iterable[str]]]

BLOCK_UTTERANCES = 100
"""Utterances a block when a file is a single conversation; even, to keep alternating pairs."""

_END_OF_TURN = "__eou__"


def read_dailydialog(path: Path) -> Iterator[list[str]]:
    """Read a DailyDialog text file: a dialogue a line, ``__eou__`` after each turn.

    Raises:
        CorpusError: While iterating: the file cannot be read, is not UTF-8, is empty or has a
            line without ``__eou__``.
    """
    found = False
    for number, line in numbered_lines(path, CorpusError, progress=True):
        if not line.strip():
            continue
        if _END_OF_TURN not in line:
            raise CorpusError(
                f"{path}, line {number}: no {_END_OF_TURN}, so this is no DailyDialog text. "
                "Name the files with the dialogues, or another reader."
            )
        found = True
        utterances = [cleaned for turn in line.split(_END_OF_TURN) if (cleaned := clean(turn))]
        if utterances:
            yield utterances
    if not found:
        raise CorpusError(f"{path} holds no dialogue. It needs one a line.")


def read_lines(path: Path) -> Iterator[Iterator[str]]:
    """Read a corpus file, or any text with an utterance a line.

    A file that is a single conversation, as all files without markers are, could only go into
    one split as a whole. It is therefore cut into blocks of ``BLOCK_UTTERANCES`` consecutive
    utterances, each taken for a conversation.

    Raises:
        CorpusError: While iterating: the file cannot be read, is not UTF-8 or has no utterance.
    """
    # Ends at the second conversation; only a single one has to be read twice.
    single = not any(conversation for conversation, _ in read_utterances(path))
    utterances = (
        (conversation, cleaned)
        for conversation, line in read_utterances(path, progress=True)
        if (cleaned := clean(line))
    )
    numbered = (
        (index // BLOCK_UTTERANCES if single else conversation, utterance)
        for index, (conversation, utterance) in enumerate(utterances)
    )
    for _, group in groupby(numbered, key=lambda pair: pair[0]):
        yield (utterance for _, utterance in group)


READERS: dict[str, Reader] = {"dailydialog": read_dailydialog, "lines": read_lines}
"""The readers by the names that people use."""
