"""Words, their ids, and ids back to text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from seq2seq_chat.system.errors import UserError, cut
from seq2seq_chat.system.files import atomic_write
from seq2seq_chat.system.lines import numbered_lines

PAD, GO, EOS, UNKNOWN = 0, 1, 2, 3
TURN = "<turn>"
"""Separates the turns of a source; an ordinary word of the vocabulary."""

VOCABULARY_FILE = "vocabulary.txt"
TARGET_PREFIX = "target_"
"""What the names of the target's own vocabulary and tokenizer files start with."""
SPECIAL_WORDS = ("<pad>", "<go>", "<eos>", "<unknown>")
"""The words with ids 0 to 3. Where a text contains them, as tokens of their own, they are unknown words."""


class VocabularyError(UserError):
    """An invalid vocabulary file."""

    missing_file_remedy = "run seq2seq-chat prepare to create vocabularies"


class Vocabulary:
    """An ordered list of distinct words; the id of a word is its index in the list.

    Attributes:
        words: All words; the first four are ``SPECIAL_WORDS``.
    """

    def __init__(self, words: Iterable[str], source: str = "vocabulary") -> None:
        """Validate a list of words; ``source`` names it in error messages.

        Raises:
            VocabularyError: The special words are not at the start, or an entry is blank, more than one word, or
                duplicated.
        """
        self.words = list(words)
        _check(self.words, source)
        first = len(SPECIAL_WORDS)
        self._ids = {word: index for index, word in enumerate(self.words[first:], start=first)}

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        """Whether a token of a text is known; special words never are."""
        return word in self._ids

    def ids(self, tokens: Iterable[str]) -> list[int]:
        """The ids of tokens, ``UNKNOWN`` for those that are not in the vocabulary."""
        find = self._ids.get
        return [find(token, UNKNOWN) for token in tokens]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The words of ids, each in 0 .. len(vocabulary) - 1."""
        return [self.words[index] for index in ids]

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of the words in their order."""
        return hashlib.sha256("\n".join(self.words).encode()).hexdigest()

    @classmethod
    def load(cls, path: str | Path) -> Vocabulary:
        """Read a vocabulary file: UTF-8, one word a line, the special words first.

        Raises:
            VocabularyError: The file cannot be read or is not a vocabulary.
        """
        words = [line for _, line in numbered_lines(path, VocabularyError)]
        while words and not words[-1].strip():
            words.pop()
        return cls(words, source=str(path))

    def save(self, path: str | Path) -> None:
        """Write the vocabulary file atomically.

        Raises:
            UserError: The file could not be written.
        """
        with atomic_write(path) as stream:
            stream.writelines(f"{word}\n" for word in self.words)

    @classmethod
    def from_counts(cls, counts: Mapping[str, int], size: int) -> Vocabulary:
        """The vocabulary of the most frequent words, at most ``size`` including the special ones.

        Words of equal frequency are ordered by code points, so the vocabulary depends on the counts only.

        Raises:
            VocabularyError: ``size`` has no room for any word besides the special ones.
        """
        room = size - len(SPECIAL_WORDS)
        if room < 1:
            raise VocabularyError(
                f"A vocabulary of size {size} has no room for words besides the "
                f"{len(SPECIAL_WORDS)} special ones. Choose a larger size."
            )
        words = (word for word in counts if word not in SPECIAL_WORDS)
        ranked = sorted(words, key=lambda word: (-counts[word], word))
        return cls([*SPECIAL_WORDS, *ranked[:room]])


def strip_ids(ids: Iterable[int]) -> list[int]:
    """Remove the end marker and padding."""
    return [index for index in map(int, ids) if index not in (PAD, EOS)]


def fit_source(ids: Sequence[int], steps: int, reverse: bool) -> tuple[npt.NDArray[np.int32], int]:
    """Fit one source to the model's steps, by the same rule as ``Dataset.batch``.

    A source that is too long keeps its last words, which are nearest to the reply.

    Returns:
        The ids [steps], reversed if ``reverse``, then PAD; and the number of words among them.
    """
    kept = np.asarray(ids, dtype=np.int32)[max(0, len(ids) - steps) :]
    source = np.full(steps, PAD, dtype=np.int32)
    source[: len(kept)] = kept[::-1] if reverse else kept
    return source, len(kept)


def _check(words: list[str], source: str) -> None:
    """Raise VocabularyError unless ``words`` are a valid vocabulary, line by line."""
    special = " ".join(SPECIAL_WORDS)
    if not words:
        raise VocabularyError(f"{source} is empty. Its first lines must be {special}, then one word per line.")
    if not any(word in SPECIAL_WORDS for word in words):
        raise VocabularyError(
            f"{source} is a plain list of words, not a vocabulary. Put the four lines {special} "
            "before its first line, or create a vocabulary with seq2seq-chat prepare."
        )
    for number, expected in enumerate(SPECIAL_WORDS, start=1):
        if words[number - 1 : number] != [expected]:  # a slice: the list may be too short
            raise VocabularyError(
                f"{source}, line {number}: expected {expected}. The first four lines must be {special}."
            )
    lines: dict[str, int] = {}
    for number, word in enumerate(words, start=1):
        if not word.strip():
            raise VocabularyError(f"{source}, line {number}: empty. Remove the line.")
        if len(word.split()) > 1 or word != word.strip():
            raise VocabularyError(
                f"{source}, line {number}: {cut(repr(word))} is not a single word. Write one word per line, without "
                "white space."
            )
        first = lines.setdefault(word, number)
        if first != number:
            raise VocabularyError(
                f"{source}, line {number}: {cut(repr(word))} is already on line {first}. Remove one of them."
            )
