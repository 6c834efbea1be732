from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq_chat.config import Data, ParallelFiles
from seq2seq_chat.data.corpus_file import END_OF_CONVERSATION, CorpusError, write_conversations
from seq2seq_chat.data.dataset import Dataset, fit_source
from seq2seq_chat.data.samples import Pairing
from seq2seq_chat.text.codec import Codecs, TextCodec
from seq2seq_chat.text.tokenizers.english import EnglishCharacterTokenizer, EnglishTokenizer
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, TURN, Vocabulary

Write = Callable[..., Path]


def samples(corpus: Dataset) -> list[tuple[list[int], list[int]]]:
    return [(corpus.source_ids(i).tolist(), corpus.target_ids(i).tolist()) for i in range(len(corpus))]


def test_sliding(corpus_file: Write, letters: Codecs) -> None:
    corpus = Dataset.open(corpus_file("a b / c / d x!", "e", "f / * / g"), letters)
    assert samples(corpus) == [([4, 5], [6]), ([6], [7, 3, 3]), ([9], [10])]
    assert corpus.source_lengths().tolist() == [2, 1, 1]
    assert corpus.target_lengths().tolist() == [1, 3, 1]
    assert corpus.source_lengths().dtype == corpus.target_lengths().dtype == np.int32
    assert corpus.source_ids(0).dtype == np.int32


def test_alternating(corpus_file: Write, letters: Codecs) -> None:
    path = corpus_file("a / b / c / d / e", "f / g")
    corpus = Dataset.open(path, letters, Data(train=str(path), pairing="alternating"))
    assert samples(corpus) == [([4], [5]), ([6], [7]), ([9], [10])]


def test_characters(corpus_file: Write) -> None:
    codec = TextCodec(EnglishCharacterTokenizer(), Vocabulary([*SPECIAL_WORDS, "a", "b", "<space>"]))
    path = corpus_file("a b / ba")
    corpus = Dataset.open(path, Codecs.shared(codec))
    assert samples(corpus) == [([4, 6, 5], [5, 4])]


@pytest.mark.parametrize(("size", "dtype"), [(65_536, "uint16"), (65_537, "int32")])
def test_ids_are_two_bytes_if_they_fit(corpus_file: Write, tmp_path: Path, size: int, dtype: str) -> None:
    words = [f"w{n}" for n in range(size - 4)]
    codecs = Codecs.of_words(Vocabulary([*SPECIAL_WORDS, *words]))
    corpus = Dataset.open(corpus_file(f"{words[0]} / {words[-1]}"), codecs)
    assert samples(corpus) == [([4], [size - 1])]
    (tokens,) = tmp_path.glob("corpus.txt.cache/*/tokens.npy")
    assert np.load(tokens).dtype == dtype


@pytest.mark.parametrize("pairing", ["sliding", "alternating"])
def test_no_sample(corpus_file: Write, tmp_path: Path, letters: Codecs, pairing) -> None:
    path = corpus_file("a", "b / *")
    with pytest.raises(CorpusError, match=rf"with {pairing} pairing, none of its 2 usable"):
        Dataset.open(path, letters, Data(train=str(path), pairing=pairing))
    assert not list(tmp_path.glob("corpus.txt.cache/*"))


def test_unreadable(tmp_path: Path, letters: Codecs) -> None:
    with pytest.raises(CorpusError, match="does not exist"):
        Dataset.open(tmp_path / "none.txt", letters)
    with pytest.raises(CorpusError, match="is a folder"):
        Dataset.open(tmp_path, letters)
    (tmp_path / "bad.txt").write_bytes(b"a\n\xff\n")
    with pytest.raises(CorpusError, match="line 2"):
        Dataset.open(tmp_path / "bad.txt", letters)


def test_batch_by_hand(corpus_file: Write, letters: Codecs) -> None:
    corpus = Dataset.open(corpus_file("a b c d / e f / g h i / j"), letters)
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


