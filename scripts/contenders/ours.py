"""This project's training steps and search."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from contenders.workload import (
    TEXT_LEARNING_RATE,
    TEXT_MAX_NORM,
    TEXT_SIZES,
    Workload,
    decoding_config,
    model_config,
    text_batch,
    text_weights,
)
from seq2seq_chat.config import Model, Training
from seq2seq_chat.data.dataset import Batch
from seq2seq_chat.data.running_text import TextBatch
from seq2seq_chat.engines.tensorflow.search import GraphSearch
from seq2seq_chat.model.execution import micro_batch_count, share_cores
from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.training import step as step_module
from seq2seq_chat.training.language_model import LanguageModelLoss
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
        model, size = model_config(workload.size), workload.size
        training = Training(
            batch_size=size.batch,
            optimizer="adagrad",
            learning_rate=0.01,
            gradient_clipping=10.0,
            sampled_softmax=size.sampled,
            precision=precision,  # type: ignore[arg-type]
            micro_batches=micro_batches,
        )
        share_cores(micro_batch_count(model, training))
        kind = step_module.TrainingStep if deferred else _PlainStep
        self._step = kind(build_model(workload), build_optimizer(training), training)

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


class TextStep:
    """One training step of a language model, with carried state.

    Args:
        size: A key of ``TEXT_SIZES``.
        precision: Of matrix products.
    """

    def __init__(self, size: str, precision: str = "float32") -> None:
        self._size = TEXT_SIZES[size]
        settings = Training(
            batch_size=self._size.streams,
            bptt_forward=self._size.steps,
            optimizer="adam",
            learning_rate=TEXT_LEARNING_RATE,
            gradient_clipping=TEXT_MAX_NORM,
            sampled_softmax=None,
            precision=precision,  # type: ignore[arg-type]
        )
        config = Model(
            attention="none",
            layers=self._size.layers,
            hidden_size=self._size.hidden,
            embedding_size=self._size.embedding,
            projection_size=None,
        )
        share_cores(micro_batch_count(config, settings))
        model = LanguageModel(config, self._size.vocabulary, seed=1)
        values = text_weights(self._size)
        for variable in model.trainable_variables:
            variable.assign(values[variable.name.split(":")[0]])
        self._step = step_module.TrainingStep(
            model, build_optimizer(settings), settings, task_loss=LanguageModelLoss(model, settings)
        )

    def step(self, number: int) -> float:
        """Train on a batch; the loss before the update, in nats per token."""
        tokens = text_batch(self._size, number)
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        arrays = TextBatch(inputs, targets, np.int32(0), np.int32(self._size.steps), np.bool_(number == 0))
        loss = self._step(arrays, number).loss
        return float(loss.nats / loss.tokens)


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
