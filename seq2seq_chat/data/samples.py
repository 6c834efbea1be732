"""Samples: which utterance (the target) answers which (the source)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, TypeVar

from seq2seq_chat.corpus.files import read_utterances
from seq2seq_chat.corpus.text import Level, tokenize

Pairing = Literal["sliding", "alternating"]
"""``sliding``: each utterance answers the one before it in its conversation.
``alternating``: the 1st, 3rd, ... utterance of a conversation asks, the next one answers."""

Utterance = TypeVar("Utterance")


def read_tokens(path: str | Path, level: Level, progress: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yield (conversation index, tokens) of the utterances of a corpus file.

    An utterance of which cleaning leaves nothing is dropped here, before any pairing, as if it
    had never been written: its neighbours become neighbours of each other.

    Raises:
        CorpusError: While iterating: the file cannot be read, is not UTF-8 or has no utterance.
    """
    for conversation, utterance in read_utterances(path, progress):
        tokens = tokenize(utterance, level)
        if tokens:
            yield conversation, tokens


def iterate_samples(
    utterances: Iterable[tuple[int, Utterance]], pairing: Pairing
) -> Iterator[tuple[Utterance, Utterance]]:
    """Yield (source, target) for utterances given with the index of their conversation.

    An utterance may be anything: its tokens (``iterate_samples(read_tokens(path, level),
    pairing)``), its text, or its number. No sample crosses from one conversation to the next;
    the last utterance of an odd number has no part in an alternating conversation.

    Raises:
        ValueError: ``pairing`` is neither ``sliding`` nor ``alternating``.
    """
    if pairing not in ("sliding", "alternating"):
        raise ValueError(f"pairing must be 'sliding' or 'alternating', not {pairing!r}")
    asking: tuple[int, Utterance] | None = None
    for conversation, utterance in utterances:
        if asking is not None and asking[0] == conversation:
            yield asking[1], utterance
            asking = (conversation, utterance) if pairing == "sliding" else None
        else:
            asking = (conversation, utterance)
