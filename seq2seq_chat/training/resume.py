"""Where a training starts: from its newest valid checkpoint, or from pretrained embeddings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from seq2seq_chat.checkpoint.restore import ensure_same_vocabulary
from seq2seq_chat.checkpoint.variables import DamagedCheckpoint, load_variables, read_arrays
from seq2seq_chat.config import Config
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.data.vocabulary import Vocabulary
from seq2seq_chat.model.embeddings import load_vectors
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.runs.run import Run, RunError
from seq2seq_chat.runs.summary import read_end
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.training.learner import Learner
from seq2seq_chat.training.resume_compatibility import ensure_same_settings, resume_settings


def load_newest_checkpoint(
    run: Run,
    config: Config,
    vocabulary: Vocabulary,
    corpus: Dataset,
    learner: Learner,
    on_progress: Callable[[str], object],
) -> dict[str, Any] | None:
    """Load the newest valid checkpoint into the learner's variables and return its metadata; None if there is none.

    Raises:
        RunError: all checkpoints are damaged or were deleted.
        UserError: the settings, the vocabulary or the corpus have changed since.
    """
    checkpoints = run.checkpoints()
    for step, path in reversed(checkpoints):
        try:
            settings = read_arrays(path, [])[1].get("settings", {})
            ensure_same_settings(run.name, settings, resume_settings(config))
            metadata = load_variables(path, learner.variables, optional=learner.precision_variables)
            ensure_same_vocabulary(path, metadata, vocabulary)
            _ensure_same_corpus(run, config.data.train, corpus, metadata)
            return metadata
        except DamagedCheckpoint as damage:
            on_progress(f"the checkpoint of step {step:,} is damaged ({damage}); trying the previous one")
    if checkpoints:  # starting from scratch would overwrite what was learned and reported
        raise RunError(f"run {run.name}: every checkpoint is damaged; restore one from a backup, or start a new run")
    _ensure_never_saved(run)
    return None


def _ensure_never_saved(run: Run) -> None:
    """Raise RunError if a run without checkpoints had some: a training from scratch would overwrite its metrics."""
    snapshots, end = run.snapshots(), read_end(run)
    has_ended = end is not None and end.state != "failed"  # which saves a checkpoint
    if (run.path / "checkpoints").is_dir() and not snapshots and not has_ended:
        return
    left = f"; only snapshots are left, to chat with and evaluate: {', '.join(snapshots)}" if snapshots else ""
    raise RunError(
        f"run {run.name} cannot be resumed, because the files in its folder checkpoints/ are missing{left}. "
        f"Restore them from a backup, or train again: seq2seq-chat train {run.path / 'config.json'}"
    )


def load_pretrained_embeddings(path: str, model: Seq2Seq, vocabulary: Vocabulary) -> int:
    """Initialize the embeddings from a file of word vectors; returns the number of words found.

    Raises:
        UserError: the file has no vector for any word of the vocabulary, or vectors of another size.
    """
    rows, vectors = load_vectors(path, vocabulary.words, model.config.embedding_size)
    if not len(rows):
        raise UserError(f"{path}: has no vector for any of the {len(vocabulary):,} words of the vocabulary")
    tables = {table.ref(): table for table in (model.source_embedding.table, model.target_embedding.table)}
    for table in tables.values():  # one, where source and target share it
        values = table.numpy()
        values[rows] = vectors
        table.assign(values)
    return len(rows)


def _ensure_same_corpus(run: Run, path: str, corpus: Dataset, metadata: Mapping[str, Any]) -> None:
    """A step number is a position in the corpus, so it means other samples in another corpus."""
    if metadata.get("corpus", corpus.fingerprint) != corpus.fingerprint:
        raise UserError(
            f"{path} is not the corpus that run {run.name} was trained on; "
            "pass the original with --set data.train=FILE, or start a new run"
        )
