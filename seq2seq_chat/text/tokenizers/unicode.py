"""Text in any language: words, numbers, punctuation marks and symbols by the properties of Unicode characters."""

from __future__ import annotations

import enum
import functools
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from seq2seq_chat.text.tokenizers.english import join_lines, separate_marks
from seq2seq_chat.text.tokenizers.tokenizer import TokenCache, Tokenizer

if TYPE_CHECKING:
    import regex


_IDEOGRAPH = (
    r"[[\p{Han}\p{Hiragana}\p{Katakana}\p{Yi}\p{Tangut}\p{Nushu}\p{Khitan_Small_Script}"
    r"\u3006\u3031-\u3035\u30FC\uFF70]--\p{M}]"
)
"""A pattern for the characters of scripts without spaces of which each is a token."""

_ASCII_TOKEN = re.compile(r"[A-Za-z0-9]+(?:(?:'|(?<=[0-9])[.,:](?=[0-9]))[A-Za-z0-9]+)*|.")

_URL = re.compile(r"(?<![^\W_])(?:https?://|www\.)\S*[^\W_]/?")  # up to the last letter or digit

_TAGS = r"[\U000E0020-\U000E007E]+\U000E007F"  # of the flags of regions
_PICTURE = rf"\p{{Extended_Pictographic}}(?:\p{{Emoji_Modifier}}|\p{{M}}|{_TAGS})*"
_KEYCAP = r"[0-9\#*]\uFE0F?\u20E3"
_EMOJI = rf"(?:\p{{RI}}{{2}}|{_PICTURE}(?:\u200D{_PICTURE})*|{_KEYCAP})"

_COMPLEX = r"[\p{Line_Break=SA}--\p{M}]"  # Thai, Lao, Khmer, Myanmar and others: each syllable or cluster is a token

# Scripts in which joiners (U+200C, U+200D) or the Mongolian vowel separator (U+180E) change the shape of letters.
_JOINING = (
    r"[\p{scx=Arab}\p{scx=Beng}\p{scx=Deva}\p{scx=Gujr}\p{scx=Guru}\p{scx=Khmr}\p{scx=Knda}\p{scx=Mand}\p{scx=Mani}"
    r"\p{scx=Mlym}\p{scx=Mong}\p{scx=Mymr}\p{scx=Nkoo}\p{scx=Orya}\p{scx=Phag}\p{scx=Sinh}\p{scx=Syrc}\p{scx=Taml}"
    r"\p{scx=Telu}]"
)
_SHAPED = rf"(?<=[{_JOINING}&&\p{{L}}]\p{{M}}*)"
_SEPARATOR = (
    rf"(?<=[[{_JOINING}&&\p{{L}}]--{_COMPLEX}]\p{{M}}*)[\u200C\u180E](?=[[{_JOINING}&&[\p{{L}}\p{{M}}]]--{_COMPLEX}])"
)
_INVISIBLE = r"[[\p{Cc}\p{Cf}\p{Cs}\p{Noncharacter_Code_Point}]--\p{Prepended_Concatenation_Mark}]"
KEPT_OR_INVISIBLE = rf"({_EMOJI}|{_SHAPED}\u200D|{_SEPARATOR})|{_INVISIBLE}"

_MARK = r"[\p{M}\u200C\u200D\u180E\uFF9E\uFF9F]"  # also the voicing marks of half-width Katakana
_STACKER = r"\p{Indic_Syllabic_Category=Invisible_Stacker}"
_CLUSTER = rf"{_COMPLEX}{_MARK}*(?:(?:(?<={_STACKER}){_COMPLEX}|[\u0E33\u0EB3]){_MARK}*)*"
_TIBETAN = r"[\p{Tibetan}&&[\p{L}\p{M}]]+[\u0F0B\u0F0C]?"  # a syllable with the mark that ends it
_WORD_CHARACTER = (
    rf"(?:[[\p{{L}}\p{{N}}{_MARK}]--[0-9\p{{Extended_Pictographic}}\p{{Tibetan}}{_IDEOGRAPH}{_COMPLEX}]]"
    r"|[0-9](?!\uFE0F?\u20E3))"
)
_CONNECTOR = (  # within a word, or within a number
    r"(?:['’]|(?<=\p{Nd})[.,:٫٬](?=\p{Nd})|(?<=[lL])·(?=[lL])|[\u055A-\u055C\u055E\u055F](?=\p{Armenian})"
    r'|(?<=\p{Hebrew})["״׳](?=\p{Hebrew}))'
)
_WORD = rf"{_WORD_CHARACTER}++(?:{_CONNECTOR}{_WORD_CHARACTER}++)*+"
TOKEN = rf"{_EMOJI}{_MARK}*|{_IDEOGRAPH}{_MARK}*|{_CLUSTER}|{_TIBETAN}|{_WORD}|.{_MARK}*"


