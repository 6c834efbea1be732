"""Train a tokenizer on the training set of a prepared corpus, and tokenize the corpus with it."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tqdm import tqdm

from seq2seq_chat.data.corpus_file import read_pairs, read_utterances
from seq2seq_chat.prepare.settings import PrepareSettings, TextSide
from seq2seq_chat.prepare.shards import strings
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
    files = [_train(settings, side, folder) for side in settings.text_sides]
    _add_tokens(folder, files, settings.jobs)
    return [None if file is None else _load(file) for file in files]


def _train(settings: PrepareSettings, side: TextSide, folder: Path) -> Path | None:
    """Train the tokenizer of a side and write its file; None if it need not be trained."""
    if is_ready(side.tokenizer):
        return None
    train = folder / corpus_file(SPLITS[0], as_pairs=settings.has_pairs)
    if settings.has_pairs:
        pairs = read_pairs(train, progress=True)
        texts = (getattr(pair, name) for pair in pairs for name in side.sides)
    else:
        texts = (text for _, text in read_utterances(train, progress=True))
    option = f"--{side.prefix.replace('_', '-')}vocabulary-size"
    tokenizer = SubwordTokenizer.train(texts, side.vocabulary_size, side.tokenizer.subword_model, option)
    file = folder / f"{side.prefix}{TOKENIZER_FILE}"
    write_atomically(file, tokenizer.file_content)
    return file


def _add_tokens(folder: Path, files: Sequence[Path | None], jobs: int) -> None:
    """Replace the table of utterances by one with tokens, and with their numbers in the column ``words``.

    Args:
        files: Of the tokenizers of all utterances, or of the sources and of the targets, which take turns in the table;
            None for those whose tokens are there already.
    """
    path, tokenized = folder / UTTERANCES_FILE, folder / f"tokenized_{UTTERANCES_FILE}"
    with pq.ParquetFile(path) as table, UtterancesWriter(tokenized, has_tokens=True) as writer:
        groups = range(table.num_row_groups)
        tokenize = functools.partial(_tokenize, path, files)
        is_parallel = jobs > 1 and len(groups) >= _MIN_PARALLEL_GROUPS
        results = map_in_processes(tokenize, groups, jobs) if is_parallel else map(tokenize, groups)
        rows = table.metadata.num_rows
        with tqdm(total=rows, desc="tokenizing", unit=" utterances", unit_scale=True, delay=2, disable=None) as bar:
            for group, tokens in zip(groups, results, strict=True):
                writer.write(_with_tokens(table.read_row_group(group), tokens))
                bar.update(len(tokens))
    os.replace(tokenized, path)


def _load(path: Path) -> SubwordTokenizer:
    return _load_content(path.read_bytes(), str(path))


@functools.lru_cache(maxsize=2)
def _load_content(content: bytes, name: str) -> SubwordTokenizer:
    return SubwordTokenizer.load(content, name)


def _tokenize(path: Path, files: Sequence[Path | None], group: int) -> pa.StringArray:
    """The tokens of the texts in a group of rows, separated by single spaces."""
    with pq.ParquetFile(path) as table:
        columns = [name for name in ("text", "tokens") if name in table.schema_arrow.names]
        rows = table.read_row_group(group, columns).combine_chunks()
    texts, lines = (rows.column(name).chunk(0) for name in ("text", columns[-1]))
    parts = []
    for first, file in enumerate(files):
        turn = np.arange(first, len(texts), len(files))  # a group of pairs begins with a source: its size is even
        parts.append(lines.take(turn) if file is None else tokenize_words(_load(file), texts.take(turn)))
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
