"""The folder of an exported model: how it is written, and what it says about itself."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional, Union

import tensorflow as tf

from seq2seq_chat import __version__
from seq2seq_chat.atomic import atomic_write
from seq2seq_chat.config import Decoding, decoding_with
from seq2seq_chat.errors import UserError
from seq2seq_chat.exporting.answers import Answers
from seq2seq_chat.runs import LATEST, Run
from seq2seq_chat.training.restore import load_trained_model

ABOUT = "about.json"


class ExportError(UserError):
    """A folder that no model can be exported to."""


def ensure_free(folder: Union[str, Path]) -> None:
    """Raises ExportError where a folder has something in it already, or nothing can be made."""
    folder = Path(folder)
    if folder.is_dir() and not any(folder.iterdir()):
        return
    if folder.exists() or folder.is_symlink():
        raise ExportError(f"--output {folder}: there is something already; name a folder that does not exist")


def export_run(
    run: Run,
    folder: Union[str, Path],
    snapshot: Optional[str] = None,
    beam_width: Optional[int] = None,
    n_best: Optional[int] = None,
    warn: Callable[[str], object] = lambda text: None,
) -> dict[str, Any]:
    """Write a run's model as a TensorFlow SavedModel; the folder appears complete or not at all.

    Args:
        run: a trained run.
        folder: where it goes; may exist if it is empty.
        snapshot: as for :func:`load_trained_model`.
        beam_width, n_best: of the beam search; as the run has it if None.
        warn: is told what the exported model does otherwise than the run's chat bot.

    Returns:
        what ``about.json`` in the folder says.

    Raises:
        ExportError: the folder is not empty or cannot be written.
        RunError, MismatchError, ConfigError: as for loading a run, and for options that do not fit together.
    """
    folder = Path(os.path.abspath(folder))
    ensure_free(folder)
    config = run.config
    searches, lacking = exported_searches(config.decoding, beam_width, n_best)
    for lack in lacking:
        warn(lack)
    trained = load_trained_model(run, snapshot, warn)
    about = {
        "run": run.name,
        "snapshot": snapshot or LATEST,
        "step": trained.step,
        "vocabulary_size": len(trained.vocabulary),
        "level": config.data.level,
        "context_turns": config.data.context_turns,
        "encoder_steps": config.model.encoder_steps,
        "decoder_steps": config.model.decoder_steps,
        "parameters": sum(int(variable.shape.num_elements()) for variable in trained.model.trainable_variables),
        "signatures": {name: decoding.model_dump() for name, decoding in searches.items()},
        "otherwise_than_chat": lacking,
        "versions": {
            "seq2seq-chat": __version__,
            "tensorflow": tf.__version__,
            "unicode": unicodedata.unidata_version,
        },
    }
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # beside the folder, so that the final rename cannot cross file systems
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise ExportError(f"--output {folder}: cannot be written: {error.strerror}; choose another folder") from None
    try:
        vocabulary, model = temporary / "vocabulary.txt", temporary / "model"
        trained.vocabulary.save(vocabulary)
        answers = Answers(trained.model, vocabulary, config, searches)
        # gradients are for training, and a model that is exported is not trained any more
        options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
        tf.saved_model.save(answers, str(model), answers.graphs, options)
        with atomic_write(model / ABOUT) as file:
            file.write(json.dumps(about, indent=2) + "\n")
        os.replace(model, folder)
    except (OSError, tf.errors.OpError) as error:
        reason = error.message if isinstance(error, tf.errors.OpError) else error.strerror
        raise ExportError(f"--output {folder}: could not be written: {reason}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return about


def exported_searches(
    decoding: Decoding, beam_width: Optional[int] = None, n_best: Optional[int] = None
) -> tuple[dict[str, Decoding], list[str]]:
    """The ways of decoding by the names of their signatures, and what is lost of the run's own, a sentence each."""
    lacking = []
    if decoding.method == "sample":
        lacking.append("the run's replies are drawn at random (decoding.method sample), the exported ones are not")
    if decoding.rerank != "none":
        lacking.append(f"the run's beam is reranked (decoding.rerank {decoding.rerank}), the exported one is not")
    plain = decoding.model_copy(update={"rerank": "none", "backward_run": None, "unrolling": "static"})
    width = beam_width or max(decoding.beam_width, n_best or 1)
    best = n_best or (decoding.n_best if decoding.method == "beam" else 1)
    return {
        "greedy": decoding_with(plain, method="greedy", n_best=1),
        "beam": decoding_with(plain, method="beam", beam_width=width, n_best=best),
    }, lacking


def snippet(folder: Union[str, Path], about: dict[str, Any]) -> str:
    """A program that loads an exported model and talks to it, with nothing but TensorFlow."""
    history = ""
    if about["context_turns"] > 1:
        history = ', history=tf.constant([["hello .", "hi ! how are you ?"], ["", ""]])'
    return f"""\
import tensorflow as tf

model = tf.saved_model.load({str(folder)!r})
text = tf.constant(["how are you ?", "tell me a joke ."])
answer = model.signatures["greedy"](text=text{history})
for reply in answer["reply"].numpy():
    print(reply.decode())
answer = model.signatures["beam"](text=text{history})
for replies, scores in zip(answer["replies"].numpy(), answer["scores"].numpy()):
    for reply, score in zip(replies, scores):
        print(f"{{score:.4f}}\\t{{reply.decode()}}")
"""
