"""The statistics of a prepared corpus, evaluated by an engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.parquet as pq

from seq2seq_chat.corpus import tables
from seq2seq_chat.corpus.columns import strings
from seq2seq_chat.corpus.engine import Engine
from seq2seq_chat.corpus.samples import Pairing
from seq2seq_chat.corpus.statistics import CorpusStatistics, ReadingStatistics, SplitStatistics, percent
from seq2seq_chat.corpus.text import Level
from seq2seq_chat.corpus.vocabulary import SPECIAL_WORDS, Vocabulary


def prepared_statistics(
    engine: Engine,
    utterances: ir.Table,
    counts: ir.Table,
    vocabulary: Vocabulary,
    level: Level,
    pairing: Pairing,
    source_steps: int,
    target_steps: int,
    folder: Path,
    reading: ReadingStatistics,
) -> CorpusStatistics:
    """The figures of the splits of a prepared corpus and of all of it, evaluated by an engine.

    Args:
        utterances: The prepared utterances.
        counts: ``tables.word_counts`` of them.
        folder: Where the vocabulary is put for the engine to read.
        reading: What is known from reading.
    """
    known_words = engine_words(engine, vocabulary, folder)
    if level == "character":
        utterances = tables.in_characters(utterances)
    rows = {row["split"]: row for row in _rows(engine, tables.figures(utterances, pairing, source_steps, target_steps))}
    known = counts.semi_join(known_words, "word")
    for counted, name in ((counts, "distinct_words"), (known, "known_words")):
        of_splits = counted.group_by("split").agg(distinct=counted.count(), occurrences=counted["count"].sum())
        for row in _rows(engine, of_splits):
            rows[row["split"]][name] = row["distinct"] if name == "distinct_words" else int(row["occurrences"])
    together = {name: sum(row.get(name, 0) for row in rows.values()) for name in _SUMMED}
    together["distinct_words"] = _rows(engine, counts.agg(words=counts.word.nunique()))[0]["words"]
    return {
        "train": _split_statistics(rows.get("train", {})),
        "validation": _split_statistics(rows.get("validation", {})),
        "test": _split_statistics(rows.get("test", {})),
        "total": _split_statistics(together),
        "reading": reading,
    }


_SUMMED = ("conversations", "utterances", "samples", "words", "known_words", "too_long")


def engine_words(engine: Engine, vocabulary: Vocabulary, folder: Path) -> ir.Table:
    """The words of a vocabulary as a table, ``word``, for an engine; the special ones are no words of texts."""
    path = folder / "words.parquet"
    words = strings([word.encode() for word in vocabulary.words[len(SPECIAL_WORDS) :]])
    pq.write_table(pa.Table.from_arrays([words], ["word"]), path)
    return engine.table(path)


def _rows(engine: Engine, expression: ir.Table) -> list[dict[str, Any]]:
    return [row for batch in engine.rows(expression) for row in batch.to_pylist()]


def _split_statistics(row: Mapping[str, int]) -> SplitStatistics:
    return {
        "conversations": row.get("conversations", 0),
        "utterances": row.get("utterances", 0),
        "samples": row.get("samples", 0),
        "words": row.get("words", 0),
        "distinct_words": row.get("distinct_words", 0),
        "coverage_percent": percent(row.get("known_words", 0), row.get("words", 0)),
        "too_long_percent": percent(row.get("too_long", 0), row.get("samples", 0)),
    }
