"""A corpus as word ids on disk, batches of it, and its texts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from seq2seq_chat.config import Config, Data, is_pairs
from seq2seq_chat.data.cache import SAMPLES, CheckedArray, open_cache
from seq2seq_chat.data.corpus_file import Corpus, CorpusError, Pair, read_row
from seq2seq_chat.data.encoding import encode
from seq2seq_chat.data.samples import Sample, tokenize_pairs
from seq2seq_chat.system.lines import TextFile
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.text.vocabulary import EOS, PAD, UNKNOWN

IntArray = npt.NDArray[np.int32]
Array: TypeAlias = "npt.NDArray[Any] | CheckedArray"


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


class Dataset:
    """The samples of a corpus: word ids, mapped from a cache on disk, and texts, read from the corpus.

    Attributes:
        files: The corpus.
        codecs: What encoded it.
        settings: Pairing, direction and context.

    Args:
        arrays: See :func:`seq2seq_chat.data.encoding.encode`.
        texts: The files of the corpus, decompressed.
    """

    def __init__(
        self, files: Corpus, codecs: Codecs, settings: Data, arrays: Mapping[str, Array], texts: Sequence[TextFile]
    ) -> None:
        self.files, self.codecs, self.settings = files, codecs, settings
        self._arrays, self._samples, self._texts = arrays, arrays["samples"], texts
        self._sides = [
            _Texts(*(arrays[f"{prefix}{name}"] for name in _Texts._fields))
            for prefix in ("", "target_")
            if f"{prefix}tokens" in arrays
        ]
        self._sources, self._targets = self._sides[0], self._sides[-1]
        self._kept: dict[int, Pair] = {}
        self._is_pairs = is_pairs(files)
        self._marker = 1 if settings.context_turns > 1 else 0  # tokens before the words of an utterance

    @classmethod
    def open(cls, files: Corpus, codecs: Codecs, settings: Data | None = None) -> Dataset:
        """Open a corpus. It is encoded first unless there is an up-to-date cache.

        Args:
            settings: Pairing, direction and context; defaults if None. The files named there are ignored.

        Raises:
            CorpusError: The corpus cannot be read or has no samples.
            UserError: No folder can hold the encoded corpus.
        """
        data = settings or Data(train=str(files))
        cache = open_cache(files, codecs, data, SAMPLES, lambda folder: encode(files, codecs, data, folder))
        return cls(files, codecs, data, cache.arrays, cache.texts)

    def select(self, indices: npt.NDArray[Any] | slice) -> Dataset:
        """Some of the samples.

        Args:
            indices: A slice, integers, or [samples] bool.
        """
        arrays = {**self._arrays, "samples": self._samples[indices]}
        return Dataset(self.files, self.codecs, self.settings, arrays, self._texts)

    def up_to_length(self, words: int) -> Dataset:
        """The samples whose source and target have at most so many words."""
        return self.select((self.source_lengths() <= words) & (self.target_lengths() <= words))

    def text(self, index: int) -> Pair:
        """The source and the target of a sample as they are in the corpus; of a source of several turns, the last.

        Raises:
            CorpusError: A file of the corpus has changed.
        """
        if index in self._kept:
            return self._kept[index]
        _, source_end, target = self._samples[index].tolist()
        if not self._is_pairs:
            return Pair(*(self._lines(text)[0] for text in (source_end - 1, target)))
        pair = read_row(self._lines(target))
        return pair.swapped() if self.settings.swap_source_target else pair

    def keep_texts(self, indices: Iterable[int]) -> None:
        """Keep some texts in memory, so that later changes of the corpus do not matter. Raises CorpusError."""
        self._kept |= {index: self.text(index) for index in indices}

    def _lines(self, text: int) -> list[str]:
        """The line of a text in each file."""
        offsets = self._arrays["lines"][text].tolist()
        return [file.line(offset, CorpusError) for file, offset in zip(self._texts, offsets, strict=True)]

    def samples(self, indices: Iterable[int]) -> list[Sample]:
        """The texts of some samples, and their tokens. Raises CorpusError like :meth:`text`."""
        return list(tokenize_pairs([self.text(index) for index in indices], self.codecs.tokenizers))

    def hashes(self, indices: npt.NDArray[Any] | slice) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """Hashes of the tokens of some sources and targets, [n] each; of a source of several turns, of the last.

        Equal tokens have equal hashes in all corpora, whatever the vocabulary. Of a billion different texts, two have
        the same hash with a probability of 3 %.
        """
        _, source_end, target = self._samples[indices].T
        return self._sources.hashes[source_end - 1], self._targets.hashes[target]

    @property
    def fingerprint(self) -> str:
        """A hash of the sizes and the first and last million tokens, which identifies the contents of a moved file."""
        digest = hashlib.sha256()
        for side in self._sides:
            digest.update(f"{len(side.tokens)} {len(side.offsets)} {len(self._samples)}".encode())
            for part in (side.tokens[:1_000_000], side.tokens[-1_000_000:]):
                digest.update(np.asarray(part, dtype=np.int32).tobytes())
        return digest.hexdigest()

    def unknown_share(self) -> float:
        """Fraction of the first million tokens, of each side, that are not in the vocabulary, 0 to 1."""
        return float(np.mean(np.concatenate([side.tokens[:1_000_000] for side in self._sides]) == UNKNOWN))

    def __len__(self) -> int:
        """Number of samples."""
        return len(self._samples)

    def source_lengths(self, indices: npt.NDArray[np.int64] | None = None) -> IntArray:
        """[n] Number of words in the sources of some samples, or of all, before truncation."""
        begin, end = self._source_spans(slice(None) if indices is None else indices)
        return np.array(end - begin, dtype=np.int32)

    def last_turn_lengths(self) -> IntArray:
        """[n] Number of words in the last turn of each source."""
        end = self._samples[:].T[1]
        lengths = self._sources.offsets[end] - self._sources.offsets[end - 1] - self._marker
        return np.asarray(lengths, dtype=np.int32)

    def target_lengths(self, indices: npt.NDArray[np.int64] | None = None) -> IntArray:
        """[n] Number of words in the targets of some samples, or of all, before truncation, without EOS."""
        begin, end = self._target_spans(slice(None) if indices is None else indices)
        return np.array(end - begin, dtype=np.int32)

    def source_ids(self, index: int) -> IntArray:
        """The word ids of one source, before truncation."""
        begin, end = self._source_spans(index)
        return np.array(self._sources.tokens[begin:end], dtype=np.int32)

    def target_ids(self, index: int) -> IntArray:
        """The word ids of one target, before truncation, without EOS."""
        begin, end = self._target_spans(index)
        return np.array(self._targets.tokens[begin:end], dtype=np.int32)

    def targets(self, indices: npt.NDArray[np.int64]) -> list[IntArray]:
        """:meth:`target_ids` of several samples."""
        begin, end = self._target_spans(indices)
        lengths = end - begin
        ends = np.cumsum(lengths)
        positions = np.arange(lengths.sum()) + np.repeat(begin - (ends - lengths), lengths)
        return np.split(self._targets.tokens[positions].astype(np.int32), ends)[:-1]

    def _source_spans(self, indices: Any) -> tuple[Any, Any]:
        """Where the tokens of the sources of some samples begin and end."""
        first, end, _ = self._samples[indices].T
        return self._sources.offsets[first] + self._marker, self._sources.offsets[end]

    def _target_spans(self, indices: Any) -> tuple[Any, Any]:
        """Where the tokens of the targets of some samples begin and end."""
        target = self._samples[indices].T[2]
        return self._targets.offsets[target] + self._marker, self._targets.offsets[target + 1]

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

        begin, end = self._source_spans(samples)
        length = np.minimum(end - begin, source_steps)
        start, stride = (end - 1, -1) if reverse else (end - length, 1)
        batch.source[rows] = _gather(self._sources.tokens, start, stride, length, source_steps)
        batch.source_length[rows] = length

        begin, end = self._target_spans(samples)
        words = end - begin
        length = np.minimum(words, target_steps)
        batch.target[rows] = _gather(self._targets.tokens, begin, 1, length, target_steps)
        ends = np.flatnonzero(words < target_steps)
        batch.target[ends, words[ends]] = EOS
        batch.target_length[rows] = np.minimum(words + 1, target_steps)
        return batch


def open_training_corpus(config: Config, codecs: Codecs, on_progress: Callable[[str], object]) -> Dataset:
    """Open the training corpus, without the samples longer than ``data.max_length``.

    Args:
        on_progress: Called with a sentence about the samples that were left out, if there are any.

    Raises:
        CorpusError: The corpus cannot be read or has no samples, or none that is short enough.
        UserError: No folder can hold the encoded corpus.
    """
    corpus = Dataset.open(config.data.train, codecs, config.data)
    maximum = config.data.max_length
    if maximum is None:
        return corpus
    kept = corpus.up_to_length(maximum)
    if not len(kept):
        raise CorpusError(
            f"{config.data.train} has no samples left: all {len(corpus):,} have a source or target longer than "
            f"data.max_length ({maximum} tokens); raise it."
        )
    dropped = len(corpus) - len(kept)
    if dropped:
        share = 100 * dropped / len(corpus)
        on_progress(
            f"left out {dropped:,} of {len(corpus):,} training samples ({share:.1f} %) of more than {maximum} tokens"
        )
    return kept


class _Texts(NamedTuple):
    """The texts of a side: the tokens of text t are tokens[offsets[t]:offsets[t + 1]], their hash is hashes[t]."""

    tokens: Array
    offsets: Array
    hashes: Array


def _gather(
    tokens: Array, start: npt.NDArray[np.int64], stride: int, length: npt.NDArray[np.int64], steps: int
) -> IntArray:
    """[rows, steps] ``length`` tokens from ``start`` with a stride, then PAD."""
    step = np.arange(steps)
    inside = step < length[:, np.newaxis]
    positions = np.where(inside, start[:, np.newaxis] + stride * step, 0)
    return np.where(inside, tokens[positions], PAD).astype(np.int32)
