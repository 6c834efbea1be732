from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.corpus import (
    SPECIAL_WORDS,
    CorpusError,
    EncodedCorpus,
    Vocabulary,
    fit_source,
    write_conversations,
)
from seq2seq_chat.corpus.cache import EncodedArrays

Write = Callable[..., Path]


def samples(corpus: EncodedCorpus) -> list[tuple[list[int], list[int]]]:
    return [(corpus.source_ids(i).tolist(), corpus.target_ids(i).tolist()) for i in range(len(corpus))]


def test_sliding(corpus_file: Write, letters: Vocabulary) -> None:
    corpus = EncodedCorpus.open(corpus_file("a b / c / d x!", "e", "f / * / g"), letters)
    assert samples(corpus) == [([4, 5], [6]), ([6], [7, 3, 3]), ([9], [10])]
    assert corpus.source_lengths().tolist() == [2, 1, 1]
    assert corpus.target_lengths().tolist() == [1, 3, 1]
    assert corpus.source_lengths().dtype == corpus.target_lengths().dtype == np.int32
    assert corpus.source_ids(0).dtype == np.int32


def test_alternating(corpus_file: Write, letters: Vocabulary) -> None:
    path = corpus_file("a / b / c / d / e", "f / g")
    corpus = EncodedCorpus.open(path, letters, pairing="alternating")
    assert samples(corpus) == [([4], [5]), ([6], [7]), ([9], [10])]


def test_characters(corpus_file: Write) -> None:
    vocabulary = Vocabulary([*SPECIAL_WORDS, "a", "b", "<space>"])
    corpus = EncodedCorpus.open(corpus_file("a b / ba"), vocabulary, level="character")
    assert samples(corpus) == [([4, 6, 5], [5, 4])]


@pytest.mark.parametrize(("size", "dtype"), [(65_536, "uint16"), (65_537, "int32")])
def test_ids_take_two_bytes_if_they_fit(corpus_file: Write, tmp_path: Path, size: int, dtype: str) -> None:
    words = [f"w{n}" for n in range(size - 4)]
    corpus = EncodedCorpus.open(corpus_file(f"{words[0]} / {words[-1]}"), Vocabulary([*SPECIAL_WORDS, *words]))
    assert samples(corpus) == [([4], [size - 1])]
    (tokens,) = tmp_path.glob("corpus.txt.cache/*/tokens.npy")
    assert np.load(tokens).dtype == dtype


@pytest.mark.parametrize("pairing", ["sliding", "alternating"])
def test_no_sample(corpus_file: Write, tmp_path: Path, letters: Vocabulary, pairing) -> None:
    with pytest.raises(CorpusError, match=rf"with {pairing} pairing, none of its 2 usable"):
        EncodedCorpus.open(corpus_file("a", "b / *"), letters, pairing=pairing)
    assert not list(tmp_path.glob("corpus.txt.cache/*"))


def test_unreadable(tmp_path: Path, letters: Vocabulary) -> None:
    with pytest.raises(CorpusError, match="does not exist"):
        EncodedCorpus.open(tmp_path / "none.txt", letters)
    with pytest.raises(CorpusError, match="is a folder"):
        EncodedCorpus.open(tmp_path, letters)
    (tmp_path / "bad.txt").write_bytes(b"a\n\xff\n")
    with pytest.raises(CorpusError, match="line 2"):
        EncodedCorpus.open(tmp_path / "bad.txt", letters)


def test_batch_by_hand(corpus_file: Write, letters: Vocabulary) -> None:
    corpus = EncodedCorpus.open(corpus_file("a b c d / e f / g h i / j"), letters)
    batch = corpus.batch([2, 0, 1], size=4, source_steps=3, target_steps=3, reverse=False)
    assert batch.source.tolist() == [[10, 11, 12], [5, 6, 7], [8, 9, 0], [0, 0, 0]]
    assert batch.source_length.tolist() == [3, 3, 2, 0]
    # One word and EOS; two words and EOS; three words have no room for EOS and get none.
    assert batch.target.tolist() == [[13, 2, 0], [8, 9, 2], [10, 11, 12], [0, 0, 0]]
    assert batch.target_length.tolist() == [2, 3, 3, 0]
    assert all(array.dtype == np.int32 for array in batch)
    reverse = corpus.batch([2, 0, 1], size=3, source_steps=3, target_steps=3, reverse=True)
    assert reverse.source.tolist() == [[12, 11, 10], [7, 6, 5], [9, 8, 0]]
    assert reverse.target.tolist() == batch.target[:3].tolist()


def test_batch_of_nothing_and_of_too_much(corpus_file: Write, letters: Vocabulary) -> None:
    corpus = EncodedCorpus.open(corpus_file("a / b"), letters)
    shape = {"source_steps": 2, "target_steps": 3, "reverse": True}
    batch = corpus.batch([], size=2, **shape)
    assert batch.source.tolist() == [[0, 0]] * 2
    assert batch.target.tolist() == [[0, 0, 0]] * 2
    assert batch.source_length.tolist() == batch.target_length.tolist() == [0, 0]
    with pytest.raises(ValueError, match="2 samples do not fit"):
        corpus.batch([0, 0], size=1, **shape)
    with pytest.raises(IndexError):
        corpus.batch([1], size=1, **shape)


