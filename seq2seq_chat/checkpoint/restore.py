"""Restore the trained model of a run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from seq2seq_chat.checkpoint.variables import DamagedCheckpoint, MismatchError, load_variables
from seq2seq_chat.data.codec import Codecs
from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.runs.run import Run, RunError

logger = logging.getLogger(__name__)
Loaded = TypeVar("Loaded")


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
    config, codecs = run.config, run.codecs
    if config.task == "language_model":
        raise RunError(f"run {run.name} is a language model, which has no replies; use seq2seq-chat generate")
    target_size, source_size = codecs.vocabulary_sizes
    return _load(Seq2Seq(config.model, target_size, config.seed, source_size), codecs, run, snapshot)


def load_language_model(run: Run, snapshot: str | None = None) -> TrainedModel[LanguageModel]:
    """Build the language model of a run and load its weights; see :func:`load_trained_model`.

    Raises:
        RunError: It is no language model, there are no weights, or all files are damaged.
        MismatchError: The weights do not match the vocabulary or the configuration.
    """
    config, codecs = run.config, run.codecs
    if config.task != "language_model":
        raise RunError(f"run {run.name} is no language model: its task is {config.task}; use seq2seq-chat chat")
    return _load(LanguageModel(config.model, len(codecs.source.vocabulary), config.seed), codecs, run, snapshot)


def _load(model: Model, codecs: Codecs, run: Run, snapshot: str | None) -> TrainedModel[Model]:
    def load(path: Path) -> int:
        metadata = load_variables(path, model.trainable_variables)
        ensure_same_codecs(path, metadata, codecs)
        return int(metadata["step"])

    step, warnings = load_intact(run, snapshot, load)
    return TrainedModel(model, codecs, step, warnings)


def load_intact(run: Run, snapshot: str | None, load: Callable[[Path], Loaded]) -> tuple[Loaded, list[str]]:
    """Load the weights of a run from the first of its files that is not damaged.

    Args:
        snapshot: Name of the snapshot; None for the newest weights.
        load: Loads a file, or raises DamagedCheckpoint.

    Returns:
        What ``load`` returns, and a warning, which is also logged, for each damaged file.

    Raises:
        RunError: There are no weights, or all files are damaged.
    """
    files = run.weight_files(snapshot)
    warnings: list[str] = []
    for path in files:
        try:
            return load(path), warnings
        except DamagedCheckpoint as error:
            warnings.append(f"{error}; the file is damaged" + ("" if path == files[-1] else ", using the previous one"))
            logger.warning("%s", warnings[-1])
    raise RunError(
        f"run {run.name}: {files[0].name} is damaged"
        + (", and so are all earlier ones" if len(files) > 1 else "")
        + "; restore the file from a backup, or choose another snapshot"
    )


def ensure_same_codecs(path: Path, metadata: Mapping[str, Any], codecs: Codecs) -> None:
    """Raise MismatchError if the weights were trained with another vocabulary or tokenizer."""
    for name, fingerprint in codecs.fingerprints().items():
        if metadata.get(name, fingerprint) != fingerprint:
            what = name.replace("_", " ")
            file = f"{name}.{'txt' if name.endswith('vocabulary') else 'json'}"
            raise MismatchError(f"{path} was trained with another {what}; restore the original {file} of the run")
