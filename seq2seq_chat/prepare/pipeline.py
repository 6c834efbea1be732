"""Make the corpus files, the vocabulary and the statistics from raw data."""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from seq2seq_chat.atomic import atomic_write
from seq2seq_chat.corpus.engine import EngineName, memory_bytes
from seq2seq_chat.corpus.files import CorpusError
from seq2seq_chat.corpus.inputs import Input, find_inputs, plan_tasks
from seq2seq_chat.corpus.reading import read_tasks
from seq2seq_chat.corpus.samples import Pairing
from seq2seq_chat.corpus.shards import (
    MOST_EXAMPLES,
    PieceReport,
    ReadingSettings,
    ReadingStopped,
    Report,
    unwritable,
)
from seq2seq_chat.corpus.split import SPLITS, Shares, check_shares
from seq2seq_chat.corpus.statistics import CorpusStatistics, ReadingStatistics
from seq2seq_chat.corpus.text import Level
from seq2seq_chat.corpus.utterances import UTTERANCES_FILE
from seq2seq_chat.corpus.vocabulary import VOCABULARY_FILE, Vocabulary
from seq2seq_chat.environment import available_cores
from seq2seq_chat.errors import UserError

STATISTICS_FILE = "statistics.json"
_WORKPLACE = ".preparing"

DEFAULT_GAP = 10.0
"""Seconds of silence at which a conversation in a film ends."""


class TooMuchDamage(CorpusError):
    """More of the inputs is damaged than was allowed."""


def prepare(
    corpus: str,
    inputs: Sequence[str | Path],
    output: str | Path,
    *,
    reading: ReadingSettings | None = None,
    max_gap: float | None = DEFAULT_GAP,
    keep_copies: bool = False,
    split: Shares | None = None,
    seed: int = 1,
    vocabulary_size: int = 50_000,
    level: Level = "word",
    pairing: Pairing = "sliding",
    source_steps: int = 30,
    target_steps: int = 30,
    max_bad: float = 1.0,
    engine: EngineName = "duckdb",
    spark_master: str = "local[*]",
    memory: str = "2GB",
    jobs: int | None = None,
) -> CorpusStatistics:
    """Write train.txt, validation.txt, test.txt, utterances.parquet, vocabulary.txt and statistics.json.

    The same inputs and settings give the same files, byte for byte, with either engine. All are made
    in a folder inside ``output`` and moved to their places once everything is done, the statistics
    last; on an error ``output`` stays as it was. What was read is kept when the program is stopped,
    and not read again.

    Args:
        corpus: A name in ``CORPORA``.
        inputs: Files, and folders of which all files of the corpus are taken in the order of
            their names.
        output: The folder to write to; made if need be.
        reading: What the reader is told.
        max_gap: ``opensubtitles`` only: seconds of silence that end a conversation; None makes a
            single conversation of all films.
        keep_copies: ``opensubtitles`` only: keep files that are copies of one film.
        split: Shares of train, validation and test, by whole dialogues, films or submissions. None
            keeps the split that the files' names tell (see ``official_splits``), or if they tell
            none, takes 97, 1 and 2. A corpus of fewer than three of them is all train.
        seed: Another seed gives another split; it does nothing to an official one.
        vocabulary_size: Greatest number of words, the four special ones included. Only train
            is counted.
        level: Whether the vocabulary and the statistics are of words or of characters.
        pairing: How the statistics count samples.
        source_steps: Longest source the model takes, in words; for the statistics.
        target_steps: Longest target with its EOS, in words; for the statistics.
        max_bad: Percent of the records (lines, comments) or of the files that may be damaged.
        engine: What evaluates the relational part.
        spark_master: The address of a Spark cluster, or ``local[*]``.
        memory: What the engine may take; it goes to disk with what does not fit.
        jobs: Processes to read with, and threads of DuckDB; None for one a processor.

    Returns:
        The statistics, as in the file.

    Raises:
        CorpusError: An input cannot be read or used, or (TooMuchDamage) too much of it is damaged.
        UserError: The shares make no sense, or ``output`` cannot be written.
        VocabularyError: ``vocabulary_size`` is too small.
    """
    output = Path(output)
    if split is not None:
        check_shares(split)
    Vocabulary.from_counts({}, vocabulary_size)  # raises before hours of work
    memory_bytes(memory)
    found = find_inputs(corpus, inputs)
    if output.exists() and any(output.samefile(folder) for folder in {item.path.parent for item in found}):
        raise UserError(f"{output} holds inputs, among which outputs would be lost. Name another.")
    reading = reading or ReadingSettings()
    jobs = jobs or available_cores()
    tasks = plan_tasks(corpus, reading, found)
    with _workplace(output) as folder:
        with ThreadPoolExecutor(1) as beside:
            # The engine takes as long to import as the processes that read take to start.
            beside.submit(_import_engine, engine)
            reports = read_tasks(tasks, folder, jobs)
        read = _reading_statistics(found, reports, max_bad)
        new = folder / "new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        from seq2seq_chat.corpus.assembly import assemble

        statistics = assemble(
            corpus,
            found,
            [folder / report.key for report in reports],
            _by_file(reports, len(found)),
            read,
            new,
            max_gap=max_gap,
            keep_copies=keep_copies,
            split=split,
            seed=seed,
            vocabulary_size=vocabulary_size,
            level=level,
            pairing=pairing,
            source_steps=source_steps,
            target_steps=target_steps,
            engine=engine,
            spark_master=spark_master,
            memory=memory,
            threads=jobs,
        )
        if not statistics["total"]["samples"]:
            raise CorpusError(
                "There are no two utterances that belong together in what was read. "
                "Each needs a line of its own, ended by a line feed."
            )
        with atomic_write(new / STATISTICS_FILE) as stream:
            stream.write(json.dumps(statistics, indent=2) + "\n")
        for name in (*(f"{name}.txt" for name in SPLITS), UTTERANCES_FILE, VOCABULARY_FILE, STATISTICS_FILE):
            os.replace(new / name, output / name)
    return statistics


