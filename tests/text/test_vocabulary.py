"""Words and ids, and files of vocabularies."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.text.vocabulary import EOS, GO, PAD, UNKNOWN, Vocabulary, VocabularyError, strip_ids

SPECIAL = ["<pad>", "<go>", "<eos>", "<unknown>"]


def test_ids_and_tokens() -> None:
    assert (PAD, GO, EOS, UNKNOWN) == (0, 1, 2, 3)
    assert Vocabulary(SPECIAL).tokens([0, 1, 2, 3]) == SPECIAL
    vocabulary = Vocabulary([*SPECIAL, "hi"])
    assert vocabulary.ids([*SPECIAL, "hi"]) == [UNKNOWN] * 4 + [4]
    assert "<eos>" not in vocabulary
    vocabulary = Vocabulary([*SPECIAL, "hi", "you"])
    assert len(vocabulary) == 6
    assert vocabulary.ids(["you", "there", "hi"]) == [5, 3, 4]
    assert vocabulary.tokens([5, 3, 4, 2]) == ["you", "<unknown>", "hi", "<eos>"]
    assert vocabulary.tokens(np.array([4, 5], dtype=np.int32)) == ["hi", "you"]
    assert "hi" in vocabulary
    assert "there" not in vocabulary
    assert strip_ids(np.array([4, 3, 5, EOS, PAD, PAD], dtype=np.int32)) == [4, 3, 5]


@given(st.dictionaries(st.text("abz.<é", min_size=1, max_size=3), st.integers(1, 3)), st.integers(5, 12), st.randoms())
def test_from_counts_does_not_depend_on_order(counts: dict[str, int], size: int, random) -> None:
    items = list(counts.items())
    random.shuffle(items)
    vocabulary = Vocabulary.from_counts(dict(items), size)
    assert vocabulary.words == Vocabulary.from_counts(counts, size).words
    assert len(vocabulary) == min(size, 4 + len(counts))
    chosen = vocabulary.words[4:]
    ranks = [(-counts[word], [ord(c) for c in word]) for word in chosen]
    assert ranks == sorted(ranks)
    left = [(-counts[word], [ord(c) for c in word]) for word in counts if word not in chosen]
    assert not ranks or not left or max(ranks) < min(left)


def test_from_counts_does_not_duplicate_special_words() -> None:
    assert Vocabulary.from_counts({"<pad>": 9, "a": 1}, 6).words == [*SPECIAL, "a"]


@pytest.mark.parametrize("size", [-1, 0, 4])
def test_size_without_room(size: int) -> None:
    with pytest.raises(VocabularyError, match=f"size {size} has no room"):
        Vocabulary.from_counts({"a": 1}, size)


def test_save_and_load(tmp_path: Path) -> None:
    vocabulary = Vocabulary([*SPECIAL, "b", "a", "é"])
    vocabulary.save(tmp_path / "v")
    assert (tmp_path / "v").read_bytes() == "<pad>\n<go>\n<eos>\n<unknown>\nb\na\né\n".encode()
    loaded = Vocabulary.load(tmp_path / "v")
    assert loaded.words == vocabulary.words
    assert loaded.fingerprint == hashlib.sha256("<pad>\n<go>\n<eos>\n<unknown>\nb\na\né".encode()).hexdigest()
    (tmp_path / "v").write_bytes(b"\xef\xbb\xbf<pad>\r\n<go>\r\n<eos>\r\n<unknown>\r\na\r\n\r\n\r\n")
    assert Vocabulary.load(tmp_path / "v").words == [*SPECIAL, "a"]


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"the\nof\nand\n", r"plain list of words.* <pad> <go> <eos> <unknown> before"),
        (b"<pad>\n<eos>\n<go>\n<unknown>\na\n", "line 2: expected <go>"),
        (b"the\n<pad>\n<go>\n<eos>\n<unknown>\n", "line 1: expected <pad>"),
        (b"<pad>\n<go>\n<eos>\n", "line 4: expected <unknown>"),
        (b"<pad>\n<go>\n<eos>\n<unknown>\na\n\nb\n", "line 6: empty"),
        (b"<pad>\n<go>\n<eos>\n<unknown>\na\nb\na\n", "line 7: 'a' is already on line 5"),
        (b"<pad>\n<go>\n<eos>\n<unknown>\n<go>\n", "line 5: '<go>' is already on line 2"),
        (b"<pad>\n<go>\n<eos>\n<unknown>\na\t7\n", "line 5: .* is not a single word"),
        (b"<pad>\n<go>\n<eos>\n<unknown>\na \n", "line 5: .* is not a single word"),
    ],
)
def test_invalid_vocabularies_are_rejected(tmp_path: Path, contents: bytes, message: str) -> None:
    path = tmp_path / "words.txt"
    path.write_bytes(contents)
    with pytest.raises(VocabularyError, match=message) as caught:
        Vocabulary.load(path)
    assert str(path) in str(caught.value)
