"""The utterances of a prepared corpus: one table, as Parquet and as corpus files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from seq2seq_chat.corpus.columns import integers, numbers, strings
from seq2seq_chat.corpus.files import END_OF_CONVERSATION, CorpusError, read_utterances
from seq2seq_chat.corpus.split import SPLITS
from seq2seq_chat.corpus.text import clean_lines

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
"""Split; what is never split (dialogue, film or submission); conversation, counted over the corpus;
place in the conversation, counted from 0; clean text and its number of words; seconds."""

_ROWS_PER_GROUP = 1 << 17
_BATCH = 1 << 14


def write_prepared(batches: Iterable[pa.RecordBatch], folder: Path, progress: Any) -> Counter[str]:
    """Write ``utterances.parquet`` and a corpus file for each split.

    Args:
        batches: Rows of ``tables.in_order``.
        progress: Told the rows as they are written.

    Returns:
        The utterances in each split.

    Raises:
        OSError: Something cannot be written.
    """
    sizes: Counter[str] = Counter()
    last = np.full(4, -1)
    conversation, position = -1, -1
    with ExitStack() as stack:
        texts = {name: stack.enter_context(open(folder / f"{name}.txt", "wb")) for name in SPLITS}
        table = _Table(folder / UTTERANCES_FILE)
        stack.callback(table.close)
        for batch in batches:
            if not batch.num_rows:
                continue
            columns = {name: batch.column(batch.schema.get_field_index(name)) for name in batch.schema.names}
            split = _split_numbers(columns["split"])
            places = [split, *(numbers(columns[name]) for name in ("first", "second", "turn"))]
            order = np.stack([np.append(before, place) for before, place in zip(last, places, strict=True)])
            last = order[:, -1]
            changes = np.diff(order) != 0
            _check_order(np.diff(order), changes)
            begins = changes[:3].any(axis=0)
            if "cut" in columns:
                begins |= numbers(columns["cut"], np.int8) > 0
            rows = np.arange(batch.num_rows)
            conversations = conversation + np.cumsum(begins)
            starts = np.maximum.accumulate(np.where(begins, rows, -1))
            positions = np.where(starts < 0, position + 1 + rows, rows - starts)
            conversation, position = int(conversations[-1]), int(positions[-1])
            text = columns["text"]
            table.write(
                pa.RecordBatch.from_arrays(
                    [
                        columns["split"],
                        columns["thread"],
                        integers(conversations),
                        integers(positions),
                        text,
                        integers(numbers(pc.count_substring(text, " "), np.int32) + 1, np.int32),
                        columns["start"],
                        columns["end"],
                    ],
                    schema=PREPARED,
                )
            )
            edges = [0, *(np.flatnonzero(np.diff(split)) + 1).tolist(), batch.num_rows]
            for begin, end in pairwise(edges):
                name = SPLITS[split[begin]]
                texts[name].write(_lines(text.slice(begin, end - begin), begins[begin:end], name in sizes))
                sizes[name] += end - begin
            progress(batch.num_rows)
        for name in sizes:
            texts[name].write(_MARKER)
    return sizes


def _split_numbers(split: pa.Array) -> Any:
    """The place of each split in SPLITS. Raises RuntimeError for any other."""
    places = pc.index_in(split, strings([name.encode() for name in SPLITS]))
    if places.null_count:
        raise RuntimeError("the engine gave an utterance without a split")
    return numbers(places, np.int32).astype(np.int64)


def _check_order(steps: Any, changes: Any) -> None:
    """Raise RuntimeError unless each row comes after the one before: a corpus out of order must not go unseen."""
    first_change = changes.argmax(axis=0)
    if not (changes.any(axis=0) & (np.take_along_axis(steps, first_change[None], axis=0)[0] > 0)).all():
        raise RuntimeError("the engine gave utterances out of order, or one of them twice")


_MARKER = f"{END_OF_CONVERSATION}\n".encode()


def _lines(text: pa.StringArray, begins: Any, opened: bool) -> memoryview:
    """Utterances as lines of a corpus file; a conversation that begins first ends the one before, if there is one."""
    marked = begins.copy()
    marked[0] &= opened
    offsets = np.frombuffer(text.buffers()[1], np.int32)[text.offset :][: len(text) + 1]
    characters = np.frombuffer(text.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    # Where the line feeds are; before a line that is marked lies a marker.
    ends = offsets[1:] - offsets[0] + np.arange(len(text)) + len(_MARKER) * np.cumsum(marked)
    markers = (ends - np.diff(offsets))[marked, None] - len(_MARKER) + np.arange(len(_MARKER))
    lines = np.empty(ends[-1] + 1, np.uint8)
    is_text = np.ones(len(lines), bool)
    is_text[ends] = is_text[markers] = False
    lines[is_text] = characters
    lines[ends] = ord("\n")
    lines[markers] = np.frombuffer(_MARKER, np.uint8)
    return lines.data


class _Table:
    """Writes rows in groups of one size, so that the same rows give the same bytes however they come.

    A group is packed in a thread, beside what makes the rows of the next.
    """

    def __init__(self, path: Path) -> None:
        self._writer = pq.ParquetWriter(path, PREPARED, compression="zstd", compression_level=1)
        self._held: list[pa.RecordBatch] = []
        self._rows = 0
        self._thread = ThreadPoolExecutor(1)
        self._writing: Future[None] | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        while self._rows + batch.num_rows >= _ROWS_PER_GROUP:
            room = _ROWS_PER_GROUP - self._rows
            self._held.append(batch.slice(0, room))
            self._flush()
            batch = batch.slice(room)
        if batch.num_rows:
            self._held.append(batch)
            self._rows += batch.num_rows

    def _flush(self) -> None:
        self._wait()
        if self._held:
            self._writing = self._thread.submit(self._write_group, self._held)
        self._held, self._rows = [], 0

    def _write_group(self, batches: list[pa.RecordBatch]) -> None:
        table = pa.Table.from_batches(batches, PREPARED).combine_chunks()
        self._writer.write_table(table, row_group_size=_ROWS_PER_GROUP)

    def _wait(self) -> None:
        """Wait for the group that is being written, of which there is never more than one."""
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
    """The Parquet file of the utterances of a prepared folder, of such a file itself, or of any corpus file.

    Args:
        folder: Where to make a Parquet file of a corpus file, whose split is then ``train``.

    Raises:
        CorpusError: There is no corpus at ``path``.
    """
    if path.is_dir():
        table = path / UTTERANCES_FILE
        if not table.is_file():
            raise CorpusError(
                f"{path} holds no {UTTERANCES_FILE}. Name a folder that seq2seq-chat prepare wrote, or a corpus file."
            )
        yield table
    elif path.suffix == ".parquet" and path.is_file():
        yield path
    else:
        with open(path, "rb") as file:
            is_table = file.read(4) == b"PAR1"
        if is_table:
            yield path
            return
        table = folder / UTTERANCES_FILE
        writer = _Table(table)
        for batch in _batches_of_file(path):
            writer.write(batch)
        writer.close()
        yield table


def _batches_of_file(path: Path) -> Iterator[pa.RecordBatch]:
    """A corpus file as rows, cleaned; conversations are its threads as well."""
    last, position = -1, -1
    held: list[tuple[int, str]] = []

    def batch() -> pa.RecordBatch:
        nonlocal last, position
        texts = clean_lines([text for _, text in held])
        kept = [(conversation, text) for (conversation, _), text in zip(held, texts, strict=True) if text]
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
        held.append(item)
        if len(held) == _BATCH:
            yield batch()
            held = []
    if held:
        yield batch()
