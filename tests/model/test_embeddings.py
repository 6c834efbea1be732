"""Pretrained vectors: word2vec and fastText text files, valid and invalid."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from seq2seq_chat.model.output import load_vectors
from seq2seq_chat.system.errors import UserError

WORDS = ["<pad>", "<go>", "<eos>", "<unknown>", "the", "cat", "sat"]


@pytest.mark.parametrize("header", ["", "3 2\n"], ids=["no header", "header"])
def test_vectors_of_known_words_are_read(tmp_path: Path, header: str) -> None:
    file = tmp_path / "vectors.vec"
    file.write_text(header + "cat 1.0 -2.5 \nzebra 9 9\nthe 3e-1 4\ncat 7 7\n")
    rows, vectors = load_vectors(file, WORDS, size=2)
    assert {WORDS[row]: vector.tolist() for row, vector in zip(rows, vectors, strict=True)} == {
        "cat": [1.0, -2.5],
        "the": [pytest.approx(0.3), 4.0],
    }
    assert vectors.dtype == np.float32


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"cat 1 2 3\n", r"line 1: 3 numbers, but model.embedding_size is 2"),
        (b"1 2\ncat 1 2\nsat 1 two\n", r"line 3: .*two"),
        (b"1 2\ncat 1 nan\n", "line 2: the vector of cat is not finite"),
        (b"cat \xff\xfe 1\n", "not a UTF-8 text file"),
    ],
)
def test_invalid_files_are_reported(tmp_path: Path, contents: bytes, message: str) -> None:
    (tmp_path / "vectors.vec").write_bytes(contents)
    with pytest.raises(UserError, match=message):
        load_vectors(tmp_path / "vectors.vec", WORDS, size=2)


def test_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="could not read pretrained embeddings: No such file"):
        load_vectors(tmp_path / "missing.vec", WORDS, size=2)


def test_no_known_word_gives_no_rows(tmp_path: Path) -> None:
    (tmp_path / "vectors.vec").write_text("zebra 1 2\n")
    rows, vectors = load_vectors(tmp_path / "vectors.vec", WORDS, size=2)
    assert rows.shape == (0,) and vectors.shape == (0, 2)