utterances = st.lists(st.sampled_from("abcdefghijx"), min_size=1, max_size=7)


@given(
    conversations=st.lists(st.lists(utterances, min_size=2, max_size=4), min_size=1, max_size=4),
    source_steps=st.integers(1, 8),
    target_steps=st.integers(1, 8),
    reverse=st.booleans(),
    data=st.data(),
)
def test_batch_is_the_same_as_by_plain_python(
    tmp_path_factory: pytest.TempPathFactory,
    conversations: list[list[list[str]]],
    source_steps: int,
    target_steps: int,
    reverse: bool,
    data: st.DataObject,
) -> None:
    folder = tmp_path_factory.mktemp("batch")
    lines = [[" ".join(words) for words in conversation] for conversation in conversations]
    write_conversations(folder / "c.txt", lines)
    corpus = EncodedCorpus.open(folder / "c.txt", Vocabulary([*SPECIAL_WORDS, *"abcdefghij"]))
    ids = {letter: 4 + place for place, letter in enumerate("abcdefghij")} | {"x": 3}
    pairs = [
        ([ids[w] for w in asks], [ids[w] for w in answers])
        for conversation in conversations
        for asks, answers in pairwise(conversation)
    ]
    assert samples(corpus) == pairs
    indices = data.draw(st.lists(st.integers(0, len(pairs) - 1), max_size=6))
    size = len(indices) + data.draw(st.integers(0, 2))
    batch = corpus.batch(
        np.array(indices, dtype=np.int32),
        size=size,
        source_steps=source_steps,
        target_steps=target_steps,
        reverse=reverse,
    )
    for row in range(size):
        source: list[int] = []
        target: list[int] = []
        if row < len(indices):
            source, target = pairs[indices[row]]
            fitted, length = fit_source(source, source_steps, reverse)
            assert batch.source[row].tolist() == fitted.tolist()
            assert batch.source_length[row] == length
            source = source[-source_steps:]
            source = source[::-1] if reverse else source
            target = [*target, 2][:target_steps]
        assert batch.source[row].tolist() == source + [0] * (source_steps - len(source))
        assert batch.source_length[row] == len(source)
        assert batch.target[row].tolist() == target + [0] * (target_steps - len(target))
        assert batch.target_length[row] == len(target)


def test_sources_of_several_utterances() -> None:
    """The layout, and all that reads it, is ready for several turns of context."""
    arrays = EncodedArrays(np.arange(4, 10, dtype=np.uint16), np.array([0, 2, 3, 6]), np.array([[0, 2], [1, 2]]))
    corpus = EncodedCorpus(arrays)
    assert samples(corpus) == [([4, 5, 6], [7, 8, 9]), ([6], [7, 8, 9])]
    assert corpus.source_lengths().tolist() == [3, 1]
    batch = corpus.batch([0, 1], size=2, source_steps=2, target_steps=4, reverse=True)
    assert batch.source.tolist() == [[6, 5], [6, 0]]


@pytest.mark.parametrize(
    ("ids", "steps", "reverse", "expected"),
    [
        ([5, 6, 7], 3, False, ([5, 6, 7], 3)),
        ([5, 6, 7], 5, False, ([5, 6, 7, 0, 0], 3)),
        ([5, 6, 7], 5, True, ([7, 6, 5, 0, 0], 3)),
        ([5, 6, 7], 2, False, ([6, 7], 2)),
        ([5, 6, 7], 2, True, ([7, 6], 2)),
        ([], 2, True, ([0, 0], 0)),
    ],
)
def test_fit_source(ids: list[int], steps: int, reverse: bool, expected: tuple[list[int], int]) -> None:
    source, length = fit_source(ids, steps, reverse)
    assert (source.tolist(), length) == expected
    assert source.dtype == np.int32


def test_a_corpus_is_known_wherever_it_lies(corpus_file: Write, letters: Vocabulary, tmp_path: Path) -> None:
    path = corpus_file("a b / c / d x!", "e", "f / * / g")
    corpus = EncodedCorpus.open(path, letters)
    copied = tmp_path / "elsewhere.txt"
    copied.write_bytes(path.read_bytes())
    assert EncodedCorpus.open(copied, letters).fingerprint == corpus.fingerprint
    copied.write_bytes(path.read_bytes().replace(b"a b", b"b a"))
    assert EncodedCorpus.open(copied, letters).fingerprint != corpus.fingerprint


def test_the_share_of_unknown_words(corpus_file: Write, letters: Vocabulary) -> None:
    assert EncodedCorpus.open(corpus_file("a b / c x"), letters).unknown_share() == 0.25
