"""Learning: a few real steps with the settings themselves, and what they make of the whole training."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seq2seq_chat.architecture.variables import WORD_VARIABLES
from seq2seq_chat.checks.check_context import CheckContext, CheckResult, OnProgress
from seq2seq_chat.config import Config, Training
from seq2seq_chat.data.build_codecs import build_codecs
from seq2seq_chat.data.corpus_file import write_conversations
from seq2seq_chat.model.variables import variable_name
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, Vocabulary
from seq2seq_chat.training.distribution.collective import SINGLE_DEVICE
from seq2seq_chat.training.language_model import LanguageModelSetup
from seq2seq_chat.training.learner import Learner, build_learner
from seq2seq_chat.training.optimizers import Schedule
from seq2seq_chat.training.sampler import open_training_corpus, training_batches

MAX_PRODUCTS = {True: 2e11, False: 8e11}  # of a trial, with --fast and without: multiplications of the forward pass
MIN_STEPS, MAX_STEPS = 8, 40  # of a trial; three of eight steps are on batches of the corpus
REQUIRED_FALL = 1.0  # nats per token over the whole training, or half of the initial loss if that is less
MAX_RISE = 0.05  # of the initial loss
MIN_MOVEMENT = 1e-4  # of the weights over the whole training, relative; less is lost in the rounding of the loss
MIN_RATE, RATE_AT = 1e-6, (0.01, 0.1, 0.5)  # of the initial learning rate, at these parts of the training
MIN_KEPT = 0.1  # of the gradient's norm: less is left by a limit that determines the update
CHARACTERS = 100  # words of the synthetic corpus of a model of characters

USUAL_RATES = {"adagrad": 0.01, "adadelta": 1.0, "adam": 0.001, "rmsprop": 0.001, "sgd": 0.5}
TOO_HIGH, TOO_LOW, CLIPPED, DECAYED, FROZEN = (
    "a learning rate that is too high",
    "a learning rate that is too low",
    "gradients that are always clipped",
    "a schedule whose learning rate reaches zero",
    "variables that are not trained, a fault of the program",
)
MAX_REMEDIES = 4  # settings that are tried, one after the other

Changes = dict[str, Any]
"""Settings of the section ``training``."""


class Trial(NamedTuple):
    """What the first steps of a training did.

    Attributes:
        settings: Of the training.
        losses: Of batches of the corpus, one after the other, in nats per token.
        fixed_losses: Of the first of these batches, with the same random numbers, in the steps that follow.
        norms: Of the gradients of all steps.
        movement: The share by which a step changes the weights, on average.
        weights: Their number.
        untrained: The variables that never changed.
    """

    settings: Training
    losses: list[float]
    fixed_losses: list[float]
    norms: list[float]
    movement: float
    weights: int
    untrained: list[str]

    @property
    def final_loss(self) -> float:
        """Of the fixed batch, the mean of the last third."""
        return float(np.mean(self.fixed_losses[-max(1, len(self.fixed_losses) // 3) :]))

    @property
    def rises(self) -> bool:
        """Whether the loss rises or is not finite."""
        limit = self.losses[0] * (1 + MAX_RISE)
        recent = self.losses[-max(1, len(self.losses) // 3) :]
        if not np.all(np.isfinite([*self.losses, *self.fixed_losses, *self.norms])):
            return True
        return self.final_loss > limit or float(np.mean(recent)) > limit + MAX_RISE * self.losses[0]

    @property
    def required_fall(self) -> float:
        """Nats per token over the whole training."""
        return min(REQUIRED_FALL, self.losses[0] / 2)

    @property
    def fall_per_step(self) -> float:
        """Of the loss, in nats per token and step at the initial learning rate.

        The larger one of two: the trend of the fixed batch, and the fall from its first loss to its last ones.
        """
        rates = list(_rates(self.settings, range(len(self.norms))))
        done = np.cumsum([0.0, *rates[:-1]])  # before each step, in steps at the initial rate
        fixed = done[len(self.losses) :]
        falls = [(self.losses[0] - self.final_loss) / max(fixed[-1], 1.0)]
        if np.ptp(fixed) > 0:
            falls.append(-float(np.polyfit(fixed, self.fixed_losses, 1)[0]))
        return max(falls)

    @property
    def kept(self) -> float:
        """The share of the gradient's norm that clipping keeps, the median of all steps, 0 to 1."""
        limit, norm = self.settings.gradient_clipping, float(np.median(self.norms))
        if limit is None or norm == 0:
            return 1.0
        if self.settings.gradient_clipping_by == "value":  # no vector of clipped values is longer
            limit *= math.sqrt(self.weights)
        return min(1.0, limit / norm)

    def learns(self, steps: float) -> bool:
        """Whether so many steps at the initial rate make the loss fall enough."""
        return self.fall_per_step * steps >= self.required_fall and self.movement * steps >= MIN_MOVEMENT

    def diagnose(self) -> str | None:
        """What it looks like if it cannot learn; None if it can."""
        if self.rises:
            return TOO_HIGH
        if min(rates_at(self.settings).values()) < MIN_RATE:
            return DECAYED
        if not self.learns(effective_steps(self.settings)):
            if self.kept < MIN_KEPT:
                return CLIPPED
            return DECAYED if self.learns(self.settings.steps) else TOO_LOW
        return FROZEN if self.untrained else None

    def describe(self) -> str:
        """The evidence."""
        settings, finite = self.settings, np.isfinite(self.final_loss)
        limit = settings.gradient_clipping
        clipped = np.mean([norm > (limit or math.inf) for norm in self.norms])
        rates = ", ".join(f"{rate * settings.learning_rate:.2g}" for rate in rates_at(settings).values())
        fall = f"{self.fall_per_step:.2g} nats per step" if finite else "no number any more"
        limited = f"gradient norm {np.median(self.norms):.2g}" + ("" if limit is None else f", limit {limit:g}")
        if limit is not None and settings.gradient_clipping_by == "norm":
            limited += f", {clipped:.0%} of the steps clipped"
        untrained = f"; never changed: {', '.join(self.untrained[:3])}" if self.untrained else ""
        more = f" and {len(self.untrained) - 3} more" if len(self.untrained) > 3 else ""
        return (
            f"fall of the loss {fall}; weights change by {self.movement:.2g} of their size per step; {limited}; "
            f"learning rate {rates} at 1, 10 and 50 % of the steps{untrained}{more}"
        )


