"""Gradients: they are finite, reach every unit of every variable, and are clipped as configured."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from seq2seq_chat.checks.check_context import CheckContext, CheckResult, OnProgress, global_norm
from seq2seq_chat.config import Config, Truncation
from seq2seq_chat.data.dataset import Batch
from seq2seq_chat.data.running_text import Streams, TextBatch
from seq2seq_chat.model.deferred import DeferredGradients
from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.model.variables import variable_name
from seq2seq_chat.report.figures.model_internals import draw_gradients_by_step, norms_by_step
from seq2seq_chat.report.figures.style import save
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS
from seq2seq_chat.training.language_model import LanguageModelLoss
from seq2seq_chat.training.optimizers import build_optimizer
from seq2seq_chat.training.step import TrainingStep

VOCABULARY_SIZE, SAMPLES, MAX_STEPS = 200, 16, 30
TOLERANCE = 0.01  # relative
FIGURE = "gradient_norms.png"


def check_gradients(context: CheckContext, on_progress: OnProgress) -> CheckResult:
    """Every variable changes by its clipped gradient in a step of SGD with learning rate 1, and every unit changes."""
    steps = min(MAX_STEPS, max(context.config.model.encoder_steps, context.config.model.decoder_steps))
    training = {"optimizer": "sgd", "learning_rate": 1.0, "momentum": 0.0, "gradient_clipping": None}
    config = context.small_config(
        VOCABULARY_SIZE,
        hidden_size=64,
        embedding_size=48,
        steps=steps,
        training=training | {"micro_batches": 1, "batch_size": SAMPLES, "bptt_forward": steps, "bptt_backward": None},
        model={"unrolling": "static"},  # gradients by step need static unrolling
    )
    subject = _build(config, steps)
    model, training_step, batch = subject
    on_progress("gradients")
    _, gradients = training_step.gradients(batch, tf.constant(0, tf.int64))
    finite = all(np.all(np.isfinite(tf.convert_to_tensor(g))) for g in gradients if g is not None)
    all_words, last_word = (
        norms_by_step(model, _recorded_gradients(subject, last_only)) for last_only in (False, True)
    )
    figure = draw_gradients_by_step({"loss of all words": all_words, "loss of the last word": last_word})
    figure.suptitle(f"{config.model.cell}, {config.model.attention} attention")
    save(figure, context.folder / FIGURE, "png")

    on_progress("update")
    before = [variable.numpy() for variable in model.trainable_variables]
    norm, updates = _update(subject)
    dense = [np.asarray(tf.convert_to_tensor(gradient)) for gradient in gradients]
    unchanged = _unchanged_units(model, before, dense, updates)
    clipping_works = abs(global_norm(updates) / norm - 1) <= TOLERANCE
    if context.config.training.gradient_clipping:
        clipped = _clipped_norm(config, steps, norm / 2)
        clipping_works = clipping_works and abs(clipped / (norm / 2) - 1) <= TOLERANCE
    first, last = (last_word["decoder"][step] for step in (0, -1))
    return CheckResult(
        passed=finite and not unchanged and clipping_works,
        measured=f"norm {norm:.3g}{'' if finite else ', not finite'}, {len(unchanged)} variables with unchanged units, "
        f"clipping {'works' if clipping_works else 'does not work'}",
        required="finite, all units change, clipping as configured",
        detail="".join(f"{variable}; " for variable in unchanged)
        + f"the loss of the last word has a gradient {first / last if last else 0:.2g} times as large at the first "
        f"decoder step as at the last, see {context.folder / FIGURE}",
    )


class Subject(NamedTuple):
    """A model, what trains it, and a batch."""

    model: Seq2Seq | LanguageModel
    training_step: TrainingStep
    batch: Batch | TextBatch


def _build(config: Config, steps: int) -> Subject:
    """A model and a batch of random words."""
    training, optimizer, rng = config.training, build_optimizer(config.training), np.random.default_rng(config.seed)
    if config.task != "language_model":
        model = Seq2Seq(config.model, VOCABULARY_SIZE, config.seed)
        # without padding, so that every step has the same share of the loss
        source, target = rng.integers(len(SPECIAL_WORDS), VOCABULARY_SIZE, (2, SAMPLES, steps)).astype(np.int32)
        lengths = np.full(SAMPLES, steps, np.int32)
        return Subject(model, TrainingStep(model, optimizer, training), Batch(source, lengths, target, lengths))
    text_model = LanguageModel(config.model, VOCABULARY_SIZE, config.seed)
    training_step = TrainingStep(text_model, optimizer, training, task_loss=LanguageModelLoss(text_model, training))
    tokens = rng.integers(len(SPECIAL_WORDS), VOCABULARY_SIZE, SAMPLES * steps + 1)
    return Subject(text_model, training_step, Streams(tokens, SAMPLES, steps, steps).batch(0))


def _recorded_gradients(subject: Subject, last_only: bool) -> DeferredGradients:
    """Gradients of the loss of all words, or of the last word, whose loss reaches earlier steps through the network."""
    model, batch = subject.model, subject.batch
    with DeferredGradients() as tape:
        if isinstance(model, Seq2Seq):
            hidden, words, _ = model.teacher_forced(*batch)
            first = len(words) - SAMPLES if last_only else 0
            loss = tf.reduce_mean(model.output.full_loss(hidden[first:], words[first:]))
        else:
            steps = batch[0].shape[1]
            counted = Truncation(forward=1 if last_only else steps, backward=steps)
            total, _ = model.loss(TextBatch(*batch), model.start(SAMPLES), counted)
            loss = total.nats / total.tokens
    tape.gradient(loss, model.trainable_variables)
    return tape


def _update(subject: Subject) -> tuple[float, list[np.ndarray]]:
    """Train one step and return the reported gradient norm and the change of each variable."""
    variables = subject.model.trainable_variables
    before = [variable.numpy() for variable in variables]
    norm = float(subject.training_step(subject.batch, 0).gradient_norm)
    return norm, [variable.numpy() - old for variable, old in zip(variables, before, strict=True)]


def _clipped_norm(config: Config, steps: int, max_norm: float) -> float:
    """The norm of the update when gradients are clipped to ``max_norm``."""
    training = config.training.model_copy(update={"gradient_clipping": max_norm})
    return global_norm(_update(_build(config.model_copy(update={"training": training}), steps))[1])


def _unchanged_units(
    model: Seq2Seq | LanguageModel, before: list[np.ndarray], gradients: list[np.ndarray], updates: list[np.ndarray]
) -> list[str]:
    """The variables with unchanged units, and how many. A unit is a column, or an entry of a bias.

    A gradient below half the distance between the value and the next float may change nothing.
    """
    result = []
    for variable, old, gradient, update in zip(model.trainable_variables, before, gradients, updates, strict=True):
        rounded_away = (gradient != 0) & (np.abs(gradient) <= np.spacing(np.abs(old)) / 2)
        changes = (update != 0) | rounded_away
        if update.shape == (VOCABULARY_SIZE,):  # one unit, as only the words of the batch change
            changed = np.any(changes, keepdims=True)
        else:
            changed = changes if update.ndim == 1 else np.any(changes, axis=0)
        if not np.all(changed):
            result.append(f"{variable_name(variable)} ({int(np.sum(~changed))} of {changed.size} units)")
    return result
