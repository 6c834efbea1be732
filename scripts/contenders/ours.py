"""Our own training step and search."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
import tensorflow as tf

from contenders.workload import Workload, model_config
from seq2seq_chat.config import Config, Decoding
from seq2seq_chat.corpus.encoded import Batch
from seq2seq_chat.decoding.reply_search import ReplySearch
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.training import step as step_module
from seq2seq_chat.training.optimizers import build_optimizer
from seq2seq_chat.training.parts import batch_parts, loss_in_parts, share_cores


class TrainingStep:
    """One training step on a batch of the workload.

    Args:
        precision: as in training.precision.
        deferred: False for plain automatic differentiation.
        parts: into how many parts a batch is divided; None for what suits the machine.
    """

    def __init__(
        self, workload: Workload, precision: str = "float32", deferred: bool = True, parts: Optional[int] = None
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
                    "batch_parts": parts,
                },
            }
        )
        share_cores(batch_parts(config))
        self._model = Seq2Seq(config.model, size.vocabulary, config.seed)
        for variable in self._model.trainable_variables:
            variable.assign(workload.weights[variable.name])
        kind = step_module.TrainingStep if deferred else _PlainStep
        self._step = kind(self._model, build_optimizer(config.training), config)

    def step(self, number: int) -> float:
        """Learn from batch ``number``; the loss in nats per target token before the update."""
        source, target = self._workload.source[number], self._workload.target[number]
        full = np.full(len(source), source.shape[1], np.int32)
        loss = self._step(Batch(source, full, target, full), number).loss
        return float(loss.nats / loss.tokens)


class _PlainStep(step_module.TrainingStep):
    """The same graph, differentiated by TensorFlow alone."""

    def gradients(self, batch: Batch, step: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_in_parts(self._model, batch, self._parts, sampler=self._sampler, step=step)
            per_token = loss.nats / loss.tokens
        return loss, tape.gradient(per_token, self._model.trainable_variables), tape


class Search:
    """Greedy search, or a beam search of some width.

    Args:
        workload: the weights and what is answered.
        n_best: how many replies are wanted; None for as many as the width.
    """

    def __init__(self, workload: Workload, n_best: Optional[int] = None) -> None:
        size = workload.size
        self._workload = workload
        self._model = Seq2Seq(model_config(size), size.vocabulary, seed=1)
        for variable in self._model.trainable_variables:
            variable.assign(workload.weights[variable.name])
        self._n_best = n_best
        self._searches: dict[int, ReplySearch] = {}

    def search(self, first: int, count: int, width: int) -> list[float]:
        """Answer some sources of the workload; the scores of the best replies. Width 1 is greedy search."""
        if width not in self._searches:
            method: Any = {"method": "beam", "beam_width": width} if width > 1 else {"method": "greedy"}
            decoding = Decoding(**method, n_best=self._n_best or width, allow_unknown=True)
            self._searches[width] = ReplySearch(self._model, decoding)
        found = self._searches[width](*self._workload.sources(first, count))
        return [float(score) for score in found.scores[:, 0]]