def check_learning(context: CheckContext, on_progress: OnProgress) -> CheckResult:
    """Train a few steps as configured, and judge whether the loss falls by a nat over the whole training.

    If it does not, other settings are tried until one helps.
    """
    config = _trial_config(context)
    trial = run_trial(context, config, on_progress)
    cause, remedy = trial.diagnose(), ""
    evidence = trial.describe()
    if cause is not None:
        changes = _find_remedy(context, config, trial, on_progress) if cause != FROZEN else None
        remedy = _command(context, changes) if changes else ""
        evidence = f"it looks like {cause}: {evidence}"
        if not remedy and cause != FROZEN:
            evidence += "; no setting that was tried helps"
    return CheckResult(
        passed=cause is None,
        measured=f"loss {trial.losses[0]:.3f} → {trial.final_loss:.3f} nats in {len(trial.norms) - 1} steps",
        required=f"no rise, and a fall of {trial.required_fall:.2g} in {config.training.steps:,} steps",
        detail=evidence,
        curve=tuple(enumerate(trial.losses)),
        remedy=remedy,
    )


def run_trial(context: CheckContext, config: Config, on_progress: OnProgress) -> Trial:
    """Train from the initial weights: first on batches of the corpus, then on the first of them again and again."""
    learner, schedule = _build_learner(context, config), Schedule(config.training)
    variables = learner.model.trainable_variables
    before = [variable.numpy() for variable in variables]
    steps = _trial_steps(learner, context.fast)
    corpus_steps = steps * 3 // 8
    losses: list[float] = []
    norms: list[float] = []
    for step in range(steps):
        learner.set_learning_rate(schedule.learning_rate(step))
        if step >= corpus_steps:
            learner.step = 0  # its batch and its random numbers
        result = learner.train_step()
        losses.append(float(result.loss.nats) / float(result.loss.tokens))
        norms.append(float(result.gradient_norm))
        on_progress(f"step {step + 1} of {steps}, loss {losses[-1]:.3f}")
        if not math.isfinite(losses[-1]):
            break
    learner.close()
    changes = [variable.numpy() - old for variable, old in zip(variables, before, strict=True)]
    return Trial(
        config.training,
        losses[:corpus_steps],
        losses[corpus_steps:] or [math.nan],
        norms,
        movement=_norm(changes) / _norm(before) / len(norms),
        weights=sum(array.size for array in before),
        untrained=[variable_name(v) for v, change in zip(variables, changes, strict=True) if not np.any(change)],
    )


def rates_at(settings: Training) -> dict[float, float]:
    """The learning rate at parts of the training, relative to the initial one."""
    return dict(zip(RATE_AT, _rates(settings, (int(part * settings.steps) for part in RATE_AT)), strict=True))


def effective_steps(settings: Training) -> float:
    """The sum of the learning rates of the whole training, relative to the initial one."""
    ends = np.unique(np.geomspace(1, settings.steps, 10_000).astype(np.int64))  # most of them early
    starts = np.concatenate([[0], ends[:-1]])
    return float(np.dot(ends - starts, list(_rates(settings, starts.tolist()))))


def _rates(settings: Training, steps: Iterable[int]) -> Iterator[float]:
    """The learning rates of steps, relative to the initial one."""
    schedule = Schedule(settings)
    return (schedule.learning_rate(step) / settings.learning_rate for step in steps)


def _find_remedy(context: CheckContext, config: Config, trial: Trial, on_progress: OnProgress) -> Changes | None:
    """Settings with which a trial passes; None if none is found."""
    changes: Changes = {}
    for _ in range(MAX_REMEDIES):
        cause = trial.diagnose()
        if cause is None:
            return changes
        change = _remedy(cause, trial)
        if change is None:
            return None
        changes |= change
        training = Training.model_validate(config.training.model_dump() | changes)
        on_progress(f"trying {', '.join(f'{key}={value}' for key, value in change.items())}")
        trial = run_trial(context, config.model_copy(update={"training": training}), on_progress)
    return changes if trial.diagnose() is None else None


