"""The utterances of a prepared corpus, as a Parquet file and as corpus files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from seq2seq_chat.data.corpus_file import END_OF_CONVERSATION
from seq2seq_chat.prepare.shards import TOKENS, booleans, integers, make_schema, strings, to_numpy
from seq2seq_chat.prepare.split import SPLITS

UTTERANCES_FILE = "utterances.parquet"

PREPARED = make_schema(
    {
        **{"split": pa.string(), "thread": pa.string(), "conversation": pa.int64(), "position": pa.int64()},
        **{"text": pa.string(), "words": pa.int32()},
    },
    {"start": pa.float64(), "end": pa.float64()},
)
"""The split; the thread (dialogue, film or submission), which is never divided between splits; the number of the
conversation in the corpus and of the utterance in the conversation, from 0; the text of the corpus file and its number
of tokens; start and end in seconds. If the tokens differ from the text, a column ``TOKENS`` follows."""
PREPARED_WITH_TOKENS = PREPARED.append(TOKENS)

_ROWS_PER_GROUP = 1 << 17


def corpus_file(split: str, *, as_pairs: bool) -> str:
    """The name of the corpus file of a split."""
    return f"{split}.{'tsv' if as_pairs else 'txt'}"


def write_prepared(
    batches: Iterable[pa.RecordBatch],
    folder: Path,
    on_progress: Callable[[int], Any],
    *,
    has_tokens: bool = False,
    as_pairs: bool = False,
) -> Counter[str]:
    """Write ``utterances.parquet`` and a corpus file for each split.

    Args:
        batches: Rows of ``queries.corpus_order``.
        has_tokens: Whether the rows have the column ``tokens``.
        as_pairs: Whether each conversation is a pair; then it is a row of two columns in a .tsv.
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
        corpus_files = {
            name: stack.enter_context(open(folder / corpus_file(name, as_pairs=as_pairs), "wb")) for name in SPLITS
        }
        table = stack.enter_context(UtterancesWriter(folder / UTTERANCES_FILE, has_tokens))
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
                firsts = is_first[start:end]
                corpus_files[name].write(
                    _pair_rows(text, firsts) if as_pairs else _corpus_lines(text, firsts, name in sizes)
                )
                sizes[name] += end - start
            on_progress(batch.num_rows)
        for name in () if as_pairs else sizes:
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
    schema = PREPARED_WITH_TOKENS if "tokens" in columns else PREPARED
    prepared = {
        **columns,
        "conversation": integers(conversations),
        "position": integers(positions),
        "words": token_counts(columns.get("tokens", columns["text"])),
    }
    return pa.RecordBatch.from_arrays([prepared[name] for name in schema.names], schema=schema)


def token_counts(tokens: pa.StringArray) -> pa.Int32Array:
    """The number of words, which are separated by single spaces, of each line of tokens."""
    return integers(to_numpy(pc.count_substring(tokens, " "), np.int32) + 1, np.int32)


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
_MARKER_LINE, _TAB, _LINE_FEED, _NOTHING = strings([_MARKER, b"\t", b"\n", b""])


def _corpus_lines(text: pa.StringArray, is_first: Any, has_previous: bool) -> memoryview:
    """Utterances as lines of a corpus file, with a marker before each new conversation except the first of the file.

    Args:
        text: ``[utterances]``.
        is_first: Whether a new conversation starts, ``[utterances]``.
        has_previous: Whether the file already has utterances.
    """
    marked = is_first.copy()
    marked[0] &= has_previous
    return _joined(pc.if_else(booleans(marked), _MARKER_LINE, _NOTHING), text, _LINE_FEED)


def _pair_rows(text: pa.StringArray, is_source: Any) -> memoryview:
    """Sources and targets, in turns, as rows of two columns."""
    return _joined(text, pc.if_else(booleans(is_source), _TAB, _LINE_FEED))


def _joined(*parts: pa.StringArray | pa.StringScalar) -> memoryview:
    """The bytes of strings that follow one another, each made of its parts."""
    joined = pc.binary_join_element_wise(*parts, _NOTHING)
    offsets = np.frombuffer(joined.buffers()[1], np.int32)[joined.offset :]
    return memoryview(joined.buffers()[2])[offsets[0] : offsets[len(joined)]]


class UtterancesWriter:
    """Writes rows of PREPARED or PREPARED_WITH_TOKENS in groups of a fixed size.

    The bytes do not depend on the batches. A thread compresses one group while the rows of the next one are produced.
    """

    def __init__(self, path: Path, has_tokens: bool = False) -> None:
        self._schema = PREPARED_WITH_TOKENS if has_tokens else PREPARED
        self._writer = pq.ParquetWriter(path, self._schema, compression="zstd", compression_level=1)
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
        table = pa.Table.from_batches(batches, self._schema).combine_chunks()
        self._writer.write_table(table, row_group_size=_ROWS_PER_GROUP)

    def _wait(self) -> None:
        """Wait for the group that is being written, if any."""
        if self._writing is not None:
            writing, self._writing = self._writing, None
            writing.result()

    def __enter__(self) -> UtterancesWriter:
        return self

    def __exit__(self, *_: object) -> None:
        """Write the pending rows and close the file."""
        try:
            self._flush()
            self._wait()
        finally:
            self._thread.shutdown()
            self._writer.close()