def _import_engine(name: EngineName) -> None:
    with suppress(ImportError):  # which is told where it is imported in earnest
        importlib.import_module("seq2seq_chat.corpus.assembly")
        importlib.import_module("ibis.backends.duckdb" if name == "duckdb" else "ibis.backends.pyspark")


@contextmanager
def _workplace(output: Path) -> Iterator[Path]:
    """A folder in ``output`` for all that is made, kept if there is something to go on from."""
    new = not output.exists()
    folder = output.absolute() / _WORKPLACE  # libraries take a relative ~ for the home folder
    try:
        # Inside rather than beside: certainly on the same file system.
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / "lock", "w")  # noqa: SIM115  closed below
    except OSError as fault:
        raise UserError(f"{output} cannot be written to: {fault.strerror}. Name another folder.") from fault
    useless = False
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as fault:
            raise UserError(
                f"{output} is being written to by another preparation. Wait for it, or name another folder."
            ) from fault
        try:
            yield folder
            useless = True
        except TooMuchDamage:
            raise
        except ReadingStopped:
            useless = not any(folder.glob("*.json"))
            raise
        except CorpusError:
            useless = True  # other inputs are needed, or other settings
            raise
        except OSError as fault:
            raise unwritable(output, fault) from fault
        finally:
            if useless:
                shutil.rmtree(folder, ignore_errors=True)
                if new:
                    with suppress(OSError):
                        output.rmdir()
    finally:
        lock.close()


def _by_file(reports: Sequence[Report], files: int) -> list[PieceReport]:
    """The reports of the pieces of each file, added up."""
    totals = [PieceReport(number) for number in range(files)]
    for report in reports:
        for piece in report.pieces:
            total = totals[piece.file]
            total.records += piece.records
            total.bad += piece.bad
            total.incomplete |= piece.incomplete
            total.rows += piece.rows
            total.threads += piece.threads
            total.single |= piece.single
    return totals


def _reading_statistics(found: Sequence[Input], reports: Sequence[Report], max_bad: float) -> ReadingStatistics:
    """What was read and what was damaged. Raises TooMuchDamage."""
    files = _by_file(reports, len(found))
    records, bad = sum(file.records for file in files), sum(file.bad for file in files)
    incomplete = sum(file.incomplete for file in files)
    damages = [damage for report in reports for damage in report.damages]
    damages.sort(key=lambda damage: not damage.incomplete)  # what matters most comes first
    if 100 * bad > max_bad * records or 100 * incomplete > max_bad * len(files):
        what = (
            f"{incomplete:,} of {len(files):,} files could not be read to their ends"
            if 100 * incomplete > max_bad * len(files)
            else f"{bad:,} of {records:,} lines or files are damaged"
        )
        raise TooMuchDamage(
            f"{damages[0]}. In all {what}; mend them, or allow more than {max_bad:g} % of them (--max-bad)."
            if damages
            else "Nothing could be read."
        )
    return {
        "files": len(files),
        "bytes": sum(item.size for item in found),
        "records": records,
        "copies": 0,
        "damaged": bad,
        "incomplete_files": incomplete,
        "damages": [str(damage) for damage in damages[:MOST_EXAMPLES]],
    }
