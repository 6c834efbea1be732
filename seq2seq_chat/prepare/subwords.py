"""Train a tokenizer on the training set of a prepared corpus, and tokenize the corpus with it."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tqdm import tqdm

from seq2seq_chat.data.corpus_file import read_pairs, read_utterances
from seq2seq_chat.prepare.arrow import strings
from seq2seq_chat.prepare.settings import PrepareSettings, TextSide
from seq2seq_chat.prepare.split import SPLITS
from seq2seq_chat.prepare.tokenizing import is_ready
from seq2seq_chat.prepare.utterances import (
    PREPARED_WITH_TOKENS,
    UTTERANCES_FILE,
    UtterancesWriter,
    corpus_file,
    token_counts,
)
from seq2seq_chat.prepare.workers import map_in_processes
from seq2seq_chat.system.files import write_atomically
from seq2seq_chat.text.tokenizers import TOKENIZER_FILE
from seq2seq_chat.text.tokenizers.subword import SubwordTokenizer

_MIN_PARALLEL_GROUPS = 8  # of about 100,000 utterances; below this, starting processes takes longer than tokenizing


def tokenize_prepared(settings: PrepareSettings, folder: Path) -> list[SubwordTokenizer | None]:
    """Train tokenizers on the corpus file of train, and add the tokens to the table of utterances.

    Writes the files of the tokenizers, too.

    Returns:
        For each of ``settings.text_sides`` its tokenizer, or None if that need not be trained.

    Raises:
        TokenizerError: The vocabulary is too small.
        ReadingStopped: A process was killed.
    """
    tokenizers = [None if is_ready(side.tokenizer) else _train(settings, side, folder) for side in settings.text_sides]
    files = [
        None if tokenizer is None else folder / f"{side.prefix}{TOKENIZER_FILE}"
        for tokenizer, side in zip(tokenizers, settings.text_sides, strict=True)
    ]
    _add_tokens(folder, tokenizers, files, settings.jobs)
    return tokenizers


def _train(settings: PrepareSettings, side: TextSide, folder: Path) -> SubwordTokenizer:
    """Train the tokenizer of a side and write its file."""
    train = folder / corpus_file(SPLITS[0], as_pairs=settings.has_pairs)
    if settings.has_pairs:
        pairs = read_pairs(train, progress=True)
        texts = (getattr(pair, name) for pair in pairs for name in side.sides)
    else:
        texts = (text for _, text in read_utterances(train, progress=True))
    option = f"--{side.prefix.replace('_', '-')}vocabulary-size"
    tokenizer = SubwordTokenizer.train(texts, side.vocabulary_size, side.tokenizer.subword_model, option)
    write_atomically(folder / f"{side.prefix}{TOKENIZER_FILE}", tokenizer.file_content)
    return tokenizer


def _add_tokens(
    folder: Path, tokenizers: Sequence[SubwordTokenizer | None], files: Sequence[Path | None], jobs: int
) -> None:
    """Replace the table of utterances by one with tokens, and with their numbers in the column ``words``.

    Args:
        tokenizers: Of all utterances, or of the sources and of the targets, which take turns in the table; None for
            those whose tokens are there already.
        files: The files of the tokenizers.
    """
    path, tokenized = folder / UTTERANCES_FILE, folder / f"tokenized_{UTTERANCES_FILE}"
    with pq.ParquetFile(path) as table, UtterancesWriter(tokenized, has_tokens=True) as writer:
        groups = range(table.num_row_groups)
        results: Iterator[pa.StringArray]
        if jobs > 1 and len(groups) >= _MIN_PARALLEL_GROUPS:
            results = map_in_processes(functools.partial(_tokenize_in_process, path, files), groups, jobs)
        else:
            results = (_tokenize(path, group, tokenizers) for group in groups)
        with tqdm(
            total=table.metadata.num_rows,
            desc="tokenizing",
            unit=" utterances",
            unit_scale=True,
            delay=2,
            disable=None,
        ) as bar:
            for group, tokens in zip(groups, results, strict=True):
                writer.write(_with_tokens(table.read_row_group(group), tokens))
                bar.update(len(tokens))
    os.replace(tokenized, path)


def _tokenize_in_process(path: Path, files: Sequence[Path | None], group: int) -> pa.StringArray:
    return _tokenize(path, group, [None if file is None else _load(file) for file in files])


@functools.lru_cache(maxsize=2)
def _load(path: Path) -> SubwordTokenizer:
    return SubwordTokenizer.load(path.read_bytes(), str(path))


def _tokenize(path: Path, group: int, tokenizers: Sequence[SubwordTokenizer | None]) -> pa.StringArray:
    """The tokens of the texts in a group of rows, separated by single spaces."""
    with pq.ParquetFile(path) as table:
        columns = [name for name in ("text", "tokens") if name in table.schema_arrow.names]
        rows = table.read_row_group(group, columns).combine_chunks()
    texts, lines = (rows.column(name).chunk(0) for name in ("text", columns[-1]))
    parts = []
    for first, tokenizer in enumerate(tokenizers):
        turn = np.arange(first, len(texts), len(tokenizers))  # a group of pairs begins with a source: its size is even
        parts.append(lines.take(turn) if tokenizer is None else tokenize_words(tokenizer, texts.take(turn)))
    order = np.arange(len(parts) * len(parts[0])).reshape(len(parts), -1).T.ravel()
    return pa.concat_arrays(parts).take(order) if len(parts) > 1 else parts[0]


def tokenize_words(tokenizer: SubwordTokenizer, texts: pa.StringArray) -> pa.StringArray:
    """The tokens of texts, separated by single spaces. Each distinct word is only looked up once."""
    words = pc.split_pattern(texts, " ")
    distinct = words.values.dictionary_encode()
    tokens = strings([line.encode() for line in tokenizer.encode_words(distinct.dictionary.to_pylist())])
    return pc.binary_join(pa.ListArray.from_arrays(words.offsets, tokens.take(distinct.indices)), " ")


def _with_tokens(rows: pa.Table, tokens: pa.StringArray) -> pa.RecordBatch:
    columns = {name: column.combine_chunks() for name, column in zip(rows.column_names, rows.columns, strict=True)}
    columns |= {"words": token_counts(tokens), "tokens": tokens}
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=PREPARED_WITH_TOKENS)