APOSTROPHE = r"(?<=[\p{L}\p{M}\p{N}])[’ʼ](?=[\p{L}\p{N}])"
"""A typographic apostrophe within a word."""

_nfc = functools.partial(unicodedata.normalize, "NFC")


@functools.cache
def _compile(pattern: str) -> regex.Pattern[str]:
    import regex  # only where text is not ASCII

    return regex.compile(pattern, regex.VERSION1 | regex.DOTALL)


def _remove_invisible(chunk: str) -> str:
    """A chunk in NFC, without control and format characters, except those that belong to a word or an emoji."""
    return _compile(KEPT_OR_INVISIBLE).sub(r"\1", chunk)


def _normalize(chunk: str) -> str:
    """A chunk in NFC without invisible characters."""
    chunk = _nfc(chunk)
    return chunk if chunk.isprintable() else _nfc(_remove_invisible(chunk))


def _may_have_url(text: str) -> bool:
    return "://" in text or "www." in text


def encode_chunk(chunk: str) -> list[str]:
    """The tokens of a string without white space."""
    if not (chunk.isascii() and chunk.isprintable()):
        chunk = _normalize(chunk)
    if not _may_have_url(chunk):
        return _encode_plain(chunk)
    tokens, end = [], 0
    for url in _URL.finditer(chunk):
        tokens += [*_encode_plain(chunk[end : url.start()]), url[0]]
        end = url.end()
    return tokens + _encode_plain(chunk[end:])


def _encode_plain(chunk: str) -> list[str]:
    """The tokens of a normalized string without white space and addresses."""
    return _ASCII_TOKEN.findall(chunk) if chunk.isascii() else _compile(TOKEN).findall(chunk)


class UnicodeTokenizer(Tokenizer):
    """Splits text in any language into words, numbers, punctuation marks and symbols, each with its combining marks.

    Text is normalized to NFC and split at white space; then these are tokens:

    - letters and digits together, also around an apostrophe, and around . , : between digits: ``don't``, ``10:30``
      (``normalize_apostrophes`` makes the typographic apostrophe of ``don’t`` the one of the typewriter);
    - a character of Chinese and Japanese, and a syllable or cluster of Thai, Lao, Khmer, Burmese or Tibetan;
    - a web address that starts with http://, https:// or www.;
    - an emoji with its modifiers, a flag, a sequence of emoji with joiners;
    - any other visible character.

    Control and format characters are removed, except joiners of emoji and of the scripts that need them.
    """

    name = "unicode"

    def __init__(self, lowercase: bool = False, normalize_apostrophes: bool = False) -> None:
        """Make all tokens lower case if ``lowercase`` is set."""
        self.lowercase, self.normalize_apostrophes = lowercase, normalize_apostrophes
        self._cache = TokenCache(self._encode_chunk)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.lowercase, self.normalize_apostrophes)

    def _encode_chunk(self, chunk: str) -> list[str]:
        if self.normalize_apostrophes and not chunk.isascii():
            chunk = _compile(APOSTROPHE).sub("'", _normalize(chunk))
        return encode_chunk(_normalize(chunk).lower() if self.lowercase else chunk)

    def encode(self, text: str) -> list[str]:
        """The tokens."""
        return " ".join(map(self._cache.__getitem__, text.split())).split()

    def encode_lines(self, texts: Sequence[str]) -> list[str]:
        """The tokens of each text, separated by single spaces."""
        find = self._cache.__getitem__
        lines = [text.lower() for text in texts] if self.lowercase else texts
        is_plain = [text.isascii() and not _may_have_url(line) for text, line in zip(texts, lines, strict=True)]
        plain = [text for text, is_plain_text in zip(texts, is_plain, strict=True) if is_plain_text]
        encoded = iter(encode_ascii_lines(plain, lowercase=self.lowercase))
        return [
            next(encoded) if is_plain_text else " ".join(filter(None, map(find, text.split())))
            for text, is_plain_text in zip(texts, is_plain, strict=True)
        ]

    def decode(self, tokens: Iterable[str]) -> str:
        """The tokens with spaces where a reader expects them, and where tokens would become others without."""
        return join_tokens(list(tokens), self._encode_chunk)

    def count_removed(self, texts: Sequence[str]) -> int:
        """The number of removed characters."""
        chunks = (chunk for text in texts for chunk in text.split() if not chunk.isprintable())
        return sum(len(chunk) - len(_remove_invisible(chunk)) for chunk in map(_nfc, chunks))


