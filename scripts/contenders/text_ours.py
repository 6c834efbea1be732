"""Our language model, trained in steps with carried state."""

from __future__ import annotations

from typing import Any

import numpy as np

from contenders.text_workload import LEARNING_RATE, MAX_NORM, TEXT_SIZES, batch, weights
from seq2seq_chat.config import Model, Training
from seq2seq_chat.data.streams import TextBatch
from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.model.micro_batches import micro_batch_count, share_cores
from seq2seq_chat.training.optimizers import build_optimizer
from seq2seq_chat.training.step import TrainingStep
from seq2seq_chat.training.text_loss import TextLoss


class TextStep:
    """Loss, gradients, clipping and update on a batch.

    Args:
        workload: not used.
        size: a key of ``TEXT_SIZES``.
        precision: of matrix products.
    """

    def __init__(self, workload: Any, size: str, precision: str = "float32") -> None:
        self._size = TEXT_SIZES[size]
        settings = Training(
            batch_size=self._size.streams,
            bptt_forward=self._size.steps,
            optimizer="adam",
            learning_rate=LEARNING_RATE,
            gradient_clipping=MAX_NORM,
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
        values = weights(self._size)
        for variable in model.trainable_variables:
            variable.assign(values[variable.name.split(":")[0]])
        self._step = TrainingStep(model, build_optimizer(settings), settings, task_loss=TextLoss(model, settings))

    def step(self, number: int) -> float:
        """Train on a batch; the loss before the update, in nats per token."""
        tokens = batch(self._size, number)
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        arrays = TextBatch(inputs, targets, np.int32(0), np.int32(self._size.steps), np.bool_(number == 0))
        loss = self._step(arrays, number).loss
        return float(loss.nats / loss.tokens)
