"""The statistics of a prepared corpus, the contents of ``statistics.json``.

There are ``train``, ``validation``, ``test`` and ``total`` with the numbers of a split: ``conversations``,
``utterances`` (those without tokens are not counted) and ``samples``, and the statistics of its words. A split of pairs
has the number of ``pairs``, and the statistics of words for ``source`` and ``target``. Words are tokens:

- ``words`` and ``distinct_words``,
- ``coverage_percent``, the percentage of word occurrences that are in the vocabulary,
- ``too_long_percent``, the percentage of samples that have to be truncated because the source exceeds the encoder
  steps, or the target with its EOS the decoder steps.

``leakage`` has, for ``validation`` and ``test``, the ``samples`` and the ``targets`` alone that occur verbatim in
train, with percentages of the samples of the split, after ``dropped_samples`` were dropped from train. ``left_out``
counts pairs ``without_tokens`` on a side, ``duplicates``, and the pairs that ``max_words`` or ``max_ratio`` exclude;
the first of these reasons counts, and ``reading`` has the same numbers, with the reasons in words. Besides, there are
the names of the tokenizers, ``split``, which says how the corpus was split, and ``reading``: see
``ReadResult.statistics``; it also has ``corpus``, the name of the reader, and for chats, if they are known, the times
of the ``first`` and the ``last`` utterance in ISO 8601.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.parquet as pq

from seq2seq_chat.data.samples import Pairing
from seq2seq_chat.prepare import queries
from seq2seq_chat.prepare.engine import QueryEngine, fetch_rows
from seq2seq_chat.prepare.settings import PrepareSettings
from seq2seq_chat.prepare.shards import strings
from seq2seq_chat.prepare.split import SPLITS
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, Vocabulary


def split_statistics(
    engine: QueryEngine, utterances: ir.Table, words: Mapping[str, Mapping[str, int]], settings: PrepareSettings
) -> dict[str, dict[str, Any]]:
    """The statistics of each split and of the entire corpus, given its ``word_statistics``."""
    table = queries.split_statistics(utterances, settings.pairing, settings.encoder_steps, settings.decoder_steps)
    numbers = ("conversations", "utterances", "samples")
    return {
        name: {key: row.get(key, 0) for key in numbers} | text_statistics(row, row.get("samples", 0))
        for name, row in rows_by_split(engine, table, words).items()
    }


def rows_by_split(
    engine: QueryEngine, table: ir.Table, words: Mapping[str, Mapping[str, int]]
) -> dict[str, dict[str, int]]:
    """The numbers in the rows of a table by their ``split``, and their ``total``, each with its ``word_statistics``."""
    rows: dict[str, dict[str, int]] = {row.pop("split"): row for row in fetch_rows(engine, table)}
    total = Counter[str]()
    for row in rows.values():
        total.update(row)
    rows["total"] = total
    return {name: {**rows.get(name, {}), **words.get(name, {})} for name in (*SPLITS, "total")}


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


def text_statistics(row: Mapping[str, int], samples: int) -> dict[str, Any]:
    """The statistics of the words of a text with this number of samples. Counts that the row lacks are 0."""
    return {
        "words": row.get("words", 0),
        "distinct_words": row.get("distinct_words", 0),
        "coverage_percent": percent(row.get("known_words", 0), row.get("words", 0)),
        "too_long_percent": percent(row.get("too_long", 0), samples),
    }


def leakage(
    engine: QueryEngine, utterances: ir.Table, pairing: Pairing, samples: Mapping[str, int], dropped_samples: int
) -> dict[str, Any]:
    """The leakage of prepared utterances, given the number of samples in each split."""
    leaked = engine.materialize(queries.leaked_samples(utterances, pairing), "leaked")
    rows = {row["split"]: row for row in fetch_rows(engine, queries.leakage_counts(utterances, leaked, pairing))}
    statistics: dict[str, Any] = {}
    for name in SPLITS[1:]:
        statistics[name] = {}
        for key in ("samples", "targets"):
            count = rows.get(name, {}).get(key, 0)
            statistics[name] |= {key: count, f"{key}_percent": percent(count, samples[name])}
    return statistics | {"dropped_samples": dropped_samples}


def vocabulary_table(engine: QueryEngine, vocabulary: Vocabulary, folder: Path) -> ir.Table:
    """The words of a vocabulary, without the special ones, as a table with the column ``word``."""
    path = folder / "words.parquet"
    words = strings([word.encode() for word in vocabulary.words[len(SPECIAL_WORDS) :]])
    pq.write_table(pa.Table.from_arrays([words], ["word"]), path)
    return engine.table(path)


def percent(part: int, total: int) -> float:
    """100 part / total, rounded to two decimals; 0 if the total is 0."""
    return round(100 * part / total, 2) if total else 0.0
