"""The statistics of a prepared corpus."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.parquet as pq

from seq2seq_chat.data.vocabulary import SPECIAL_WORDS, Vocabulary
from seq2seq_chat.prepare import queries
from seq2seq_chat.prepare.arrow import strings
from seq2seq_chat.prepare.engine import Engine, fetch_rows
from seq2seq_chat.prepare.read_result import ReadingStatistics
from seq2seq_chat.prepare.settings import PrepareSettings


class SplitStatistics(TypedDict):
    """The statistics of a split. Utterances that are empty after cleaning are not counted.

    At character level, words are characters. ``coverage_percent`` is the percentage of word occurrences that are in the
    vocabulary; ``too_long_percent`` the percentage of samples that have to be truncated because the source exceeds the
    encoder steps, or the target with its EOS the decoder steps.
    """

    conversations: int
    utterances: int
    samples: int
    words: int
    distinct_words: int
    coverage_percent: float
    too_long_percent: float


class CorpusStatistics(TypedDict):
    """The contents of ``statistics.json``."""

    train: SplitStatistics
    validation: SplitStatistics
    test: SplitStatistics
    total: SplitStatistics
    reading: ReadingStatistics


def corpus_statistics(
    engine: Engine,
    utterances: ir.Table,
    counts: ir.Table,
    vocabulary: Vocabulary,
    settings: PrepareSettings,
    folder: Path,
    reading: ReadingStatistics,
) -> CorpusStatistics:
    """Compute the statistics of each split and of the entire corpus.

    Args:
        counts: ``queries.word_counts`` of the utterances.
        folder: Where to write the vocabulary as a Parquet file.
        reading: Included unchanged.
    """
    vocabulary_words = vocabulary_table(engine, vocabulary, folder)
    if settings.level == "character":
        utterances = utterances.mutate(words=utterances.text.length())
    table = queries.split_statistics(utterances, settings.pairing, settings.encoder_steps, settings.decoder_steps)
    rows = {row["split"]: row for row in fetch_rows(engine, table)}
    for row in fetch_rows(engine, counts.group_by("split").agg(distinct=counts.count())):
        rows[row["split"]]["distinct_words"] = row["distinct"]
    known = counts.semi_join(vocabulary_words, "word")
    for row in fetch_rows(engine, known.group_by("split").agg(occurrences=known["count"].sum())):
        rows[row["split"]]["known_words"] = int(row["occurrences"])
    total = {name: sum(row.get(name, 0) for row in rows.values()) for name in _ADDITIVE}
    total["distinct_words"] = fetch_rows(engine, counts.agg(words=counts.word.nunique()))[0]["words"]
    return {
        "train": _split_statistics(rows.get("train", {})),
        "validation": _split_statistics(rows.get("validation", {})),
        "test": _split_statistics(rows.get("test", {})),
        "total": _split_statistics(total),
        "reading": reading,
    }


_ADDITIVE = ("conversations", "utterances", "samples", "words", "known_words", "too_long")


def vocabulary_table(engine: Engine, vocabulary: Vocabulary, folder: Path) -> ir.Table:
    """The words of a vocabulary, without the special ones, as a table with the column ``word``."""
    path = folder / "words.parquet"
    words = strings([word.encode() for word in vocabulary.words[len(SPECIAL_WORDS) :]])
    pq.write_table(pa.Table.from_arrays([words], ["word"]), path)
    return engine.table(path)


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


def percent(part: int, total: int) -> float:
    """100 part / total, rounded to two decimals; 0 if the total is 0."""
    return round(100 * part / total, 2) if total else 0.0
