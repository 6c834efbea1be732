"""The queries that prepare pairs of texts.

A table of pairs has a row for each pair: ``file_split`` if known, the keys that ``queries.corpus_order`` takes
(``key_1`` and ``key_2``), ``thread``, which is equal for equal sources, ``source`` and ``target``, and their tokens,
separated by single spaces: ``source_tokens`` and ``target_tokens``, the texts themselves if the tokenizer is not ready.
In a table of utterances a pair is a conversation of two: position 0 is the source, 1 the target.
"""

from __future__ import annotations

import ibis
import ibis.expr.types as ir

from seq2seq_chat.prepare.queries import md5
from seq2seq_chat.prepare.settings import PairFilters

_MAX_ROWS_PER_FILE = 1 << 44
SIDES = ("source", "target")


def pairs(rows: ir.Table, files: ir.Table) -> ir.Table:
    """The pairs in the rows of the shards (PAIRS); ``files`` is the one of ``queries.conversations``."""
    joined = rows.join(files.select("file", split=files.split.nullif("")), "file")
    return joined.select(
        file_split=joined.split,
        key_1=joined.file.cast("int64"),
        key_2=joined.line,
        thread=md5(ibis.coalesce(joined.tokens, joined.text)),
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
    hashed = numbered.select("file_split", "ordinal", pair=md5(pairs.source + ibis.literal("\t") + pairs.target))
    first = hashed.group_by(["file_split", "pair"]).agg(ordinal=hashed.ordinal.min())
    return numbered.semi_join(first, "ordinal").drop("ordinal")


def length_problem(pairs: ir.Table, filters: PairFilters) -> ir.StringValue:
    """The filter that leaves a pair out because of its lengths in tokens, ``max_words`` or ``max_ratio``, or null."""
    source, target = (pairs[f"{side}_tokens"].split(" ").length() for side in SIDES)
    longer, shorter = ibis.greatest(source, target), ibis.least(source, target)
    problem = ibis.null("string")
    if filters.max_ratio is not None:
        problem = (longer / shorter > ibis.literal(filters.max_ratio, "float64")).ifelse("max_ratio", problem)
    if filters.max_words is not None:
        problem = (longer > filters.max_words).ifelse("max_words", problem)
    return problem


def utterances(pairs: ir.Table, *, with_tokens: bool) -> ir.Table:
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


def side_statistics(utterances: ir.Table, encoder_steps: int, decoder_steps: int) -> ir.Table:
    """For each ``split`` and ``position``: pairs, words, and texts that are too long for the steps."""
    is_source = utterances.position == 0
    too_long = is_source.ifelse(utterances.words > encoder_steps, utterances.words + 1 > decoder_steps)
    return utterances.group_by(["split", "position"]).agg(
        pairs=utterances.count(),
        words=utterances.words.sum().cast("int64"),
        too_long=too_long.cast("int64").sum().cast("int64"),
    )
