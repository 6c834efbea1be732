"""Training step and search as commonly written with Keras layers and tensorflow_addons.seq2seq.

Both compute the same as ours, from the same weights, with these exceptions:

- ``tf.clip_by_global_norm`` takes the norm of a sparse gradient before repeated rows are summed, so a clipped gradient
  has a slightly different norm.
- ``tf.nn.sampled_softmax_loss`` removes a sampled target word from the negatives only once, even if it was sampled
  twice.
- The searches compute the softmax themselves. Padding and the start marker, which never occur in a reply, get a large
  negative bias, so the probabilities are normalized over the allowed words only; ours are normalized over all words.
  The difference vanishes for a trained model, which gives padding and start marker no probability. ``<unknown>`` is
  allowed, as in ours with ``allow_unknown``.
- Beam search continues until all hypotheses have ended; ours stops when the requested ones have.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from contenders.workload import Size, Workload

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the addons warn that their development has ended
    import tensorflow_addons as tfa

PAD, GO, EOS = 0, 1, 2
NEG_INF = -1e9  # a logit that exp() turns into zero
MAX_NORM = 10.0


class Network(tf.Module):
    """Embeddings, LSTM encoder, LSTM decoder with additive attention and input feeding, projection."""

    def __init__(self, weights: Mapping[str, np.ndarray], size: Size) -> None:
        super().__init__()
        layers = tf.keras.layers
        self.source_embedding = layers.Embedding(size.vocabulary, size.embedding)
        self.target_embedding = layers.Embedding(size.vocabulary, size.embedding)
        self.encoder = layers.LSTM(size.hidden, return_sequences=True, return_state=True)
        self.inner_cell = layers.LSTMCell(size.hidden)
        self.attention = tfa.seq2seq.BahdanauAttention(size.hidden)
        self.combine = layers.Dense(size.hidden, activation="tanh", use_bias=False)
        self.cell = tfa.seq2seq.AttentionWrapper(self.inner_cell, self.attention, attention_layer=self.combine)
        self.projection = layers.Dense(size.projection, use_bias=False)
        self._build(size)
        self._load(weights)

    def start(self, source: tf.Tensor, lengths: tf.Tensor, width: int = 1) -> Any:
        """The decoder's state before the first word, for ``width`` hypotheses of each source: [batch · width, …].

        source: ids [batch, source steps], lengths: [batch].
        """
        mask = tf.sequence_mask(lengths, tf.shape(source)[1])
        outputs, *state = self.encoder(self.source_embedding(source), mask=mask)
        if width > 1:
            outputs, state, lengths = tfa.seq2seq.tile_batch((outputs, state, lengths), multiplier=width)
        self.attention.setup_memory(outputs, memory_sequence_length=lengths)
        zeros = self.cell.get_initial_state(batch_size=tf.shape(lengths)[0], dtype=tf.float32)
        return zeros.clone(cell_state=state)

    def _build(self, size: Size) -> None:
        """Create the variables by computing one step."""
        ids = tf.fill([1, size.steps], GO)
        state = self.start(ids, tf.constant([size.steps]))
        output, _ = self.cell(self.target_embedding(ids[:, 0]), state)
        self.projection(output)

    def _load(self, weights: Mapping[str, np.ndarray]) -> None:
        """Copy our weights: gates in the order i, f, o, g; W_c for [context; output]; h̃ fed beside h."""

        def weight(name: str) -> np.ndarray:
            return np.asarray(weights[f"{name}:0"])

        def gates(name: str) -> np.ndarray:
            i, f, o, g = np.split(weight(name), 4, axis=-1)
            return np.concatenate([i, f, g, o], axis=-1)

        self.source_embedding.set_weights([weight("embedding/source")])
        self.target_embedding.set_weights([weight("embedding/target")])
        self.encoder.set_weights([gates(f"encoder/layer0/{name}") for name in ("input", "recurrent", "bias")])
        fed, recurrent = np.split(gates("decoder/layer0/recurrent"), 2)
        inputs = np.concatenate([gates("decoder/layer0/input"), fed])
        self.inner_cell.set_weights([inputs, recurrent, gates("decoder/layer0/bias")])
        self.attention.memory_layer.set_weights([weight("decoder/attention/key")])
        self.attention.query_layer.set_weights([weight("decoder/attention/query")])
        self.attention.attention_v.assign(weight("decoder/attention/score"))
        self.combine.set_weights(
            [np.concatenate([weight(f"decoder/combine/{name}") for name in ("output", "context")])]
        )
        self.projection.set_weights([weight("output/projection")])


class TrainingStep(tf.Module):
    """Loss, gradients, clipping and update on a batch.

    Args:
        workload: Initial weights, batches and sampled words.
        precision: Must be "float32".
    """

    def __init__(self, workload: Workload, precision: str = "float32") -> None:
        super().__init__()
        if precision != "float32":
            raise ValueError(f"no such precision: {precision}")
        self._workload = workload
        self._network = Network(workload.weights, workload.size)
        self._words = tf.Variable(workload.weights["output/words:0"])
        self._bias = tf.Variable(workload.weights["output/bias:0"])
        self._decoder = tfa.seq2seq.BasicDecoder(
            self._network.cell, tfa.seq2seq.TrainingSampler(), self._network.projection
        )
        self._optimizer = tf.keras.optimizers.legacy.Adagrad(0.01, initial_accumulator_value=0.1)
        self._counts = tf.constant(workload.expected_counts)
        self._graph = tf.function(self._train)

    def step(self, number: int) -> float:
        """Train on a batch; the loss before the update, in nats per target token."""
        batches = (self._workload.source, self._workload.target, self._workload.sampled_words)
        return float(self._graph(*(tf.constant(batch[number]) for batch in batches)))

    def _train(self, source: tf.Tensor, target: tf.Tensor, sampled: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = self._loss(source, target, sampled)
        variables = self.trainable_variables
        gradients, _ = tf.clip_by_global_norm(tape.gradient(loss, variables), MAX_NORM)
        self._optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    def _loss(self, source: tf.Tensor, target: tf.Tensor, sampled: tf.Tensor) -> tf.Tensor:
        """source: ids [batch, source steps], target: ids [batch, target steps], sampled: [sampled] → scalar."""
        size, network = self._workload.size, self._network
        previous_words = tf.concat([tf.fill([tf.shape(target)[0], 1], GO), target[:, :-1]], axis=1)
        outputs, _, _ = self._decoder(
            network.target_embedding(previous_words),
            initial_state=network.start(source, lengths_of(source)),
            sequence_length=lengths_of(target),
        )
        labels = tf.cast(tf.reshape(target, [-1, 1]), tf.int64)
        nats = tf.nn.sampled_softmax_loss(
            weights=self._words,
            biases=self._bias,
            labels=labels,
            inputs=tf.reshape(outputs.rnn_output, [-1, size.projection]),
            num_sampled=size.sampled,
            num_classes=size.vocabulary,
            sampled_values=(sampled, tf.gather(self._counts, labels), tf.gather(self._counts, sampled)),
        )
        return tf.reduce_mean(nats)


def lengths_of(ids: tf.Tensor) -> tf.Tensor:
    """The length of each row, without padding. ids: [batch, steps] → int32 [batch]."""
    return tf.reduce_sum(tf.cast(ids != PAD, tf.int32), axis=1)


class Search:
    """Greedy search and beam search; each is compiled once per width.

    Args:
        workload: Weights and sources; ``size.steps`` is the maximum length of utterances and replies.
    """

    def __init__(self, workload: Workload) -> None:
        weights, size = workload.weights, workload.size
        self._workload, self._network = workload, Network(weights, size)
        words = tf.keras.layers.Dense(size.vocabulary)
        words.build([None, size.projection])
        bias = np.array(weights["output/bias:0"])
        bias[[PAD, GO]] = NEG_INF
        words.set_weights([np.transpose(weights["output/words:0"]), bias])
        self._logits = tf.keras.Sequential([self._network.projection, words])
        self._limits = {"maximum_iterations": size.steps, "parallel_iterations": 1}
        self._searches: dict[int | None, Any] = {}

    def search(self, first: int, count: int, width: int) -> list[float]:
        """Reply to sources of the workload; the scores of the best replies. Width 1 is greedy search."""
        _, scores = self.replies(*self._workload.sources(first, count), None if width == 1 else width)
        return [float(score) for score in scores[:, 0]]

    def replies(self, source: np.ndarray, lengths: np.ndarray, width: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Reply to utterances, best reply first.

        Args:
            source: [batch, source steps] Ids, int32.
            lengths: [batch] int32.
            width: Number of hypotheses and replies of a beam search; None for greedy search.

        Returns:
            Words, int32 [batch, n, steps], with the end marker and then padding, and log-probabilities in nats,
            float32 [batch, n].
        """
        if width not in self._searches:
            search = functools.partial(self._search_beam, width=width) if width else self._search_greedily
            steps = self._workload.size.steps
            signature = [tf.TensorSpec([None, steps], tf.int32), tf.TensorSpec([None], tf.int32)]
            self._searches[width] = tf.function(search, input_signature=signature)
        words, scores = self._searches[width](source, lengths)
        return words.numpy(), scores.numpy()

    def _search_greedily(self, source: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        decoder = tfa.seq2seq.BasicDecoder(
            self._network.cell,
            tfa.seq2seq.GreedyEmbeddingSampler(self._network.target_embedding),
            self._logits,
            **self._limits,
        )
        outputs, _, reply_lengths = decoder(
            None,
            start_tokens=tf.fill([tf.shape(source)[0]], GO),
            end_token=EOS,
            initial_state=self._network.start(source, lengths),
        )
        nats = tf.nn.sparse_softmax_cross_entropy_with_logits(outputs.sample_id, outputs.rnn_output)
        mask = tf.sequence_mask(reply_lengths, tf.shape(nats)[1])
        scores = -tf.reduce_sum(tf.where(mask, nats, 0.0), axis=1)
        return self._padded(outputs.sample_id[:, tf.newaxis]), scores[:, tf.newaxis]

    def _search_beam(self, source: tf.Tensor, lengths: tf.Tensor, width: int) -> tuple[tf.Tensor, tf.Tensor]:
        decoder = tfa.seq2seq.BeamSearchDecoder(
            self._network.cell,
            width,
            embedding_fn=self._network.target_embedding,
            output_layer=self._logits,
            length_penalty_weight=0.0,
            **self._limits,
        )
        outputs, state, _ = decoder(
            None,
            start_tokens=tf.fill([tf.shape(source)[0]], GO),
            end_token=EOS,
            initial_state=self._network.start(source, lengths, width),
        )
        return self._padded(tf.transpose(outputs.predicted_ids, [0, 2, 1])), state.log_probs

    def _padded(self, words: tf.Tensor) -> tf.Tensor:
        """Put padding after the end markers. words: [batch, n, steps of the longest] → [batch, n, steps]."""
        after = tf.cumsum(tf.cast(words == EOS, tf.int32), axis=2, exclusive=True) > 0
        missing = self._workload.size.steps - tf.shape(words)[2]
        return tf.pad(tf.where(after, PAD, words), [[0, 0], [0, 0], [0, missing]], constant_values=PAD)
