"""Pairs of texts: files of two columns, or two files of parallel lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from seq2seq_chat.data.corpus_file import BadRow, CorpusError, Pair, parallel_lines, parallel_row, parse_row
from seq2seq_chat.prepare.readers import COMPRESSED, RawCorpus
from seq2seq_chat.prepare.readers.tables import Columns, find_table, is_table
from seq2seq_chat.prepare.readers.text import line_position, text_lines
from seq2seq_chat.prepare.shards import PAIRS, Piece, ReaderSettings, Shard
from seq2seq_chat.prepare.tokenizing import TokenizedTexts, tokenize
from seq2seq_chat.system.compressed import read_start
from seq2seq_chat.system.lines import MAX_LINE_BYTES, TOO_LONG, read_error

_BATCH_PAIRS = 4096
_START_BYTES = 1 << 14
ZIP = b"PK\x03\x04"  # what an archive begins with
_TSV = re.compile(rf".*\.tsv{COMPRESSED}", re.IGNORECASE)
WITHOUT_TOKENS = "without tokens on one side"
"""Why pairs are left out that the reader has read."""
_BREAKS = re.compile("[\t\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
"""Tabs, and what some program takes for a line break; either would break a row of two columns."""


@dataclass(frozen=True)
class PairSettings(ReaderSettings):
    """The options of this reader."""

    columns: Columns | None = None  # of a table: source and target; None: it has two


def read_pair_files(piece: Piece, settings: PairSettings, shard: Shard) -> None:
    """Read a file of two columns, or a range of one, or two files of parallel lines, into a shard of PAIRS.

    Rows that are not pairs are damage. Pairs with a side that has no tokens are left out.

    Raises:
        CorpusError: The two files differ in their numbers of lines, or one of them is damaged.
        OSError: The file cannot be opened.
    """
    pairs = _PairWriter(piece, settings, shard)
    table = None if piece.companion else find_table(piece.path, settings.columns)
    if table is not None:
        if piece.start:  # a range of a plain file
            table = table._replace(first_row=0)
        for number, row in table.rows(piece.path, (line for _, line in text_lines(piece, shard))):
            pairs.add(number, table.pair, row)
    elif piece.companion is None:
        for number, line in text_lines(piece, shard):
            pairs.add(number, parse_row, line)
    else:
        damaged: dict[int, str] = {}  # at most the current line, as lines are read one by one

        def parse(source: str, target: str) -> Pair:
            if damaged:
                raise BadRow(damaged.popitem()[1].removesuffix("."))
            return parallel_row(source, target)

        sides = parallel_lines(piece.path, piece.companion, damaged, on_progress=shard.add_bytes)
        for number, ((_, source), (_, target)) in enumerate(sides, start=1):
            pairs.add(number, parse, source, target)
    pairs.flush()


class _PairWriter:
    """Tokenizes the pairs of a piece, and adds them to its shard."""

    def __init__(self, piece: Piece, settings: PairSettings, shard: Shard) -> None:
        self._piece, self._settings, self._shard = piece, settings, shard
        self._numbers: list[int] = []
        self._pairs: list[Pair] = []

    def add(self, number: int, parse: Callable[..., Pair], *columns: Any) -> None:
        """Add the pair that ``parse`` makes of the columns of a line; if it raises BadRow, the line is damage."""
        self._shard.piece.records += 1
        try:
            pair = parse(*columns)
        except BadRow as error:
            self._shard.add_damage(line_position(self._piece, number), str(error))
            return
        self._numbers.append(number)
        self._pairs.append(pair)
        if len(self._pairs) == _BATCH_PAIRS:
            self.flush()

    def flush(self) -> None:
        """Write the added pairs to the shard."""
        piece, shard, damaged = self._piece, self._shard, self._shard.piece.damaged
        sources = tokenize(self._texts(0), self._settings.tokenizer, shard, pairs=True)
        targets = tokenize(self._texts(1), self._settings.target_tokenizer, shard, target=True, pairs=True)
        kept = []
        for index, number in enumerate(self._numbers):
            source, target = sources.texts[index], targets.texts[index]
            if not (source and target):
                continue
            may_be_too_long = len(source) + len(target) >= MAX_LINE_BYTES // 4
            if may_be_too_long and len(f"{source}\t{target}".encode()) > MAX_LINE_BYTES:
                shard.add_damage(line_position(piece, number), f"a row of both sides is {TOO_LONG}")
            else:
                kept.append(index)
        without_tokens = max(0, len(self._pairs) - len(kept) - (shard.piece.damaged - damaged))
        lost = set(range(len(self._pairs))).difference(kept) if without_tokens else ()
        shard.leave_out(WITHOUT_TOKENS, without_tokens, ("\t".join(self._pairs[index]) for index in sorted(lost)))
        shard.piece.conversations += len(kept)
        shard.add_rows(
            file=piece.file,
            line=[piece.start + self._numbers[index] for index in kept],  # increases, also if a file was divided
            **_columns("", sources, kept),
            **_columns("target_", targets, kept),
        )
        self._numbers, self._pairs = [], []

    def _texts(self, side: int) -> list[str]:
        texts = [pair[side] for pair in self._pairs]
        return [text if text.isprintable() else _BREAKS.sub(" ", text) for text in texts]


def _columns(prefix: str, texts: TokenizedTexts, kept: Sequence[int]) -> dict[str, pa.Array]:
    """The columns of one side; the tokens are null if they are the texts or the tokenizer is not ready."""
    columns: dict[str, pa.Array] = dict(texts.columns(kept))
    if texts.tokens is None or texts.tokens is texts.texts:
        columns["tokens"] = pa.nulls(len(kept), pa.string())
    return {f"{prefix}{name}": column for name, column in columns.items()}


def _choose(files: list[Path]) -> list[Path]:
    """The .tsv files in a folder or, if there are none, those with columns. Raises CorpusError."""
    return [path for path in files if _TSV.fullmatch(path.name)] or [path for path in files if _has_columns(path)]


def _combine(_: object, files: list[Piece]) -> list[Piece]:
    """The files of two columns, or two files of parallel lines as one. Raises CorpusError."""
    lines = [file for file in files if not _has_columns(file.path)]
    if not lines:
        return files
    # Two files, or a source and a target for each split, such as train.en train.fr test.en test.fr.
    pairs = list(zip(files[::2], files[1::2], strict=False))
    languages = {(source.path.suffix, target.path.suffix) for source, target in pairs}
    same_names = all(source.path.with_suffix("") == target.path.with_suffix("") for source, target in pairs)
    if len(lines) < len(files) or len(files) % 2 or (len(pairs) > 1 and (len(languages) > 1 or not same_names)):
        raise CorpusError(
            f"{lines[0].path} has no tab-separated columns. Name .tsv files of two columns, or exactly two files "
            f"of parallel lines, SOURCE TARGET; there {'is 1 file' if len(files) == 1 else f'are {len(files)} files'}."
        )
    return [Piece(source.path, source.size + target.size, companion=target.path) for source, target in pairs]


def _has_columns(path: Path) -> bool:
    """Whether a file is a .tsv, or most lines at its start have a tab. Raises CorpusError."""
    if _TSV.fullmatch(path.name) or is_table(path):
        return True
    try:
        start = read_start(path, _START_BYTES)
    except OSError as error:
        raise read_error(path, error, CorpusError) from error
    if start.startswith(ZIP):
        raise CorpusError(f"{path} is a ZIP archive. Unpack it, and name the files in it.")
    lines = start.splitlines()
    return 2 * sum(b"\t" in line for line in lines) > len(lines)


CORPUS = RawCorpus(
    read_pair_files,
    PAIRS,
    rf"(?i).*\.(tsv|txt|csv|jsonl){COMPRESSED}",
    ".tsv, .csv or .jsonl",
    settings=PairSettings,
    unit="pairs",
    threads="pairs with the same source",
    divisible=lambda path: find_table(path, None) is None,
    choose=_choose,
    select=_combine,
)
