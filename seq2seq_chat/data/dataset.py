"""A corpus as word ids on disk, and batches of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from seq2seq_chat.config import Data
from seq2seq_chat.data.array_writer import array_writer
from seq2seq_chat.data.cache import CacheKey, DatasetArrays, load_or_build
from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.data.samples import iterate_samples, read_tokens
from seq2seq_chat.data.tokenizers import get_tokenizer
from seq2seq_chat.data.vocabulary import EOS, PAD, TURN, UNKNOWN, Vocabulary

IntArray = npt.NDArray[np.int32]
_UINT16_IDS = 1 << 16


class Batch(NamedTuple):
    """Samples of equal shape for the model, all int32; padding rows have length 0.

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
    """Fit one source to the model's steps, by the same rule as ``Dataset.batch``.

    A source that is too long keeps its last words, which are nearest to the reply.

    Returns:
        The ids [steps], reversed if ``reverse``, then PAD; and the number of words among them.
    """
    kept = np.asarray(ids, dtype=np.int32)[max(0, len(ids) - steps) :]
    source = np.full(steps, PAD, dtype=np.int32)
    source[: len(kept)] = kept[::-1] if reverse else kept
    return source, len(kept)


class Dataset:
    """The samples of a corpus file as word ids, mapped from a cache on disk.

    Args:
        arrays: See ``encode``.
        turns: Maximum number of utterances in a source.
        swapped: Whether source and target are swapped.
    """

    def __init__(self, arrays: DatasetArrays, turns: int = 1, swapped: bool = False) -> None:
        self._tokens, self._offsets, self._samples = arrays
        self._marker = 1 if turns > 1 else 0  # tokens before the words of an utterance
        self._swapped = swapped

    @classmethod
    def open(cls, path: str | Path, vocabulary: Vocabulary, settings: Data | None = None) -> Dataset:
        """Open a corpus file. It is encoded first unless there is an up-to-date cache.

        Args:
            settings: Pairing, context and tokenizer; defaults if None. The files named there are ignored.

        Raises:
            CorpusError: The corpus cannot be read or has no samples.
            UserError: No folder can hold the encoded corpus.
        """
        path, settings = Path(path), settings or Data(train=str(path))
        key = CacheKey.of(path, vocabulary, settings)

        def build(folder: Path) -> dict[str, int]:
            lengths = encode(path, vocabulary, settings, folder)
            if CacheKey.of(path, vocabulary, settings) != key:
                raise CorpusError(f"{path} changed while it was being read. Start again once it is complete.")
            return lengths

        return cls(load_or_build(path, key, build), settings.context_turns, settings.swap_source_target)

    @property
    def fingerprint(self) -> str:
        """A hash of the sizes and the first and last million tokens, which identifies the contents of a moved file."""
        digest = hashlib.sha256(f"{len(self._tokens)} {len(self._offsets)} {len(self._samples)}".encode())
        for part in (self._tokens[:1_000_000], self._tokens[-1_000_000:]):
            digest.update(np.asarray(part, dtype=np.int32).tobytes())
        return digest.hexdigest()

    def unknown_share(self) -> float:
        """Fraction of the first million tokens that are not in the vocabulary, 0 to 1."""
        return float(np.mean(self._tokens[:1_000_000] == UNKNOWN))

    def __len__(self) -> int:
        """Number of samples."""
        return len(self._samples)

    def source_lengths(self, indices: npt.NDArray[np.int64] | None = None) -> IntArray:
        """[n] Number of words in the sources of some samples, or of all, before truncation."""
        (begin, end), _ = self._spans(slice(None) if indices is None else indices)
        return np.array(end - begin, dtype=np.int32)

    def target_lengths(self, indices: npt.NDArray[np.int64] | None = None) -> IntArray:
        """[n] Number of words in the targets of some samples, or of all, before truncation, without EOS."""
        _, (begin, end) = self._spans(slice(None) if indices is None else indices)
        return np.array(end - begin, dtype=np.int32)

    def source_ids(self, index: int) -> IntArray:
        """The word ids of one source, before truncation."""
        (begin, end), _ = self._spans(index)
        return np.array(self._tokens[begin:end], dtype=np.int32)

    def target_ids(self, index: int) -> IntArray:
        """The word ids of one target, before truncation, without EOS."""
        _, (begin, end) = self._spans(index)
        return np.array(self._tokens[begin:end], dtype=np.int32)

    def _spans(self, indices: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
        """(begin, end) of the tokens of the sources, and of the targets, of some samples."""
        first, target = self._samples[indices].T
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
        """The samples ``indices`` as a batch of ``size`` rows, padded with empty rows.

        A source longer than ``source_steps`` keeps its last words; then it is reversed if ``reverse``. A target without
        room for EOS keeps its first ``target_steps`` words and gets no EOS, so that the model does not learn to end
        replies too early.

        Raises:
            ValueError: There are more indices than rows.
        """
        samples = np.asarray(indices, dtype=np.int64)
        if len(samples) > size:
            raise ValueError(f"{len(samples)} samples do not fit into a batch of {size}")
        batch = Batch(
            np.full((size, source_steps), PAD, dtype=np.int32),
            np.zeros(size, dtype=np.int32),
            np.full((size, target_steps), PAD, dtype=np.int32),
            np.zeros(size, dtype=np.int32),
        )
        rows = slice(len(samples))
        (begin, end), (target_begin, target_end) = self._spans(samples)

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
        """[rows, steps] ``length`` tokens from ``start`` with a stride, then PAD."""
        step = np.arange(steps)
        inside = step < length[:, np.newaxis]
        positions = np.where(inside, start[:, np.newaxis] + stride * step, 0)
        return np.where(inside, self._tokens[positions], PAD).astype(np.int32)


def encode(path: Path, vocabulary: Vocabulary, settings: Data, folder: Path) -> dict[str, int]:
    """Write ``tokens.npy``, ``offsets.npy`` and ``samples.npy`` into ``folder``.

    * tokens [n_tokens]: the ids of all utterances, one after the other; uint16 if the vocabulary
      allows, else int32.
    * offsets [n_utterances + 1], int64: utterance u is tokens[offsets[u]:offsets[u + 1]].
    * samples [n_samples, 2], int64: first utterance of the source, and the target utterance t.
      The source is utterances first .. t - 1, at most ``context_turns`` of them.

    With several context turns each utterance is stored with the marker ``TURN`` before its words.
    The corpus is streamed: memory does not grow with its length.

    Returns:
        The length of each array, by name.

    Raises:
        CorpusError: The corpus cannot be read or has no samples.
        OSError: The arrays cannot be written.
    """
    pairing, turns = settings.pairing, settings.context_turns
    marker = vocabulary.ids([TURN]) if turns > 1 else []
    with (
        array_writer(folder / "tokens.npy", "H" if len(vocabulary) <= _UINT16_IDS else "i") as tokens,
        array_writer(folder / "offsets.npy", "q") as offsets,
        array_writer(folder / "samples.npy", "q", columns=2) as samples,
    ):
        offsets.extend([0])
        current, first = -1, 0  # conversation, and its first utterance

        def store() -> Iterator[tuple[int, int]]:
            """Store each utterance; yield (conversation index, utterance index)."""
            nonlocal current, first
            utterances = read_tokens(path, get_tokenizer(settings.level), progress=True)
            for index, (conversation, words) in enumerate(utterances):
                if conversation != current:
                    current, first = conversation, index
                tokens.extend([*marker, *vocabulary.ids(words)])
                offsets.extend([tokens.items])
                yield conversation, index

        for _, target in iterate_samples(store(), pairing):
            samples.extend((max(first, target - turns), target))

        if not samples.rows:
            raise CorpusError(
                f"{path} has no samples: with {pairing} pairing, none of its {offsets.rows - 1} "
                "usable utterance(s) is a reply. It needs at least one conversation of two utterances or more."
            )
        return {"tokens": tokens.rows, "offsets": offsets.rows, "samples": samples.rows}
