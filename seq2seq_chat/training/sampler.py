"""The training corpus, and the batches of each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from seq2seq_chat.config import Config
from seq2seq_chat.data.batches import Batches, Bucket, SourceNoise, configured_buckets
from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.data.dataset import Batch, Dataset
from seq2seq_chat.model.execution import call_with_arrays
from seq2seq_chat.text.codec import Codecs


def open_training_corpus(config: Config, codecs: Codecs, on_progress: Callable[[str], object]) -> Dataset:
    """Open the training corpus, without the samples longer than ``data.max_length``.

    Args:
        on_progress: called with a sentence about the samples that were left out, if there are any.

    Raises:
        CorpusError: the corpus cannot be read or has no samples, or none that is short enough.
        UserError: no folder can hold the encoded corpus.
    """
    corpus = Dataset.open(config.data.train, codecs, config.data)
    maximum = config.data.max_length
    if maximum is None:
        return corpus
    kept = corpus.up_to_length(maximum)
    if not len(kept):
        raise CorpusError(
            f"{config.data.train} has no samples left: all {len(corpus):,} have a source or target of more than "
            f"data.max_length, {maximum} tokens; raise it."
        )
    dropped = len(corpus) - len(kept)
    if dropped:
        share = 100 * dropped / len(corpus)
        on_progress(
            f"left out {dropped:,} of {len(corpus):,} training samples ({share:.1f} %) of more than {maximum} tokens"
        )
    return kept


STEPS_AT_ONCE = 64  # whose batches are computed together, because a call of TensorFlow takes longer than one batch
ROUNDS, FIRST_KEY = 4, 498247692  # of tf.random.experimental.index_shuffle, which accepts only one seed

BucketPositions = tuple[int, np.ndarray]
"""The bucket of a step, counted from 0, and the positions of its samples there: int64 [≤ batch size]."""


class BatchSampler:
    """Shuffles the samples so that every epoch sees each of them once, in a different order.

    All samples of a batch come from one bucket. Batches of all buckets are shuffled together; the last batch of a
    bucket may be smaller. Both shuffles are stateless shuffles of indices, so a position in the data is just a step
    number, and needs no memory however large the corpus is.

    Args:
        sizes: number of samples in each bucket.
        batch_size: maximum number of samples in a batch.
        seed: the experiment's seed.
        start_step: the step at which this order starts.

    Raises:
        ValueError: all buckets are empty.
    """

    def __init__(self, sizes: Sequence[int], batch_size: int, seed: int, start_step: int = 0) -> None:
        self.start_step = start_step
        self._sizes, self._batch_size, self._seed = np.array(sizes), batch_size, seed
        batches = -(-self._sizes // batch_size)
        self._ends = np.cumsum(batches)
        self._starts = self._ends - batches
        self.steps_per_epoch = int(self._ends[-1])
        if not self.steps_per_epoch:
            raise ValueError("there are no samples to shuffle")
        self._computed: tuple[int, list[BucketPositions]] = (0, [])  # first of some consecutive steps, their batches

    def batch(self, step: int) -> BucketPositions:
        """The bucket and the positions of a step."""
        first, batches = self._computed
        if not first <= step < first + len(batches):
            first, batches = self._computed = step, self._batches(step)
        return batches[step - first]

    def _batches(self, first_step: int) -> list[BucketPositions]:
        """The batches of ``STEPS_AT_ONCE`` steps."""
        steps = np.arange(first_step, first_step + STEPS_AT_ONCE) - self.start_step
        epochs, positions = np.divmod(steps, self.steps_per_epoch)
        numbers = _shuffle(positions, np.full(len(steps), self.steps_per_epoch), self._seed, 2 * epochs)
        buckets = np.searchsorted(self._ends, numbers, side="right")
        first = (numbers - self._starts[buckets]) * self._batch_size
        counts = np.minimum(self._sizes[buckets] - first, self._batch_size)
        ends = np.cumsum(counts)
        positions = np.arange(ends[-1]) + np.repeat(first - ends + counts, counts)
        sizes, shuffles = np.repeat(self._sizes[buckets], counts), np.repeat(2 * epochs + 1, counts)
        positions = _shuffle(positions, sizes, self._seed, shuffles)
        return list(zip(buckets.tolist(), np.split(positions, ends[:-1]), strict=True))


class ShuffledBatches:
    """The batches of training steps: samples in random order.

    Args:
        batches: the training corpus.
        batch_size: maximum number of samples in a batch.
        seed: the experiment's seed.
        source_noise: noise in the sources, if any.
    """

    def __init__(self, batches: Batches, batch_size: int, seed: int, source_noise: SourceNoise | None = None) -> None:
        self._batches, self._batch_size, self._seed, self._source_noise = batches, batch_size, seed, source_noise
        self._sampler = self._make_sampler(start_step=0)

    @property
    def buckets(self) -> Sequence[Bucket]:
        """The step limits of the batches, those of the model last."""
        return self._batches.buckets

    @property
    def sizes(self) -> Sequence[int]:
        """Number of samples in each bucket."""
        return self._batches.sizes

    @property
    def state(self) -> dict[str, int]:
        """What maps step numbers to samples; part of every checkpoint."""
        return {"batch_size": self._batch_size, "order_begun": self._sampler.start_step}

    def resume_at(self, step: int, state: Mapping[str, int]) -> bool:
        """Continue at a step of an earlier process; returns whether the order of samples continues as well.

        With a different batch size, step numbers map to different samples, so a new order starts.
        """
        same_order = state.get("batch_size", self._batch_size) == self._batch_size
        self._sampler = self._make_sampler(start_step=state.get("order_begun", 0) if same_order else step)
        return same_order

    def batch(self, step: int) -> Batch:
        """The batch of a training step."""
        batch = self._batches.batch(*self._sampler.batch(step))
        return self._source_noise(batch, step) if self._source_noise else batch

    def _make_sampler(self, start_step: int) -> BatchSampler:
        return BatchSampler(self._batches.sizes, self._batch_size, self._seed, start_step)


def training_batches(config: Config, codecs: Codecs, corpus: Dataset) -> ShuffledBatches:
    """The batches that an experiment trains on."""
    size, rate = config.training.batch_size, config.training.source_noise
    buckets = configured_buckets(config.data, (config.model.encoder_steps, config.model.decoder_steps), corpus)
    batches = Batches(corpus, buckets, size=size, reverse=config.data.reverse_input)
    source_noise = SourceNoise(rate, codecs.source.vocabulary, config.seed) if rate else None
    return ShuffledBatches(batches, size, config.seed, source_noise)


def _shuffle(positions: np.ndarray, sizes: np.ndarray, seed: int, shuffles: np.ndarray) -> np.ndarray:
    """Where the shuffle (seed, shuffle) of ``range(size)`` moves each position: all int64 [n]."""
    seeds = np.stack([np.full_like(shuffles, FIRST_KEY), np.full_like(shuffles, seed), shuffles], axis=1)
    with tf.device("CPU"):
        shuffled: np.ndarray = call_with_arrays(_index_shuffle, positions, seeds, sizes - 1).numpy()
    return shuffled


def _index_shuffle(index: tf.Tensor, seed: tf.Tensor, max_index: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.RandomIndexShuffle(index=index, seed=seed, max_index=max_index, rounds=ROUNDS)
