"""The table of utterances of a prepared folder, or of any corpus file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from seq2seq_chat.config import is_pairs
from seq2seq_chat.data.corpus_file import CorpusError, read_utterances
from seq2seq_chat.data.lines import read_error
from seq2seq_chat.data.pairs import read_pairs
from seq2seq_chat.data.tokenizers import Tokenizer
from seq2seq_chat.prepare.utterances import PREPARED, PREPARED_WITH_TOKENS, UTTERANCES_FILE, UtterancesWriter

_ROWS_PER_BATCH = 1 << 14


@contextmanager
def prepared_utterances(path: Path, folder: Path, tokenizer: Tokenizer) -> Iterator[Path]:
    """The Parquet file of utterances for a prepared folder, for such a file itself, or for a corpus file.

    A corpus file is tokenized and converted to Parquet in ``folder``, with all utterances in the split ``train``.

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
        with UtterancesWriter(table, has_tokens=not tokenizer.cleans) as writer:
            for batch in _read_corpus_file(path, tokenizer):
                writer.write(batch)
        yield table


def _read_corpus_file(path: Path, tokenizer: Tokenizer) -> Iterator[pa.RecordBatch]:
    """The utterances of a corpus file that have tokens; each conversation, or each pair of a .tsv, is a thread."""
    last, position = -1, -1
    tokenized = _tokenized_pairs(path, tokenizer) if is_pairs(path) else _tokenized_utterances(path, tokenizer)
    while block := list(islice(tokenized, _ROWS_PER_BATCH)):
        rows: list[list[Any]] = []
        for conversation, text, tokens in block:
            position = position + 1 if conversation == last else 0
            last = conversation
            line = tokens if tokenizer.cleans else text.strip()
            words = tokens.count(" ") + 1
            rows.append(["train", str(conversation), conversation, position, line, words, None, None, tokens])
        schema = PREPARED if tokenizer.cleans else PREPARED_WITH_TOKENS
        columns = zip(*rows, strict=True) if rows else [()] * len(schema)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=False)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


_Tokenized = Iterator[tuple[int, str, str]]  # the number of the conversation, a text, and its tokens


def _tokenized_utterances(path: Path, tokenizer: Tokenizer) -> _Tokenized:
    utterances = read_utterances(path, progress=True)
    while block := list(islice(utterances, _ROWS_PER_BATCH)):
        lines = tokenizer.encode_lines([text for _, text in block])
        yield from ((*utterance, tokens) for utterance, tokens in zip(block, lines, strict=True) if tokens)


def _tokenized_pairs(path: Path, tokenizer: Tokenizer) -> _Tokenized:
    """The sides of the pairs that both have tokens."""
    pairs = enumerate(read_pairs(path, progress=True))
    while block := list(islice(pairs, _ROWS_PER_BATCH)):
        sources = tokenizer.encode_lines([pair.source for _, pair in block])
        targets = tokenizer.encode_lines([pair.target for _, pair in block])
        for (number, pair), source, target in zip(block, sources, targets, strict=True):
            if source and target:
                yield number, pair.source, source
                yield number, pair.target, target
