"""Sent2Vec models: reading and writing the official binary format, and embedding sentences.

A sentence vector is the mean of the vectors of the sentence's known words and their n-grams; n-grams are hashed into a
fixed number of rows (Pagliardini, Gupta & Jaggi 2018, "Unsupervised learning of sentence embeddings using compositional
n-gram features"). The file, little-endian:

1. int32 magic, int32 version (11 or 12).
2. int32 dim, ws, epoch, minCount, neg, wordNgrams, loss, model (4), bucket, minn, maxn, lrUpdateRate; float64 t.
3. int32 size, nwords, nlabels; int64 ntokens, pruneidx_size (-1: not pruned); ``size`` words, each NUL-terminated
   UTF-8, int64 count, int8 type. A word's id is its index.
4. bool quantized (0); int64 rows, columns; float32 vectors: ``nwords`` for words, then ``bucket`` for n-grams.
5. the output vectors in the same form, which embedding does not need.
"""

from __future__ import annotations

import mmap
import struct
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import atomic_write

MAGIC, VERSIONS, SENT2VEC = 793712314, (11, 12), 4
HASH_FACTOR = 116049371
_NEGATIVE_SAMPLING = 2  # the loss, as the format numbers it

Matrix = npt.NDArray[np.float32]


class Sent2VecError(UserError):
    """A file is not a Sent2Vec model, or not one of a supported kind."""


class Arguments(NamedTuple):
    """Training arguments, in the order of the file."""

    dim: int
    ws: int = 5
    epoch: int = 5
    min_count: int = 5
    neg: int = 10
    word_ngrams: int = 2
    loss: int = _NEGATIVE_SAMPLING
    model: int = SENT2VEC
    bucket: int = 100_000
    minn: int = 0
    maxn: int = 0
    lr_update_rate: int = 100
    t: float = 1e-4


_ARGUMENTS = struct.Struct("<12id")