def test_batch_of_no_samples_and_of_too_many(corpus_file: Write, letters: Codecs) -> None:
    corpus = Dataset.open(corpus_file("a / b"), letters)
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
def test_batch_matches_plain_python(
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
    corpus = Dataset.open(folder / "c.txt", Codecs.of_words(Vocabulary([*SPECIAL_WORDS, *"abcdefghij"])))
    ids = {letter: 4 + index for index, letter in enumerate("abcdefghij")} | {"x": 3}
    pairs = [
        ([ids[w] for w in source], [ids[w] for w in target])
        for conversation in conversations
        for source, target in pairwise(conversation)
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


def test_fingerprint_depends_on_contents_only(corpus_file: Write, letters: Codecs, tmp_path: Path) -> None:
    path = corpus_file("a b / c / d x!", "e", "f / * / g")
    corpus = Dataset.open(path, letters)
    copied = tmp_path / "elsewhere.txt"
    copied.write_bytes(path.read_bytes())
    assert Dataset.open(copied, letters).fingerprint == corpus.fingerprint
    copied.write_bytes(path.read_bytes().replace(b"a b", b"b a"))
    assert Dataset.open(copied, letters).fingerprint != corpus.fingerprint


def test_unknown_share(corpus_file: Write, letters: Codecs) -> None:
    assert Dataset.open(corpus_file("a b / c x"), letters).unknown_share() == 0.25


WORDS = ["a", "b", "c", "d", "e"]
VOCABULARY = Vocabulary([*SPECIAL_WORDS, *WORDS, TURN])
CODECS = Codecs.of_words(VOCABULARY)

conversations = st.lists(
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4), min_size=1, max_size=6), min_size=1, max_size=4
)


def write_corpus(folder: Path, dialogues: list[list[list[str]]]) -> Path:
    path = folder / "corpus.txt"
    blocks = ["\n".join(" ".join(words) for words in conversation) for conversation in dialogues]
    path.write_text(f"\n{END_OF_CONVERSATION}\n".join(blocks) + "\n", encoding="utf-8")
    return path


def context_samples(dialogues: list[list[list[str]]], turns: int, pairing: str) -> list[tuple[list[str], list[str]]]:
    samples = []
    for conversation in dialogues:
        for answer in range(1, len(conversation), 1 if pairing == "sliding" else 2):
            source: list[str] = []
            for turn in conversation[max(0, answer - turns) : answer]:
                source += ([TURN] if source else []) + turn
            samples.append((source, conversation[answer]))
    return samples


@settings(max_examples=40, deadline=None)
@given(dialogues=conversations, turns=st.integers(1, 4), pairing=st.sampled_from(["sliding", "alternating"]))
def test_context_turns(
    tmp_path_factory: pytest.TempPathFactory, dialogues: list[list[list[str]]], turns: int, pairing: Pairing
) -> None:
    expected = context_samples(dialogues, turns, pairing)
    if not expected:
        return
    path = write_corpus(tmp_path_factory.mktemp("corpus"), dialogues)
    corpus = Dataset.open(path, CODECS, Data(train=str(path), pairing=pairing, context_turns=turns))
    ids = [(corpus.source_ids(i), corpus.target_ids(i)) for i in range(len(corpus))]
    assert [(VOCABULARY.tokens(source), VOCABULARY.tokens(target)) for source, target in ids] == expected
    assert corpus.source_lengths().tolist() == [len(source) for source, _ in expected]
    assert corpus.target_lengths().tolist() == [len(target) for _, target in expected]
    batch = corpus.batch(range(len(expected)), size=len(expected), source_steps=6, target_steps=5, reverse=True)
    for row, (source, target) in enumerate(expected):
        kept = VOCABULARY.ids(source)[-6:][::-1]
        assert batch.source[row].tolist() == kept + [0] * (6 - len(kept))
        assert batch.target[row].tolist() == VOCABULARY.ids(target) + [2] + [0] * (4 - len(target))


def test_swap_source_target(tmp_path: Path) -> None:
    path = write_corpus(tmp_path, [[["a"], ["b", "c"], ["d", "d", "d"]]])
    plain = Dataset.open(path, CODECS)
    swapped = Dataset.open(path, CODECS, Data(train=str(path), swap_source_target=True))
    shape = {"size": 2, "source_steps": 4, "target_steps": 5, "reverse": False}
    one, other = (dataset.batch([0, 1], **shape) for dataset in (plain, swapped))
    for row in range(2):
        source, target = one.source[row, : one.source_length[row]], one.target[row, : one.target_length[row] - 1]
        np.testing.assert_array_equal(other.source[row, : other.source_length[row]], target)
        np.testing.assert_array_equal(other.target[row, : other.target_length[row] - 1], source)
    assert swapped.source_lengths().tolist() == plain.target_lengths().tolist()


