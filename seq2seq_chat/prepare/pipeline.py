"""Prepare a corpus: from raw files to corpus files, vocabulary and statistics."""

from __future__ import annotations

import fcntl
import importlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

from seq2seq_chat.data.corpus_file import COMPLETE_FOLDER, STATISTICS_FILE, WORKING_FOLDER, CorpusError
from seq2seq_chat.prepare.engine import EngineName, open_engine
from seq2seq_chat.prepare.read_result import ReadResult, TooMuchDamage
from seq2seq_chat.prepare.readers import RawCorpus, find_corpus
from seq2seq_chat.prepare.settings import PrepareSettings
from seq2seq_chat.prepare.shards import Piece, ReaderSettings, ReadingStopped, Task
from seq2seq_chat.prepare.split import SPLITS, is_split_name, official_splits
from seq2seq_chat.prepare.utterances import UTTERANCES_FILE, corpus_file
from seq2seq_chat.prepare.workers import read_tasks
from seq2seq_chat.system.compressed import is_compressed, line_starts
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import as_user_error, file_checksum, remove_temporary, write_json
from seq2seq_chat.system.lines import read_error
from seq2seq_chat.text.tokenizers import TOKENIZER_FILE
from seq2seq_chat.text.vocabulary import TARGET_PREFIX, VOCABULARY_FILE

_TASK_BYTES = 1 << 24
_RANGE_BYTES = 1 << 26


def find_inputs(corpus: str, inputs: Sequence[str | Path], settings: ReaderSettings | None = None) -> list[Piece]:
    """The input files, without duplicates, in an order that does not depend on the file system.

    Args:
        settings: With the options of the reader; None for its defaults.

    Raises:
        CorpusError: There are no files, they cannot be read, or the settings do not suit them.
    """
    kind = find_corpus(corpus)
    files: dict[tuple[Path, str | None], Piece] = {}
    for entry in map(Path, inputs):
        if entry.is_fifo() or entry.is_char_device() or str(entry) == "-":
            raise CorpusError(f"{entry} is a pipe, which cannot be read twice. Write it to a file first.")
        try:
            for path in _files_in_folder(entry, kind) if entry.is_dir() else [entry]:
                for file in kind.expand(path):
                    files.setdefault((file.path, file.member), file)
        except OSError as error:
            raise CorpusError(str(read_error(Path(error.filename or entry), error, UserError))) from error
    if not files:
        raise CorpusError("There are no input files. Name at least one file or folder.")
    found = kind.select(settings or kind.settings(), list(files.values()))
    return [replace(file, file=number) for number, file in enumerate(found)]


def _files_in_folder(folder: Path, kind: RawCorpus) -> list[Path]:
    files = []
    for top, folders, names in os.walk(folder, onerror=_raise):
        files += [Path(top, name) for name in names if not name.startswith(".") and re.fullmatch(kind.file_names, name)]
        if not kind.recursive:
            if top == str(folder):
                folders[:] = [name for name in folders if is_split_name(name)]
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
    if file.companion or file.size <= _RANGE_BYTES or not kind.divisible(file.path):
        return [replace(file, companion=file.companion or kind.companion(file.path))]
    try:
        edges = [0] if is_compressed(file.path) else line_starts(file.path, _RANGE_BYTES)
    except OSError as error:
        raise read_error(file.path, error, CorpusError) from error
    if len(edges) == 1:
        return [file]
    return [replace(file, size=end - start, start=start, end=end) for start, end in pairwise([*edges, file.size])]


EXPERIMENT_FILE = "experiment.json"
OUTPUT_FILES = (
    *(corpus_file(name, as_pairs=as_pairs) for as_pairs in (False, True) for name in SPLITS),
    UTTERANCES_FILE,
    *(f"{prefix}{name}" for prefix in ("", TARGET_PREFIX) for name in (VOCABULARY_FILE, TOKENIZER_FILE)),
    STATISTICS_FILE,
    EXPERIMENT_FILE,
)
STAGING_FOLDER = "new"  # in the working folder: the results until they are complete


def prepare(settings: PrepareSettings, inputs: Sequence[str | Path], output: str | Path) -> dict[str, Any]:
    """Write train.txt, validation.txt, test.txt, utterances.parquet, vocabulary.txt and statistics.json.

    If the tokenizer has a file, tokenizer.json is written as well. For pairs, the corpus files are .tsv, and the target
    may have a vocabulary and a tokenizer of its own.

    The same inputs and settings give the same files byte for byte, with either engine. The files are built in a folder
    inside ``output`` and published at the end; after an error ``output`` is unchanged. An interrupted preparation keeps
    its shards and resumes from them.

    Args:
        inputs: Files and folders. A folder stands for all files of the corpus in it, sorted by name.
        output: The output folder, which is created if necessary.

    Returns:
        The contents of statistics.json.

    Raises:
        CorpusError: An input cannot be read or used; TooMuchDamage if too much of it is damaged.
        TokenizerError: The tokenizer cannot be trained.
        UserError: ``output`` cannot be written, or the engine fails.
    """
    output = Path(output)
    files = find_inputs(settings.corpus, inputs, settings.reader)
    official = None
    if settings.split is None:
        official = official_splits(files, inputs, need_train=settings.corpus == "chats")
    ensure_not_an_input(output, {path.parent for file in files for path in (file.path, file.companion) if path})
    with working_folder(output) as folder:
        result = _read(settings, files, folder)
        staging = folder / STAGING_FOLDER
        staging.mkdir()
        statistics = _assemble(settings, result, official, staging)
        publish(output, statistics, private=settings.corpus == "chats")
    return statistics


