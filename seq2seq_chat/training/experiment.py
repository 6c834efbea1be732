"""An experiment from its configuration to a trained run: the one door to training."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Union

import tensorflow as tf

from seq2seq_chat.config import Config
from seq2seq_chat.corpus.training_vocabulary import training_vocabulary
from seq2seq_chat.environment import describe_environment, make_deterministic
from seq2seq_chat.errors import UserError
from seq2seq_chat.runs import Run, create_run
from seq2seq_chat.training.parts import batch_parts, share_cores
from seq2seq_chat.training.trainer import LossNotFinite, Trainer

PATHS = ("train", "validation", "test", "vocabulary")  # files may move; what is in them is compared when it is read


class TrainingFailed(Exception):
    """A training that began and could not go on; the message says why, and how to go on."""


def start_experiment(config: Config, results: Union[str, Path]) -> Run:
    """Train in a new run. A run that is refused, or that fails before it has saved anything, leaves no folder.

    Raises:
        UserError: the corpora, the vocabulary or the memory do not allow it.
        TrainingFailed, Interrupted: see :func:`_train`.
    """
    vocabulary = training_vocabulary(config.data)
    share_cores(batch_parts(config))
    make_deterministic(config.seed)
    run = create_run(results, config, vocabulary, describe_environment())
    try:
        _train(run, config, new=True)
    except BaseException:
        if not run.checkpoints() and not run.snapshots():
            shutil.rmtree(run.path)
        raise
    return run


def resume_experiment(run: Run, config: Config) -> None:
    """Go on with a run from its newest checkpoint.

    Raises:
        UserError: the run is in use, damaged, or was begun with another model or other data.
        TrainingFailed, Interrupted: see :func:`_train`.
    """
    _ensure_same_model(run, config)
    share_cores(batch_parts(config))
    make_deterministic(config.seed)
    _train(run, config, new=False)


def _train(run: Run, config: Config, new: bool) -> None:
    """Train a run that nobody else trains.

    Raises:
        TrainingFailed: the loss is no number any more, the disk is full, the memory too small.
        Interrupted: a signal came; everything is saved.
    """
    go_on = f"go on with: seq2seq-chat train --resume {run.path}"
    with run.lock():
        try:
            trainer = Trainer(run, config, run.vocabulary)
            if not new:
                run.save_config(config)
        except tf.errors.ResourceExhaustedError as error:
            raise UserError("out of memory; lower model.hidden_size or data.vocabulary_size") from error
        try:
            trainer.train()
        except LossNotFinite as error:
            raise TrainingFailed(str(error)) from error
        except UserError as error:
            raise TrainingFailed(f"{error}\nThe training stopped; {go_on}") from error
        except OSError as error:
            raise TrainingFailed(
                f"{error.filename or run.path}: {error.strerror}; the training stopped, {go_on}"
            ) from error
        except tf.errors.ResourceExhaustedError as error:
            raise TrainingFailed(f"out of memory; lower training.batch_size or model.hidden_size, {go_on}") from error


def _ensure_same_model(run: Run, config: Config) -> None:
    """What shapes the variables, or the meaning of what was learned, cannot change when a run goes on."""
    before, now = run.config.model_dump(), config.model_dump()
    keys = [(section, key) for section in ("data", "model") for key in before[section] if key not in PATHS]
    differing = [
        f"{section}.{key} ({json.dumps(before[section][key])} → {json.dumps(now[section][key])})"
        for section, key in [*keys, ("training", "optimizer")]  # what an optimizer remembers is of no use to another
        if before[section][key] != now[section][key]
    ]
    if before["seed"] != now["seed"]:
        differing.append(f"seed ({before['seed']} → {now['seed']})")
    if differing:
        raise UserError(
            f"run {run.name} cannot go on with other settings of {', '.join(differing)}; "
            "set them back, or start a new run without --resume"
        )
