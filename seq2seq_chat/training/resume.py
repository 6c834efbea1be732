"""Where training starts: from the newest valid checkpoint of a run, from another run, or from pretrained embeddings."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from seq2seq_chat.checkpoint.arrays import DamagedCheckpoint, ensure_same_codecs, read_arrays
from seq2seq_chat.config import Config, describe_changes, resume_settings, trained_settings
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.data.running_text import RunningText
from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.model.output import load_vectors
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.model.variables import load_variables
from seq2seq_chat.runs.run import Run, RunError
from seq2seq_chat.runs.summary import read_end
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import file_checksum
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.training.initialize import InitialWeights
from seq2seq_chat.training.learner import Learner


def ensure_same_settings(run: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Compare the settings of a run with those it is resumed with.

    Raises:
        UserError: some settings differ; the message lists them.
    """
    if changes := describe_changes(before, now):
        raise UserError(
            f"run {run} cannot be resumed with other settings of {changes}; "
            "restore them, or start a new run without --resume"
        )


class TrainingInputs(NamedTuple):
    """What a run is trained with."""

    run: Run
    config: Config
    codecs: Codecs
    corpus: Dataset | RunningText  # for training
    initial: InitialWeights | None = None  # for a new run

    def metadata(self) -> dict[str, Any]:
        """What training is resumed with, for a checkpoint."""
        lexicon = self.config.decoding.lexicon
        return {
            "lexicon": file_checksum(lexicon) if lexicon is not None and Path(lexicon).is_file() else None,
            **self.codecs.fingerprints(),
            "corpus": self.corpus.fingerprint,
            "settings": trained_settings(self.config),
        }


def load_newest_checkpoint(
    inputs: TrainingInputs, learner: Learner, on_progress: Callable[[str], object]
) -> dict[str, Any] | None:
    """Load the newest valid checkpoint into the learner's variables and return its metadata; None if there is none.

    Raises:
        RunError: all checkpoints are damaged or were deleted.
        UserError: the settings, the vocabulary or the corpus have changed since.
    """
    run = inputs.run
    checkpoints = run.checkpoints()
    for step, path in reversed(checkpoints):
        try:
            settings = read_arrays(path, [])[1].get("settings", {})
            ensure_same_settings(run.name, settings, resume_settings(inputs.config))
            metadata = load_variables(path, learner.variables, optional=learner.loss_scale_variables)
            ensure_same_codecs(path, metadata, inputs.codecs)
            _ensure_same_corpus(inputs, metadata)
            return metadata
        except DamagedCheckpoint as error:
            on_progress(f"the checkpoint of step {step:,} is damaged ({error}); trying the previous one")
    if checkpoints:  # starting from scratch would overwrite what was learned and reported
        raise RunError(f"run {run.name}: every checkpoint is damaged; restore one from a backup, or start a new run")
    _ensure_never_saved(run)
    return None


def _ensure_never_saved(run: Run) -> None:
    """Raise RunError if a run has lost its checkpoints: training from scratch would overwrite its metrics."""
    snapshots, end = run.snapshots(), read_end(run)
    has_ended = end is not None and end.state != "failed"  # which saves a checkpoint
    if (run.path / "checkpoints").is_dir() and not snapshots and not has_ended:
        return
    left = f"; only snapshots are left, to chat with and evaluate: {', '.join(snapshots)}" if snapshots else ""
    raise RunError(
        f"run {run.name} cannot be resumed, because the files in its folder checkpoints/ are missing{left}. "
        f"Restore them from a backup, or train again: seq2seq-chat train {shlex.quote(str(run.path / 'config.json'))}"
    )


def _ensure_same_corpus(inputs: TrainingInputs, metadata: Mapping[str, Any]) -> None:
    """A step number is a position in the corpus, so it means different samples in a different corpus."""
    if metadata.get("corpus", inputs.corpus.fingerprint) != inputs.corpus.fingerprint:
        raise UserError(
            f"{inputs.config.data.train} is not the corpus that run {inputs.run.name} was trained on; "
            "pass the original with --set data.train=FILE, or start a new run"
        )


def load_pretrained_embeddings(path: str, model: Seq2Seq | LanguageModel, codecs: Codecs) -> int:
    """Initialize the embeddings from a file of word vectors; returns the number of words found.

    Raises:
        UserError: the file has no vector for any word of the vocabularies, or vectors of another size.
    """
    sides = [(codecs.target.vocabulary, [model.target_embedding.table])]
    if isinstance(model, Seq2Seq) and model.source_embedding is not model.target_embedding:
        source = model.source_embedding.table
        if codecs.is_shared:
            sides[0][1].append(source)
        else:
            sides.insert(0, (codecs.source.vocabulary, [source]))
    count = 0
    for vocabulary, tables_of_side in sides:
        rows, vectors = load_vectors(path, vocabulary.words, model.config.embedding_size)
        count += len(rows)
        for table in tables_of_side if len(rows) else []:
            values = table.numpy()
            values[rows] = vectors
            table.assign(values)
    if not count:
        raise UserError(f"{path}: has no vector for any of the {codecs.words:,} words of the vocabulary")
    return count
