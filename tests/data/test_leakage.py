"""Leakage compared to lists, for conversations and pairs."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq_chat.config import Data
from seq2seq_chat.data.corpus_file import write_conversations
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.report import scoring as leakage
from seq2seq_chat.report.scoring import find_leakage
from seq2seq_chat.text.codec import Codecs, TextCodec
from seq2seq_chat.text.tokenizers import Tokenizers, TokenizerSettings, create_tokenizer
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, TURN, Vocabulary

TEXTS = st.sampled_from(["Hi", "hi !", "HI!", "a b", "a  b", "ab", "Où?", "ou ?"])
conversations = st.lists(st.lists(TEXTS, min_size=2, max_size=6), min_size=1, max_size=6)
pairs = st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=8)


def find(train: Path, other: Path, data: Data, tokenizers: Tokenizers) -> tuple[list[bool], list[bool]]:
    """All words are unknown, so that only their tokens tell samples from each other; compared in blocks of three."""
    codec = TextCodec(tokenizers.source, Vocabulary([*SPECIAL_WORDS, TURN]))
    is_shared = tokenizers.source is tokenizers.target
    codecs = Codecs(codec, codec if is_shared else TextCodec(tokenizers.target, Vocabulary([*SPECIAL_WORDS, TURN])))
    corpora = [Dataset.open(path, codecs, data) for path in (train, other)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leakage, "_BLOCK", 3)
        samples, targets = find_leakage(corpora[1], np.arange(len(corpora[1])), corpora[0])
    return samples.tolist(), targets.tolist()


def expected(train: list[Any], other: list[Any]) -> tuple[list[bool], list[bool]]:
    return [sample in train for sample in other], [target in [t for _, t in train] for _, target in other]


@settings(deadline=None, max_examples=15)
@given(conversations, conversations, st.sampled_from(["sliding", "alternating"]), st.booleans(), st.booleans())
def test_conversations(train: Any, other: Any, pairing: Any, swapped: bool, long_context: bool) -> None:
    """A sample is its last utterance and the reply, whatever the context."""
    changes: dict[str, Any] = {"swap_source_target": swapped} if not long_context else {"context_turns": 3}
    english = create_tokenizer(TokenizerSettings("english"))

    def samples(texts: list[list[str]]) -> list[tuple[list[str], ...]]:
        step = 1 if pairing == "sliding" else 2
        found = [tuple(map(english.encode, c[i : i + 2])) for c in texts for i in range(0, len(c) - 1, step)]
        return [sample[::-1] for sample in found] if swapped and not long_context else found

    with tempfile.TemporaryDirectory() as name:
        paths = [Path(name, "train.txt"), Path(name, "other.txt")]
        for path, texts in zip(paths, (train, other), strict=True):
            write_conversations(path, texts)
        data = Data(train=str(paths[0]), pairing=pairing, **changes)
        assert find(*paths, data, Tokenizers(english, english)) == expected(samples(train), samples(other))


@settings(deadline=None, max_examples=15)
@given(pairs, pairs)
def test_pairs_with_two_tokenizers(train: Any, other: Any) -> None:
    """The source is compared by its characters, the target by its cleaned words."""
    tokenizers = Tokenizers(*(create_tokenizer(TokenizerSettings(name)) for name in ("character", "english")))  # type: ignore[arg-type]

    def samples(rows: list[tuple[str, str]]) -> list[tuple[str, list[str]]]:
        return [(source, tokenizers.target.encode(target)) for source, target in rows]

    with tempfile.TemporaryDirectory() as name:
        paths = [Path(name, "train.tsv"), Path(name, "other.tsv")]
        for path, rows in zip(paths, (train, other), strict=True):
            path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
        data = Data(train=str(paths[0]), tokenizer="character", target_tokenizer="english")
        assert find(*paths, data, tokenizers) == expected(samples(train), samples(other))
