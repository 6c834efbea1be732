"""Shared by the scripts that analyze corpora: options, the table of utterances, and output."""

from __future__ import annotations

import csv
import functools
import io
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import click
import ibis.expr.types as ir
import pyarrow as pa

from seq2seq_chat.config import is_pairs
from seq2seq_chat.data.corpus_file import CorpusError, read_pairs, read_utterances
from seq2seq_chat.prepare.engine import EngineName, QueryEngine, fetch_rows, open_engine
from seq2seq_chat.prepare.utterances import PREPARED, PREPARED_WITH_TOKENS, UTTERANCES_FILE, UtterancesWriter
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import write_atomically, write_json
from seq2seq_chat.system.tables import format_table
from seq2seq_chat.text.codec import load_tokenizer
from seq2seq_chat.text.tokenizers import Tokenizer, TokenizerName, TokenizerSettings, create_tokenizer
from seq2seq_chat.text.vocabulary import TARGET_PREFIX

_ROWS_PER_BATCH = 1 << 14


@dataclass(frozen=True)
class CorpusOptions:
    """The options of every script that analyzes corpora; ``split`` may be ``all``, ``side`` None for both."""

    split: str
    side: str | None
    tokenizer: Tokenizer  # of a corpus file
    engine: EngineName
    spark_master: str
    memory: str

    @property
    def vocabulary_prefix(self) -> str:
        """What the names of the vocabulary files of the side start with."""
        return TARGET_PREFIX if self.side == "target" else ""


class Utterances(NamedTuple):
    """The utterances of a prepared corpus, the engine that evaluates queries over them, and a temporary folder."""

    table: ir.Table
    engine: QueryEngine
    folder: Path

    def rows(self, query: ir.Table) -> list[dict[str, Any]]:
        """The rows of a small result."""
        return fetch_rows(self.engine, query)


@contextmanager
def open_utterances(path: str | Path, options: CorpusOptions) -> Iterator[Utterances]:
    """Open the utterances at ``path``, see ``prepared_utterances``.

    Raises:
        UserError: There is no corpus, or the engine fails.
    """
    with tempfile.TemporaryDirectory(prefix="seq2seq-chat-") as name:
        folder = Path(name)
        file = prepared_utterances(Path(path), folder, options.tokenizer)
        with open_engine(options.engine, folder, memory=options.memory, spark_master=options.spark_master) as engine:
            table = engine.table(file)
            if options.split != "all":
                table = table.filter(table.split == options.split)
            if options.side is not None:
                table = table.filter(table.position % 2 == ("source", "target").index(options.side))
            yield Utterances(table, engine, folder)


def prepared_utterances(path: Path, folder: Path, tokenizer: Tokenizer) -> Path:
    """The Parquet file of utterances for a prepared folder, or for a corpus file.

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
        return table
    table = folder / UTTERANCES_FILE
    with UtterancesWriter(table, has_tokens=not tokenizer.cleans) as writer:
        for batch in _read_corpus_file(path, tokenizer):
            writer.write(batch)
    return table


def _read_corpus_file(path: Path, tokenizer: Tokenizer) -> Iterator[pa.RecordBatch]:
    """The utterances of a corpus file that have tokens; each conversation, or each pair of a .tsv, is a thread."""
    schema = PREPARED if tokenizer.cleans else PREPARED_WITH_TOKENS
    last, position = -1, -1
    tokenized = _tokenize(path, tokenizer)
    while block := list(islice(tokenized, _ROWS_PER_BATCH)):
        rows: list[list[Any]] = []
        for conversation, text, tokens in block:
            position = position + 1 if conversation == last else 0
            last = conversation
            line = tokens if tokenizer.cleans else text.strip()
            words = tokens.count(" ") + 1
            rows.append(["train", str(conversation), conversation, position, line, words, None, None, tokens])
        columns = list(zip(*rows, strict=True))
        yield pa.RecordBatch.from_arrays(columns[: len(schema)], schema=schema)


def _tokenize(path: Path, tokenizer: Tokenizer) -> Iterator[tuple[int, str, str]]:
    """The number of the conversation, the text and the tokens of each utterance; of pairs, both sides or neither."""
    texts: Iterator[tuple[int, tuple[str, ...]]]
    if is_pairs(path):
        texts = ((number, (pair.source, pair.target)) for number, pair in enumerate(read_pairs(path, progress=True)))
    else:
        texts = ((number, (text,)) for number, text in read_utterances(path, progress=True))
    while block := list(islice(texts, _ROWS_PER_BATCH)):
        lines = iter(tokenizer.encode_lines([text for _, sides in block for text in sides]))
        for number, sides in block:
            tokens = [next(lines) for _ in sides]
            if all(tokens):
                yield from ((number, *side) for side in zip(sides, tokens, strict=True))


def corpus_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --split, --side, --tokenizer and others, passed as ``options``."""

    @click.option(
        "--split",
        type=click.Choice(["train", "validation", "test", "all"]),
        default="all",
        show_default=True,
        help="Part of the corpus.",
    )
    @click.option("--side", type=click.Choice(["source", "target"]), help="Only this side of pairs.  [default: both]")
    @click.option(
        "--tokenizer",
        type=click.Choice(["english", "thesis", "unicode", "whitespace", "character", "subword"]),
        default="english",
        show_default=True,
        help="Tokenizer for a corpus file; a prepared folder has tokens already.",
    )
    @click.option("--lowercase", is_flag=True, help="unicode: convert tokens to lower case.")
    @click.option("--tokenizer-file", metavar="FILE", help="subword: the tokenizer.json of prepare or of a run.")
    @click.option("--engine", type=click.Choice(["duckdb", "spark"]), default="duckdb", show_default=True)
    @click.option("--spark-master", default="local[*]", show_default=True, metavar="URL")
    @click.option("--memory", default="2GB", show_default=True, metavar="SIZE", help="Memory limit of the engine.")
    @functools.wraps(command)
    def with_options(
        split: str,
        side: str | None,
        tokenizer: TokenizerName,
        lowercase: bool,
        tokenizer_file: str | None,
        engine: EngineName,
        spark_master: str,
        memory: str,
        **arguments: Any,
    ) -> None:
        settings = TokenizerSettings(tokenizer, lowercase)
        if (tokenizer == "subword") != (tokenizer_file is not None):
            raise UserError("--tokenizer-file is required for the subword tokenizer, and applies to no other.")
        created = create_tokenizer(settings) if tokenizer_file is None else load_tokenizer(settings, tokenizer_file)
        command(options=CorpusOptions(split, side, created, engine, spark_master, memory), **arguments)

    return with_options


def write_rows(name: str, rows: Sequence[dict[str, Any]], details: Sequence[dict[str, Any]] | None = None) -> None:
    """Write rows to NAME.csv, and them or ``details`` to NAME.json."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(f"{name}.csv", text.getvalue())
    write_json(f"{name}.json", list(rows if details is None else details))


def print_table(rows: Sequence[dict[str, Any]]) -> None:
    """Print rows as a table: numbers right-aligned, text left-aligned."""
    if not rows:
        click.echo("no rows")
        return
    cells = [list(rows[0]), *([_cell(value) for value in row.values()] for row in rows)]
    click.echo(format_table(cells, "".join("l" if isinstance(value, str) else "r" for value in rows[0].values())))


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}" if not value or value >= 0.01 else f"{value:.2g}"
    return value if isinstance(value, str) else f"{value:,}"
