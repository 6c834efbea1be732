"""Encode samples: the ids of their words, and where their texts stand, in files of arrays."""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Literal

import numpy as np

from seq2seq_chat.config import Data, is_pairs
from seq2seq_chat.data.corpus_file import Corpus, CorpusError, corpus_paths
from seq2seq_chat.data.samples import iterate_samples, read_tokenized_pairs, read_tokenized_utterances
from seq2seq_chat.system.compressed import DamagedFile, LineBlocks, is_compressed
from seq2seq_chat.system.lines import read_error
from seq2seq_chat.text.codec import Codecs, TextCodec
from seq2seq_chat.text.tokenizers import Tokenizers
from seq2seq_chat.text.vocabulary import TURN

_HEADER_BYTES = 128  # numpy's header for one or two axes of any length
_BUFFER_ITEMS = 1 << 18

ItemType = Literal["H", "i", "q", "Q"]
"""uint16, int32, int64 or uint64, as the code shared by numpy and ``array``."""


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
        sides = [_TextWriter(stack, folder, "", codecs.source, marked)]
        if pairs or not codecs.is_shared:
            sides.append(_TextWriter(stack, folder, "target_", codecs.target, marked))
        if pairs:
            for index, (offsets, sample) in enumerate(read_tokenized_pairs(files, settings, tokenizers, progress=True)):
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
            with open(folder / copy_name(number), "wb") as copy:
                try:
                    for offset, block in LineBlocks(path):  # lines that are too long are cut: their rest is a hole
                        copy.seek(offset)
                        copy.write(block)
                except DamagedFile as error:  # the file has changed since it was read
                    raise read_error(path, error, CorpusError) from error


def copy_name(number: int) -> str:
    """The name of the text of a compressed file of the corpus, the first or the second."""
    return f"text{number}.txt"


def _conversation_samples(
    files: Corpus, tokenizers: Tokenizers, settings: Data, sides: Sequence[_TextWriter], lines: ArrayWriter
) -> Iterator[tuple[int, int, int]]:
    """Store each utterance; yield the samples: first and end of the source, and the target."""

    def store() -> Iterator[tuple[int, tuple[int, int]]]:
        conversation = first = -1  # the first utterance of the conversation
        for index, utterance in enumerate(read_tokenized_utterances(files, tokenizers, progress=True)):
            if utterance.conversation != conversation:
                conversation, first = utterance.conversation, index
            for side, tokens in zip(sides, (utterance.source_tokens, utterance.target_tokens), strict=False):
                side.add(tokens)
            lines.extend((utterance.offset,))
            yield conversation, (first, index)

    for _, (first, target) in iterate_samples(store(), settings.pairing):
        if settings.swap_source_target:
            yield target, target + 1, target - 1
        else:
            yield max(first, target - settings.context_turns), target, target


def hash_tokens(tokens: str) -> int:
    """The 64-bit hash of the tokens of a text, which are separated by single spaces."""
    return int.from_bytes(hashlib.sha1(tokens.encode(), usedforsecurity=False).digest()[:8], "little")


class _TextWriter:
    """Writes the tokens, offsets and hashes of the texts of a side."""

    def __init__(self, stack: ExitStack, folder: Path, prefix: str, codec: TextCodec, marked: bool) -> None:
        self._vocabulary, self._marker = codec.vocabulary, codec.vocabulary.ids([TURN]) if marked else []
        self._tokens, self._offsets, self._hashes = (
            stack.enter_context(array_writer(folder / f"{prefix}{name}.npy", dtype))
            for name, dtype in (("tokens", id_dtype(len(codec.vocabulary))), ("offsets", "q"), ("hashes", "Q"))
        )
        self._offsets.extend((0,))

    def add(self, tokens: Sequence[str]) -> None:
        self._tokens.extend([*self._marker, *self._vocabulary.ids(tokens)])
        self._offsets.extend((self._tokens.items,))
        self._hashes.extend((hash_tokens(" ".join(tokens)),))


class ArrayWriter:
    """Appends to a one-dimensional array, or to one with rows of ``columns`` values; see ``array_writer``."""

    def __init__(self, file: IO[bytes], dtype: ItemType, columns: int | None) -> None:
        self._file, self._columns = file, columns
        self._buffer = array(dtype)
        self._written = 0
        file.write(bytes(_HEADER_BYTES))

    @property
    def items(self) -> int:
        """Number of values appended."""
        return self._written + len(self._buffer)

    @property
    def rows(self) -> int:
        """Length of the array's first axis."""
        return self.items // (self._columns or 1)

    def extend(self, values: Iterable[int]) -> None:
        """Append values; complete rows if the array has columns."""
        self._buffer.extend(values)
        if len(self._buffer) >= _BUFFER_ITEMS:
            self._flush()

    def finish(self) -> None:
        """Write the buffered values and the header, and flush to the disk."""
        self._flush()
        self._file.seek(0)
        shape = (self.rows, self._columns) if self._columns else (self.rows,)
        header = {"descr": np.dtype(self._buffer.typecode).str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, header)
        assert self._file.tell() == _HEADER_BYTES
        self._file.flush()
        os.fsync(self._file.fileno())

    def _flush(self) -> None:
        self._written += len(self._buffer)
        self._buffer.tofile(self._file)
        del self._buffer[:]


def id_dtype(vocabulary_size: int) -> ItemType:
    """The smallest type for the ids of a vocabulary, uint16 or int32."""
    return "H" if vocabulary_size <= 1 << 16 else "i"


@contextmanager
def array_writer(path: Path, dtype: ItemType, columns: int | None = None) -> Iterator[ArrayWriter]:
    """Create an ``.npy`` file. The header is written last, so the file is invalid until the block ends.

    Args:
        columns: Length of the second axis; None for a one-dimensional array.
    """
    with open(path, "wb") as file:
        writer = ArrayWriter(file, dtype, columns)
        yield writer
        writer.finish()