def _remedy(cause: str, trial: Trial) -> Changes | None:
    """What to change next; None if nothing is left."""
    settings = trial.settings
    rate, usual = settings.learning_rate, USUAL_RATES[settings.optimizer] * (1 - settings.momentum)
    if cause == CLIPPED:
        return {"gradient_clipping": Training.model_fields["gradient_clipping"].default}
    if cause == DECAYED:
        if settings.learning_rate_decay**0.5 > MIN_RATE and settings.learning_rate_decay_steps < settings.steps:
            return {"learning_rate_decay_steps": settings.steps}
        return {"learning_rate_schedule": "constant"}
    if cause == TOO_HIGH:
        return {"learning_rate": min(usual, rate / 10)}
    if cause == TOO_LOW and rate < usual:
        return {"learning_rate": usual}
    if cause == TOO_LOW and settings.optimizer != "adam":
        return {"optimizer": "adam", "learning_rate": USUAL_RATES["adam"], "momentum": 0.0}
    if cause == TOO_LOW and trial.fall_per_step > 0:
        needed = 2 * settings.steps * trial.required_fall / (trial.fall_per_step * effective_steps(settings))
        return {"steps": math.ceil(needed)}
    return None


def _command(context: CheckContext, changes: Mapping[str, Any]) -> str:
    """The command that checks the changed settings."""
    config_file, overrides = context.source
    keys = {f"training.{key}": value for key, value in changes.items()}
    kept = [each for each in overrides if each.partition("=")[0] not in keys]
    changed = [*kept, *(f"{key}={value}" for key, value in keys.items())]
    options = [part for override in changed for part in ("--set", override)]
    fast = ["--fast"] if context.fast else []
    return shlex.join(["seq2seq-chat", "check", config_file, *options, *fast, "--only", "learning"])


def _trial_config(context: CheckContext) -> Config:
    """The configuration; if its corpus is missing, with a synthetic one of the same size."""
    config = context.config
    if not context.missing_files:
        return config
    model, data = config.model, config.data
    side = data.target_text
    size = min(side.vocabulary_size, CHARACTERS) if "character" in side.tokenizer else side.vocabulary_size
    return context.small_config(
        size,
        hidden_size=model.hidden_size,
        embedding_size=max(model.embedding_size, model.projection_size or 0),
        steps=1,
        model={"encoder_steps": model.encoder_steps, "decoder_steps": model.decoder_steps},
        data={"buckets": data.buckets, "train": str(context.folder / "learning.txt")},
    )


def _build_learner(context: CheckContext, config: Config) -> Learner[Any]:
    """The learner of an experiment on one device."""
    is_text = config.task == "language_model"
    if context.missing_files:
        codecs = _write_synthetic_corpus(context, config)
    else:
        codecs = build_codecs(config.data, running_text=is_text)
    if is_text:
        data = config.data.model_copy(update={"validation": None})
        return LanguageModelSetup(config.model_copy(update={"data": data}), codecs).build_learner(SINGLE_DEVICE)
    corpus = open_training_corpus(config, codecs, lambda _: None)
    return build_learner(config, codecs, training_batches(config, codecs, corpus))


def _write_synthetic_corpus(context: CheckContext, config: Config) -> Codecs:
    """Texts of as many tokens as the model reads, whose words are as frequent as by Zipf's law."""
    model, training, rng = config.model, config.training, np.random.default_rng(config.seed)
    words = [f"w{number}" for number in range(max(2, config.data.vocabulary_size - len(SPECIAL_WORDS)))]
    frequencies = 1 / np.arange(1, len(words) + 1)
    maximum = max(1, min(model.encoder_steps, model.decoder_steps - 1, config.data.max_length or 10**4))
    count = MAX_STEPS * training.batch_size
    if config.task == "language_model":
        maximum, count = training.truncation.steps, count // 2 + training.batch_size

    def text() -> str:
        return " ".join(rng.choice(words, rng.integers(1, maximum + 1), p=frequencies / frequencies.sum()))

    write_conversations(Path(config.data.train), [(text(), text()) for _ in range(count)])
    return Codecs.of_words(Vocabulary([*SPECIAL_WORDS, *words]))


def _trial_steps(learner: Learner[Any], fast: bool) -> int:
    """Steps that take a minute at most: fewer of a large model."""
    used = sum(
        math.prod(variable.shape)
        for variable in learner.model.trainable_variables
        if variable_name(variable) not in WORD_VARIABLES or (variable_name(variable)[:6] == "output" and not learner.sampled)
    )
    products = used * float(np.size(learner.batches.batch(0)[0]))
    return int(np.clip(MAX_PRODUCTS[fast] / products, MIN_STEPS, MAX_STEPS))


def _norm(arrays: list[np.ndarray]) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return math.sqrt(sum(float(np.sum(np.square(array, dtype=np.float64))) for array in arrays))
