"""From a run's files to a trained model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Optional

from seq2seq_chat.corpus.vocabulary import Vocabulary
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.runs import Run, RunError
from seq2seq_chat.training.checkpoints import DamagedCheckpoint, MismatchError, load_variables


class TrainedModel(NamedTuple):
    """A model with its trained weights."""

    model: Seq2Seq
    vocabulary: Vocabulary
    step: int  # training steps behind the weights


def load_trained_model(
    run: Run, snapshot: Optional[str] = None, warn: Callable[[str], object] = lambda text: None
) -> TrainedModel:
    """The model of a run with the weights of a snapshot, or the newest ones.

    A damaged checkpoint is told to ``warn`` and the one before is used.

    Raises:
        RunError: there are no weights, or none that are whole.
        MismatchError: weights and vocabulary or configuration do not belong together.
    """
    config, vocabulary = run.config, run.vocabulary
    files = run.weight_files(snapshot)
    model = Seq2Seq(config.model, len(vocabulary), config.seed)
    for path in files:
        try:
            metadata = load_variables(path, model.trainable_variables)
            ensure_same_words(path, metadata, vocabulary)
        except DamagedCheckpoint as damage:
            warn(f"{damage}; this file is damaged" + ("" if path == files[-1] else ", using the one before"))
            continue
        return TrainedModel(model, vocabulary, int(metadata["step"]))
    raise RunError(
        f"run {run.name}: {files[0].name} is damaged"
        + (", and so are all before it" if len(files) > 1 else "")
        + "; go on training from another copy, or choose another --snapshot"
    )


def ensure_same_words(path: Path, metadata: Mapping[str, Any], vocabulary: Vocabulary) -> None:
    """Raises MismatchError when weights were learned with other words than those of the run's vocabulary."""
    if metadata.get("vocabulary", vocabulary.fingerprint) != vocabulary.fingerprint:
        raise MismatchError(
            f"{path}: was learned with another vocabulary than the vocabulary.txt beside it; put the old one back"
        )
