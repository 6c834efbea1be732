"""Leakage: samples of validation and test that occur verbatim in train, and how to drop them from train.

Texts are compared token by token. The tables of utterances have the columns of ``utterances.PREPARED``; the tables of
samples have ``split``, ``conversation``, ``position`` (of the source), ``source`` and ``target``.
"""

from __future__ import annotations

import ibis
import ibis.expr.types as ir

from seq2seq_chat.data.samples import Pairing
from seq2seq_chat.prepare.queries import token_column
from seq2seq_chat.prepare.split import SPLITS

TRAIN = SPLITS[0]


def leaked_samples(utterances: ir.Table, pairing: Pairing) -> ir.Table:
    """The samples of train that occur in validation or test."""
    held_out = utterances.filter(utterances.split != TRAIN)
    train = utterances.filter(utterances.split == TRAIN)
    # Few texts of train occur in the others: pairing only these saves most of the work.
    train = train.semi_join(held_out, token_column(utterances))
    return _samples(train, pairing).semi_join(_samples(held_out, pairing), ["source", "target"])


def drop_samples(utterances: ir.Table, samples: ir.Table, pairing: Pairing) -> ir.Table:
    """The utterances without the given samples, with the columns that ``queries.corpus_order`` takes.

    With sliding pairs the conversation is cut between source and target, so that all text is left. With alternating
    pairs both are removed, and the conversation is cut there.
    """
    step = 1 if pairing == "sliding" else 2
    if pairing == "alternating":
        removed = samples.select("conversation", pair=samples.position // 2)
        utterances = utterances.mutate(pair=utterances.position // 2)
        utterances = utterances.anti_join(removed, ["conversation", "pair"]).drop("pair")
    cuts = samples.select("conversation", position=samples.position + step, is_cut=True)
    marked = utterances.left_join(cuts, ["conversation", "position"])
    marked = marked.mutate(
        key_1=marked.conversation,
        key_2=ibis.literal(0, "int64"),
        turn=marked.position,
        cut=marked.is_cut.notnull().cast("int8"),
    )
    return marked.select(*(name for name in utterances.columns if name not in _NUMBERS), *_KEYS)


_NUMBERS = ("conversation", "position", "words")  # assigned when the utterances are written
_KEYS = ("key_1", "key_2", "turn", "cut")


def leakage_counts(utterances: ir.Table, leaked: ir.Table, pairing: Pairing) -> ir.Table:
    """For each split but train: samples that occur in train (``samples``), and targets that occur there as targets.

    Args:
        leaked: ``leaked_samples`` of the utterances.
    """
    held_out = _samples(utterances.filter(utterances.split != TRAIN), pairing)
    train = utterances.filter(utterances.split == TRAIN)
    is_target = train.position > 0 if pairing == "sliding" else train.position % 2 == 1
    targets = train.filter(is_target).select(target=train[token_column(train)]).semi_join(held_out, "target").distinct()
    counted = [
        held_out.semi_join(leaked, ["source", "target"]).select("split", samples=1, targets=0),
        held_out.semi_join(targets, "target").select("split", samples=0, targets=1),
    ]
    both = counted[0].union(counted[1])
    return both.group_by("split").agg(
        samples=both.samples.sum().cast("int64"), targets=both.targets.sum().cast("int64")
    )


def _samples(utterances: ir.Table, pairing: Pairing) -> ir.Table:
    """The samples whose source and target are both among the utterances."""
    # A join, unlike a window, need not hold a conversation in memory; without silences, a corpus is a single one.
    tokens = utterances[token_column(utterances)]
    sources = utterances.select("split", "conversation", "position", source=tokens)
    if pairing == "alternating":
        sources = sources.filter(sources.position % 2 == 0)
    targets = utterances.select("conversation", position=utterances.position - 1, target=tokens)
    return sources.join(targets, ["conversation", "position"])
