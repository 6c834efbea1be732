"""What a model repeats of its training corpus word for word."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.data.encoding import hash_tokens

_BLOCK = 1 << 20  # training samples compared at once
_EXAMPLES = 3
_CONTACT = re.compile(
    r"(?:https?://|www\.)\S|[\w.+-]+@[\w-]+\.\w"  # links and addresses
    r"|\d(?:[\s().:/-]*\d){2}"  # numbers of at least three digits
)
_WITHIN_SENTENCE = re.compile(r"(?<=[\w,;:] )\w+")
_NO_NAMES = {"I", "NAME", "NUMBER", "ADDRESS", "LINK"}  # the others are written by `prepare chats --anonymize`


class Copies(NamedTuple):
    """How many replies are targets of the training corpus."""

    replies: int  # with the tokens of a target
    private: int  # of them: with a name, a number or an address in the target
    examples: list[str]  # a few of such targets, as they are in the corpus


def find_copies(replies: Iterable[str], training: Dataset) -> Copies:
    """Look for replies among the targets of the training corpus, by the hashes of their tokens.

    A name is a word within a sentence that begins with a capital letter, so there are none in corpora in lower case,
    and nouns of German count as names. Memory grows with the replies, not with the corpus.

    Args:
        replies: The tokens of each, separated by spaces.

    Raises:
        CorpusError: The training corpus has changed.
    """
    hashes = np.array([hash_tokens(tokens) for tokens in replies], np.uint64)
    found: dict[int, int] = {}  # the first sample with a target, by hash
    for start in range(0, len(training), _BLOCK):
        _, targets = training.hashes(slice(start, start + _BLOCK))
        copied, _, indices = np.intersect1d(hashes, targets, return_indices=True)
        found = {**dict(zip(copied.tolist(), (start + indices).tolist(), strict=True)), **found}
    texts = {hashed: training.text(found[hashed]).target for hashed in sorted(found, key=found.__getitem__)}
    private = {hashed: text for hashed, text in texts.items() if _is_private(text)}
    values = hashes.tolist()
    return Copies(
        sum(value in found for value in values),
        sum(value in private for value in values),
        list(private.values())[:_EXAMPLES],
    )


def _is_private(text: str) -> bool:
    words = _WITHIN_SENTENCE.findall(text)
    return bool(_CONTACT.search(text)) or any(word[0].isupper() and word not in _NO_NAMES for word in words)
