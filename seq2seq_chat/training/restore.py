"""Where training starts: from the newest valid checkpoint of a run, from another run, or from pretrained embeddings."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seq2seq_chat.architecture.variables import SHARED, SOURCE, TARGET, WORD_VARIABLES, Shape, Shapes, variable_shapes
from seq2seq_chat.checkpoint.arrays import (
    DamagedCheckpoint,
    MismatchError,
    ensure_same_codecs,
    format_shape,
    read_arrays,
    read_weights,
)
from seq2seq_chat.config import Config, describe_changes, flat_settings, resume_settings, trained_settings
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.data.running_text import RunningText
from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.model.output import load_vectors
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.model.variables import as_array, load_variables, variable_name
from seq2seq_chat.runs.find import RunSnapshot
from seq2seq_chat.runs.run import LATEST, Run, RunError
from seq2seq_chat.runs.summary import read_end
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import file_checksum
from seq2seq_chat.text.codec import Codecs, TextCodec
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS
from seq2seq_chat.training.learner import Learner


def ensure_resumable_settings(run: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Compare the settings of a run with those it is resumed with.

    Raises:
        UserError: some settings differ; the message lists them.
    """
    if changes := describe_changes(before, now):
        raise UserError(
            f"run {run} cannot be resumed with different settings: {changes}; "
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
            ensure_resumable_settings(run.name, settings, resume_settings(inputs.config))
            metadata = load_variables(path, learner.variables, optional=learner.loss_scale_variables)
            ensure_same_codecs(path, metadata, inputs.codecs)
            if metadata.get("corpus", inputs.corpus.fingerprint) != inputs.corpus.fingerprint:  # other samples
                raise UserError(
                    f"{inputs.config.data.train} is not the corpus that run {run.name} was trained on; "
                    "pass the original with --set data.train=FILE, or start a new run"
                )
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


INDEPENDENT_SETTINGS = (  # settings of the model that do not change what its weights compute
    *("model.dropout", "model.unrolling", "model.encoder_steps", "model.decoder_steps"),
    *("model.recurrent_initializer", "model.shared_embeddings", "model.pretrained_embeddings"),
)
MAX_SAMPLES = 10_000  # to estimate how much of the training corpus is known


class InitialWeights(NamedTuple):
    """Weights of another run that a new one starts from."""

    origin: RunSnapshot
    step: int  # training step of the weights
    codecs: Codecs
    arrays: dict[str, np.ndarray]  # by the names of the variables
    changes: dict[str, tuple[Any, Any]]  # settings that change what the weights compute, with both values

    def describe(self) -> dict[str, Any]:
        """Which weights these are, for the history of the new run."""
        run, snapshot = self.origin
        return {"run": run.name, "path": str(run.path.resolve()), "snapshot": snapshot or LATEST, "step": self.step}


def read_initial_weights(origin: RunSnapshot, config: Config) -> InitialWeights:
    """Read weights, and check that a model of the configuration can start from them.

    If a checkpoint is damaged, logs a warning and uses the previous one.

    Raises:
        RunError: There are no weights, or all files are damaged.
        MismatchError: The configuration describes another architecture, or the run has lost its original files.
    """
    run, old_config = origin.run, origin.run.config
    if "language_model" in (old_config.task, config.task):
        raise UserError("--init-from does not apply to language models; remove it")
    changes = _changes(old_config, config)
    _ensure_same_architecture(run.name, old_config, config, changes)
    arrays, codecs, step, _ = read_weights(run, origin.snapshot)
    return InitialWeights(origin, step, codecs, arrays, changes)


def initialize(model: Seq2Seq, codecs: Codecs, corpus: Dataset, initial: InitialWeights) -> list[str]:
    """Assign the weights to a new model, and release them. The optimizer starts afresh.

    Variables with a row for each word are matched by word: words that both runs know keep their rows, new words keep
    the random rows of a new model. All other variables must have the same names and shapes.

    Returns:
        Messages: what the weights are, how much of the training corpus they know, and warnings.
    """
    run, arrays, old = initial.origin.run.name, initial.arrays, initial.codecs
    messages = [f"starting from the weights of {initial.origin}, step {initial.step:,}"]
    for key, (before, now) in initial.changes.items():
        messages.append(f"warning: {key} is {json.dumps(now)}, but run {run} was trained with {json.dumps(before)}")
    source, target = MatchedWords.of(old.source, codecs.source), MatchedWords.of(old.target, codecs.target)
    samples = np.linspace(0, len(corpus) - 1, min(len(corpus), MAX_SAMPLES), dtype=np.int64).tolist()
    source_ids, target_ids = (np.concatenate([*map(ids, samples)]) for ids in (corpus.source_ids, corpus.target_ids))
    if codecs.is_shared and old.is_shared:
        messages += source.describe("", run, np.concatenate([source_ids, target_ids]))
    else:
        messages += source.describe("source ", run, source_ids) + target.describe("target ", run, target_ids)
    for variable in model.trainable_variables:
        name = variable_name(variable)
        array = arrays[SHARED if name in (SOURCE, TARGET) and SHARED in arrays else name]
        if name in WORD_VARIABLES:
            array = (source if name == SOURCE else target).replace_rows(as_array(variable), array)
        variable.assign(array)
    arrays.clear()
    return messages


class MatchedWords(NamedTuple):
    """The words that the vocabularies of two codecs have in common; the special words are among them."""

    old: TextCodec
    new: TextCodec
    old_rows: np.ndarray  # ids in the old vocabulary: int64 [common words]
    new_rows: np.ndarray  # of the same words in the new one

    @classmethod
    def of(cls, old: TextCodec, new: TextCodec) -> MatchedWords:
        """Match two vocabularies by word."""
        old_rows = {word: row for row, word in enumerate(old.vocabulary.words)}
        rows = [(old_rows[word], row) for row, word in enumerate(new.vocabulary.words) if word in old_rows]
        return cls(old, new, *np.array(rows, np.int64).T)

    def replace_rows(self, new: np.ndarray, old: np.ndarray) -> np.ndarray:
        """A copy of a new variable, [new words, …], with the common words' rows of an old one, [old words, …]."""
        rows = new.copy()
        rows[self.new_rows] = old[self.old_rows]
        return rows

    def describe(self, side: str, run: str, ids: np.ndarray) -> list[str]:
        """How much of the vocabulary and of the training corpus the run knows, and a warning if it is little.

        Args:
            side: "source " or "target ", or "" if both share one vocabulary.
            run: the name of the old run.
            ids: the ids of words of the training corpus.
        """
        share = float(np.mean(np.isin(ids, self.new_rows[len(SPECIAL_WORDS) :])))
        messages = [
            f"{len(self.new_rows):,} of {len(self.new.vocabulary):,} words of the {side}vocabulary are known to {run}; "
            f"they make up {100 * share:.0f} % of the {side}words of the training corpus"
        ]
        if share < 0.5:
            names = self.old.tokenizer.name, self.new.tokenizer.name
            because = f", whose tokenizer is {names[0]}, not {names[1]}" if names[0] != names[1] else ""
            messages.append(f"warning: most {side}words are new to {run}{because}; they start from random vectors")
        return messages


def _changes(old: Config, new: Config) -> dict[str, tuple[Any, Any]]:
    """The settings that change the architecture, or what the same weights compute, with both values."""
    before, now = flat_settings(old), flat_settings(new)
    keys = [key for key in now if key.startswith("model.") and key not in INDEPENDENT_SETTINGS]
    synonyms = {"concat": "additive"}
    return {
        key: (before[key], now[key])
        for key in [*keys, "data.reverse_input"]
        if synonyms.get(before[key], before[key]) != synonyms.get(now[key], now[key])
    }


def _ensure_same_architecture(run: str, old: Config, new: Config, changes: dict[str, tuple[Any, Any]]) -> None:
    """Raise MismatchError if the models of two configurations differ in more than the number of words."""
    if new.model.shared_embeddings and not old.model.shared_embeddings:
        raise MismatchError(
            f"model.shared_embeddings is true, but source and target have separate embeddings in run {run}, "
            "which cannot both be kept; set it to false"
        )
    old_shapes, new_shapes = _shapes(old), _shapes(new)
    for name in sorted(old_shapes.keys() | new_shapes.keys()):
        if old_shapes.get(name) != new_shapes.get(name):
            settings = (f"{key}={json.dumps(value)}" for key, (value, _) in changes.items() if key.startswith("model."))
            raise MismatchError(
                f"cannot start from run {run}: {name} is {_describe(old_shapes.get(name))} in that run, but "
                f"{_describe(new_shapes.get(name))} in the new one. Set {' and '.join(settings)} as in that run; only "
                "the vocabulary may differ"
            )


def _shapes(config: Config) -> Shapes:
    """The shapes of the variables that do not depend on the vocabulary."""
    shapes = variable_shapes(config, len(SPECIAL_WORDS))
    return {name: shape for name, shape in shapes.items() if name not in WORD_VARIABLES}


def _describe(shape: Shape | None) -> str:
    return "missing" if shape is None else format_shape(shape)
