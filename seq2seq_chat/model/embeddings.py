"""Word embeddings, and pretrained vectors to initialize them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from seq2seq_chat.model.weights import glorot, uniform
from seq2seq_chat.system.errors import UserError

INITIAL_LIMIT = 0.8  # initial values are uniform in ±0.8; with ±0.1, gates ignore the words for hundreds of steps


class Embedding(tf.Module):
    """One vector for each word of the vocabulary.

    Args:
        name: of the variable.
        vocabulary_size: number of words.
        size: dimensions of a vector.
        seed: of the experiment.
        tied: whether the table is also the output layer's, and gets the initial values of that.
    """

    def __init__(self, name: str, vocabulary_size: int, size: int, seed: int, tied: bool = False) -> None:
        super().__init__()
        shape = [vocabulary_size, size]
        initial = glorot(shape, seed, name) if tied else uniform(shape, INITIAL_LIMIT, seed, name)
        self.table = tf.Variable(initial, name=name)

    def __call__(self, ids: tf.Tensor) -> tf.Tensor:
        """ids: [...] → vectors: [..., size]."""
        return tf.gather(self.table, ids)


def load_vectors(path: str | Path, words: Sequence[str], size: int) -> tuple[np.ndarray, np.ndarray]:
    """Read the vectors of ``words`` from a word2vec or fastText text file.

    Each line is a word and ``size`` numbers, separated by spaces; a first line of two integers (count and size) is
    optional. Words that are not in ``words`` are skipped; the first of duplicate words is used.

    Returns:
        rows: int64 [n], indices into ``words``; vectors: float32 [n, size].

    Raises:
        UserError: the file is missing, not UTF-8, or a line does not have ``size`` numbers.
    """
    remaining = {word: row for row, word in enumerate(words)}
    rows: list[int] = []
    vectors: list[np.ndarray] = []
    try:
        with open(path, encoding="utf-8", newline="\n") as lines:
            for number, line in enumerate(lines, start=1):
                word, *numbers = line.rstrip("\r\n ").split(" ")
                if number == 1 and len(numbers) == 1:
                    continue  # the header: number of words, units
                if len(numbers) != size:
                    raise UserError(
                        f"{path}, line {number}: {len(numbers)} numbers, but model.embedding_size is {size}; "
                        "use vectors of that size or change the setting"
                    )
                row = remaining.pop(word, None)
                if row is not None:
                    vectors.append(np.array(numbers, dtype=np.float32))
                    if not np.all(np.isfinite(vectors[-1])):
                        raise ValueError(f"the vector of {word} is not finite")
                    rows.append(row)
    except UnicodeDecodeError:
        raise UserError(f"{path}: not a UTF-8 text file; convert binary vectors to the word2vec text format") from None
    except ValueError as error:
        raise UserError(f"{path}, line {number}: {error}") from None
    except OSError as error:
        raise UserError(f"{path}: could not read pretrained embeddings: {error.strerror}") from None
    return np.array(rows, dtype=np.int64), np.array(vectors, dtype=np.float32).reshape(-1, size)
