"""Assemble prepared pairs from the shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import ibis.expr.types as ir

from seq2seq_chat.prepare import pair_queries, queries
from seq2seq_chat.prepare.assembly import Assembly
from seq2seq_chat.prepare.engine import QueryEngine, fetch_rows
from seq2seq_chat.prepare.pair_queries import SIDES, side_statistics
from seq2seq_chat.prepare.readers.pairs import WITHOUT_TOKENS
from seq2seq_chat.prepare.settings import PrepareSettings
from seq2seq_chat.prepare.split import SPLITS
from seq2seq_chat.prepare.statistics import (
    LeftOut,
    PairSplitStatistics,
    PairStatistics,
    leakage,
    text_statistics,
    word_statistics,
)
from seq2seq_chat.prepare.subwords import tokenize_prepared
from seq2seq_chat.prepare.tokenizing import is_ready, keeps_texts
from seq2seq_chat.prepare.utterances import UTTERANCES_FILE
from seq2seq_chat.text.tokenizers import Tokenizer
from seq2seq_chat.text.vocabulary import Vocabulary


class PairAssembly(Assembly):
    """Assembles pairs. In the table of utterances each is a conversation of two."""

    def run(self) -> PairStatistics:
        """See ``Assembly.run``."""
        settings, filters = self._settings, self._settings.filters
        pairs = self._pairs()
        read = self._result.total
        left_out: LeftOut = {
            "without_tokens": read.left_out.get(WITHOUT_TOKENS, 0),
            "duplicates": read.conversations - self._count(pairs) if filters.drop_duplicates else 0,
            "max_words": 0,
            "max_ratio": 0,
        }
        self._leave_out("duplicates", left_out["duplicates"])
        has_lengths = filters.max_words is not None or filters.max_ratio is not None
        tokenizers: Sequence[Tokenizer | None] = [None for _ in settings.text_sides]
        is_tokenized = all(map(is_ready, settings.tokenizers))
        if not is_tokenized:
            # Tokenizers are trained on a train that still has the pairs of unsuitable lengths.
            with_tokens = any(map(is_ready, settings.tokenizers))
            self._write_splits(pair_queries.utterances(pairs, with_tokens=with_tokens))
            tokenizers = tokenize_prepared(settings, self._folder)
            if has_lengths:
                pairs = pair_queries.prepared_pairs(self._set_aside("unfiltered"), self._official is not None)
        if has_lengths:
            pairs = pairs.mutate(problem=pair_queries.length_problem(pairs, filters))
            counts = pairs.group_by("problem").agg(pairs=pairs.count())
            problems = {row["problem"]: row["pairs"] for row in fetch_rows(self._engine, counts)}
            left_out["max_words"], left_out["max_ratio"] = problems.get("max_words", 0), problems.get("max_ratio", 0)
            self._leave_out("more than --max-words", left_out["max_words"])
            self._leave_out("lengths that differ by more than --max-ratio", left_out["max_ratio"])
            pairs = pairs.filter(pairs.problem.isnull()).drop("problem")
        if has_lengths or is_tokenized:
            with_tokens = not is_tokenized or any(map(keeps_texts, settings.tokenizers))
            self._write_splits(pair_queries.utterances(pairs, with_tokens=with_tokens))
        dropped = self._drop_leaked() if settings.drop_leaked else 0
        return self._statistics(tokenizers, left_out, dropped)

    def _pairs(self) -> ir.Table:
        """The pairs in the shards, without duplicates if the filters drop them."""
        files = self._folder / "files.parquet"
        self._write_file_table(files, set())
        pairs = pair_queries.pairs(self._shard_table("rows"), self._engine.table(files))
        if not self._settings.filters.drop_duplicates:
            return pairs
        return self._engine.materialize(pair_queries.drop_duplicates(pairs), "distinct")

    def _count(self, pairs: ir.Table) -> int:
        (row,) = fetch_rows(self._engine, pairs.agg(pairs=pairs.count()))
        return int(row["pairs"])

    def _statistics(self, tokenizers: Sequence[Tokenizer | None], left_out: LeftOut, dropped: int) -> PairStatistics:
        """Write the vocabularies and compute the statistics."""
        settings = self._settings
        prepared = self._engine.table(self._folder / UTTERANCES_FILE)
        counts = {
            side: self._engine.materialize(
                queries.word_counts(prepared.filter(prepared.position == position)), f"{side}_counts"
            )
            for position, side in enumerate(SIDES)
        }
        words: dict[str, _SideWords] = {}
        for text_side, tokenizer in zip(settings.text_sides, tokenizers, strict=True):
            joined = counts[text_side.sides[0]]
            for side in text_side.sides[1:]:
                joined = queries.sum_counts(joined.union(counts[side]), "split", "word")
            vocabulary = self._write_vocabulary(text_side, tokenizer, joined)
            words |= {side: _SideWords(counts[side], vocabulary) for side in text_side.sides}
        splits = _split_statistics(self._engine, prepared, words, settings, self._folder)
        samples = {name: split["pairs"] for name, split in splits.items()}
        self._warn_of_empty_splits([samples[name] for name in SPLITS])
        source, target = settings.tokenizers
        return {
            "tokenizer": source.name,
            "target_tokenizer": target.name,
            "train": splits["train"],
            "validation": splits["validation"],
            "test": splits["test"],
            "total": splits["total"],
            "leakage": leakage(self._engine, prepared, settings.pairing, samples, dropped),
            "left_out": left_out,
            "split": self._split_note,
            "reading": self._result.statistics() | {"corpus": settings.corpus},
        }


class _SideWords(NamedTuple):
    """The ``queries.word_counts`` of the sources or targets, and their vocabulary."""

    counts: ir.Table
    vocabulary: Vocabulary


def _split_statistics(
    engine: QueryEngine,
    utterances: ir.Table,
    words: Mapping[str, _SideWords],
    settings: PrepareSettings,
    folder: Path,
) -> dict[str, PairSplitStatistics]:
    """The statistics of each split and of the entire corpus.

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
    statistics: dict[str, PairSplitStatistics] = {}
    for name in (*SPLITS, "total"):
        source, target = (by_side[side].get(name, {}) for side in SIDES)
        pairs = source.get("pairs", 0)
        statistics[name] = {
            "pairs": pairs,
            "source": text_statistics(source, pairs),
            "target": text_statistics(target, pairs),
        }
    return statistics
