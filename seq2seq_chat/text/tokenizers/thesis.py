"""Text as the thesis cleans it (section 5.2.1): words with an invalid character are removed, case is kept."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Sequence

import numpy as np

from seq2seq_chat.text.tokenizers.english import attach_marks, join_lines, separate_marks
from seq2seq_chat.text.tokenizers.tokenizer import Tokenizer

_TOKEN = re.compile(r"[a-zA-Z0-9]+|[.,!?]")
_INVALID = re.compile(r"[^a-zA-Z0-9.,!?]")
_OTHER_SPACE = re.compile(r"[^\x00-\x7f\S]")  # white space outside ASCII
_VALID = f"{string.ascii_letters}{string.digits}.,!? \n".encode()
_REMOVED = 0
# For bytes.translate: white space becomes a space, an invalid byte _REMOVED.
_CLEANED = bytes(code if code in _VALID else ord(" ") if chr(code).isspace() else _REMOVED for code in range(128))
_CLEANED += bytes(128)


class ThesisTokenizer(Tokenizer):
    """Valid characters are a-z, A-Z, 0-9 and . , ! ?; a word with any other is removed whole.

    Words are separated by white space. In those that remain, each punctuation mark is a token of its own.
    """

    name = "thesis"
    cleans = True

    def encode(self, text: str) -> list[str]:
        """The words and punctuation marks of the words that are valid."""
        return [token for word in text.split() if not _INVALID.search(word) for token in _TOKEN.findall(word)]

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
        return _OTHER_SPACE.sub(" ", text).encode("ascii", "backslashreplace").translate(_CLEANED)
    return text.encode("ascii").translate(_CLEANED)


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