_WHITE_SPACE = bytes.maketrans(b"\t\v\f\r\x1c\x1d\x1e\x1f", b" " * 8)
_CONTROLS = bytes(code for code in range(128) if not chr(code).isprintable() and not chr(code).isspace())


def _are(characters: str) -> np.ndarray:
    """Whether each code is one of the characters."""
    return np.isin(np.arange(256), list(characters.encode()))


_DIGITS, _ALPHANUMERIC = _are(string.digits), _are(string.digits + string.ascii_letters)
_CONNECTORS = _are("'.,:")
_IN_WORD = 0x80  # added to the code of a connector within a word, so that it is not separated
_RESTORED = bytes(range(128)) * 2


def encode_ascii_lines(texts: Sequence[str], *, lowercase: bool) -> list[str]:
    """The tokens of each text, separated by single spaces. All texts are ASCII."""
    if not texts:
        return []
    data = join_lines(texts).encode("ascii").translate(_WHITE_SPACE, _CONTROLS)
    codes = np.frombuffer(data.lower() if lowercase else data, np.uint8).copy()
    connectors = np.flatnonzero(_CONNECTORS[codes[1:-1]]) + 1
    left, right = codes[connectors - 1], codes[connectors + 1]
    within = np.where(
        codes[connectors] == ord("'"), _ALPHANUMERIC[left] & _ALPHANUMERIC[right], _DIGITS[left] & _DIGITS[right]
    )
    codes[connectors[within]] += _IN_WORD
    separated = separate_marks(codes.tobytes(), string.punctuation.encode())
    return separated.translate(_RESTORED).decode("ascii").split("\n")


class _Kind(enum.Enum):
    """What a token is to its neighbors. Its kind is the first whose pattern matches its start, or else SYMBOL."""

    SPECIAL = r"<\w+>"  # a special word, such as <unknown>, which no text contains
    ADDRESS = r"https?://|www\."  # of the web
    IDEOGRAPH = _IDEOGRAPH  # no space before or after another one, a number, or a punctuation mark
    COMPLEX = r"[[\p{Line_Break=SA}\p{Tibetan}]&&[\p{L}\p{M}]]"  # Thai and others: no space before or after another one
    NUMBER = r"\p{Nd}"
    WORD = r"[\p{L}\p{N}\p{M}]"
    # East Asian punctuation marks, which are as wide as an ideograph: no spaces at all
    WIDE = r"[\u3001-\u303F\u30FB\uFE10-\uFE1F\uFE30-\uFE4F\uFF01-\uFF65]"
    HYPHEN = r"[\-‐‑\u058A\u05BE\/_]"  # no spaces between two words
    RANGE = "–"  # no spaces between two numbers
    CURRENCY = r"\p{Sc}"  # no space before a number
    PREFIX = r"[#@]\Z"  # no space before a word
    OPENING = r"[\p{Ps}\p{Pi}¿¡]"  # no space after it
    CLOSING = r"[\p{Terminal_Punctuation}\p{Pe}\p{Pf}…‥%‰°·′″\u055A-\u055E\u05F3\u05F4]"  # no space before it
    PUNCTUATION = r"\p{P}"
    SYMBOL = ""


