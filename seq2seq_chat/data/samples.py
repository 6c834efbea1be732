"""Samples: pairs of a source and a target, in a conversation of an utterance and the reply to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from seq2seq_chat.data.corpus_file import Corpus, CorpusError, Pair, located_pairs, located_utterances, warn_once
from seq2seq_chat.text.tokenizers import Tokenizer, Tokenizers

if TYPE_CHECKING:
    from seq2seq_chat.config import Data


Pairing = Literal["sliding", "alternating"]
"""``sliding``: each utterance is the reply to the one before it in its conversation.
``alternating``: the 2nd, 4th, ... utterance of a conversation is the reply to the one before it."""

T = TypeVar("T")
_BLOCK = 1024  # texts that are tokenized together


class Utterance(NamedTuple):
    """A text and its tokens, as a source and as a target: the same list if both sides share the tokenizer."""

    conversation: int
    offset: int  # where it begins in the corpus file, decompressed
    text: str
    source_tokens: list[str]
    target_tokens: list[str]


class Sample(NamedTuple):
    """A source and a target, as texts and as tokens. The source is a single utterance, even with context turns."""

    source: str
    target: str
    source_tokens: list[str]
    target_tokens: list[str]


def read_samples(files: Corpus, settings: Data, tokenizers: Tokenizers, progress: bool = False) -> Iterator[Sample]:
    """Yield the samples of a corpus; source and target are swapped if ``data.swap_source_target`` is set.

    Raises:
        CorpusError: While iterating: see ``read_tokenized_utterances`` and ``located_pairs``.
    """
    from seq2seq_chat.config import is_pairs  # see above

    if is_pairs(files):
        yield from (sample for _, sample in read_tokenized_pairs(files, settings, tokenizers, progress))
        return
    utterances = read_tokenized_utterances(files, tokenizers, progress)
    for pair in iterate_samples(((utterance.conversation, utterance) for utterance in utterances), settings.pairing):
        source, target = reversed(pair) if settings.swap_source_target else pair
        yield Sample(source.text, target.text, source.source_tokens, target.target_tokens)


def tokenize_pairs(pairs: Sequence[Pair], tokenizers: Tokenizers) -> Iterator[Sample]:
    """The samples of pairs of texts."""
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    return map(Sample, sources, targets, _tokenize(tokenizers.source, sources), _tokenize(tokenizers.target, targets))


def read_tokenized_pairs(
    files: Corpus, settings: Data, tokenizers: Tokenizers, progress: bool = False
) -> Iterator[tuple[tuple[int, ...], Sample]]:
    """Yield (offset in each file, pair) of the pairs that have tokens on both sides; see ``read_samples``.

    Raises:
        CorpusError: While iterating: see ``located_pairs``; or a tokenizer removes nearly all letters of its side.
    """
    for number, block in enumerate(_blocks(located_pairs(files, progress=progress))):
        pairs = [pair.swapped() if settings.swap_source_target else pair for _, pair in block]
        if number == 0:
            _check_alphabet(f"the sources of {files}", tokenizers.source, [pair.source for pair in pairs])
            _check_alphabet(f"the targets of {files}", tokenizers.target, [pair.target for pair in pairs])
        for (offsets, _), sample in zip(block, tokenize_pairs(pairs, tokenizers), strict=True):
            if sample.source_tokens and sample.target_tokens:
                yield offsets, sample


def read_tokenized_utterances(files: Corpus, tokenizers: Tokenizers, progress: bool = False) -> Iterator[Utterance]:
    """Yield the utterances of a corpus file of conversations.

    Utterances without tokens are dropped before pairing, so their neighbors become adjacent.

    Raises:
        CorpusError: While iterating: the file cannot be read, is not UTF-8 or has no utterances, or a tokenizer
            removes nearly all of its letters.
    """
    if not isinstance(files, (str, Path)):
        raise CorpusError(f"{files} are pairs rather than conversations.")
    for number, block in enumerate(_blocks(located_utterances(files, progress))):
        texts = [text for _, _, text in block]
        if number == 0:
            _check_alphabet(str(files), tokenizers.source, texts)
            _check_alphabet(str(files), tokenizers.target, texts)
        source = _tokenize(tokenizers.source, texts)
        target = source if tokenizers.target is tokenizers.source else _tokenize(tokenizers.target, texts)
        for utterance, source_tokens, target_tokens in zip(block, source, target, strict=True):
            if source_tokens and target_tokens:
                yield Utterance(*utterance, source_tokens, target_tokens)


def _tokenize(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[str]]:
    return [line.split(" ") if line else [] for line in tokenizer.encode_lines(texts)]


def _blocks(items: Iterable[T]) -> Iterator[list[T]]:
    iterator = iter(items)
    while block := list(islice(iterator, _BLOCK)):
        yield block


def _check_alphabet(name: str, tokenizer: Tokenizer, texts: Sequence[str]) -> None:
    """Check the letters that the tokenizer keeps of the first texts of a corpus. Raises CorpusError."""
    texts = texts[:SAMPLE_UTTERANCES]
    check_letters(name, tokenizer.name, Letters.from_texts(texts, map(tokenizer.decode, _tokenize(tokenizer, texts))))


def iterate_samples(utterances: Iterable[tuple[int, T]], pairing: Pairing) -> Iterator[tuple[T, T]]:
    """Yield (source, target) of utterances given as (conversation index, utterance).

    An utterance can be represented by anything: its tokens, its text, or its index. Both utterances of a sample belong
    to the same conversation. With ``alternating`` pairing, the last of an odd number of utterances is unused.

    Raises:
        ValueError: ``pairing`` is neither ``sliding`` nor ``alternating``.
    """
    if pairing not in ("sliding", "alternating"):
        raise ValueError(f"pairing must be 'sliding' or 'alternating', not {pairing!r}")
    previous: tuple[int, T] | None = None
    for conversation, utterance in utterances:
        if previous is not None and previous[0] == conversation:
            yield previous[1], utterance
            previous = (conversation, utterance) if pairing == "sliding" else None
        else:
            previous = (conversation, utterance)


SAMPLE_UTTERANCES = 1000
"""Number of utterances to count the letters of."""

# Shares of letters kept. The English tokenizer removes hardly any from English; the others are meant to remove more.
_ERROR_BELOW, _WARNING_BELOW, _WARNING_BELOW_ENGLISH = 0.1, 0.5, 0.998


class Letters(NamedTuple):
    """The number of letters and digits in a raw text, and of those left after cleaning."""

    raw: int
    kept: int

    @classmethod
    def from_texts(cls, raw: Iterable[str], cleaned: Iterable[str]) -> Letters:
        """Count the letters of raw and of cleaned utterances."""
        return cls(*(sum(sum(map(str.isalnum, text)) for text in texts) for texts in (raw, cleaned)))


def check_letters(name: str, tokenizer: str, letters: Letters) -> None:
    """Warn if a tokenizer removes more than half of the letters of a text, or the English one more than 0.2 %.

    Raises:
        CorpusError: It removes nearly all of them.
    """
    warning_below = _WARNING_BELOW_ENGLISH if tokenizer.startswith("english") else _WARNING_BELOW
    if letters.kept >= warning_below * letters.raw:
        return
    removed = f"{100 - 100 * letters.kept / letters.raw:.1f}".removesuffix(".0")
    message = (
        f"the {tokenizer} tokenizer removes {removed} % of the letters in {name}. "
        "Use the unicode tokenizer for languages other than English"
    )
    if letters.kept < _ERROR_BELOW * letters.raw:
        raise CorpusError(f"{message[0].upper()}{message[1:]}.")
    warn_once(message)
