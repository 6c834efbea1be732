"""This project's training step and search."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from contenders.workload import Workload, decoding_config, model_config
from seq2seq_chat.config import Config
from seq2seq_chat.data.dataset import Batch
from seq2seq_chat.engines.tensorflow.graph_search import GraphSearch
from seq2seq_chat.model.micro_batches import micro_batch_count, share_cores
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.training import step as step_module
from seq2seq_chat.training.optimizers import build_optimizer


def build_model(workload: Workload) -> Seq2Seq:
    """Our model with the weights of the workload."""
    model = Seq2Seq(model_config(workload.size), workload.size.vocabulary, seed=1)
    for variable in model.trainable_variables:
        variable.assign(workload.weights[variable.name])
    return model


class TrainingStep:
    """One training step on a batch of the workload.

    Args:
        precision: Value of ``training.precision``.
        deferred: Whether to defer weight gradients; False for plain automatic differentiation.
        micro_batches: Value of ``training.micro_batches``.
    """

    def __init__(
        self, workload: Workload, precision: str = "float32", deferred: bool = True, micro_batches: int | None = None
    ) -> None:
        self._workload = workload
        size = workload.size
        config = Config.model_validate(
            {
                "name": "benchmark",
                "seed": 1,
                "data": {"train": "none"},
                "model": model_config(size).model_dump(),
                "training": {
                    "batch_size": size.batch,
                    "optimizer": "adagrad",
                    "learning_rate": 0.01,
                    "gradient_clipping": 10.0,
                    "sampled_softmax": size.sampled,
                    "precision": precision,
                    "micro_batches": micro_batches,
                },
            }
        )
        share_cores(micro_batch_count(config.model, config.training))
        self._model = build_model(workload)
        kind = step_module.TrainingStep if deferred else _PlainStep
        self._step = kind(self._model, build_optimizer(config.training), config.training)

    def step(self, number: int) -> float:
        """Train on batch ``number``; the loss in nats per target token before the update."""
        source, target = self._workload.source[number], self._workload.target[number]
        full = np.full(len(source), source.shape[1], np.int32)
        loss = self._step(Batch(source, full, target, full), number).loss
        return float(loss.nats / loss.tokens)


class _PlainStep(step_module.TrainingStep):
    """The same graph, differentiated by TensorFlow."""

    def _tape(self) -> tf.GradientTape:
        return tf.GradientTape()


class Search:
    """Greedy search or beam search.

    Args:
        workload: Weights and sources.
        n_best: Number of replies; None for the beam width.
    """

    def __init__(self, workload: Workload, n_best: int | None = None) -> None:
        self._workload = workload
        self._model = build_model(workload)
        self._search_weights = self._model.search_weights()  # once for all searches, as a chatbot does
        self._n_best = n_best
        self._searches: dict[int, GraphSearch] = {}

    def search(self, first: int, count: int, width: int) -> list[float]:
        """Reply to sources of the workload; the scores of the best replies. Width 1 is greedy search."""
        if width not in self._searches:
            decoding = decoding_config(width, self._n_best)
            self._searches[width] = GraphSearch(self._model, decoding, weights=self._search_weights)
        hypotheses = self._searches[width](*self._workload.sources(first, count))
        return [float(score) for score in hypotheses.scores[:, 0]]