LINES = ["Hé, a!", "", " b  c ", "***", "x" * 600 + " d", "\ufeffe f", "g"]
"""Verbatim texts; the empty one and the one without tokens are no utterances."""


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress, zstandard.compress])
@pytest.mark.parametrize("swapped", [False, True])
def test_texts_of_conversations(
    tmp_path: Path, letters: Codecs, line_end: bytes, pack: Callable[[bytes], bytes], swapped: bool
) -> None:
    """With a byte order mark, without a line end at the end of the file, from a cache, and after the file is gone."""
    path, text = tmp_path / "corpus.txt", line_end.join(line.encode() for line in LINES)
    path.write_bytes(pack(b"\xef\xbb\xbf" + text))
    kept = [line for line in LINES if line and line != "***"]
    pairs = [pair[::-1] if swapped else pair for pair in pairwise(kept)]
    data = Data(train=str(path), swap_source_target=swapped)
    for corpus in (Dataset.open(path, letters, data), Dataset.open(path, letters, data)):
        assert [corpus.text(n) for n in range(len(corpus))] == pairs
        (sample,) = corpus.samples([2])
        assert sample[:2] == pairs[2]
        assert letters.source.vocabulary.ids(sample.source_tokens) == corpus.source_ids(2).tolist()
    path.unlink()
    assert corpus.text(0) == pairs[0]


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("parallel", [False, True])
def test_texts_of_pairs(tmp_path: Path, swapped: bool, pack: Callable[[bytes], bytes], parallel: bool) -> None:
    """Bad rows and rows without tokens are left out; each side has a codec of its own."""
    rows = [("Ä b", "C."), *[("a", f"d {n}") for n in range(100)], ("***", "e"), ("c", "f g")]
    lines = [f"{source}\t{target}".encode() for source, target in rows]
    if parallel:
        files = ParallelFiles(source=str(tmp_path / "a.txt"), target=str(tmp_path / "b.txt"))
        for name, side in zip("ab", zip(*rows, strict=True), strict=True):
            content = [text.encode() for text in side]
            content.insert(5, b"\xff" if name == "a" else b"bad")
            (tmp_path / f"{name}.txt").write_bytes(pack(b"\n".join(content)))
    else:
        files = str(tmp_path / "pairs.tsv")
        Path(files).write_bytes(pack(b"\r\n".join([*lines[:5], b"\xff\tbad", *lines[5:]])))
    codec = TextCodec(EnglishTokenizer(), Vocabulary([*SPECIAL_WORDS, *"abcdefg"]))
    codecs = Codecs(codec, TextCodec(EnglishTokenizer(), Vocabulary([*SPECIAL_WORDS, *"gfedcba"])))
    corpus = Dataset.open(files, codecs, Data(train=files, swap_source_target=swapped))
    expected = [row for row in rows if row[0] != "***"]
    assert [corpus.text(n) for n in range(len(corpus))] == [row[::-1] if swapped else row for row in expected]
    assert corpus.target_ids(101).tolist() == codecs.target.encode(corpus.text(101).target)


def test_the_text_of_a_source_of_several_turns_is_its_last(corpus_file: Write) -> None:
    path = corpus_file("a / b / c / d")
    corpus = Dataset.open(path, CODECS, Data(train=str(path), context_turns=3))
    assert [corpus.text(n) for n in range(3)] == [("a", "b"), ("b", "c"), ("c", "d")]
    assert corpus.last_turn_lengths().tolist() == [1, 1, 1]
    some = corpus.select(np.array([2, 0]))
    assert [some.text(n) for n in range(len(some))] == [("c", "d"), ("a", "b")]


def test_a_file_that_changed_is_not_read(corpus_file: Write, letters: Codecs) -> None:
    path = corpus_file("a / b")
    corpus = Dataset.open(path, letters)
    with path.open("a") as stream:
        stream.write("c\n")
    with pytest.raises(CorpusError, match="has changed since it was opened"):
        corpus.text(0)


def test_hashes_tell_tokens_from_each_other(corpus_file: Write, letters: Codecs) -> None:
    """Also those of unknown words; equal tokens have equal hashes as sources and targets, and in any vocabulary."""
    path = corpus_file("a! / zebra / A !", "zebras / a", "zebra / a b")
    sources, targets = Dataset.open(path, letters).hashes(slice(None))
    assert sources[0] == targets[1] and sources[1] == targets[0] == sources[3]
    assert len({*sources.tolist(), *targets.tolist()}) == 5
    other = Codecs.shared(TextCodec(EnglishTokenizer(), Vocabulary([*SPECIAL_WORDS, "zebra"])))
    np.testing.assert_array_equal(Dataset.open(path, other).hashes(slice(None)), [sources, targets])
