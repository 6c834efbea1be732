"""Restore the trained model of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from seq2seq_chat.checkpoint.arrays import read_weights
from seq2seq_chat.data.codec import Codecs
from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.model.variables import by_name
from seq2seq_chat.runs.run import Run, RunError

Model = TypeVar("Model", Seq2Seq, LanguageModel)


@dataclass(frozen=True)
class TrainedModel(Generic[Model]):
    """A model with its trained weights."""

    model: Model
    codecs: Codecs
    step: int  # training step of the weights
    warnings: list[str]  # damaged checkpoints that were skipped


def load_trained_model(run: Run, snapshot: str | None = None) -> TrainedModel[Seq2Seq]:
    """Build the model of a run of conversations or translations and load its weights.

    If a checkpoint is damaged, logs a warning and uses the previous one.

    Args:
        snapshot: Name of the snapshot; None for the newest weights.

    Raises:
        RunError: It is a language model, there are no weights, or all files are damaged.
        MismatchError: The weights do not match the vocabulary or the configuration.
    """
    config = run.config
    if config.task == "language_model":
        raise RunError(f"run {run.name} is a language model, which has no replies; use seq2seq-chat generate")
    target_size, source_size = run.codecs.vocabulary_sizes
    return _load(Seq2Seq(config.model, target_size, config.seed, source_size), run, snapshot)


def load_language_model(run: Run, snapshot: str | None = None) -> TrainedModel[LanguageModel]:
    """Build the language model of a run and load its weights; see :func:`load_trained_model`.

    Raises:
        RunError: It is no language model, there are no weights, or all files are damaged.
        MismatchError: The weights do not match the vocabulary or the configuration.
    """
    config = run.config
    if config.task != "language_model":
        raise RunError(f"run {run.name} is no language model: its task is {config.task}; use seq2seq-chat chat")
    return _load(LanguageModel(config.model, run.codecs.vocabulary_sizes[0], config.seed), run, snapshot)


def _load(model: Model, run: Run, snapshot: str | None) -> TrainedModel[Model]:
    arrays, codecs, step, warnings = read_weights(run, snapshot)
    for name, variable in by_name(model.trainable_variables).items():
        variable.assign(arrays[name])
    return TrainedModel(model, codecs, step, warnings)
