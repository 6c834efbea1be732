"""Samples: pairs of an utterance (the source) and the reply to it (the target)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from seq2seq_chat.data.alphabet import SAMPLE_UTTERANCES, Letters, check_letters
from seq2seq_chat.data.corpus_file import read_utterances
from seq2seq_chat.data.tokenizers import Tokenizer, get_tokenizer

if TYPE_CHECKING:  # imports pydantic, which the reader processes of prepare do not need
    from seq2seq_chat.config import Data

Pairing = Literal["sliding", "alternating"]
"""``sliding``: each utterance is the reply to the one before it in its conversation.
``alternating``: the 2nd, 4th, ... utterance of a conversation is the reply to the one before it."""

Utterance = TypeVar("Utterance")


def read_samples(path: str | Path, settings: Data) -> Iterator[tuple[list[str], list[str]]]:
    """Yield (source tokens, target tokens) of a corpus file, each source a single utterance.

    Raises:
        CorpusError: While iterating: the file cannot be read, is not UTF-8 or has no utterances.
    """
    return iterate_samples(read_tokens(path, get_tokenizer(settings.level)), settings.pairing)


def read_tokens(path: str | Path, tokenizer: Tokenizer, progress: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yield (conversation index, tokens) of the utterances of a corpus file.

    Utterances without tokens are dropped before pairing, so their neighbors become adjacent.

    Raises:
        CorpusError: While iterating: the file cannot be read, is not UTF-8 or has no utterances, or the tokenizer
            removes nearly all of its letters.
    """
    utterances = read_utterances(path, progress)
    sample = list(islice(utterances, SAMPLE_UTTERANCES))
    texts = [utterance for _, utterance in sample]
    check_letters(str(path), Letters.from_texts(texts, (tokenizer.decode(tokenizer.encode(text)) for text in texts)))
    for conversation, utterance in chain(sample, utterances):
        tokens = tokenizer.encode(utterance)
        if tokens:
            yield conversation, tokens


def iterate_samples(
    utterances: Iterable[tuple[int, Utterance]], pairing: Pairing
) -> Iterator[tuple[Utterance, Utterance]]:
    """Yield (source, target) of utterances given as (conversation index, utterance).

    An utterance can be represented by anything: its tokens, its text, or its index. Both utterances of a sample belong
    to the same conversation. With ``alternating`` pairing, the last of an odd number of utterances is unused.

    Raises:
        ValueError: ``pairing`` is neither ``sliding`` nor ``alternating``.
    """
    if pairing not in ("sliding", "alternating"):
        raise ValueError(f"pairing must be 'sliding' or 'alternating', not {pairing!r}")
    previous: tuple[int, Utterance] | None = None
    for conversation, utterance in utterances:
        if previous is not None and previous[0] == conversation:
            yield previous[1], utterance
            previous = (conversation, utterance) if pairing == "sliding" else None
        else:
            previous = (conversation, utterance)