class Sent2Vec:
    """A model whose vectors are memory-mapped.

    Args:
        arguments: the arguments it was trained with.
        words: id of each word.
        vectors: float32 [words + buckets, dim].
    """

    def __init__(self, arguments: Arguments, words: Mapping[str, int], vectors: Matrix) -> None:
        self.arguments, self.words, self._vectors = arguments, words, vectors

    @property
    def dim(self) -> int:
        return self.arguments.dim

    @classmethod
    def load(cls, path: str | Path) -> Sent2Vec:
        """Open a binary model: read the dictionary, map the vectors.

        Raises:
            Sent2VecError: The file is missing, truncated or not supported.
        """
        try:
            with open(path, "rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:  # ValueError: an empty file
            reason = getattr(error, "strerror", None) or "the file is empty"
            raise Sent2VecError(f"{path}: could not read the Sent2Vec model: {reason}") from None
        try:
            return cls._parse(mapped, path)
        except (struct.error, IndexError, ValueError):
            raise Sent2VecError(
                f"{path}: the Sent2Vec model is truncated or damaged; download or train it again"
            ) from None

    @classmethod
    def _parse(cls, mapped: mmap.mmap, path: str | Path) -> Sent2Vec:
        if len(mapped) < 8 or struct.unpack_from("<i", mapped)[0] != MAGIC:
            if mapped[:2] == b"\x1f\x8b":
                raise Sent2VecError(f"{path}: the file is compressed; decompress it with gunzip")
            raise Sent2VecError(f"{path}: not a binary Sent2Vec model (*.bin)")
        version = struct.unpack_from("<i", mapped, 4)[0]
        if version not in VERSIONS:
            raise Sent2VecError(
                f"{path}: version {version} of the format is not supported, only 11 and 12; train the model again"
            )
        arguments = Arguments(*_ARGUMENTS.unpack_from(mapped, 8))
        if arguments.model != SENT2VEC:
            raise Sent2VecError(
                f"{path}: a fastText model of kind {arguments.model}, not a Sent2Vec model (kind {SENT2VEC})"
            )
        offset = 8 + _ARGUMENTS.size
        size, nwords, _, _, pruned = struct.unpack_from("<3i2q", mapped, offset)
        offset += struct.calcsize("<3i2q")
        if pruned != -1 or nwords != size:
            raise Sent2VecError(f"{path}: models with labels or a pruned dictionary are not supported")
        if arguments.dim < 1 or arguments.bucket < 0 or size < 0:
            raise ValueError("invalid sizes")
        words: dict[str, int] = {}
        for number in range(size):
            end = mapped.find(b"\0", offset)
            if end < 0:
                raise ValueError("unterminated word")
            words.setdefault(mapped[offset:end].decode("utf-8", errors="surrogateescape"), number)
            offset = end + 1 + 9
        quantized, rows, columns = struct.unpack_from("<?2q", mapped, offset)
        offset += struct.calcsize("<?2q")
        if quantized:
            raise Sent2VecError(f"{path}: quantized models are not supported; use the original model")
        if rows < nwords + arguments.bucket or columns != arguments.dim:  # official files have one extra row
            raise ValueError("the matrix does not match the arguments")
        vectors = np.frombuffer(mapped, dtype="<f4", count=rows * columns, offset=offset).reshape(rows, columns)
        return cls(arguments, words, vectors)

    def embed(self, sentences: Sequence[str]) -> Matrix:
        """Embed sentences, whose tokens are separated by white space: float32 [n, dim].

        A sentence without known words is the zero vector.
        """
        ids, sentence_of = concatenate(
            [self.words[token] for token in sentence.split() if token in self.words] for sentence in sentences
        )
        rows, owners = [ids], [sentence_of]
        for ngrams, inside in ngram_rows(ids, sentence_of, self.arguments, len(self.words)):
            rows.append(ngrams[inside])
            owners.append(sentence_of[: len(inside)][inside])
        owner = np.concatenate(owners)
        counts = np.bincount(owner, minlength=len(sentences))
        embedded, known = np.zeros((len(sentences), self.dim), dtype=np.float32), np.flatnonzero(counts)
        if len(known):
            vectors = self._vectors[np.concatenate(rows)[np.argsort(owner, kind="stable")]]
            sums = np.add.reduceat(vectors, (np.cumsum(counts) - counts)[known], dtype=np.float64)
            embedded[known] = sums / counts[known, np.newaxis]
        return embedded

    def save(self, path: str | Path, counts: Sequence[int], output: Matrix) -> None:
        """Write the model in the official format.

        Args:
            counts: occurrences of each word.
            output: output vectors, [words, dim].
        """
        with atomic_write(path, "wb") as file:
            file.write(struct.pack("<2i", MAGIC, 12) + _ARGUMENTS.pack(*self.arguments))
            file.write(struct.pack("<3i2q", len(self.words), len(self.words), 0, sum(counts), -1))
            for word, count in zip(self.words, counts, strict=True):
                file.write(word.encode("utf-8", errors="surrogateescape") + b"\0" + struct.pack("<qb", count, 0))
            for matrix in (self._vectors, output):
                file.write(struct.pack("<?2q", False, *matrix.shape))
                file.write(np.ascontiguousarray(matrix, dtype="<f4").data)


def concatenate(sentences: Iterable[Sequence[int]]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The word ids of sentences, one after the other, and the number of the sentence of each: [words] each."""
    ids, lengths = array("q"), array("q")
    for sentence in sentences:
        ids.extend(sentence)
        lengths.append(len(sentence))
    return np.array(ids, np.int64), np.repeat(np.arange(len(lengths)), lengths)


def ngram_rows(
    ids: npt.NDArray[np.int64], sentence_of: npt.NDArray[np.int64], arguments: Arguments, words: int
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]]:
    """The rows of the n-grams that begin at each word, by a 64-bit hash, for n = 2 to ``word_ngrams``.

    Args:
        ids, sentence_of: what :func:`concatenate` returns.
        words: number of known words, whose rows come first.

    Yields:
        The rows, and whether an n-gram lies within one sentence: [words - n + 1] each.
    """
    codes = following = ids.astype(np.uint64)
    for n in range(2, arguments.word_ngrams + 1 if arguments.bucket else 0):
        codes = codes[:-1] * np.uint64(HASH_FACTOR) + following[n - 1 :]  # modulo 2^64
        rows = words + (codes % np.uint64(arguments.bucket)).astype(np.int64)
        yield rows, sentence_of[: len(rows)] == sentence_of[n - 1 :]
