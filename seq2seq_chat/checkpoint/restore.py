"""Restore the trained model of a run."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from seq2seq_chat.checkpoint.variables import DamagedCheckpoint, MismatchError, load_variables
from seq2seq_chat.data.vocabulary import Vocabulary
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.runs.run import Run, RunError

logger = logging.getLogger(__name__)


class TrainedModel(NamedTuple):
    """A model with its trained weights."""

    model: Seq2Seq
    vocabulary: Vocabulary
    step: int  # training step of the weights
    warnings: list[str]  # damaged checkpoints that were skipped


def load_trained_model(run: Run, snapshot: str | None = None) -> TrainedModel:
    """Build the model of a run and load its weights.

    If a checkpoint is damaged, logs a warning and uses the previous one.

    Args:
        snapshot: Name of the snapshot; None for the newest weights.

    Raises:
        RunError: There are no weights, or all files are damaged.
        MismatchError: The weights do not match the vocabulary or the configuration.
    """
    config, vocabulary = run.config, run.vocabulary
    files = run.weight_files(snapshot)
    warnings: list[str] = []
    model = Seq2Seq(config.model, len(vocabulary), config.seed)
    for path in files:
        try:
            metadata = load_variables(path, model.trainable_variables)
            ensure_same_vocabulary(path, metadata, vocabulary)
        except DamagedCheckpoint as error:
            warnings.append(f"{error}; the file is damaged" + ("" if path == files[-1] else ", using the previous one"))
            logger.warning("%s", warnings[-1])
            continue
        return TrainedModel(model, vocabulary, int(metadata["step"]), warnings)
    raise RunError(
        f"run {run.name}: {files[0].name} is damaged"
        + (", and so are all earlier ones" if len(files) > 1 else "")
        + "; restore the file from a backup, or choose another --snapshot"
    )


def ensure_same_vocabulary(path: Path, metadata: Mapping[str, Any], vocabulary: Vocabulary) -> None:
    """Raise MismatchError if the weights were trained with another vocabulary."""
    if metadata.get("vocabulary", vocabulary.fingerprint) != vocabulary.fingerprint:
        raise MismatchError(
            f"{path} was trained with another vocabulary; restore the original vocabulary.txt of the run"
        )