KINDS = {kind: kind.value for kind in _Kind if kind.value}
_KIND = "|".join(f"(?P<{kind.name}>{pattern})" for kind, pattern in KINDS.items())
# Quotation marks that may begin a quotation, and the marks that then end it. ” and » begin one in some languages.
_QUOTES = {
    '"': '"',
    "'": "'",
    "“": "”",
    "„": "“”",
    "”": "”",
    "«": "»",
    "»": "«»",
    "‹": "›",
    "›": "‹›",
    "‘": "’",
    "‚": "‘’",
}
_STRAIGHT = "\"'"


def join_tokens(tokens: Sequence[str], encode: Callable[[str], list[str]]) -> str:
    """The tokens, separated by spaces where a reader expects them, and where tokens would become others without.

    Args:
        encode: Returns the tokens of a string without white space.
    """
    kinds = _kinds(tokens)
    parts = list(tokens[:1])
    for index in range(1, len(tokens)):
        pair = [tokens[index - 1], tokens[index]]
        is_attached = _is_attached(index, tokens, kinds) and (
            _Kind.SPECIAL in kinds[index - 1 : index + 1] or encode("".join(pair)) == pair
        )
        parts.append(tokens[index] if is_attached else f" {tokens[index]}")
    return "".join(parts)


def _is_attached(index: int, tokens: Sequence[str], kinds: Sequence[_Kind]) -> bool:
    """Whether a reader expects no space before a token; ``index`` is at least 1."""
    left, right = kinds[index - 1], kinds[index]
    words = {_Kind.WORD, _Kind.NUMBER, _Kind.SPECIAL}
    if right is _Kind.CLOSING or left is _Kind.OPENING or _Kind.WIDE in (left, right):
        return True
    if _Kind.IDEOGRAPH in (left, right):
        return not {left, right} & {_Kind.WORD, _Kind.COMPLEX, _Kind.SYMBOL, _Kind.SPECIAL}
    for connector, neighbors in ((_Kind.HYPHEN, words), (_Kind.RANGE, {_Kind.NUMBER})):
        middle = index if right is connector else index - 1
        if (
            kinds[middle] is connector
            and 0 < middle < len(kinds) - 1
            and {*kinds[middle - 1 : middle + 2 : 2]} <= neighbors
        ):
            return True
    if tokens[index - 1] == "." and _is_abbreviation(tokens[max(0, index - 2) : index + 2]):
        return True
    if (left is _Kind.CURRENCY and right is _Kind.NUMBER) or (left is _Kind.PREFIX and right in words):
        return True
    return left is right and (left is _Kind.COMPLEX or (left not in words and tokens[index - 1] == tokens[index]))


def _is_abbreviation(tokens: Sequence[str]) -> bool:
    """Whether four tokens are like ``a . m .``; the initials of a name, which are capitals, have spaces."""
    letters = tokens[::2]
    return list(tokens[1::2]) == [".", "."] and all(len(letter) == 1 and letter.islower() for letter in letters)


@functools.lru_cache(1 << 16)
def _kind(token: str) -> _Kind:
    match = _compile(_KIND).match(token)
    return _Kind[match.lastgroup] if match and match.lastgroup else _Kind.SYMBOL


def _kinds(tokens: Sequence[str]) -> list[_Kind]:
    """The kind of each token. A quotation mark opens or closes a quotation; an apostrophe closes."""
    kinds = [_kind(token) for token in tokens]
    remaining = Counter(token for token in tokens if token in _QUOTES)
    expected: list[str] = []  # what ends each of the quotations that have begun
    for index, token in enumerate(tokens):
        if token not in _QUOTES:
            continue
        remaining[token] -= 1
        depth = next((depth for depth in reversed(range(len(expected))) if token in expected[depth]), None)
        if depth is not None:
            del expected[depth:]
            kinds[index] = _Kind.CLOSING
        elif any(remaining[closing] for closing in _QUOTES[token]):
            expected.append(_QUOTES[token])
            kinds[index] = _Kind.OPENING
        elif token in _STRAIGHT:  # one without a partner
            is_possessive = token == "'" and index > 0 and tokens[index - 1].endswith("s")  # dogs' tails
            kinds[index] = _Kind.CLOSING if is_possessive or index == len(tokens) - 1 else _Kind.OPENING
    return kinds