def ensure_not_an_input(output: Path, folders: Iterable[Path]) -> None:
    """Raise UserError if the output folder is one of the folders of the inputs."""
    if output.exists() and any(folder.exists() and output.samefile(folder) for folder in folders):
        raise UserError(f"{output} contains input files, which could be overwritten. Choose another output folder.")


def publish(output: Path, statistics: Mapping[str, Any], *, private: bool = False) -> None:
    """Publish the results in the staging folder, with their statistics and checksums.

    Only their owner can read ``private`` ones.
    They are complete once the folder is renamed. Whoever reads files of ``output`` refuses them from then on until all
    of the results are in their places; see :func:`seq2seq_chat.data.corpus_file.ensure_published`.
    """
    staging = output / WORKING_FOLDER / STAGING_FOLDER
    files = {name: file_checksum(staging / name) for name in OUTPUT_FILES if (staging / name).exists()}
    write_json(staging / STATISTICS_FILE, {**statistics, "files": files})
    for name in (*files, STATISTICS_FILE) if private else ():
        (staging / name).chmod(0o600)
    staging.rename(staging.with_name(COMPLETE_FOLDER))
    finish_publishing(output)


def finish_publishing(output: Path) -> None:
    """Move complete results to their places, the statistics last, and delete the results of an earlier preparation.

    Some may have been moved before a preparation was killed. In a folder without statistics there was none, so files
    of these names are only replaced, not deleted.
    """
    complete = output / WORKING_FOLDER / COMPLETE_FOLDER
    if (complete / STATISTICS_FILE).exists():
        new = [name for name in OUTPUT_FILES if name != STATISTICS_FILE and (complete / name).exists()]
        if (output / STATISTICS_FILE).exists():
            for name in OUTPUT_FILES:
                if name not in new and name != STATISTICS_FILE:
                    (output / name).unlink(missing_ok=True)
            (output / STATISTICS_FILE).unlink()  # they do not describe a mixture of old and new files
        for name in [*new, STATISTICS_FILE]:
            os.replace(complete / name, output / name)
    shutil.rmtree(complete, ignore_errors=True)


def _read(settings: PrepareSettings, files: Sequence[Piece], folder: Path) -> ReadResult:
    """Read the files into shards. Raises CorpusError, UserError."""
    corpus = find_corpus(settings.corpus)
    tasks = plan_tasks(settings.corpus, settings.shard_settings, files)
    with ThreadPoolExecutor(1) as background:
        # Importing the engine takes as long as starting the reader processes.
        background.submit(_import_engine, settings.engine)
        reports = read_tasks(tasks, folder, settings.jobs)
    result = ReadResult(files, reports, folder, settings.tokenizers, corpus.unit)
    result.check_damage(settings.max_bad)
    result.warn_of_empty_files()
    result.check_letters()
    corpus.check(settings.shard_settings, result.total, files)
    return result


def _assemble(
    settings: PrepareSettings, result: ReadResult, official: Sequence[str] | None, folder: Path
) -> dict[str, Any]:
    """Write the results, except for the statistics, into ``folder``. Raises CorpusError, UserError."""
    from seq2seq_chat.prepare.assembly import Assembly
    from seq2seq_chat.prepare.pair_assembly import PairAssembly

    with open_engine(
        settings.engine, folder, memory=settings.memory, threads=settings.jobs, spark_master=settings.spark_master
    ) as engine:
        return (PairAssembly if settings.has_pairs else Assembly)(settings, result, official, engine, folder).run()


def _import_engine(name: EngineName) -> None:
    with suppress(ImportError):  # reported when the engine is opened
        importlib.import_module("seq2seq_chat.prepare.pair_assembly")
        importlib.import_module("ibis.backends.duckdb" if name == "duckdb" else "ibis.backends.pyspark")


@contextmanager
def working_folder(output: Path) -> Iterator[Path]:
    """A folder inside ``output`` for intermediate files, which only its owner reads; it has no staging folder.

    If an earlier preparation was killed while it published its results, that is finished first. After an error or
    interruption, the folder is kept without the staging folder if a preparation can resume from its shards.
    """
    output_existed = output.exists()
    folder = output.absolute() / WORKING_FOLDER  # some libraries expand a relative ~ to the home folder
    with as_user_error(output):
        # Inside ``output``, so that it is on the same file system.
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        lock = open(folder / "lock", "w")  # noqa: SIM115  closed below
    with lock:
        _acquire(lock, output)
        remove_temporary(folder)  # left behind if a preparation was killed, and so may be the staging folder
        shutil.rmtree(folder / STAGING_FOLDER, ignore_errors=True)
        keep = True
        try:
            with as_user_error(output):
                finish_publishing(output)
                yield folder
            keep = False
        except CorpusError as error:
            keep = isinstance(error, (TooMuchDamage, ReadingStopped))  # others need other inputs or settings
            raise
        finally:
            shutil.rmtree(folder / STAGING_FOLDER, ignore_errors=True)
            is_published = not (folder / COMPLETE_FOLDER / STATISTICS_FILE).exists()
            if is_published and not (keep and any(folder.glob("*.json"))):  # the reports of shards
                shutil.rmtree(folder, ignore_errors=True)
                if not output_existed:
                    with suppress(OSError):
                        output.rmdir()


def _acquire(lock: IO[str], output: Path) -> None:
    """Raise UserError if another process holds the lock, or the file system has none."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise UserError(
            f"{output} is in use by another preparation. Wait until it finishes, or choose another output folder."
        ) from error
    except OSError as error:
        raise UserError(f"{output} could not be locked: {error.strerror}. Choose a folder on a local disk.") from error
