"""A corpus as word ids, and the batches cut from it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from seq2seq_chat.corpus.cache import CacheKey, EncodedArrays, load_or_build
from seq2seq_chat.corpus.encoding import encode
from seq2seq_chat.corpus.files import CorpusError
from seq2seq_chat.corpus.samples import Pairing
from seq2seq_chat.corpus.text import Level
from seq2seq_chat.corpus.vocabulary import EOS, PAD, UNKNOWN, Vocabulary

IntArray = npt.NDArray[np.int32]


class Batch(NamedTuple):
    """Samples of equal shape for the model, all int32; rows without a sample have length 0.

    Attributes:
        source: [size, source_steps] Word ids, then PAD.
        source_length: [size] Words of each source.
        target: [size, target_steps] Word ids, EOS, then PAD.
        target_length: [size] Words of each target, with EOS.
    """

    source: IntArray
    source_length: IntArray
    target: IntArray
    target_length: IntArray


def fit_source(ids: Sequence[int], steps: int, reverse: bool) -> tuple[IntArray, int]:
    """Fit one source to the model's steps, by the same rule as ``EncodedCorpus.batch``.

    Of a source that is too long the last words stay: they are nearest to the reply.

    Returns:
        The ids [steps], reversed if so wished and padded with PAD on the right, and how many
        of them are words.
    """
    kept = np.asarray(ids, dtype=np.int32)[max(0, len(ids) - steps) :]
    source = np.full(steps, PAD, dtype=np.int32)
    source[: len(kept)] = kept[::-1] if reverse else kept
    return source, len(kept)


class EncodedCorpus:
    """The samples of a corpus file as word ids, mapped from a cache on disk."""

    def __init__(self, arrays: EncodedArrays, turns: int = 1, swapped: bool = False) -> None:
        """Use ``EncodedCorpus.open`` instead, which finds or makes the arrays."""
        self._tokens, self._offsets, self._samples = arrays
        self._marker = 1 if turns > 1 else 0  # tokens before the words of an utterance
        self._swapped = swapped

    @classmethod
    def open(
        cls,
        path: str | Path,
        vocabulary: Vocabulary,
        *,
        level: Level = "word",
        pairing: Pairing = "sliding",
        turns: int = 1,
        swapped: bool = False,
    ) -> EncodedCorpus:
        """Open a corpus file, encoding it first unless a cache holds it as it is now.

        Args:
            turns: Utterances of a source at most, the last ones before the target, with ``TURN`` between them.
            swapped: What was said is the target, and what was answered the source.

        Raises:
            CorpusError: The corpus cannot be read or has no sample.
            UserError: There is no folder that could hold the encoded corpus.
        """
        path = Path(path)
        key = CacheKey.of(path, vocabulary, level, pairing, turns)

        def build(folder: Path) -> dict[str, int]:
            lengths = encode(path, vocabulary, level, pairing, turns, folder)
            if CacheKey.of(path, vocabulary, level, pairing, turns) != key:
                raise CorpusError(f"{path} changed while it was read. Start again once it is done.")
            return lengths

        return cls(load_or_build(path, key, build), turns, swapped)

    @property
    def fingerprint(self) -> str:
        """What tells this corpus from others, wherever it lies: its sizes and its first and last million tokens."""
        digest = hashlib.sha256(f"{len(self._tokens)} {len(self._offsets)} {len(self._samples)}".encode())
        for part in (self._tokens[:1_000_000], self._tokens[-1_000_000:]):
            digest.update(np.asarray(part, dtype=np.int32).tobytes())
        return digest.hexdigest()

    def unknown_share(self) -> float:
        """Share of the first million tokens that are not in the vocabulary, 0 to 1."""
        return float(np.mean(self._tokens[:1_000_000] == UNKNOWN))

    def __len__(self) -> int:
        """Number of samples."""
        return len(self._samples)

    def source_lengths(self) -> IntArray:
        """[n_samples] Words of each source, however long."""
        (begin, end), _ = self._spans(slice(None))
        return np.array(end - begin, dtype=np.int32)

    def target_lengths(self) -> IntArray:
        """[n_samples] Words of each target, however long, without EOS."""
        _, (begin, end) = self._spans(slice(None))
        return np.array(end - begin, dtype=np.int32)

    def source_ids(self, index: int) -> IntArray:
        """All word ids of the source of one sample."""
        (begin, end), _ = self._spans(index)
        return np.array(self._tokens[begin:end], dtype=np.int32)

    def target_ids(self, index: int) -> IntArray:
        """All word ids of the target of one sample, without EOS."""
        _, (begin, end) = self._spans(index)
        return np.array(self._tokens[begin:end], dtype=np.int32)

    def _spans(self, chosen: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
        """Where the tokens of sources and of targets of some samples begin and end."""
        first, target = self._samples[chosen].T
        source = self._offsets[first] + self._marker, self._offsets[target]
        reply = self._offsets[target] + self._marker, self._offsets[target + 1]
        return (reply, source) if self._swapped else (source, reply)

    def batch(
        self,
        indices: Sequence[int] | npt.NDArray[np.integer[Any]],
        *,
        size: int,
        source_steps: int,
        target_steps: int,
        reverse: bool,
    ) -> Batch:
        """The samples ``indices`` as a batch of ``size`` rows, those left over being padding.

        A source longer than ``source_steps`` keeps its last words; then it is reversed if
        ``reverse``. A target that leaves no room for EOS keeps its first ``target_steps`` words
        and has none, so that the model is never taught an end where there is none.

        Raises:
            ValueError: There are more indices than rows.
        """
        chosen = np.asarray(indices, dtype=np.int64)
        if len(chosen) > size:
            raise ValueError(f"{len(chosen)} samples do not fit into a batch of {size}")
        batch = Batch(
            np.full((size, source_steps), PAD, dtype=np.int32),
            np.zeros(size, dtype=np.int32),
            np.full((size, target_steps), PAD, dtype=np.int32),
            np.zeros(size, dtype=np.int32),
        )
        rows = slice(len(chosen))
        (begin, end), (target_begin, target_end) = self._spans(chosen)

        length = np.minimum(end - begin, source_steps)
        start, stride = (end - 1, -1) if reverse else (end - length, 1)
        batch.source[rows] = self._gather(start, stride, length, source_steps)
        batch.source_length[rows] = length

        words = target_end - target_begin
        length = np.minimum(words, target_steps)
        batch.target[rows] = self._gather(target_begin, 1, length, target_steps)
        ends = np.flatnonzero(words < target_steps)
        batch.target[ends, words[ends]] = EOS
        batch.target_length[rows] = np.minimum(words + 1, target_steps)
        return batch

    def _gather(self, start: npt.NDArray[np.int64], stride: int, length: npt.NDArray[np.int64], steps: int) -> IntArray:
        """[rows, steps] ``length`` tokens from ``start`` in steps of ``stride``, then PAD."""
        step = np.arange(steps)
        inside = step < length[:, np.newaxis]
        places = np.where(inside, start[:, np.newaxis] + stride * step, 0)
        return np.where(inside, self._tokens[places], PAD).astype(np.int32)
