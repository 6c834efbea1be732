"""From the shards of rows that were read to a prepared corpus, evaluated by an engine."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from seq2seq_chat.corpus import tables
from seq2seq_chat.corpus.columns import flags, integers, strings
from seq2seq_chat.corpus.engine import Engine, EngineName, open_engine
from seq2seq_chat.corpus.figures import prepared_statistics
from seq2seq_chat.corpus.files import CorpusError
from seq2seq_chat.corpus.inputs import CORPORA, Input
from seq2seq_chat.corpus.opensubtitles import MARKS_PER_FILM
from seq2seq_chat.corpus.readers import BLOCK_UTTERANCES
from seq2seq_chat.corpus.samples import Pairing
from seq2seq_chat.corpus.shards import PieceReport
from seq2seq_chat.corpus.split import (
    DEFAULT_SHARES,
    Shares,
    complete_splits,
    is_complete,
    official_splits,
    split_of,
)
from seq2seq_chat.corpus.statistics import CorpusStatistics, ReadingStatistics
from seq2seq_chat.corpus.text import Level
from seq2seq_chat.corpus.utterances import UTTERANCES_FILE, write_prepared
from seq2seq_chat.corpus.vocabulary import SPECIAL_WORDS, VOCABULARY_FILE, Vocabulary


def assemble(
    corpus: str,
    found: Sequence[Input],
    shards: Sequence[Path],
    pieces: Sequence[PieceReport],
    read: ReadingStatistics,
    folder: Path,
    *,
    max_gap: float | None,
    keep_copies: bool,
    split: Shares | None,
    seed: int,
    vocabulary_size: int,
    level: Level,
    pairing: Pairing,
    source_steps: int,
    target_steps: int,
    engine: EngineName,
    spark_master: str,
    memory: str,
    threads: int,
) -> CorpusStatistics:
    """Write corpus files, table and vocabulary into ``folder``; see ``preparation.prepare``.

    Args:
        found: The files.
        shards: The folders of their rows and marks.
        pieces: What was found in each of the files.
        read: What the statistics tell of reading; the number of copies is put into it.
        folder: Where the engine's temporary files lie as well.

    Returns:
        The statistics.

    Raises:
        CorpusError: Nothing is left of what was read.
        UserError: The engine cannot be started, or has too little memory.
    """
    with open_engine(engine, folder, memory=memory, threads=threads, spark_master=spark_master) as evaluate:
        if corpus == "reddit":
            comments = _rows(evaluate, folder, shards, "rows")
            utterances = tables.exchanges(evaluate.store(tables.answers(comments), "answers"), comments)
            official = False
        else:
            named = CORPORA[corpus].named
            copies: set[int] = set()
            if named and not keep_copies:
                copies = _copies(evaluate, _rows(evaluate, folder, shards, "marks"))
                read["copies"] = len(copies)
            official = _write_files(folder / "files.parquet", corpus, found, pieces, copies, split, seed)
            utterances = tables.conversations(
                _rows(evaluate, folder, shards, "rows"), evaluate.table(folder / "files.parquet")
            )
            if named:
                utterances = (
                    tables.endless(utterances) if max_gap is None else tables.cut_at_silences(utterances, max_gap)
                )
        _write_splits(evaluate, utterances, folder, split or DEFAULT_SHARES, seed, official)
        prepared = evaluate.table(folder / UTTERANCES_FILE)
        counts = evaluate.store(tables.word_counts(prepared, level), "counts")
        vocabulary = _vocabulary(evaluate, counts, vocabulary_size)
        vocabulary.save(folder / VOCABULARY_FILE)
        return prepared_statistics(
            evaluate, prepared, counts, vocabulary, level, pairing, source_steps, target_steps, folder, read
        )


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
    seed: int,
) -> bool:
    """Write the table of files that ``tables.conversations`` takes; whether it tells an official split."""
    official = None
    if CORPORA[corpus].named:
        # Files are few: the split of a conversation that is a file is found once here, not for each utterance.
        splits = [split_of(item.film, split or DEFAULT_SHARES, seed) for item in found]
    elif split is None and (official := official_splits([item.path for item in found])):
        splits = [official[item.path] for item in found]
    else:
        splits = []
    kept, offsets, singles, offset = [], [], [], 0
    for number, piece in enumerate(pieces):
        if number not in copies:
            kept.append(number)
            offsets.append(offset)
            singles.append(piece.single)
        offset += -(-piece.rows // BLOCK_UTTERANCES) if piece.single else piece.threads
    nothing = pa.nulls(len(kept), pa.string())
    columns = {
        "file": integers(kept, np.int32),
        "name": strings([found[number].film.encode() for number in kept]) if CORPORA[corpus].named else nothing,
        "offset": integers(offsets),
        "single": flags(np.array(singles, bool)),
        "split": strings([splits[number].encode() for number in kept]) if splits else nothing,
    }
    pq.write_table(pa.Table.from_arrays(list(columns.values()), list(columns)), path)
    return official is not None


def _write_splits(
    engine: Engine, utterances: ir.Table, folder: Path, shares: Shares, seed: int, official: bool
) -> None:
    """Write the prepared utterances. Raises CorpusError if there are none."""
    sizes = _write(engine, tables.with_split(utterances, shares, seed), folder)
    if not sizes:
        raise CorpusError(
            "Nothing is left of what was read: cleaning leaves no word of any utterance, or none was asked for. Only "
            "the letters a to z, digits and . , ! ? are kept, with or without accents."
        )
    if official:
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
