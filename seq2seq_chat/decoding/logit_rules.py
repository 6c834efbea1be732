"""What must not be said next, or less readily: changes to the model's logits before a search looks at them.

A word that must not come gets a logit of -inf and keeps its share of the probability: a hypothesis scores what the
model gives to its words, whatever else was forbidden.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from seq2seq_chat.config import Decoding
from seq2seq_chat.corpus.vocabulary import EOS, GO, PAD, UNKNOWN
from seq2seq_chat.decoding.hypotheses import Step, log_normalizer

NEVER = -float("inf")

Restriction = Callable[[Step, tf.Tensor, tf.Tensor], Step]
"""(what the model says, words so far: int32 [rows, steps], how many: scalar) → what the search is told."""


def restrictions(decoding: Decoding) -> list[Restriction]:
    """Those that the settings ask for, in the order in which they work."""
    # padding and the start marker are never words of a reply
    wanted: list[Restriction] = [forbid([PAD, GO] if decoding.allow_unknown else [PAD, GO, UNKNOWN])]
    if decoding.repetition_penalty != 1:
        wanted.insert(0, penalize_repetition(decoding.repetition_penalty))
    if decoding.minimum_length:
        wanted.append(minimum_length(decoding.minimum_length))
    if decoding.no_repeated_ngrams:
        wanted.append(no_repeated_ngrams(decoding.no_repeated_ngrams))
    return wanted


def restrict(said: Step, wanted: Sequence[Restriction], words: tf.Tensor, t: tf.Tensor) -> Step:
    """All restrictions, one after another. words: those so far, int32 [rows, steps], t: how many."""
    for restriction in wanted:
        said = restriction(said, words, t)
    return said


def forbid(ids: Sequence[int]) -> Restriction:
    """These words never come."""

    def restriction(said: Step, words: tf.Tensor, t: tf.Tensor) -> Step:
        return said._replace(forbidden=(*said.forbidden, *ids))

    return restriction


def minimum_length(least: int) -> Restriction:
    """A reply does not end before it has ``least`` words, the end marker not counted."""

    def restriction(said: Step, words: tf.Tensor, t: tf.Tensor) -> Step:
        end = tf.one_hot(EOS, said.logits.shape[-1], on_value=NEVER, off_value=0.0)
        return said._replace(logits=tf.where(t < least, said.logits + end, said.logits))

    return restriction


def no_repeated_ngrams(n: int) -> Restriction:
    """No n words come twice in the same order (Paulus et al. 2018, section 2.5). The end marker is never barred."""

    def restriction(said: Step, words: tf.Tensor, t: tf.Tensor) -> Step:
        steps = words.shape[1]
        if steps < n:
            return said
        starts = steps - n + 1
        # where do the n - 1 last words stand already? What followed there must not follow here.
        same = tf.ones([tf.shape(words)[0], starts], tf.bool) & (tf.range(starts) + n - 1 < t)
        for k in range(n - 1):
            last = tf.gather(words, tf.maximum(t - (n - 1) + k, 0), axis=1)
            same &= words[:, k : k + starts] == last[:, tf.newaxis]
        same &= t >= n - 1
        following = words[:, n - 1 :]
        rows = tf.where(same)
        barred = tf.stack([tf.cast(rows[:, 0], tf.int32), tf.gather_nd(following, rows)], axis=1)
        barred = tf.boolean_mask(barred, barred[:, 1] != EOS)
        never = tf.fill([tf.shape(barred)[0]], NEVER)
        return said._replace(logits=tf.tensor_scatter_nd_min(said.logits, barred, never))

    return restriction


def penalize_repetition(penalty: float) -> Restriction:
    """Words said before become less probable: positive logits are divided by the penalty, negative ones multiplied.

    Source: Keskin et al. 2019, section 4.1, with the usual repair for negative logits. Here the probabilities
    themselves change, and so do the scores.
    """

    def restriction(said: Step, words: tf.Tensor, t: tf.Tensor) -> Step:
        rows = tf.shape(words)[0]
        places = tf.stack([tf.repeat(tf.range(rows), words.shape[1]), tf.reshape(words, [-1])], axis=1)
        before = tf.boolean_mask(places, (places[:, 1] != PAD) & (places[:, 1] != EOS))
        logits = tf.gather_nd(said.logits, before)
        logits = tf.where(logits > 0, logits / penalty, logits * penalty)
        changed = tf.tensor_scatter_nd_update(said.logits, before, logits)
        return said._replace(logits=changed, normalizer=log_normalizer(changed))

    return restriction
