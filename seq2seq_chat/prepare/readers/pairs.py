"""Pairs of texts: files of two columns, or two files of parallel lines."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa

from seq2seq_chat.data.corpus_file import (
    BadRow,
    CorpusError,
    Pair,
    is_blank_row,
    parallel_lines,
    parallel_row,
    parse_row,
)
from seq2seq_chat.prepare.readers import COMPRESSED, RawCorpus, archive_members, single_file
from seq2seq_chat.prepare.readers.inputs import safe_members
from seq2seq_chat.prepare.readers.memories import FILE_NAMES, find_languages, is_memory, read_units
from seq2seq_chat.prepare.readers.tables import Columns, choose_columns, find_table, is_table, start_of
from seq2seq_chat.prepare.readers.text import decoded_lines, line_position, text_lines
from seq2seq_chat.prepare.shards import HEADER, PAIRS, Piece, ReaderSettings, Shard
from seq2seq_chat.prepare.tokenizing import TokenizedTexts, tokenize
from seq2seq_chat.system.compressed import DamagedFile
from seq2seq_chat.system.lines import MAX_LINE_BYTES, TOO_LONG, read_error

_BATCH_PAIRS = 4096
_START_BYTES = 1 << 14
_ZIP = b"PK\x03\x04"  # what an archive begins with
_MEMBERS = rf"(?is)(?!.*__MACOSX)(.*/)?(?![._]|readme|licen[cs]e)[^/]*\.(tsv|txt|csv|jsonl|{FILE_NAMES})"
_MOSES = re.compile(r"((?s:.*)\.(\w+)-(\w+)\.)\w+")
_TSV = re.compile(rf".*\.tsv{COMPRESSED}", re.IGNORECASE)
WITHOUT_TOKENS, UNTRANSLATED = "without tokens on one side", "without one of the two languages"
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
    if piece.companion is not None:
        _read_parallel(piece, shard, pairs)
    elif is_memory(piece):
        languages = find_languages(piece, settings.columns)
        for number, sides in read_units(piece, shard):
            texts = [sides.get(language, "") for language in languages]
            if all(texts):
                pairs.add(number, parallel_row, *texts)
            else:
                shard.piece.records += 1
                shard.leave_out(UNTRANSLATED, 1, texts)
    elif table := find_table(piece, settings.columns):
        if piece.start:  # a range of a plain file
            table = table._replace(first_row=0, header="")
        if table.header:
            shard.leave_out(HEADER, 1, [table.header])
        for number, row in table.rows(piece, (line for _, line in text_lines(piece, shard))):
            pairs.add(number, table.pair, row)
    else:
        for number, line in text_lines(piece, shard):
            if not is_blank_row(line):
                pairs.add(number, parse_row, line)
    pairs.flush()


def _read_parallel(piece: Piece, shard: Shard, pairs: _PairWriter) -> None:
    assert piece.companion is not None
    damaged: dict[int, str] = {}  # at most the current line, as lines are read one by one

    def lines(side: Piece) -> Iterator[tuple[int, str]]:
        try:
            for number, line, damage in decoded_lines(side, shard.add_bytes):
                if damage:
                    damaged[number] = damage if side is piece else f"in {side.name}, {damage}"
                yield number, line
        except (OSError, DamagedFile) as error:
            raise read_error(side.path, error, CorpusError) from error

    def parse(source: str, target: str) -> Pair:
        if damaged:
            raise BadRow(damaged.popitem()[1])
        return parallel_row(source, target)

    target = replace(piece, path=piece.companion, member=piece.companion_member)
    sides = parallel_lines(piece, target, lines(piece), lines(target), damaged)
    for number, ((_, source), (_, translation)) in enumerate(sides, start=1):
        pairs.add(number, parse, source, translation)


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


def _expand(path: Path) -> list[Piece]:
    """The members of a ZIP archive with pairs, two parallel ones as one piece, or the file itself.

    Raises:
        CorpusError: The archive has none, is damaged, or is a decompression bomb.
        OSError: The file cannot be read.
    """
    if not zipfile.is_zipfile(path):
        if start_of(Piece(path, 0)).startswith(_ZIP):
            raise CorpusError(f"{path} is a damaged ZIP archive. Download it again.")
        return single_file(path)
    sizes = {info.filename: info.compress_size for info in safe_members(path)}
    pieces = []
    for stem, *languages in sorted({match.groups() for name in sizes if (match := _MOSES.fullmatch(name))}):
        source, target = (f"{stem}{language}" for language in languages)
        if source in sizes and target in sizes:
            size = sizes[source] + sizes[target]
            pieces.append(Piece(path, size, source, companion=path, companion_member=target))
    if {"xl/workbook.xml", "content.xml"} & sizes.keys():
        raise CorpusError(f"{path} is a spreadsheet. Save its table as CSV in UTF-8, and name that file.")
    if not (pieces := pieces or archive_members(path, _MEMBERS)):
        raise CorpusError(f"{path} contains no pairs of texts. Unpack it, and name the files in it.")
    return pieces


def _choose(files: list[Path]) -> list[Path]:
    """The .tsv files in a folder or, if there are none, those with columns. Raises CorpusError."""
    return [path for path in files if _TSV.fullmatch(path.name)] or [
        path for path in files if zipfile.is_zipfile(path) or _has_columns(Piece(path, 0))
    ]


def _combine(settings: PairSettings, files: list[Piece]) -> list[Piece]:
    """The files of two columns, or two files of parallel lines as one. Raises CorpusError."""
    lines = [file for file in files if not (file.companion or _has_columns(file))]
    if not lines:
        return [_in_order(file, settings.columns) for file in files]
    if empty := next((file for file in lines if not file.size), None):
        raise CorpusError(f"{empty} is empty.")
    # Two files, or a source and a target for each split, such as train.en train.fr test.en test.fr.
    pairs = list(zip(files[::2], files[1::2], strict=False))
    names = [[PurePosixPath(side.member or side.path) for side in pair] for pair in pairs]
    languages = {(source.suffix, target.suffix) for source, target in names}
    same_names = all(source.with_suffix("") == target.with_suffix("") for source, target in names)
    if len(lines) < len(files) or len(files) % 2 or (len(pairs) > 1 and (len(languages) > 1 or not same_names)):
        raise CorpusError(
            f"{lines[0]} has no tab-separated columns. Name .tsv files of two columns, or exactly two files "
            f"of parallel lines, SOURCE TARGET; there {'is 1 file' if len(files) == 1 else f'are {len(files)} files'}."
        )
    return [
        replace(source, size=source.size + target.size, companion=target.path, companion_member=target.member)
        for source, target in pairs
    ]


def _in_order(piece: Piece, columns: Columns | None) -> Piece:
    """Two parallel members of an archive in the order of the languages that were chosen. Raises CorpusError."""
    if piece.companion_member is None or columns is None:
        return piece
    members = (piece.member, piece.companion_member)
    names = [str(member).rpartition(".")[2] for member in members]
    source, target = (members[index] for index in choose_columns(piece, names, (0, 1), columns))
    return replace(piece, member=source, companion_member=target)


def _has_columns(piece: Piece) -> bool:
    """Whether a file has pairs: by its name, or as most lines at its start have a tab. Raises CorpusError."""
    if _TSV.fullmatch(piece.name) or is_table(piece) or is_memory(piece):
        return True
    lines = start_of(piece)[:_START_BYTES].splitlines()
    return 2 * sum(b"\t" in line for line in lines) > len(lines)


def _is_divisible(path: Path) -> bool:
    piece = Piece(path, 0)
    try:
        return not (zipfile.is_zipfile(path) or is_memory(piece) or find_table(piece, None))
    except CorpusError:  # a table of which the settings choose columns
        return False


CORPUS = RawCorpus(
    read_pair_files,
    PAIRS,
    rf"(?i).*\.(tsv|txt|csv|jsonl|zip|{FILE_NAMES}){COMPRESSED}",
    ".tsv, .csv or .jsonl",
    settings=PairSettings,
    unit="pairs",
    threads="pairs with the same source",
    divisible=_is_divisible,
    expand=_expand,
    choose=_choose,
    select=_combine,
)
