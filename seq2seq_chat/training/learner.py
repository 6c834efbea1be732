"""A model that learns a corpus, step by step."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Optional

import tensorflow as tf

from seq2seq_chat.config import Config
from seq2seq_chat.corpus.encoded import Batch, EncodedCorpus
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.training.batches import Batches, configured_buckets
from seq2seq_chat.training.distribution import ALONE, Distribution
from seq2seq_chat.training.optimizers import build_optimizer
from seq2seq_chat.training.precision import loss_scale_variables
from seq2seq_chat.training.step import StepResult, TrainingStep


class Learner:
    """Model, optimizer and the order of the samples.

    All that changes while learning is in ``variables``, ``precision_variables`` and ``step``.

    Args:
        config: the experiment.
        vocabulary_size: words of the model.
        corpus: what is learned.
        distribution: the devices that learn together.
    """

    def __init__(
        self, config: Config, vocabulary_size: int, corpus: EncodedCorpus, distribution: Distribution = ALONE
    ) -> None:
        self.step = 0  # steps done
        self.data_seconds = 0.0  # how long the last step waited for its batch
        with distribution.scope():
            self.model = Seq2Seq(config.model, vocabulary_size, config.seed)
            self.optimizer = build_optimizer(config.training)
            self.optimizer._create_all_weights(self.model.trainable_variables)  # there before they are restored
        self.buckets = configured_buckets(config, corpus)
        self.batches = Batches(corpus, self.buckets, size=config.training.batch_size, reverse=config.data.reverse_input)
        self._rate = config.training.learning_rate
        self._seed, self._batch_size = config.seed, config.training.batch_size
        self._order = self.batches.ordered(config.seed)
        self._reader = ThreadPoolExecutor(1, "batches")
        self._next: Future[Batch] = Future()
        self._next_step: Optional[int] = None
        self._training_step = TrainingStep(self.model, self.optimizer, config, distribution)
        self.sampled = self._training_step.sampled

    @property
    def variables(self) -> list[tf.Variable]:
        """The model's variables and the optimizer's."""
        return [*self.model.trainable_variables, *self.optimizer.variables()]

    @property
    def precision_variables(self) -> list[tf.Variable]:
        """What belongs to the precision; a training that goes on in another precision has others, or none."""
        return loss_scale_variables(self.optimizer)

    @property
    def traces(self) -> int:
        """Graphs that were built so far, one for each bucket that was learned from."""
        return self._training_step.traces

    @property
    def place(self) -> dict[str, int]:
        """What a step number needs to be a place in the corpus; kept in checkpoints."""
        return {"batch_size": self._batch_size, "order_begun": self._order.begun}

    def go_on(self, step: int, place: Mapping[str, int]) -> bool:
        """Go on at a step of an earlier training, and tell whether its order of samples goes on, too.

        With another batch size a step number would be another place in the corpus; a new order begins.
        """
        same = place.get("batch_size", self._batch_size) == self._batch_size
        self.step = step
        self._order = self.batches.ordered(self._seed, begun=place.get("order_begun", 0) if same else step)
        return same

    def set_rate(self, rate: float) -> None:
        """The learning rate from here on."""
        if rate != self._rate:
            self.optimizer.learning_rate = rate
            self._rate = rate

    def learn(self, stop: bool = False) -> StepResult:
        """Learn from the next batch; ``stop`` asks all workers to stop after it."""
        begun = time.perf_counter()
        batch = self._next.result() if self._next_step == self.step else self._batch(self.step)
        self.data_seconds = time.perf_counter() - begun
        self._next_step = self.step + 1
        self._next = self._reader.submit(self._batch, self._next_step)  # while this step is computed
        result = self._training_step(batch, self.step, stop)
        self.step += 1
        return result

    def _batch(self, step: int) -> Batch:
        """The samples of a step: which they are depends on nothing but its number."""
        return self.batches.batch(*self._order.batch(step))
