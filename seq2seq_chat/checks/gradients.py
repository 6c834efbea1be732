"""Gradients: they are finite, reach every unit of every variable, and are clipped where that is configured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from seq2seq_chat.checks.subject import Finding, Progress, Subject
from seq2seq_chat.config import Config
from seq2seq_chat.corpus.encoded import Batch
from seq2seq_chat.corpus.vocabulary import SPECIAL_WORDS
from seq2seq_chat.model.deferred import DeferredGradients
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.training.checkpoints import plain_name
from seq2seq_chat.training.optimizers import build_optimizer
from seq2seq_chat.training.step import TrainingStep

VOCABULARY, SAMPLES, MOST_STEPS = 200, 16, 30
TOLERANCE = 0.01
PICTURE = "gradient_norms.png"


def check_gradients(subject: Subject, progress: Progress) -> Finding:
    """One step of plain gradient descent at rate 1, in which every variable moves by its clipped gradient."""
    steps = min(MOST_STEPS, max(subject.config.model.encoder_steps, subject.config.model.decoder_steps))
    descent: dict[str, Any] = {"training__optimizer": "sgd", "training__learning_rate": 1.0, "training__momentum": 0.0}
    descent |= {"training__gradient_clipping": None, "training__batch_parts": 1}
    descent["model__unrolling"] = "static"  # step by step is how its gradients are looked at
    config = subject.sized(VOCABULARY, hidden=64, units=48, steps=steps, **descent)
    batch = _batch(config, steps)
    model, training_step = _start(config)
    progress("gradients")
    _, gradients, tape = training_step.gradients(batch, tf.constant(0, tf.int64))
    finite = all(np.all(np.isfinite(tf.convert_to_tensor(g))) for g in gradients if g is not None)
    last_word = _of_the_last_word(model, batch)
    by_step = _norms(model, tape, "of all words") | _norms(model, last_word, "of the last word")
    draw_norms(by_step, subject.folder / PICTURE, f"{config.model.cell}, {config.model.attention} attention")

    progress("update")
    before = [variable.numpy() for variable in model.trainable_variables]
    norm = float(training_step(batch, 0).gradient_norm)
    moves = [after.numpy() - was for after, was in zip(model.trainable_variables, before, strict=True)]
    still = [
        f"{plain_name(variable)} ({count} of {units} units)"
        for variable, move in zip(model.trainable_variables, moves, strict=True)
        for count, units in [_still_units(move)]
        if count
    ]
    clipped = _clipped_move(config, batch, norm / 2) if subject.config.training.gradient_clipping else norm / 2
    clipping = abs(clipped / (norm / 2) - 1) <= TOLERANCE and abs(_length(moves) / norm - 1) <= TOLERANCE
    far, near = (by_step["decoder, of the last word"][step] for step in (0, -1))
    return Finding(
        passed=finite and not still and clipping,
        figure=f"norm {norm:.3g}{'' if finite else ', not finite'}, {len(still)} variables with still units, "
        f"clipping {'works' if clipping else 'does not work'}",
        threshold="finite, all units move, clipping as configured",
        detail=("; ".join(still) + "; " if still else "")
        + f"of the last word's loss the first decoder step gets {far / near if near else 0:.2g} times "
        f"what the last one gets, see {subject.folder / PICTURE}",
    )


def _start(config: Config) -> tuple[Seq2Seq, TrainingStep]:
    model = Seq2Seq(config.model, VOCABULARY, config.seed)
    return model, TrainingStep(model, build_optimizer(config.training), config)


def _batch(config: Config, steps: int) -> Batch:
    """Samples without padding, so that every step has the same part in the loss."""
    rng = np.random.default_rng(config.seed)
    source, target = rng.integers(len(SPECIAL_WORDS), VOCABULARY, (2, SAMPLES, steps)).astype(np.int32)
    full = np.full(SAMPLES, steps, np.int32)
    return Batch(source, full, target, full)


def _of_the_last_word(model: Seq2Seq, batch: Batch) -> DeferredGradients:
    """The gradient of the last word's loss alone: all that reaches earlier steps has come through the network."""
    with DeferredGradients() as tape:
        hidden, words, _ = model.teacher_forced(*batch)
        loss = tf.reduce_mean(model.output.full_loss(hidden[-SAMPLES:], words[-SAMPLES:]))
    tape.gradient(loss, model.trainable_variables)
    return tape


def _norms(model: Seq2Seq, tape: DeferredGradients, loss: str) -> dict[str, list[float]]:
    """The gradient's norm at the gates of the top cells, step by step."""
    cells = {"encoder": model.encoder.cells[-1], "decoder": model.decoder.cells[-1]}
    return {
        f"{part}, {loss}": [_norm(gradient) for gradient in tape.gradient_by_use(cell.recurrent.matrix)]
        for part, cell in cells.items()
    }


def _clipped_move(config: Config, batch: Batch, largest: float) -> float:
    """How far all variables move together in a step that is clipped to ``largest``."""
    training = config.training.model_copy(update={"gradient_clipping": largest})
    model, training_step = _start(config.model_copy(update={"training": training}))
    before = [variable.numpy() for variable in model.trainable_variables]
    training_step(batch, 0)
    return _length([after.numpy() - was for after, was in zip(model.trainable_variables, before, strict=True)])


def _still_units(move: np.ndarray) -> tuple[int, int]:
    """(units that did not move, units). A unit is a column; of a bias, and of a table's bias, it is an entry."""
    if move.shape == (VOCABULARY,):  # only the words of the batch are touched
        return int(not np.any(move)), 1
    moved = move != 0 if move.ndim == 1 else np.any(move != 0, axis=0)
    return int(np.sum(~moved)), moved.size


def _length(moves: list[np.ndarray]) -> float:
    return float(np.sqrt(sum(np.sum(np.square(move, dtype=np.float64)) for move in moves)))


def _norm(gradient: tf.Tensor | None) -> float:
    return 0.0 if gradient is None else float(tf.norm(gradient))


def draw_norms(by_step: dict[str, list[float]], path: Path, title: str) -> None:
    """A picture of the gradient's norm at every time step: lines of encoder and decoder, by their labels."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for label, norms in by_step.items():
        encoder, everything = label.startswith("encoder"), "all" in label
        axes.semilogy(
            range(1, len(norms) + 1),
            norms,
            label=f"{label}'s loss" if not everything else label.replace("all words", "all words' loss"),
            color="#0072b2" if encoder else "#d55e00",
            marker="o" if encoder else "s",
            linestyle="-" if everything else "--",
            markersize=4,
        )
    axes.set(xlabel="time step", ylabel="gradient norm at the cell's gates", title=title)
    axes.grid(alpha=0.3)
    axes.legend(ncols=2, fontsize="small")
    figure.savefig(path, dpi=150)
    plt.close(figure)
