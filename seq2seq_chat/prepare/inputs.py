"""Find the input files, and divide them into tasks."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pyarrow as pa

from seq2seq_chat.data.compressed import is_compressed, line_starts, read_start
from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.data.lines import read_error
from seq2seq_chat.prepare.readers.cornell import lines_file_of, read_cornell
from seq2seq_chat.prepare.readers.dailydialog import read_dailydialog
from seq2seq_chat.prepare.readers.lines import read_lines, read_tweets
from seq2seq_chat.prepare.readers.opensubtitles import ZIP_ERRORS, read_opensubtitles
from seq2seq_chat.prepare.readers.pairs import read_pairs
from seq2seq_chat.prepare.readers.reddit import read_reddit
from seq2seq_chat.prepare.settings import ReaderSettings
from seq2seq_chat.prepare.shards import COMMENTS, PAIRS, SUBTITLES, UTTERANCES, Piece, Shard, Task

_TASK_BYTES = 1 << 24
_RANGE_BYTES = 1 << 26
_COMPRESSED = r"(\.gz|\.bz2|\.xz|\.zst)?"

Reader = Callable[[Piece, ReaderSettings, Shard], None]


@dataclass(frozen=True)
class Corpus:
    """A kind of raw corpus."""

    read: Reader  # reads one piece into a shard
    schema: pa.Schema  # of the rows
    file_names: re.Pattern[str]  # of its files in a folder
    description: str  # of the file names, for error messages
    recursive: bool = False  # whether to search subfolders
    divisible: bool = False  # whether a large plain file may be divided between lines and read by several processes
    file_is_film: bool = False  # whether each file is one conversation, identified by its name


_TEXT = re.compile(rf".*\.txt{_COMPRESSED}")
_COLUMNS = re.compile(rf".*\.tsv{_COMPRESSED}", re.IGNORECASE)
_START_BYTES = 1 << 14

CORPORA: dict[str, Corpus] = {
    "opensubtitles": Corpus(
        read_opensubtitles,
        SUBTITLES,
        re.compile(rf".*(\.xml{_COMPRESSED}|\.zip)"),
        ".xml, .xml.gz or .zip",
        recursive=True,
        file_is_film=True,
    ),
    "reddit": Corpus(
        read_reddit,
        COMMENTS,
        re.compile(rf"(RC_[^.]*|.*\.(json|jsonl|ndjson)){_COMPRESSED}"),
        "RC_… or .json (.gz, .bz2, .xz, .zst)",
        divisible=True,
    ),
    "cornell": Corpus(
        read_cornell, UTTERANCES, re.compile(rf".*conversations.*\.txt{_COMPRESSED}"), "movie_conversations.txt"
    ),
    "dailydialog": Corpus(
        read_dailydialog,
        UTTERANCES,
        re.compile(rf"(?!dialogues_(text|topic|act|emotion)).*\.txt{_COMPRESSED}"),
        "dialogues_train.txt (or .txt.gz)",
        recursive=True,
    ),
    "lines": Corpus(read_lines, UTTERANCES, _TEXT, ".txt or .txt.gz"),
    "tweets": Corpus(read_tweets, UTTERANCES, _TEXT, ".txt or .txt.gz"),
    "pairs": Corpus(
        read_pairs,
        PAIRS,
        re.compile(rf".*\.(tsv|txt){_COMPRESSED}", re.IGNORECASE),
        ".tsv",
        divisible=True,
    ),
}
"""The corpora by their names on the command line."""


@dataclass(frozen=True)
class InputFile:
    """A file, or a member of an archive."""

    path: Path
    size: int  # bytes, of both files if there is a companion
    member: str | None = None
    companion: Path | None = None  # another file that is read together with it

    @property
    def film_name(self) -> str:
        """Year, film and subtitle file in the folders of OPUS, for example ``2018/7008412/7008412``."""
        parts = (PurePosixPath(self.member) if self.member else self.path.absolute()).parts[-3:]
        name = re.sub(rf"\.xml{_COMPRESSED}$", "", "/".join(parts))
        return name.encode(errors="backslashreplace").decode()


def find_inputs(corpus: str, inputs: Sequence[str | Path]) -> list[InputFile]:
    """The input files, without duplicates, in an order that does not depend on the file system.

    Raises:
        CorpusError: There are no files, or they cannot be read.
    """
    kind = CORPORA[corpus]
    files: dict[tuple[Path, str | None], InputFile] = {}
    for entry in map(Path, inputs):
        try:
            for path in _files_in_folder(entry, kind) if entry.is_dir() else _files_named(entry, corpus):
                is_archive = path.suffix == ".zip" and corpus == "opensubtitles"
                for file in _members(path) if is_archive else [InputFile(path, path.stat().st_size)]:
                    files.setdefault((file.path, file.member), file)
        except OSError as error:
            raise read_error(Path(error.filename or entry), error, CorpusError) from error
    if not files:
        raise CorpusError("There are no input files. Name at least one file or folder.")
    return _pair_inputs(list(files.values())) if kind.schema is PAIRS else list(files.values())


def _pair_inputs(files: list[InputFile]) -> list[InputFile]:
    """The files of two columns, or two files of parallel lines as one. Raises CorpusError, OSError."""
    lines = [file for file in files if not _has_columns(file.path)]
    if not lines:
        return files
    if len(files) != 2 or len(lines) != 2:
        raise CorpusError(
            f"{lines[0].path} has no tab-separated columns. Name .tsv files of two columns, or exactly two files "
            f"of parallel lines, SOURCE TARGET; there {'is 1 file' if len(files) == 1 else f'are {len(files)} files'}."
        )
    source, target = files
    return [InputFile(source.path, source.size + target.size, companion=target.path)]


def _has_columns(path: Path) -> bool:
    """Whether a file is a .tsv, or most lines at its start have a tab. Raises CorpusError."""
    if _COLUMNS.fullmatch(path.name):
        return True
    try:
        lines = read_start(path, _START_BYTES).splitlines()
    except OSError as error:
        raise read_error(path, error, CorpusError) from error
    return 2 * sum(b"\t" in line for line in lines) > len(lines)


def _files_in_folder(folder: Path, kind: Corpus) -> list[Path]:
    files = []
    for top, folders, names in os.walk(folder, onerror=_raise):
        files += [Path(top, name) for name in names if not name.startswith(".") and kind.file_names.fullmatch(name)]
        if not kind.recursive:
            folders.clear()
            files = [path for path in files if path.is_file()]
    files.sort(key=lambda path: path.parts)
    if kind.schema is PAIRS:
        named = [path for path in files if _COLUMNS.fullmatch(path.name)]
        files = named or [path for path in files if _has_columns(path)]
    if not files:
        raise CorpusError(f"{folder} contains no {kind.description} file. Name the files explicitly.")
    return files


def _raise(error: OSError) -> None:
    raise error


def _files_named(path: Path, corpus: str) -> Iterable[Path]:
    path.stat()
    if corpus == "opensubtitles" and path.suffix == ".txt":
        return _read_file_list(path)
    if corpus == "cornell" and "conversations" not in path.name:
        # Also accept the file of lines, although reading starts from the file of conversations.
        conversations = sorted(path.parent.glob("*conversations*"))
        return [file for file in conversations if lines_file_of(file) == path] or [path]
    return [path]


def _read_file_list(path: Path) -> Iterator[Path]:
    """The files in a list, one per line, relative to the working directory."""
    try:
        names = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path} is not UTF-8. A list of files must have one path per line.") from error
    for name in filter(None, map(str.strip, names)):
        Path(name).stat()
        yield Path(name)


def _members(path: Path) -> list[InputFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = [
                InputFile(path, info.compress_size, info.filename)
                for info in archive.infolist()
                if info.filename.endswith(".xml")
            ]
    except ZIP_ERRORS:
        return [InputFile(path, path.stat().st_size)]  # reported as damage when it is read
    if not members:
        raise CorpusError(f"{path} contains no .xml file. Use the archive of monolingual XML files.")
    return sorted(members, key=lambda file: PurePosixPath(file.member or "").parts)


def plan_tasks(corpus: str, settings: ReaderSettings, files: Sequence[InputFile]) -> list[Task]:
    """Divide the files into tasks: group small files, divide large plain files of lines into ranges.

    Raises:
        CorpusError: A file cannot be read.
    """
    kind = CORPORA[corpus]
    tasks: list[Task] = []
    pieces: list[Piece] = []
    for number, file in enumerate(files):
        for piece in _pieces(kind, number, file):
            pieces.append(piece)
            if sum(pending.size for pending in pieces) >= _TASK_BYTES:
                tasks.append(Task(corpus, settings, tuple(pieces)))
                pieces = []
    if pieces:
        tasks.append(Task(corpus, settings, tuple(pieces)))
    return tasks


def _pieces(kind: Corpus, number: int, file: InputFile) -> list[Piece]:
    path = str(file.path)
    try:
        if kind.divisible and not file.companion and file.size > _RANGE_BYTES and not is_compressed(file.path):
            starts = line_starts(file.path, _RANGE_BYTES)
            ends = [*starts[1:], file.size]
            return [
                Piece(number, path, end - start, start=start, end=end) for start, end in zip(starts, ends, strict=True)
            ]
    except OSError as error:
        raise read_error(file.path, error, CorpusError) from error
    companion = lines_file_of(file.path) if kind.read is read_cornell else file.companion
    return [Piece(number, path, file.size, file.member, companion=str(companion) if companion else None)]
