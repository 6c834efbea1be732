"""English text: lower case, no accents, punctuation as separate words; or as the thesis cleans it.

Applies to typed text and corpora alike.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import numpy as np

from seq2seq_chat.text.tokenizers.tokenizer import Tokenizer

_MARKS = ".,!?"
_TOKEN = re.compile(r"[a-z0-9]+|[.,!?]")
_SPACE_BEFORE_MARK = re.compile(r" (?=[.,!?](?: |$))")
_SPACE = ord(" ")
_NOT_ASCII = re.compile("[^\x00-\x7f]+")
_VALID = f"{string.ascii_lowercase}{string.digits}{_MARKS}\n"
# For bytes.translate: lower case; a space for each invalid byte.
_CLEANED = bytes(ord(chr(code).lower()) if code < 128 and chr(code).lower() in _VALID else 32 for code in range(256))


class _AsciiTable(dict[int, str]):
    """Maps a code point to ASCII for ``str.translate``: its compatibility decomposition (NFKD) without marks.

    Characters are decomposed one at a time. That is exact: neighbors only affect the order of the marks.
    """

    def __missing__(self, code: int) -> str:
        decomposed = unicodedata.normalize("NFKD", chr(code))
        kept = (part for part in decomposed if not unicodedata.category(part).startswith("M"))
        self[code] = ascii_text = "".join(part if part.isascii() else " " for part in kept)
        return ascii_text


_ASCII_TABLE = _AsciiTable()


def _to_ascii(text: str) -> str:
    """The text without accents, and with spaces for characters that have no ASCII form."""
    return text if text.isascii() else _NOT_ASCII.sub(lambda match: match[0].translate(_ASCII_TABLE), text)


def clean(text: str) -> str:
    """Reduce text to lower-case words and punctuation marks.

    Accents are dropped (``café`` gives ``cafe``), letters become lower case, everything other
    than ``a-z 0-9 . , ! ?`` becomes a space, each punctuation mark is a word of its own, and
    words are separated by single spaces. Cleaning is idempotent.
    """
    return " ".join(_TOKEN.findall(_to_ascii(text).lower()))


_REMOVED_MARKS = {
    "apostrophes": re.compile(r"(?<=\w)['’](?=\w)|(?<!\S)['’](?=(?:s|m|re|ve|ll|d|t)\b)"),
    "accents": re.compile("[À-ÖØ-öø-ɏḀ-ỿ]|(?<=\\w)[\u0300-\u036f]"),
    "emoji": re.compile("[\U0001f000-\U0001faff☹☺❤]"),
}
_BEFORE, _AFTER = re.compile("[\\w\u0300-\u036f]{0,30}$"), re.compile("['’\\w\u0300-\u036f]*")


def words_with_marks(texts: Iterable[str], count: int) -> dict[str, list[str]]:
    """The first words, up to ``count``, that lose apostrophes or accents when they are cleaned, and the first emoji."""
    text = "\n".join(texts)
    words: dict[str, list[str]] = {}
    for name, pattern in _REMOVED_MARKS.items():
        if name != "apostrophes" and text.isascii():
            break
        for mark in islice(pattern.finditer(text), 8 * count):  # some words may be the same
            before = _BEFORE.search(text, max(0, mark.start() - 30), mark.start())
            after = _AFTER.match(text, mark.start())
            word = mark[0] if name == "emoji" or not (before and after) else before[0] + after[0]
            if len(found := words.setdefault(name, [])) < count and word not in found:
                found.append(word)
    return words


def describe_marks(words: Mapping[str, Sequence[str]]) -> str:
    """What cleaning does to ``words_with_marks``."""
    return " and ".join(
        f"{name} ({', '.join(f'{word} becomes {clean(word)}' if clean(word) else word for word in some)})"
        for name, some in words.items()
    )


def join_lines(texts: Sequence[str]) -> str:
    """The texts as the lines of one text; line feeds within them become spaces."""
    return "\n".join([text.replace("\n", " ") for text in texts])


def clean_lines(texts: Sequence[str]) -> list[str]:
    """``clean`` of each text, but many times faster for many texts."""
    if not texts:
        return []
    return clean_block(_to_ascii(join_lines(texts)).encode("ascii")).decode("ascii").split("\n")


def clean_block(lines: bytes) -> bytes:
    """``clean`` of each line of a UTF-8 text. Every step is a single pass in C over all lines."""
    if not lines.isascii():
        lines = _to_ascii(lines.decode()).encode("ascii")
    return separate_marks(lines.translate(_CLEANED))


def separate_marks(data: bytes, marks: bytes = _MARKS.encode()) -> bytes:
    """Make each mark a word, and separate words by single spaces, in lines without other codes below the space."""
    for mark in marks:
        data = data.replace(b"%c" % mark, b" %c " % mark)
    codes = np.frombuffer(data, np.uint8)
    redundant = codes == _SPACE  # a space is kept only before a word
    redundant[:-1] &= codes[1:] <= _SPACE  # before a space or a line feed: no other code is this low
    return codes[~redundant].tobytes().replace(b"\n ", b"\n").removeprefix(b" ")


def attach_marks(tokens: Iterable[str]) -> str:
    """Tokens separated by spaces, with punctuation marks after the words."""
    return _SPACE_BEFORE_MARK.sub("", " ".join(tokens))


class EnglishTokenizer(Tokenizer):
    """Cleans a text; each remaining word or punctuation mark is a token."""

    name = "english"
    cleans = True

    def encode(self, text: str) -> list[str]:
        """The words and punctuation marks of the cleaned text."""
        return clean(text).split()

    def encode_lines(self, texts: Sequence[str]) -> list[str]:
        """The cleaned texts."""
        return clean_lines(texts)

    def decode(self, tokens: Iterable[str]) -> str:
        """The words, separated by spaces, with punctuation marks after the words."""
        return attach_marks(tokens)


SPACE = "<space>"
"""The token of a space."""


class EnglishCharacterTokenizer(Tokenizer):
    """Cleans a text as the English tokenizer does; each remaining character is a token."""

    name = "english_character"

    def encode(self, text: str) -> list[str]:
        """The characters of the cleaned text, ``<space>`` for spaces."""
        return [SPACE if character == " " else character for character in clean(text)]

    def decode(self, tokens: Iterable[str]) -> str:
        """The text of the characters."""
        return "".join(" " if token == SPACE else token for token in tokens)


_THESIS_TOKEN = re.compile(r"[a-zA-Z0-9]+|[.,!?]")
_INVALID = re.compile(r"[^a-zA-Z0-9.,!?]")
_OTHER_SPACE = re.compile(r"[^\x00-\x7f\S]")  # white space outside ASCII
_THESIS_VALID = f"{string.ascii_letters}{string.digits}.,!? \n".encode()
_REMOVED = 0
# For bytes.translate: white space becomes a space, an invalid byte _REMOVED.
_THESIS_CLEANED = bytes(
    code if code in _THESIS_VALID else ord(" ") if chr(code).isspace() else _REMOVED for code in range(128)
) + bytes(128)


class ThesisTokenizer(Tokenizer):
    """Cleans as the thesis does (section 5.2.1): a word with a character other than a-z A-Z 0-9 . , ! ? is removed.

    Words are separated by white space. In those that remain, each punctuation mark is a token of its own.
    """

    name = "thesis"
    cleans = True

    def encode(self, text: str) -> list[str]:
        """The words and punctuation marks of the words that are valid."""
        return [token for word in text.split() if not _INVALID.search(word) for token in _THESIS_TOKEN.findall(word)]

    def encode_lines(self, texts: Sequence[str]) -> list[str]:
        """The tokens of each text, separated by single spaces; every step is a single pass in C over all texts."""
        if not texts:
            return []
        codes, _ = _remove_words(_to_bytes(texts))
        return separate_marks(codes.tobytes()).decode("ascii").split("\n")

    def decode(self, tokens: Iterable[str]) -> str:
        """The words, separated by spaces, with punctuation marks after the words."""
        return attach_marks(tokens)

    def count_removed(self, texts: Sequence[str]) -> int:
        """The number of words with an invalid character."""
        return _remove_words(_to_bytes(texts))[1]


def _to_bytes(texts: Sequence[str]) -> bytes:
    """The texts as lines of valid bytes and _REMOVED."""
    text = join_lines(texts)
    if not text.isascii():
        # \\u4f60 has an invalid character for each character that is not ASCII.
        return _OTHER_SPACE.sub(" ", text).encode("ascii", "backslashreplace").translate(_THESIS_CLEANED)
    return text.encode("ascii").translate(_THESIS_CLEANED)


def _remove_words(data: bytes) -> tuple[np.ndarray, int]:
    """Remove the words with the byte _REMOVED. Returns the remaining bytes, and the number of words removed."""
    codes = np.frombuffer(data, np.uint8)
    invalid = np.flatnonzero(codes == _REMOVED)
    if not len(invalid):
        return codes, 0
    spaces = np.flatnonzero((codes == ord(" ")) | (codes == ord("\n")))
    spaces = np.concatenate([[-1], spaces, [len(codes)]])
    word_ends = np.unique(np.searchsorted(spaces, invalid))  # indices into spaces
    change = np.zeros(len(codes) + 1, np.int8)
    change[spaces[word_ends - 1] + 1] += 1
    change[spaces[word_ends]] -= 1
    return codes[np.cumsum(change[:-1], dtype=np.int8) == 0], len(word_ends)
