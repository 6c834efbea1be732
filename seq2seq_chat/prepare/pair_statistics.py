"""The statistics of prepared pairs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TypedDict

import ibis.expr.types as ir

from seq2seq_chat.data.tokenizers import TokenizerName
from seq2seq_chat.data.vocabulary import Vocabulary
from seq2seq_chat.prepare.engine import Engine, fetch_rows
from seq2seq_chat.prepare.pair_queries import SIDES, side_statistics
from seq2seq_chat.prepare.read_result import ReadingStatistics
from seq2seq_chat.prepare.settings import PrepareSettings
from seq2seq_chat.prepare.split import SPLITS
from seq2seq_chat.prepare.statistics import LeakageStatistics, percent, word_statistics


class SideStatistics(TypedDict):
    """The statistics of the sources or of the targets of a split, see ``statistics.SplitStatistics``."""

    words: int
    distinct_words: int
    coverage_percent: float
    too_long_percent: float


class PairSplitStatistics(TypedDict):
    """The statistics of a split."""

    pairs: int
    source: SideStatistics
    target: SideStatistics


class LeftOut(TypedDict):
    """Pairs that were left out: a side has no tokens, or a filter applies; the first of these reasons counts."""

    without_tokens: int
    duplicates: int
    max_words: int
    max_ratio: int


class PairStatistics(TypedDict):
    """The contents of ``statistics.json``. Bad rows are the damaged records of ``reading``."""

    tokenizer: TokenizerName
    target_tokenizer: TokenizerName
    train: PairSplitStatistics
    validation: PairSplitStatistics
    test: PairSplitStatistics
    total: PairSplitStatistics
    leakage: LeakageStatistics
    left_out: LeftOut
    reading: ReadingStatistics


class SideWords(NamedTuple):
    """The ``queries.word_counts`` of the sources or targets, and their vocabulary."""

    counts: ir.Table
    vocabulary: Vocabulary


def pair_statistics(
    engine: Engine,
    utterances: ir.Table,
    words: Mapping[str, SideWords],
    settings: PrepareSettings,
    folder: Path,
) -> dict[str, PairSplitStatistics]:
    """Compute the statistics of each split and of the entire corpus.

    Args:
        words: Of ``source`` and ``target``.
        folder: Where to write the vocabularies as Parquet files.
    """
    rows = fetch_rows(engine, side_statistics(utterances, settings.encoder_steps, settings.decoder_steps))
    by_side: dict[str, dict[str, dict[str, int]]] = {}
    for position, side in enumerate(SIDES):
        splits = {row["split"]: row for row in rows if row["position"] == position}
        splits["total"] = {key: sum(row[key] for row in splits.values()) for key in ("pairs", "words", "too_long")}
        for name, of_words in word_statistics(engine, *words[side], folder).items():
            splits[name] = splits[name] | of_words
        by_side[side] = splits
    return {
        name: {
            "pairs": by_side["source"].get(name, {}).get("pairs", 0),
            "source": _side_statistics(by_side["source"].get(name, {})),
            "target": _side_statistics(by_side["target"].get(name, {})),
        }
        for name in (*SPLITS, "total")
    }


def _side_statistics(row: Mapping[str, int]) -> SideStatistics:
    return {
        "words": row.get("words", 0),
        "distinct_words": row.get("distinct_words", 0),
        "coverage_percent": percent(row.get("known_words", 0), row.get("words", 0)),
        "too_long_percent": percent(row.get("too_long", 0), row.get("pairs", 0)),
    }
