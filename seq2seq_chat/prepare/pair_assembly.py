"""Assemble prepared pairs from the shards.

A table of pairs has a row for each pair: ``file_split`` if known, the keys that ``queries.corpus_order`` takes
(``key_1`` and ``key_2``), ``thread``, which is equal for equal sources, ``source`` and ``target``, and their tokens,
separated by single spaces: ``source_tokens`` and ``target_tokens``, the texts themselves if the tokenizer is not ready.
In a table of utterances a pair is a conversation of two: position 0 is the source, 1 the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ibis
import ibis.expr.types as ir

from seq2seq_chat.prepare import queries
from seq2seq_chat.prepare.assembly import Assembly
from seq2seq_chat.prepare.engine import fetch_rows
from seq2seq_chat.prepare.readers.pairs import WITHOUT_TOKENS
from seq2seq_chat.prepare.settings import PrepareSettings
from seq2seq_chat.prepare.statistics import rows_by_split, text_statistics, word_statistics
from seq2seq_chat.prepare.subwords import tokenize_prepared
from seq2seq_chat.prepare.tokenizing import is_ready, keeps_texts
from seq2seq_chat.prepare.utterances import UTTERANCES_FILE
from seq2seq_chat.text.tokenizers import Tokenizer

_MAX_ROWS_PER_FILE = 1 << 44
_SIDES = ("source", "target")


class PairAssembly(Assembly):
    """Assembles pairs. In the table of utterances each is a conversation of two."""

    def run(self) -> dict[str, Any]:
        """See ``Assembly.run``."""
        settings = self._settings
        pairs = read_pairs(self._shard_table("rows"), self._file_table())
        if settings.drop_duplicates:
            pairs = self._engine.materialize(drop_duplicates(pairs), "distinct")
        read = self._result.total
        left_out = {
            "without_tokens": read.left_out.get(WITHOUT_TOKENS, 0),
            "duplicates": read.conversations - self._count(pairs) if settings.drop_duplicates else 0,
            "max_words": 0,
            "max_ratio": 0,
        }
        self._leave_out("duplicates", left_out["duplicates"])
        has_lengths = settings.max_words is not None or settings.max_ratio is not None
        tokenizers: Sequence[Tokenizer | None] = [None for _ in settings.text_sides]
        is_tokenized = all(map(is_ready, settings.tokenizers))
        if not is_tokenized:
            # Tokenizers are trained on a train that still has the pairs of unsuitable lengths.
            with_tokens = any(map(is_ready, settings.tokenizers))
            self._write_splits(pair_utterances(pairs, with_tokens=with_tokens))
            tokenizers = tokenize_prepared(settings, self._folder)
            if has_lengths:
                pairs = prepared_pairs(self._set_aside("unfiltered"), self._official is not None)
        if has_lengths:
            pairs = pairs.mutate(problem=length_problem(pairs, settings))
            counts = pairs.group_by("problem").agg(pairs=pairs.count())
            problems = {row["problem"]: row["pairs"] for row in fetch_rows(self._engine, counts)}
            left_out["max_words"], left_out["max_ratio"] = problems.get("max_words", 0), problems.get("max_ratio", 0)
            self._leave_out("more than --max-words", left_out["max_words"])
            self._leave_out("lengths that differ by more than --max-ratio", left_out["max_ratio"])
            pairs = pairs.filter(pairs.problem.isnull()).drop("problem")
        if has_lengths or is_tokenized:
            with_tokens = not is_tokenized or any(map(keeps_texts, settings.tokenizers))
            self._write_splits(pair_utterances(pairs, with_tokens=with_tokens))
        dropped = self._drop_leaked() if settings.drop_leaked else 0
        return self._statistics(tokenizers, left_out, dropped)

    def _statistics(
        self, tokenizers: Sequence[Tokenizer | None], left_out: dict[str, int], dropped: int
    ) -> dict[str, Any]:
        """Write the vocabularies and compute the statistics."""
        settings, engine = self._settings, self._engine
        prepared = engine.table(self._folder / UTTERANCES_FILE)
        tables = {side: prepared.filter(prepared.position == position) for position, side in enumerate(_SIDES)}
        counts = {
            side: engine.materialize(queries.word_counts(table), f"{side}_counts") for side, table in tables.items()
        }
        longest = {"source": settings.encoder_steps, "target": settings.decoder_steps - 1}
        rows: dict[str, dict[str, dict[str, int]]] = {}
        for text_side, tokenizer in zip(settings.text_sides, tokenizers, strict=True):
            joined = counts[text_side.sides[0]]
            for side in text_side.sides[1:]:
                joined = queries.sum_counts(joined.union(counts[side]), "split", "word")
            vocabulary = self._write_vocabulary(text_side, tokenizer, joined)
            for side in text_side.sides:
                words = word_statistics(engine, counts[side], vocabulary, self._folder)
                rows[side] = rows_by_split(engine, side_statistics(tables[side], longest[side]), words)
        splits: dict[str, Any] = {}
        for name, row in rows["source"].items():
            number = row.get("pairs", 0)
            splits[name] = {"pairs": number, **{side: text_statistics(rows[side][name], number) for side in _SIDES}}
        source, target = settings.tokenizers
        names = {"tokenizer": source.name, "target_tokenizer": target.name}
        samples = {name: split["pairs"] for name, split in splits.items()}
        return {**names, **splits, "left_out": left_out, **self._end(prepared, samples, dropped)}


def read_pairs(rows: ir.Table, files: ir.Table) -> ir.Table:
    """The pairs in the rows of the shards (PAIRS); ``files`` is the one of ``queries.conversations``."""
    joined = rows.join(files.select("file", split=files.split.nullif("")), "file")
    return joined.select(
        file_split=joined.split,
        key_1=joined.file.cast("int64"),
        key_2=joined.line,
        thread=queries.md5(ibis.coalesce(joined.tokens, joined.text)),
        source=joined.text,
        target=joined.target_text,
        source_tokens=ibis.coalesce(joined.tokens, joined.text),
        target_tokens=ibis.coalesce(joined.target_tokens, joined.target_text),
    )


def prepared_pairs(utterances: ir.Table, is_official: bool) -> ir.Table:
    """The pairs of a table of utterances with tokens."""
    sources = utterances.filter(utterances.position == 0)
    targets = utterances.filter(utterances.position == 1)
    targets = targets.select("conversation", target=targets.text, target_tokens=targets.tokens)
    joined = sources.join(targets, "conversation")
    return joined.select(
        file_split=joined.split if is_official else ibis.null("string"),
        key_1=joined.conversation,
        key_2=ibis.literal(0, "int64"),
        thread=joined.thread,
        source=joined.text,
        target=joined.target,
        source_tokens=joined.tokens,
        target_tokens=joined.target_tokens,
    )


def drop_duplicates(pairs: ir.Table) -> ir.Table:
    """The first of identical pairs, in the order of the corpus; of an official split, the first in each split."""
    numbered = pairs.mutate(ordinal=pairs.key_1 * _MAX_ROWS_PER_FILE + pairs.key_2)
    # The texts themselves would fill the memory. A text has no tab.
    hashed = numbered.select(
        "file_split", "ordinal", pair=queries.md5(pairs.source + ibis.literal("\t") + pairs.target)
    )
    first = hashed.group_by(["file_split", "pair"]).agg(ordinal=hashed.ordinal.min())
    return numbered.semi_join(first, "ordinal").drop("ordinal")


def length_problem(pairs: ir.Table, settings: PrepareSettings) -> ir.StringValue:
    """The setting that leaves a pair out because of its lengths in tokens, ``max_words`` or ``max_ratio``, or null."""
    source, target = (pairs[f"{side}_tokens"].split(" ").length() for side in _SIDES)
    longer, shorter = ibis.greatest(source, target), ibis.least(source, target)
    problem = ibis.null("string")
    if settings.max_ratio is not None:
        problem = (longer / shorter > ibis.literal(settings.max_ratio, "float64")).ifelse("max_ratio", problem)
    if settings.max_words is not None:
        problem = (longer > settings.max_words).ifelse("max_words", problem)
    return problem


def pair_utterances(pairs: ir.Table, *, with_tokens: bool) -> ir.Table:
    """The pairs as conversations of two utterances, for ``queries.assign_splits``."""
    turns = pairs.mutate(turn=ibis.array([0, 1]).unnest())
    is_source = turns.turn == 0
    tokens = {"tokens": is_source.ifelse(turns.source_tokens, turns.target_tokens)} if with_tokens else {}
    return turns.select(
        "file_split",
        "key_1",
        "key_2",
        "thread",
        turn=turns.turn.cast("int64"),
        text=is_source.ifelse(turns.source, turns.target),
        start=ibis.null("float64"),
        end=ibis.null("float64"),
        **tokens,
    )


def side_statistics(utterances: ir.Table, max_words: int) -> ir.Table:
    """For each ``split`` of the sources or of the targets: pairs, words, and texts of more than ``max_words``."""
    return utterances.group_by("split").agg(
        pairs=utterances.count(),
        words=utterances.words.sum().cast("int64"),
        too_long=(utterances.words > max_words).cast("int64").sum().cast("int64"),
    )
