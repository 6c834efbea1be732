"""A corpus as word ids on disk, batches of it, and its texts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from seq2seq_chat.config import Data, is_pairs
from seq2seq_chat.data.array_files import ArrayWriter, CheckedArray, array_writer, id_dtype
from seq2seq_chat.data.cache import CacheKey, load_or_build
from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.data.pairs import Corpus, Pair, corpus_paths, read_row
from seq2seq_chat.data.samples import (
    Sample,
    iterate_samples,
    read_tokenized_pairs,
    read_tokenized_utterances,
    tokenize_pairs,
)
from seq2seq_chat.system.compressed import LineBlocks, is_compressed
from seq2seq_chat.system.lines import TextFile, read_error
from seq2seq_chat.text.codec import Codecs, TextCodec
from seq2seq_chat.text.tokenizers import Tokenizers
from seq2seq_chat.text.vocabulary import EOS, PAD, TURN, UNKNOWN

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


class DatasetArrays(NamedTuple):
    """The arrays of an encoded corpus, memory-mapped read-only; see :func:`encode`."""

    tokens: Array
    offsets: Array
    hashes: Array
    samples: Array
    lines: Array
    target_tokens: Array | None = None
    target_offsets: Array | None = None
    target_hashes: Array | None = None


class Dataset:
    """The samples of a corpus: word ids, mapped from a cache on disk, and texts, read from the corpus.

    Attributes:
        files: The corpus.
        codecs: What encoded it.
        settings: Pairing, direction and context.

    Args:
        arrays: See ``encode``.
        texts: The files of the corpus, decompressed.
    """

    def __init__(
        self, files: Corpus, codecs: Codecs, settings: Data, arrays: DatasetArrays, texts: Sequence[TextFile]
    ) -> None:
        self.files, self.codecs, self.settings = files, codecs, settings
        self._arrays, self._samples, self._texts = arrays, arrays.samples, texts
        self._sources = self._targets = _Texts(arrays.tokens, arrays.offsets, arrays.hashes)
        if arrays.target_tokens is not None:
            assert arrays.target_offsets is not None and arrays.target_hashes is not None
            self._targets = _Texts(arrays.target_tokens, arrays.target_offsets, arrays.target_hashes)
        self._kept: dict[int, Pair] = {}
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
        settings = settings or Data(train=str(files))
        key = CacheKey.of(files, codecs, settings)

        def ensure_unchanged() -> None:
            if CacheKey.of(files, codecs, settings) != key:
                raise CorpusError(f"{files} changed while it was being read. Start again once it is complete.")

        def build(folder: Path) -> None:
            encode(files, codecs, settings, folder)
            ensure_unchanged()

        cache = load_or_build(files, key, build)
        texts = []
        for number, path in enumerate(corpus_paths(files)):
            try:
                texts.append(cache.copies.get(_copy_name(number)) or TextFile(path))
            except OSError as error:
                raise read_error(path, error, CorpusError) from error
        ensure_unchanged()
        return cls(files, codecs, settings, DatasetArrays(**cache.arrays), texts)

    def select(self, indices: npt.NDArray[Any] | slice) -> Dataset:
        """Some of the samples.

        Args:
            indices: A slice, integers, or [samples] bool.
        """
        arrays = self._arrays._replace(samples=self._samples[indices])
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
        if not is_pairs(self.files):
            return Pair(*(self._lines(text)[0] for text in (source_end - 1, target)))
        pair = read_row(self._lines(target))
        return pair.swapped() if self.settings.swap_source_target else pair

    def keep_texts(self, indices: Iterable[int]) -> None:
        """Keep some texts in memory, so that later changes of the corpus do not matter. Raises CorpusError."""
        self._kept |= {index: self.text(index) for index in indices}

    def _lines(self, text: int) -> list[str]:
        """The line of a text in each file."""
        offsets = self._arrays.lines[text].tolist()
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
        sides = [self._sources] if self._targets is self._sources else [self._sources, self._targets]
        digest = hashlib.sha256()
        for side in sides:
            digest.update(f"{len(side.tokens)} {len(side.offsets)} {len(self._samples)}".encode())
            for part in (side.tokens[:1_000_000], side.tokens[-1_000_000:]):
                digest.update(np.asarray(part, dtype=np.int32).tobytes())
        return digest.hexdigest()

    def unknown_share(self) -> float:
        """Fraction of the first million tokens, of each side, that are not in the vocabulary, 0 to 1."""
        sides = [self._sources] if self._targets is self._sources else [self._sources, self._targets]
        return float(np.mean(np.concatenate([side.tokens[:1_000_000] for side in sides]) == UNKNOWN))

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
        spans = (positions.tolist() for positions in self._target_spans(indices))
        return [np.array(self._targets.tokens[begin:end], dtype=np.int32) for begin, end in zip(*spans, strict=True)]

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


def encode(files: Corpus, codecs: Codecs, settings: Data, folder: Path) -> None:
    """Write the arrays of a corpus, and copies of its compressed files, into ``folder``.

    * tokens [n_tokens]: the ids of all texts, one after the other; uint16 if the vocabulary allows, else int32.
    * offsets [n_texts + 1], int64: text t is tokens[offsets[t]:offsets[t + 1]].
    * hashes [n_texts], uint64: of the tokens of each text, by their names rather than their ids.
    * target_tokens, target_offsets, target_hashes: the same for texts as targets. They do not exist for conversations
      whose source and target share the codec, as there every text can be both.
    * lines [n_texts, files], int64: where the line of each text begins in each file of the corpus, decompressed.
    * samples [n_samples, 3], int64: the source is texts first .. end - 1, the target is text t: (first, end, t).

    With several context turns each text is stored with the marker ``TURN`` before its words.
    The corpus is streamed: memory does not grow with its length.

    Raises:
        CorpusError: The corpus cannot be read or has no samples.
        OSError: The arrays cannot be written.
    """
    tokenizers, paths = codecs.tokenizers, corpus_paths(files)
    marked, pairs = settings.context_turns > 1, is_pairs(files)
    with ExitStack() as stack:
        samples = stack.enter_context(array_writer(folder / "samples.npy", "q", columns=3))
        lines = stack.enter_context(array_writer(folder / "lines.npy", "q", columns=len(paths)))
        sides = [stack.enter_context(_text_writer(folder, "", codecs.source, marked))]
        if pairs or not codecs.is_shared:
            sides.append(stack.enter_context(_text_writer(folder, "target_", codecs.target, marked)))
        if pairs:
            rows = enumerate(read_tokenized_pairs(files, settings, tokenizers, progress=True))
            for index, (offsets, sample) in rows:
                sides[0].add(sample.source_tokens)
                sides[1].add(sample.target_tokens)
                lines.extend(offsets)
                samples.extend((index, index + 1, index))
        else:
            for row in _conversation_samples(files, tokenizers, settings, sides, lines):
                samples.extend(row)
        if not samples.rows and pairs:
            raise CorpusError(
                f"{files} has no samples: none of its pairs has tokens on both sides. Use another tokenizer."
            )
        if not samples.rows:
            raise CorpusError(
                f"{files} has no samples: with {settings.pairing} pairing, none of its {lines.rows} "
                "usable utterance(s) is a reply. It needs at least one conversation of two utterances or more."
            )
    for number, path in enumerate(paths):
        if is_compressed(path):
            with open(folder / _copy_name(number), "wb") as copy:
                for offset, block in LineBlocks(path):  # which shortens lines that are too long: their rest is a hole
                    copy.seek(offset)
                    copy.write(block)


def _copy_name(number: int) -> str:
    """The name of the text of a compressed file of the corpus."""
    return f"text{number}.txt"


def _conversation_samples(
    files: Corpus, tokenizers: Tokenizers, settings: Data, sides: Sequence[_TextWriter], lines: ArrayWriter
) -> Iterator[tuple[int, int, int]]:
    """Store each utterance; yield the samples: first and end of the source, and the target."""
    current, first = -1, 0  # conversation, and its first utterance

    def store() -> Iterator[tuple[int, int]]:
        nonlocal current, first
        for index, utterance in enumerate(read_tokenized_utterances(files, tokenizers, progress=True)):
            if utterance.conversation != current:
                current, first = utterance.conversation, index
            sides[0].add(utterance.source_tokens)
            if len(sides) > 1:
                sides[1].add(utterance.target_tokens)
            lines.extend((utterance.offset,))
            yield utterance.conversation, index

    for _, target in iterate_samples(store(), settings.pairing):
        if settings.swap_source_target:
            yield target, target + 1, target - 1
        else:
            yield max(first, target - settings.context_turns), target, target


class _TextWriter:
    """Writes the tokens, offsets and hashes of the texts of a side."""

    def __init__(
        self, tokens: ArrayWriter, offsets: ArrayWriter, hashes: ArrayWriter, codec: TextCodec, marked: bool
    ) -> None:
        self._tokens, self._offsets, self._hashes, self._vocabulary = tokens, offsets, hashes, codec.vocabulary
        self._marker = codec.vocabulary.ids([TURN]) if marked else []
        offsets.extend((0,))

    def add(self, tokens: Sequence[str]) -> None:
        self._tokens.extend([*self._marker, *self._vocabulary.ids(tokens)])
        self._offsets.extend((self._tokens.items,))
        digest = hashlib.sha1(" ".join(tokens).encode(), usedforsecurity=False).digest()
        self._hashes.extend((int.from_bytes(digest[:8], "little"),))


@contextmanager
def _text_writer(folder: Path, prefix: str, codec: TextCodec, marked: bool) -> Iterator[_TextWriter]:
    with (
        array_writer(folder / f"{prefix}tokens.npy", id_dtype(len(codec.vocabulary))) as tokens,
        array_writer(folder / f"{prefix}offsets.npy", "q") as offsets,
        array_writer(folder / f"{prefix}hashes.npy", "Q") as hashes,
    ):
        yield _TextWriter(tokens, offsets, hashes, codec, marked)
