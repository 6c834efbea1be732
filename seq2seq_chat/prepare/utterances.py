"""The utterances of a prepared corpus, as a Parquet file and as corpus files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from seq2seq_chat.data.corpus_file import END_OF_CONVERSATION, CorpusError, read_utterances
from seq2seq_chat.data.lines import read_error
from seq2seq_chat.data.tokenizers.english import clean_lines
from seq2seq_chat.prepare.arrow import integers, strings, to_numpy
from seq2seq_chat.prepare.split import SPLITS

UTTERANCES_FILE = "utterances.parquet"

PREPARED = pa.schema(
    [
        pa.field("split", pa.string(), nullable=False),
        pa.field("thread", pa.string(), nullable=False),
        pa.field("conversation", pa.int64(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("words", pa.int32(), nullable=False),
        pa.field("start", pa.float64()),
        pa.field("end", pa.float64()),
    ]
)
"""The split; the thread (dialogue, film or submission), which is never divided between splits; the number of the
conversation in the corpus and of the utterance in the conversation, from 0; cleaned text and its number of words; start
and end in seconds."""

_ROWS_PER_GROUP = 1 << 17
_ROWS_PER_BATCH = 1 << 14


def write_prepared(batches: Iterable[pa.RecordBatch], folder: Path, on_progress: Callable[[int], Any]) -> Counter[str]:
    """Write ``utterances.parquet`` and a corpus file for each split.

    Args:
        batches: Rows of ``queries.corpus_order``.
        on_progress: Called with the number of rows of each batch.

    Returns:
        The number of utterances in each split.

    Raises:
        OSError: A file cannot be written.
        RuntimeError: The engine returned wrong rows.
    """
    sizes: Counter[str] = Counter()
    numbering = _Numbering()
    with ExitStack() as stack:
        corpus_files = {name: stack.enter_context(open(folder / f"{name}.txt", "wb")) for name in SPLITS}
        table = _ParquetWriter(folder / UTTERANCES_FILE)
        stack.callback(table.close)
        for batch in batches:
            if not batch.num_rows:
                continue
            columns = {name: batch.column(batch.schema.get_field_index(name)) for name in batch.schema.names}
            split = _split_numbers(columns["split"])
            is_first, conversations, positions = numbering.number(split, columns)
            table.write(_prepared_batch(columns, conversations, positions))
            edges = [0, *(np.flatnonzero(np.diff(split)) + 1).tolist(), batch.num_rows]
            for start, end in pairwise(edges):
                name, text = SPLITS[split[start]], columns["text"].slice(start, end - start)
                corpus_files[name].write(_corpus_lines(text, is_first[start:end], name in sizes))
                sizes[name] += end - start
            on_progress(batch.num_rows)
        for name in sizes:
            corpus_files[name].write(_MARKER)
    return sizes


class _Numbering:
    """Numbers conversations, and the utterances in them, across batches."""

    def __init__(self) -> None:
        self._last_key = np.full(4, -1)
        self._conversation, self._position = -1, -1

    def number(self, split: Any, columns: Mapping[str, pa.Array]) -> tuple[Any, Any, Any]:
        """Whether each utterance is the first of a conversation, and the numbers of conversation and utterance.

        Raises:
            RuntimeError: The utterances are not in order.
        """
        sort_key = [split, *(to_numpy(columns[name]) for name in ("key_1", "key_2", "turn"))]
        keys = np.stack([np.append(last, values) for last, values in zip(self._last_key, sort_key, strict=True)])
        self._last_key = keys[:, -1]
        changes = np.diff(keys) != 0
        _check_order(np.diff(keys), changes)
        is_first = changes[:3].any(axis=0)
        if "cut" in columns:
            is_first |= to_numpy(columns["cut"], np.int8) > 0
        rows = np.arange(len(split))
        conversations = self._conversation + np.cumsum(is_first)
        starts = np.maximum.accumulate(np.where(is_first, rows, -1))
        positions = np.where(starts < 0, self._position + 1 + rows, rows - starts)
        self._conversation, self._position = int(conversations[-1]), int(positions[-1])
        return is_first, conversations, positions


def _prepared_batch(columns: Mapping[str, pa.Array], conversations: Any, positions: Any) -> pa.RecordBatch:
    words = to_numpy(pc.count_substring(columns["text"], " "), np.int32) + 1
    arrays = [
        columns["split"],
        columns["thread"],
        integers(conversations),
        integers(positions),
        columns["text"],
        integers(words, np.int32),
        columns["start"],
        columns["end"],
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=PREPARED)


def _split_numbers(split: pa.Array) -> Any:
    """The index of each split in SPLITS. Raises RuntimeError if it is none of them."""
    indices = pc.index_in(split, strings([name.encode() for name in SPLITS]))
    if indices.null_count:
        raise RuntimeError("the engine returned an utterance without a split")
    return to_numpy(indices, np.int32).astype(np.int64)


def _check_order(steps: Any, changes: Any) -> None:
    """Raise RuntimeError unless the keys increase strictly from row to row."""
    first_change = changes.argmax(axis=0)
    if not (changes.any(axis=0) & (np.take_along_axis(steps, first_change[None], axis=0)[0] > 0)).all():
        raise RuntimeError("the engine returned utterances out of order or more than once")


_MARKER = f"{END_OF_CONVERSATION}\n".encode()


def _corpus_lines(text: pa.StringArray, is_first: Any, has_previous: bool) -> memoryview:
    """Utterances as lines of a corpus file, with a marker before each new conversation except the first of the file.

    Args:
        text: ``[utterances]``.
        is_first: Whether a new conversation starts, ``[utterances]``.
        has_previous: Whether the file already has utterances.
    """
    marked = is_first.copy()
    marked[0] &= has_previous
    offsets = np.frombuffer(text.buffers()[1], np.int32)[text.offset :][: len(text) + 1]
    characters = np.frombuffer(text.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    # The offsets of the line feeds. A marker precedes each marked line.
    ends = offsets[1:] - offsets[0] + np.arange(len(text)) + len(_MARKER) * np.cumsum(marked)
    markers = (ends - np.diff(offsets))[marked, None] - len(_MARKER) + np.arange(len(_MARKER))
    lines = np.empty(ends[-1] + 1, np.uint8)
    is_text = np.ones(len(lines), bool)
    is_text[ends] = is_text[markers] = False
    lines[is_text] = characters
    lines[ends] = ord("\n")
    lines[markers] = np.frombuffer(_MARKER, np.uint8)
    return lines.data


class _ParquetWriter:
    """Writes rows in groups of a fixed size, so that the bytes do not depend on the batches.

    A thread compresses one group while the rows of the next one are produced.
    """

    def __init__(self, path: Path) -> None:
        self._writer = pq.ParquetWriter(path, PREPARED, compression="zstd", compression_level=1)
        self._pending: list[pa.RecordBatch] = []
        self._rows = 0
        self._thread = ThreadPoolExecutor(1)
        self._writing: Future[None] | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        while self._rows + batch.num_rows >= _ROWS_PER_GROUP:
            room = _ROWS_PER_GROUP - self._rows
            self._pending.append(batch.slice(0, room))
            self._flush()
            batch = batch.slice(room)
        if batch.num_rows:
            self._pending.append(batch)
            self._rows += batch.num_rows

    def _flush(self) -> None:
        self._wait()
        if self._pending:
            self._writing = self._thread.submit(self._write_group, self._pending)
        self._pending, self._rows = [], 0

    def _write_group(self, batches: list[pa.RecordBatch]) -> None:
        table = pa.Table.from_batches(batches, PREPARED).combine_chunks()
        self._writer.write_table(table, row_group_size=_ROWS_PER_GROUP)

    def _wait(self) -> None:
        """Wait for the group that is being written, if any."""
        if self._writing is not None:
            writing, self._writing = self._writing, None
            writing.result()

    def close(self) -> None:
        try:
            self._flush()
            self._wait()
        finally:
            self._thread.shutdown()
            self._writer.close()


@contextmanager
def prepared_utterances(path: Path, folder: Path) -> Iterator[Path]:
    """The Parquet file of utterances for a prepared folder, for such a file itself, or for a corpus file.

    A corpus file is converted to Parquet in ``folder``, with all utterances in the split ``train``.

    Raises:
        CorpusError: There is no corpus at ``path``, or it cannot be read.
    """
    if path.is_dir():
        table = path / UTTERANCES_FILE
        if not table.is_file():
            raise CorpusError(
                f"{path} contains no {UTTERANCES_FILE}. Name an output folder of prepare, or a corpus file."
            )
        yield table
    elif path.suffix == ".parquet" and path.is_file():
        yield path
    else:
        try:
            with open(path, "rb") as file:
                is_table = file.read(4) == b"PAR1"
        except OSError as error:
            raise read_error(path, error, CorpusError) from error
        if is_table:
            yield path
            return
        table = folder / UTTERANCES_FILE
        writer = _ParquetWriter(table)
        for batch in _read_corpus_file(path):
            writer.write(batch)
        writer.close()
        yield table


def _read_corpus_file(path: Path) -> Iterator[pa.RecordBatch]:
    """The cleaned utterances of a corpus file; each conversation is a thread."""
    last, position = -1, -1
    pending: list[tuple[int, str]] = []

    def batch() -> pa.RecordBatch:
        nonlocal last, position
        texts = clean_lines([text for _, text in pending])
        kept = [(conversation, text) for (conversation, _), text in zip(pending, texts, strict=True) if text]
        positions = []
        for conversation, _ in kept:
            position = position + 1 if conversation == last else 0
            last = conversation
            positions.append(position)
        columns: list[list[Any]] = [
            ["train"] * len(kept),
            [str(conversation) for conversation, _ in kept],
            [conversation for conversation, _ in kept],
            positions,
            [text for _, text in kept],
            [text.count(" ") + 1 for _, text in kept],
            [None] * len(kept),
            [None] * len(kept),
        ]
        arrays = [pa.array(column, kind) for column, kind in zip(columns, PREPARED.types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=PREPARED)

    for item in read_utterances(path, progress=True):
        pending.append(item)
        if len(pending) == _ROWS_PER_BATCH:
            yield batch()
            pending = []
    if pending:
        yield batch()
