"""The Unicode tokenizer for ASCII text: every step is a single pass in C over all lines."""

from __future__ import annotations

import string
from collections.abc import Sequence

import numpy as np

from seq2seq_chat.data.tokenizers.english import join_lines, separate_marks

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
