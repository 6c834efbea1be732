"""Word vectors: the table, and how it starts from pretrained vectors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Union

import numpy as np
import tensorflow as tf

from seq2seq_chat.errors import UserError
from seq2seq_chat.model.weights import uniform

INITIAL_LIMIT = 0.8  # word vectors start uniformly in ±0.8; in ±0.1 gates hardly tell words apart for hundreds of steps


class Embedding(tf.Module):
    """One vector for each word of the vocabulary."""

    def __init__(self, name: str, vocabulary_size: int, size: int, seed: int) -> None:
        super().__init__()
        self.table = tf.Variable(uniform([vocabulary_size, size], INITIAL_LIMIT, seed, name), name=name)

    def __call__(self, ids: tf.Tensor) -> tf.Tensor:
        """ids: [...] → vectors: [..., size]."""
        return tf.gather(self.table, ids)


def load_vectors(path: Union[str, Path], words: Sequence[str], size: int) -> tuple[np.ndarray, np.ndarray]:
    """Read the vectors of ``words`` from a word2vec or fastText text file.

    Each line is a word and ``size`` numbers, separated by spaces; a first line of two integers (count and size) is
    optional. Words that are not in ``words`` are passed over; of a word that comes twice the first vector counts.

    Returns:
        rows: int64 [found], indices into ``words``; vectors: float32 [found, size].

    Raises:
        UserError: the file is missing, not UTF-8, or a line does not have ``size`` numbers.
    """
    wanted = {word: row for row, word in enumerate(words)}
    rows: list[int] = []
    vectors: list[np.ndarray] = []
    try:
        with open(path, encoding="utf-8", newline="\n") as lines:
            for number, line in enumerate(lines, start=1):
                word, *numbers = line.rstrip("\r\n ").split(" ")
                if number == 1 and len(numbers) == 1:
                    continue  # the header: how many words, how many units
                if len(numbers) != size:
                    raise UserError(
                        f"{path}, line {number}: {len(numbers)} numbers, but model.embedding_size is {size}; "
                        "use vectors of that size or change the setting"
                    )
                row = wanted.pop(word, None)
                if row is not None:
                    vectors.append(np.array(numbers, dtype=np.float32))
                    if not np.all(np.isfinite(vectors[-1])):
                        raise ValueError(f"the vector of {word} has a number that is not finite")
                    rows.append(row)
    except UnicodeDecodeError:
        raise UserError(f"{path}: not a text file in UTF-8; convert binary vectors to word2vec's text format") from None
    except ValueError as error:
        raise UserError(f"{path}, line {number}: {error}") from None
    except OSError as error:
        raise UserError(f"{path}: pretrained embeddings cannot be read: {error.strerror}") from None
    return np.array(rows, dtype=np.int64), np.array(vectors, dtype=np.float32).reshape(-1, size)
