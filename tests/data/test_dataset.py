import gzip
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq_chat.config import Data, ParallelFiles
from seq2seq_chat.data.corpus_file import CorpusError, write_conversations
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.data.samples import Pairing
from seq2seq_chat.text.codec import Codecs, TextCodec
from seq2seq_chat.text.tokenizers.english import EnglishTokenizer
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, TURN, Vocabulary, fit_source
from tests.prepare.raw import PACKERS

Write = Callable[..., Path]


def samples(corpus: Dataset) -> list[tuple[list[int], list[int]]]:
    return [(corpus.source_ids(i).tolist(), corpus.target_ids(i).tolist()) for i in range(len(corpus))]


@pytest.mark.parametrize("pairing", ["sliding", "alternating"])
def test_no_sample(corpus_file: Write, tmp_path: Path, letters: Codecs, pairing) -> None:
    path = corpus_file("a", "b / *")
    with pytest.raises(CorpusError, match=rf"with {pairing} pairing, none of its 2 usable"):
        Dataset.open(path, letters, Data(train=str(path), pairing=pairing))
    assert not list(tmp_path.glob("corpus.txt.cache/*"))


def test_no_pair_with_tokens(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("-\t-\n" * 3)
    with pytest.raises(CorpusError, match="none of its pairs has tokens on both sides"):
        codec = TextCodec(EnglishTokenizer(), Vocabulary([*SPECIAL_WORDS, "a"]))
        Dataset.open(path, Codecs.shared(codec), Data(train=str(path)))


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


def test_unknown_share_and_fingerprint(corpus_file: Write, letters: Codecs, tmp_path: Path) -> None:
    assert Dataset.open(corpus_file("a b / c x"), letters).unknown_share() == 0.25
    path = corpus_file("a b / c / d x!", "e", "f / * / g")
    corpus = Dataset.open(path, letters)
    copied = tmp_path / "elsewhere.txt"
    copied.write_bytes(path.read_bytes())
    assert Dataset.open(copied, letters).fingerprint == corpus.fingerprint
    copied.write_bytes(path.read_bytes().replace(b"a b", b"b a"))
    assert Dataset.open(copied, letters).fingerprint != corpus.fingerprint


WORDS = ["a", "b", "c", "d", "e"]
VOCABULARY = Vocabulary([*SPECIAL_WORDS, *WORDS, TURN])
CODECS = Codecs.of_words(VOCABULARY)


def context_samples(dialogues: list[list[list[str]]], turns: int, pairing: str) -> list[tuple[list[str], list[str]]]:
    samples = []
    for conversation in dialogues:
        for answer in range(1, len(conversation), 1 if pairing == "sliding" else 2):
            source: list[str] = []
            for turn in conversation[max(0, answer - turns) : answer]:
                source += ([TURN] if source else []) + turn
            samples.append((source, conversation[answer]))
    return samples


@settings(max_examples=100, deadline=None)
@given(
    dialogues=st.lists(
        st.lists(st.lists(st.sampled_from([*WORDS, "x"]), min_size=1, max_size=6), min_size=1, max_size=6),
        min_size=1,
        max_size=4,
    ),
    turns=st.integers(1, 4),
    pairing=st.sampled_from(["sliding", "alternating"]),
    swapped=st.booleans(),
    steps=st.tuples(st.integers(1, 8), st.integers(1, 8)),
    reverse=st.booleans(),
    data=st.data(),
)
def test_samples_and_batches_equal_plain_python(
    tmp_path_factory: pytest.TempPathFactory,
    dialogues: list[list[list[str]]],
    turns: int,
    pairing: Pairing,
    swapped: bool,
    steps: tuple[int, int],
    reverse: bool,
    data: st.DataObject,
) -> None:
    """With context turns, swapped sides and unknown words; some samples, some of them twice, and padding rows."""
    turns = 1 if swapped else turns
    expected = [sample[::-1] if swapped else sample for sample in context_samples(dialogues, turns, pairing)]
    if not expected:
        return
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    write_conversations(path, [[" ".join(words) for words in conversation] for conversation in dialogues])
    described = Data(train=str(path), pairing=pairing, context_turns=turns, swap_source_target=swapped)
    corpus = Dataset.open(path, CODECS, described)
    ids = [(VOCABULARY.ids(source), VOCABULARY.ids(target)) for source, target in expected]
    assert samples(corpus) == ids
    assert corpus.source_lengths().tolist() == [len(source) for source, _ in expected]
    assert corpus.target_lengths().tolist() == [len(target) for _, target in expected]
    chosen = data.draw(st.lists(st.integers(0, len(ids) - 1), max_size=6))
    size = len(chosen) + data.draw(st.integers(0, 2))
    shape = {"size": size, "source_steps": steps[0], "target_steps": steps[1], "reverse": reverse}
    batch = corpus.batch(np.array(chosen, dtype=np.int32), **shape)
    assert all(array.dtype == np.int32 for array in (*batch, corpus.source_ids(0), corpus.source_lengths()))
    for row in range(size):
        source, target = ids[chosen[row]] if row < len(chosen) else ([], [])
        fitted, length = fit_source(source, steps[0], reverse)
        assert (batch.source[row].tolist(), batch.source_length[row]) == (fitted.tolist(), length)
        source = source[-steps[0] :][:: -1 if reverse else 1]
        target = [*target, 2][: steps[1]] if target else []
        assert batch.source[row].tolist() == source + [0] * (steps[0] - len(source))
        assert batch.target[row].tolist() == target + [0] * (steps[1] - len(target))
        assert (batch.source_length[row], batch.target_length[row]) == (len(source), len(target))


LINES = ["Hé, a!", "", " b  c ", "***", "x" * 600 + " d", "\ufeffe f", "g"]
"""Verbatim texts; the empty one and the one without tokens are no utterances."""


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("pack", PACKERS.values())
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
