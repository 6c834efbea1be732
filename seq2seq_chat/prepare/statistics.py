"""The statistics of a prepared corpus."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.parquet as pq

from seq2seq_chat.data.samples import Pairing
from seq2seq_chat.prepare import queries
from seq2seq_chat.prepare.arrow import strings
from seq2seq_chat.prepare.engine import QueryEngine, fetch_rows
from seq2seq_chat.prepare.leakage import leakage_counts, leaked_samples
from seq2seq_chat.prepare.read_result import ReadingStatistics
from seq2seq_chat.prepare.settings import PrepareSettings
from seq2seq_chat.text.tokenizers import TokenizerName
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, Vocabulary


class TextStatistics(TypedDict):
    """The statistics of the words of a split, or of the sources or targets of its pairs.

    Words are tokens. ``coverage_percent`` is the percentage of word occurrences that are in the vocabulary;
    ``too_long_percent`` the percentage of samples that have to be truncated because the source exceeds the encoder
    steps, or the target with its EOS the decoder steps.
    """

    words: int
    distinct_words: int
    coverage_percent: float
    too_long_percent: float


class SplitStatistics(TextStatistics):
    """The statistics of a split. Utterances without tokens are not counted."""

    conversations: int
    utterances: int
    samples: int


class SplitLeakage(TypedDict):
    """The samples of a split, and its targets alone, that occur verbatim in train; percentages are of its samples."""

    samples: int
    samples_percent: float
    targets: int
    targets_percent: float


class LeakageStatistics(TypedDict):
    """The leakage that is left after ``dropped_samples`` were dropped from train."""

    validation: SplitLeakage
    test: SplitLeakage
    dropped_samples: int


class CorpusStatistics(TypedDict):
    """The contents of ``statistics.json``."""

    tokenizer: TokenizerName
    train: SplitStatistics
    validation: SplitStatistics
    test: SplitStatistics
    total: SplitStatistics
    leakage: LeakageStatistics
    split: str
    reading: ReadingStatistics


class PairSplitStatistics(TypedDict):
    """The statistics of the pairs of a split."""

    pairs: int
    source: TextStatistics
    target: TextStatistics


class LeftOut(TypedDict):
    """Pairs that were left out: a side has no tokens, or a filter applies; the first of these reasons counts.

    The statistics of reading have the same numbers, with the reasons in words.
    """

    without_tokens: int
    duplicates: int
    max_words: int
    max_ratio: int


class PairStatistics(TypedDict):
    """The contents of ``statistics.json`` of pairs. Bad rows are the damaged records of ``reading``."""

    tokenizer: TokenizerName
    target_tokenizer: TokenizerName
    train: PairSplitStatistics
    validation: PairSplitStatistics
    test: PairSplitStatistics
    total: PairSplitStatistics
    leakage: LeakageStatistics
    left_out: LeftOut
    split: str
    reading: ReadingStatistics


def corpus_statistics(
    engine: QueryEngine,
    utterances: ir.Table,
    counts: ir.Table,
    vocabulary: Vocabulary,
    settings: PrepareSettings,
    folder: Path,
    reading: ReadingStatistics,
    dropped_samples: int,
    split: str,
) -> CorpusStatistics:
    """Compute the statistics of each split and of the entire corpus.

    Args:
        counts: ``queries.word_counts`` of the utterances.
        folder: Where to write the vocabulary as a Parquet file.
        reading, dropped_samples, split: Included unchanged.
    """
    table = queries.split_statistics(utterances, settings.pairing, settings.encoder_steps, settings.decoder_steps)
    rows = {row["split"]: row for row in fetch_rows(engine, table)}
    words = word_statistics(engine, counts, vocabulary, folder)
    rows = {name: row | words[name] for name, row in rows.items()}
    total = {name: sum(row[name] for row in rows.values()) for name in _ADDITIVE} | words["total"]
    samples = {name: row["samples"] for name, row in rows.items()}
    return {
        "tokenizer": settings.tokenizer.name,
        "train": _split_statistics(rows.get("train", {})),
        "validation": _split_statistics(rows.get("validation", {})),
        "test": _split_statistics(rows.get("test", {})),
        "total": _split_statistics(total),
        "leakage": leakage(engine, utterances, settings.pairing, samples, dropped_samples),
        "split": split,
        "reading": reading,
    }


_ADDITIVE = ("conversations", "utterances", "samples", "words", "too_long")


def word_statistics(
    engine: QueryEngine, counts: ir.Table, vocabulary: Vocabulary, folder: Path
) -> dict[str, dict[str, int]]:
    """For each split that has words, and ``total``: ``distinct_words``, and occurrences in the vocabulary.

    Args:
        counts: ``queries.word_counts``.
        folder: Where to write the vocabulary as a Parquet file.
    """
    rows = fetch_rows(engine, counts.group_by("split").agg(distinct=counts.count()))
    statistics = {row["split"]: {"distinct_words": row["distinct"], "known_words": 0} for row in rows}
    known = counts.semi_join(vocabulary_table(engine, vocabulary, folder), "word")
    for row in fetch_rows(engine, known.group_by("split").agg(occurrences=known["count"].sum())):
        statistics[row["split"]]["known_words"] = int(row["occurrences"])
    statistics["total"] = {
        "distinct_words": fetch_rows(engine, counts.agg(words=counts.word.nunique()))[0]["words"],
        "known_words": sum(row["known_words"] for row in statistics.values()),
    }
    return statistics


def leakage(
    engine: QueryEngine, utterances: ir.Table, pairing: Pairing, samples: Mapping[str, int], dropped_samples: int
) -> LeakageStatistics:
    """The leakage of prepared utterances, given the number of samples in each split."""
    leaked = engine.materialize(leaked_samples(utterances, pairing), "leaked")
    rows = {row["split"]: row for row in fetch_rows(engine, leakage_counts(utterances, leaked, pairing))}
    return {
        "validation": _split_leakage(rows.get("validation", {}), samples.get("validation", 0)),
        "test": _split_leakage(rows.get("test", {}), samples.get("test", 0)),
        "dropped_samples": dropped_samples,
    }


def vocabulary_table(engine: QueryEngine, vocabulary: Vocabulary, folder: Path) -> ir.Table:
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
        **text_statistics(row, row.get("samples", 0)),
    }


def text_statistics(row: Mapping[str, int], samples: int) -> TextStatistics:
    """The statistics of a text with this number of samples. Counts that the row lacks are 0."""
    return {
        "words": row.get("words", 0),
        "distinct_words": row.get("distinct_words", 0),
        "coverage_percent": percent(row.get("known_words", 0), row.get("words", 0)),
        "too_long_percent": percent(row.get("too_long", 0), samples),
    }


def _split_leakage(row: Mapping[str, int], total: int) -> SplitLeakage:
    samples, targets = row.get("samples", 0), row.get("targets", 0)
    return {
        "samples": samples,
        "samples_percent": percent(samples, total),
        "targets": targets,
        "targets_percent": percent(targets, total),
    }


def percent(part: int, total: int) -> float:
    """100 part / total, rounded to two decimals; 0 if the total is 0."""
    return round(100 * part / total, 2) if total else 0.0
