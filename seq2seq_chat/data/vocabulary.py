"""Words and their ids."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path

from seq2seq_chat.atomic import atomic_write
from seq2seq_chat.corpus.lines import numbered_lines
from seq2seq_chat.errors import UserError

PAD, GO, EOS, UNKNOWN = 0, 1, 2, 3
TURN = "<turn>"
"""Stands between the turns of a source that has several; a word like any other."""

VOCABULARY_FILE = "vocabulary.txt"
SPECIAL_WORDS = ("<pad>", "<go>", "<eos>", "<unknown>")
"""The words of ids 0 to 3. Clean text never holds them, as it has no angle brackets."""


class VocabularyError(UserError):
    """A vocabulary that cannot be used; the message says where, why and what to do."""


class Vocabulary:
    """An ordered list of distinct words; the id of a word is its place in the list.

    Attributes:
        words: All words; the first four are ``SPECIAL_WORDS``.
    """

    def __init__(self, words: Iterable[str], source: str = "vocabulary") -> None:
        """Take over a list of words; ``source`` names it in errors.

        Raises:
            VocabularyError: The special words are not at the start, or some entry is blank,
                more than one word, or a duplicate.
        """
        self.words = list(words)
        _check(self.words, source)
        self._ids = {word: index for index, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._ids

    def ids(self, tokens: Iterable[str]) -> list[int]:
        """The ids of tokens, ``UNKNOWN`` for those that are not in the vocabulary."""
        find = self._ids.get
        return [find(token, UNKNOWN) for token in tokens]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The words of ids, each in 0 .. len(vocabulary) - 1 (numpy integers will do)."""
        return [self.words[index] for index in ids]

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of the words in their order: equal just when the contents are."""
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
        """Write the vocabulary file whole.

        Raises:
            UserError: The file could not be written.
        """
        with atomic_write(path) as stream:
            stream.writelines(f"{word}\n" for word in self.words)

    @staticmethod
    def count(token_lists: Iterable[list[str]]) -> Counter[str]:
        """How often each token occurs."""
        counts: Counter[str] = Counter()
        for tokens in token_lists:
            counts.update(tokens)
        return counts

    @classmethod
    def from_counts(cls, counts: Mapping[str, int], size: int) -> Vocabulary:
        """The vocabulary of the most frequent words, at most ``size`` with the special ones.

        Words of equal frequency are ordered by code points, so that equal counts always give
        the same vocabulary.

        Raises:
            VocabularyError: ``size`` leaves no room for any word beside the special ones.
        """
        room = size - len(SPECIAL_WORDS)
        if room < 1:
            raise VocabularyError(
                f"A vocabulary of size {size} has no room for words beside the "
                f"{len(SPECIAL_WORDS)} special ones. Choose a greater size."
            )
        words = (word for word in counts if word not in SPECIAL_WORDS)
        ranked = sorted(words, key=lambda word: (-counts[word], word))
        return cls([*SPECIAL_WORDS, *ranked[:room]])


def _check(words: list[str], source: str) -> None:
    """Raise a VocabularyError unless ``words`` (line 1 first) make a vocabulary."""
    special = " ".join(SPECIAL_WORDS)
    if not words:
        raise VocabularyError(f"{source} is empty. Its first lines must be {special}, then one word a line.")
    if not any(word in SPECIAL_WORDS for word in words):
        raise VocabularyError(
            f"{source} is a plain list of words, not a vocabulary. Put the four lines {special} "
            "before its first line, or have a vocabulary counted by preparing the corpus."
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
                f"{source}, line {number}: {word!r} is not a single word. Write one word a line, without white space."
            )
        first = lines.setdefault(word, number)
        if first != number:
            raise VocabularyError(
                f"{source}, line {number}: {word!r} is on line {first} already. Remove one of the two lines."
            )
