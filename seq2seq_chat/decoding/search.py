"""What greedy, sampling and beam search share: hypotheses, operations on a step's output, and the loop over words.

A hypothesis that has ended needs no further word, and an utterance whose best hypotheses are known needs no further
search. The model computes only the active hypotheses; as replies differ in length, that is about half of the work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from seq2seq_chat.search.engine import NEG_INF, Hypotheses
from seq2seq_chat.text.vocabulary import GO, PAD


class ModelOutput(NamedTuple):
    """The model's output for the next word of every row: log p(word) = logit - normalizer.

    The difference is not computed for the entire vocabulary because a search needs only the most probable words.
    """

    logits: tf.Tensor  # [rows, vocabulary]
    normalizer: tf.Tensor  # log Σ exp of all logits: [rows]
    state: Any  # input of the next step: nested tensors [rows, …]
    attention: tf.Tensor  # [rows, source steps]; source steps may be 0
    forbidden: Sequence[Any] = ()  # ids of words that are masked whatever their logits: numbers or scalar tensors


StepFunction = Callable[[tf.Tensor, Any, Any], ModelOutput]
"""(words: int32 [rows], state: nested tensors [rows, …], memory: nested tensors [rows, …]) → :class:`ModelOutput`."""


GraphLogitRule = Callable[[ModelOutput, tf.Tensor, tf.Tensor], ModelOutput]
"""(the model's output, words so far: int32 [rows, steps], their number: scalar) → the output the search sees."""


class PartialHypotheses(NamedTuple):
    """Hypotheses during a search.

    When a beam is reordered, only row numbers move with the words; the much larger attention stays where it is.
    """

    hypotheses: Hypotheses  # whose attention is, for each word, a row of the history: int32 [batch, n, steps]
    attention_history: tf.Tensor  # of every hypothesis at every step: [steps, batch · n, source steps]

    def history_with(self, attention: tf.Tensor, rows: tf.Tensor, t: tf.Tensor) -> tf.Tensor:
        """The history after step t. attention: of the hypotheses in ``rows``, [active, source steps]."""
        if attention.shape[1] == 0:
            return self.attention_history
        positions = tf.stack([tf.zeros_like(rows) + t, rows], axis=1)
        return tf.tensor_scatter_nd_update(self.attention_history, positions, attention)

    def completed(self, hypotheses: Hypotheses, source_steps: int) -> Hypotheses:
        """Hypotheses of this search, such as the best ones, with their attention: [batch, n, steps, source steps]."""
        steps, rows, width = tf.unstack(tf.shape(self.attention_history))
        positions = tf.range(steps) * rows + hypotheses.attention
        attention = tf.gather(tf.reshape(self.attention_history, [steps * rows, width]), positions)
        is_word = tf.sequence_mask(hypotheses.lengths, steps)[..., tf.newaxis]
        padded = tf.pad(tf.where(is_word, attention, 0.0), [[0, 0], [0, 0], [0, 0], [0, source_steps - width]])
        return hypotheses._replace(attention=tf.ensure_shape(padded, [None, None, None, source_steps]))


def reorder_state(state: Any, order: tf.Tensor) -> Any:
    """Reorder nested tensors: rows of [rows, …] if order is [n], hypotheses of [batch, width, …] if [batch, n]."""
    return tf.nest.map_structure(lambda part: tf.gather(part, order, batch_dims=order.shape.rank - 1), state)


def repeat_rows(tensors: Any, count: int | tf.Tensor) -> Any:
    """Nested tensors [rows, …] → [rows · count, …], each row repeated."""
    if isinstance(count, int) and count == 1:
        return tensors
    return tf.nest.map_structure(lambda part: tf.repeat(part, count, axis=0), tensors)


def length_divisor(words: tf.Tensor, penalty: float | tf.Tensor) -> tf.Tensor:
    """((5 + words) / 6)^penalty: scores are divided by it so that long hypotheses can compete. Any shape.

    Source: Wu et al. 2016, equation 14. The end marker does not count as a word.
    """
    return ((5.0 + tf.cast(words, tf.float32)) / 6.0) ** penalty


def is_duplicate(words: tf.Tensor) -> tf.Tensor:
    """Whether each hypothesis repeats an earlier one. words: int32 [batch, n, steps] → bool [batch, n]."""
    n = words.shape[1]
    equal = tf.reduce_all(words[:, :, tf.newaxis] == words[:, tf.newaxis], axis=3)
    earlier = tf.linalg.band_part(tf.ones([n, n], tf.bool), -1, 0) & ~tf.eye(n, dtype=tf.bool)
    return tf.reduce_any(equal & earlier, axis=2)


def top_k_words(step_output: ModelOutput, count: int) -> tuple[tf.Tensor, tf.Tensor]:
    """The ``count`` most probable next words of every row, best first; equally probable ones are sorted by id.

    Returns:
        log-probabilities: [rows, n], -inf for forbidden words, and ids: int32 [rows, n], where n is ``count`` or, if
        that is smaller, the size of the vocabulary.
    """
    vocabulary = step_output.logits.shape[-1]
    logits, words = _fast_top_k(step_output.logits, min(count + len(step_output.forbidden), vocabulary))
    if step_output.forbidden:  # cheaper than masking all logits
        forbidden = tf.reduce_any(words[:, :, tf.newaxis] == tf.stack(step_output.forbidden), axis=2)
        logits = tf.where(forbidden, NEG_INF, logits)
    values, positions = tf.math.top_k(logits, min(count, vocabulary))
    return values - step_output.normalizer[:, tf.newaxis], tf.gather(words, positions, batch_dims=1)


def allowed_logits(step_output: ModelOutput) -> tf.Tensor:
    """The logits, -inf for forbidden words: [rows, vocabulary]."""
    if not step_output.forbidden:
        return step_output.logits
    forbidden = tf.reduce_any(
        tf.range(step_output.logits.shape[-1])[:, tf.newaxis] == tf.stack(step_output.forbidden), axis=1
    )
    return tf.where(forbidden, NEG_INF, step_output.logits)


def log_normalizer(logits: tf.Tensor) -> tf.Tensor:
    """log Σ exp of every row: [rows, vocabulary] → [rows].

    Computed from the most probable word, log Σ exp = logit - log p: softmax is one fast kernel, reduce_logsumexp takes
    four passes, and the largest probability is never too small for its logarithm.
    """
    return tf.reduce_max(logits, axis=1) - tf.math.log(tf.reduce_max(tf.nn.softmax(logits), axis=1))


def _fast_top_k(inputs: tf.Tensor, count: int) -> tuple[tf.Tensor, tf.Tensor]:
    """``tf.math.top_k`` of [rows, n], faster for small ``count``.

    The largest values lie in the ``count`` blocks with the largest maxima. Finding these blocks takes one pass over the
    values; then only they are searched.
    """
    size = inputs.shape[-1]
    block = _block_size(size)
    if size < 4 * count * block:
        return tf.math.top_k(inputs, count)
    if size % block:
        inputs = tf.pad(inputs, [[0, 0], [0, -size % block]], constant_values=NEG_INF)
    blocks = tf.reshape(inputs, [-1, inputs.shape[-1] // block, block])
    best_blocks = tf.math.top_k(tf.reduce_max(blocks, axis=2), count).indices
    best_blocks = tf.sort(best_blocks)  # equal values keep their order
    ids = tf.reshape(best_blocks[:, :, tf.newaxis] * block + tf.range(block), [-1, count * block])
    candidates = tf.reshape(tf.gather(blocks, best_blocks, batch_dims=1), [-1, count * block])
    values, positions = tf.math.top_k(candidates, count)
    return values, tf.gather(ids, positions, batch_dims=1)


def _block_size(size: int) -> int:
    """A divisor of a vocabulary's size; if there is none of a suitable size, one that requires little padding."""
    divisors = [block for block in range(32, 129) if size % block == 0]
    return min(divisors, key=lambda block: abs(block - 64), default=32)


class SearchInputs(NamedTuple):
    """A model, its state before the first word of each utterance, and the limits of a search."""

    step: StepFunction
    state: Any  # the model's state: nested tensors [batch, …]
    memory: Any  # what the model attends to: nested tensors [batch, …]
    steps: int  # maximum length of a reply, including the end marker
    source_steps: int  # width of the attention, which may be 0
    logit_rules: Sequence[GraphLogitRule] = ()  # constraints on the next word
    attended_steps: int | tf.Tensor | None = None  # width of the attention of a step, if the rest is padding

    @property
    def batch(self) -> tf.Tensor:
        """The number of utterances."""
        return tf.shape(tf.nest.flatten(self.state)[0])[0]

    def no_words(self, scores: tf.Tensor) -> PartialHypotheses:
        """Hypotheses before their first word. scores: [batch, n]; -inf for one that does not exist."""
        zeros, rows, steps = tf.zeros_like(scores, tf.int32), tf.size(scores), self.steps
        rows_of_words = tf.reshape(tf.range(rows), tf.shape(scores))[:, :, tf.newaxis] + tf.zeros(steps, tf.int32)
        hypotheses = Hypotheses(
            words=zeros[:, :, tf.newaxis] + tf.fill([steps], PAD),
            lengths=zeros,
            scores=scores,
            ended=scores == NEG_INF,
            attention=rows_of_words,
            ranks=scores,
        )
        width = self.source_steps if self.attended_steps is None else self.attended_steps
        return PartialHypotheses(hypotheses, tf.zeros([steps, rows, width]))


class ActiveHypotheses(NamedTuple):
    """Rows among [batch · width], the hypotheses of an utterance side by side, and the model's tensors for them."""

    rows: tf.Tensor  # int32 [active], ascending
    state: Any  # the model's state: nested tensors [active, …]
    memory: Any  # what the model attends to: nested tensors [active, …]


Extend = Callable[[tf.Tensor, PartialHypotheses, ActiveHypotheses], tuple[PartialHypotheses, ActiveHypotheses]]
"""(t, all hypotheses, the active ones) → both after one more word."""


def search_loop(
    extend: Extend, hypotheses: PartialHypotheses, active: ActiveHypotheses, steps: int
) -> PartialHypotheses:
    """Extend hypotheses word by word until none is active, but not beyond ``steps`` words."""

    def running(t: tf.Tensor, hypotheses: PartialHypotheses, active: ActiveHypotheses) -> tf.Tensor:
        return (t < steps) & (tf.size(active.rows) > 0)

    def body(t: tf.Tensor, hypotheses: PartialHypotheses, active: ActiveHypotheses) -> tuple[Any, ...]:
        return t + 1, *extend(t, hypotheses, active)

    start = (0, hypotheses, active)
    invariants = tf.nest.map_structure(lambda part: tf.TensorShape([None, *part.shape[1:]]), start[1:])
    _, hypotheses, _ = tf.while_loop(running, body, start, shape_invariants=(tf.TensorShape([]), *invariants))
    return hypotheses


def first_active(inputs: SearchInputs, width: int, groups: int = 1) -> ActiveHypotheses:
    """The hypotheses before the first word: one for each group of each utterance."""
    rows = tf.range(inputs.batch * groups) * (width // groups)
    return ActiveHypotheses(rows, repeat_rows(inputs.state, groups), repeat_rows(inputs.memory, groups))


def next_active(
    active: ActiveHypotheses, state: Any, running: tf.Tensor, parents: tf.Tensor, memory: Any, width: int
) -> ActiveHypotheses:
    """The hypotheses of the next step, with the state of their parents.

    Args:
        state: Their next state.
        running: The hypotheses that need another word, bool [batch · width].
        parents: The hypothesis that each one continues, int32 [batch · width]; active for a running one.
        memory: Nested tensors [batch, …].
        width: Hypotheses of each utterance.
    """
    rows = tf.cast(tf.where(running)[:, 0], tf.int32)
    positions = tf.scatter_nd(active.rows[:, tf.newaxis], tf.range(tf.size(active.rows)), tf.shape(running))
    state = reorder_state(state, tf.gather(positions, tf.gather(parents, rows)))
    if not tf.nest.flatten(memory):
        return ActiveHypotheses(rows, state, memory)
    # The hypotheses of an utterance share its memory: while each utterance has as many as before, it is unchanged.
    before, after = (  # bincount's GPU kernel refuses to run deterministically
        tf.math.unsorted_segment_sum(tf.ones_like(part), part // width, tf.size(running))
        for part in (active.rows, rows)
    )
    unchanged = tf.reduce_all(before == after)
    memory_after = tf.cond(unchanged, lambda: active.memory, lambda: reorder_state(memory, rows // width))
    return ActiveHypotheses(rows, state, memory_after)


def step_active(inputs: SearchInputs, active: ActiveHypotheses, words: tf.Tensor, t: tf.Tensor) -> ModelOutput:
    """The model's output for the active hypotheses under the logit rules.

    Args:
        words: The words of all hypotheses, int32 [batch · width, steps].
        t: Number of words so far.
    """
    words = tf.gather(words, active.rows)
    previous = tf.where(t == 0, GO, tf.gather(words, tf.maximum(t - 1, 0), axis=1))
    output = inputs.step(previous, active.state, active.memory)
    for rule in inputs.logit_rules:
        output = rule(output, words, t)
    return output


def scatter_rows(active: ActiveHypotheses, values: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """The values of active hypotheses, and zero for the others. values: [active, …] → [rows, …]."""
    shape = tf.concat([[rows], tf.shape(values)[1:]], axis=0)
    return tf.ensure_shape(tf.scatter_nd(active.rows[:, tf.newaxis], values, shape), [None, *values.shape[1:]])
