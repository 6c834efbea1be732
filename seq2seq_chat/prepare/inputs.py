"""Find the input files, and divide them into tasks."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from seq2seq_chat.data.compressed import is_compressed, line_starts
from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.data.lines import read_error
from seq2seq_chat.prepare.readers import RawCorpus, find_corpus
from seq2seq_chat.prepare.shards import Piece, ReaderSettings, Task

_TASK_BYTES = 1 << 24
_RANGE_BYTES = 1 << 26


def find_inputs(corpus: str, inputs: Sequence[str | Path]) -> list[Piece]:
    """The input files, without duplicates, in an order that does not depend on the file system.

    Raises:
        CorpusError: There are no files, or they cannot be read.
    """
    kind = find_corpus(corpus)
    files: dict[tuple[Path, str | None], Piece] = {}
    for entry in map(Path, inputs):
        try:
            for path in _files_in_folder(entry, kind) if entry.is_dir() else [entry]:
                for file in kind.expand(path):
                    files.setdefault((file.path, file.member), file)
        except OSError as error:
            raise read_error(Path(error.filename or entry), error, CorpusError) from error
    if not files:
        raise CorpusError("There are no input files. Name at least one file or folder.")
    return [replace(file, file=number) for number, file in enumerate(kind.combine(list(files.values())))]


def _files_in_folder(folder: Path, kind: RawCorpus) -> list[Path]:
    files = []
    for top, folders, names in os.walk(folder, onerror=_raise):
        files += [Path(top, name) for name in names if not name.startswith(".") and re.fullmatch(kind.file_names, name)]
        if not kind.recursive:
            folders.clear()
            files = [path for path in files if path.is_file()]
    files = kind.choose(sorted(files, key=lambda path: path.parts))
    if not files:
        raise CorpusError(f"{folder} contains no {kind.description} file. Name the files explicitly.")
    return files


def _raise(error: OSError) -> None:
    raise error


def plan_tasks(corpus: str, settings: ReaderSettings, files: Sequence[Piece]) -> list[Task]:
    """Divide the files into tasks: group small files, divide large plain files of lines into ranges.

    Raises:
        CorpusError: A file cannot be read.
    """
    kind = find_corpus(corpus)
    tasks: list[Task] = []
    pieces: list[Piece] = []
    for file in files:
        for piece in _divide(file, kind):
            pieces.append(piece)
            if sum(pending.size for pending in pieces) >= _TASK_BYTES:
                tasks.append(Task(corpus, settings, tuple(pieces)))
                pieces = []
    if pieces:
        tasks.append(Task(corpus, settings, tuple(pieces)))
    return tasks


def _divide(file: Piece, kind: RawCorpus) -> list[Piece]:
    if not kind.divisible or file.companion or file.size <= _RANGE_BYTES:
        return [replace(file, companion=file.companion or kind.companion(file.path))]
    try:
        edges = [0] if is_compressed(file.path) else line_starts(file.path, _RANGE_BYTES)
    except OSError as error:
        raise read_error(file.path, error, CorpusError) from error
    if len(edges) == 1:
        return [file]
    return [replace(file, size=end - start, start=start, end=end) for start, end in pairwise([*edges, file.size])]
