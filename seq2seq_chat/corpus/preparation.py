"""Make the corpus files, the vocabulary and the statistics from raw data."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from seq2seq_chat.atomic import atomic_write
from seq2seq_chat.corpus import tables
from seq2seq_chat.corpus.columns import flags, integers, strings
from seq2seq_chat.corpus.engine import Engine, EngineName, memory_bytes, open_engine
from seq2seq_chat.corpus.figures import prepared_statistics
from seq2seq_chat.corpus.files import CorpusError
from seq2seq_chat.corpus.inputs import CORPORA, Input, find_inputs, plan_tasks
from seq2seq_chat.corpus.opensubtitles import MARKS_PER_FILM
from seq2seq_chat.corpus.readers import BLOCK_UTTERANCES
from seq2seq_chat.corpus.reading import read_tasks
from seq2seq_chat.corpus.samples import Pairing
from seq2seq_chat.corpus.shards import MOST_EXAMPLES, PieceReport, ReadingSettings, Report, unwritable
from seq2seq_chat.corpus.split import (
    DEFAULT_SHARES,
    SPLITS,
    Shares,
    check_shares,
    complete_splits,
    is_complete,
    official_splits,
)
from seq2seq_chat.corpus.statistics import CorpusStatistics, ReadingStatistics
from seq2seq_chat.corpus.text import Level
from seq2seq_chat.corpus.utterances import UTTERANCES_FILE, write_prepared
from seq2seq_chat.corpus.vocabulary import SPECIAL_WORDS, Vocabulary
from seq2seq_chat.environment import available_cores
from seq2seq_chat.errors import UserError

VOCABULARY_FILE = "vocabulary.txt"
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
    if output.resolve() in {folder.resolve() for folder in {item.path.parent for item in found}}:
        raise UserError(f"{output} holds inputs, among which outputs would be lost. Name another.")
    reading = reading or ReadingSettings()
    jobs = jobs or available_cores()
    tasks = plan_tasks(corpus, reading, found)
    with _workplace(output) as folder:
        reports = read_tasks(tasks, folder, jobs)
        kept = [folder / task.key() for task in tasks]
        read = _reading_statistics(found, reports, max_bad)
        with open_engine(engine, folder, memory=memory, threads=jobs, spark_master=spark_master) as evaluate:
            pieces = _by_file(reports, len(found))
            if corpus == "reddit":
                comments = _rows(evaluate, folder, kept, "rows")
                utterances = tables.exchanges(evaluate.store(tables.answers(comments), "answers"), comments)
                official = False
            else:
                copies: set[int] = set()
                if CORPORA[corpus].named and not keep_copies:
                    copies = _copies(evaluate, _rows(evaluate, folder, kept, "marks"))
                    read["copies"] = len(copies)
                official = _write_files(folder / "files.parquet", corpus, found, pieces, copies, split)
                utterances = tables.conversations(
                    _rows(evaluate, folder, kept, "rows"), evaluate.table(folder / "files.parquet")
                )
                if CORPORA[corpus].named:
                    utterances = (
                        tables.endless(utterances) if max_gap is None else tables.cut_at_silences(utterances, max_gap)
                    )
            new = folder / "new"
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir()
            _write_splits(evaluate, utterances, new, None if official else split or DEFAULT_SHARES, seed)
            prepared = evaluate.table(new / UTTERANCES_FILE)
            counts = evaluate.store(tables.word_counts(prepared, level), "counts")
            vocabulary = _vocabulary(evaluate, counts, vocabulary_size)
            vocabulary.save(new / VOCABULARY_FILE)
            statistics = prepared_statistics(
                evaluate, prepared, counts, vocabulary, level, pairing, source_steps, target_steps, new, read
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


@contextmanager
def _workplace(output: Path) -> Iterator[Path]:
    """A folder in ``output`` for all that is made, kept if there is something to go on from."""
    new = not output.exists()
    folder = output / _WORKPLACE
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
        except CorpusError:
            useless = True  # the inputs have to change
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


def _rows(engine: Engine, folder: Path, shards: Sequence[Path], name: str) -> ir.Table:
    """All rows, or marks, of these shards. Links make one folder of them, which any engine reads."""
    together = folder / f"{name}.all"
    shutil.rmtree(together, ignore_errors=True)
    together.mkdir()
    for shard in shards:
        table, link = shard / f"{name}.parquet", together / f"{shard.name}.parquet"
        try:
            os.link(table, link)
        except OSError:  # not every file system has links
            shutil.copyfile(table, link)
    return engine.table(together)


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


def _copies(engine: Engine, marks: ir.Table) -> set[int]:
    """The files that are left out as copies of one before them that is not."""
    copies: set[int] = set()
    for batch in engine.rows(tables.copies(marks, MARKS_PER_FILM)):
        for earlier, later in zip(batch["earlier"].to_pylist(), batch["later"].to_pylist(), strict=True):
            if earlier not in copies:
                copies.add(later)
    return copies


def _write_files(
    path: Path,
    corpus: str,
    found: Sequence[Input],
    pieces: Sequence[PieceReport],
    copies: set[int],
    split: Shares | None,
) -> bool:
    """Write the table of files that ``tables.conversations`` takes; whether it tells an official split."""
    kind = CORPORA[corpus]
    splits = official_splits([item.path for item in found]) if split is None and not kind.named else None
    kept, offsets, singles, offset = [], [], [], 0
    for number, piece in enumerate(pieces):
        if number not in copies:
            kept.append(number)
            offsets.append(offset)
            singles.append(piece.single)
        offset += -(-piece.rows // BLOCK_UTTERANCES) if piece.single else piece.threads
    items = [found[number] for number in kept]
    nothing = pa.nulls(len(kept), pa.string())
    columns = {
        "file": integers(kept, np.int32),
        "name": strings([item.film.encode(errors="backslashreplace") for item in items]) if kind.named else nothing,
        "offset": integers(offsets),
        "single": flags(np.array(singles, bool)),
        "split": strings([splits[item.path].encode() for item in items]) if splits else nothing,
    }
    pq.write_table(pa.Table.from_arrays(list(columns.values()), list(columns)), path)
    return splits is not None


def _write_splits(engine: Engine, utterances: ir.Table, folder: Path, shares: Shares | None, seed: int) -> None:
    """Write the prepared utterances. Raises CorpusError if there are none."""
    split = tables.with_split(utterances, shares, seed)
    sizes = _write(engine, split, folder)
    if not sizes:
        raise CorpusError(
            "Nothing is left of what was read: cleaning leaves no word of any utterance, or none was asked for. Only "
            "the letters a to z, digits and . , ! ? are kept, with or without accents."
        )
    if shares is None:
        return
    prepared = engine.table(folder / UTTERANCES_FILE)
    threads: Counter[str] = Counter()
    for batch in engine.rows(tables.threads_by_split(prepared)):
        threads.update(dict(zip(batch["split"].to_pylist(), batch["threads"].to_pylist(), strict=True)))
    if not is_complete(threads, shares):
        # Only now is this known; a corpus with so few is soon written again.
        names = [
            name for batch in engine.rows(prepared.select("thread").distinct()) for name in batch["thread"].to_pylist()
        ]
        chosen = complete_splits(names, shares, seed)
        _write(engine, tables.with_split(utterances, shares, seed, chosen), folder)


def _write(engine: Engine, utterances: ir.Table, folder: Path) -> Counter[str]:
    with tqdm(desc="writing", unit=" utterances", unit_scale=True, delay=2, disable=None) as bar:
        return write_prepared(engine.rows(tables.in_order(utterances)), folder, bar.update)


def _vocabulary(engine: Engine, counts: ir.Table, size: int) -> Vocabulary:
    """The most frequent words of train, as ``Vocabulary.from_counts`` ranks them."""
    train = counts.filter(counts.split == "train")
    ranked = tables.most_frequent(train, size - len(SPECIAL_WORDS))
    return Vocabulary([*SPECIAL_WORDS, *(word for batch in engine.rows(ranked) for word in batch["word"].to_pylist())])
