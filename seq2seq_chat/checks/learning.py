"""Learning: whether training with exactly these settings can make the loss fall, judged by its first steps."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from typing import Any

import numpy as np

from seq2seq_chat.checks.check_context import CheckContext, CheckResult, OnProgress
from seq2seq_chat.checks.learning_trial import RATE_AT, Trial, effective_steps, rates_at, run_trial, trial_config
from seq2seq_chat.config import Config, Training

REQUIRED_FALL = 1.0  # nats per token over the whole training, or half of the initial loss if that is less
MAX_RISE, MAX_CORPUS_RISE = 1.05, 1.5  # times the initial loss: of the fixed batch, and of different ones
MIN_MOVEMENT = 1e-3  # of the weights over the whole training, relative; a nat takes more
MIN_RATE = 1e-6  # of the initial learning rate
MIN_EFFECTIVE = 0.1  # of the steps: less is left by a schedule that determines the fall
UNDECIDED = 0.1  # of the required fall: if more is expected, a longer trial decides
SHORT, LONG = 40, 300  # steps of a trial at most; fewer of a large model
MIN_KEPT = 0.1  # of the gradient's norm: less is left by a limit that determines the update

TOO_HIGH, TOO_LOW, CLIPPED, DECAYED, FROZEN = (
    "a learning rate that is too high",
    "a learning rate that is too low, or too few steps",
    "gradients that are always clipped",
    "a schedule whose learning rate reaches zero",
    "variables that are not trained, which is a fault of the program",
)
MAX_STEPS = 10**9  # of training
USUAL_RATES = {"adagrad": 0.01, "adadelta": 1.0, "adam": 0.001, "rmsprop": 0.001, "sgd": 0.5}
MAX_REMEDIES = 4  # that are tried, each in addition to the earlier ones
SYNTHETIC = "vocabulary, corpus (random words); devices, pretrained embeddings"

Changes = dict[str, Any]
"""Settings of the section ``training``."""


def check_learning(context: CheckContext, on_progress: OnProgress) -> CheckResult:
    """A few real steps show that the loss will fall by a nat. If not, settings are tried until some help."""
    config = trial_config(context)
    trial = _try(context, config, on_progress)
    cause, detail, changes = diagnose(trial), _describe(trial), None
    if cause is not None:
        changes = None if cause == FROZEN else _find_remedy(context, config, trial, on_progress)
        if changes is None and trial.untrained:
            cause = FROZEN
        detail = f"it looks like {cause}: {detail}" + ("" if changes else "; no setting that was tried helps")
    return CheckResult(
        passed=cause is None,
        measured=f"loss {trial.losses[0]:.3f} → {trial.final_loss:.3f} nats in {len(trial.norms) - 1} steps",
        required=f"no rise, and a fall of {_required_fall(trial):.2g} nats in {config.training.steps:,} steps",
        detail=detail,
        curve=tuple(enumerate([*trial.losses, *trial.fixed_losses])),
        remedy=_command(context, changes) if changes else "",
        replaced=SYNTHETIC if context.missing_files else "",
    )


def _try(context: CheckContext, config: Config, on_progress: OnProgress) -> Trial:
    """A trial; a longer one if that might show that the loss falls faster after the first steps."""
    trial = run_trial(context, config, SHORT, on_progress)
    if diagnose(trial) == TOO_LOW and _expected_fall(trial) > UNDECIDED * _required_fall(trial):
        return run_trial(context, config, LONG, on_progress)
    return trial


def diagnose(trial: Trial) -> str | None:
    """What it looks like if the settings cannot learn; None if they can."""
    settings = trial.settings
    if _rises(trial):
        return TOO_HIGH
    if min(rates_at(settings)) < MIN_RATE:
        return DECAYED
    if not _learns(trial, effective_steps(settings)):
        if trial.kept < MIN_KEPT:
            return CLIPPED
        decayed = effective_steps(settings) < MIN_EFFECTIVE * settings.steps and _learns(trial, settings.steps)
        return DECAYED if decayed else TOO_LOW
    return FROZEN if trial.untrained else None


def _rises(trial: Trial) -> bool:
    """Whether the loss rises or is not finite."""
    if not np.all(np.isfinite([*trial.losses, *trial.fixed_losses])):
        return True
    return max(trial.final_loss / MAX_RISE, trial.final_corpus_loss / MAX_CORPUS_RISE) > trial.losses[0]


def _required_fall(trial: Trial) -> float:
    """Nats per token over the whole training."""
    return min(REQUIRED_FALL, trial.losses[0] / 2)


def _expected_fall(trial: Trial) -> float:
    """Nats per token over the whole training, if the loss goes on falling like that."""
    steps = effective_steps(trial.settings)
    return trial.fall_per_step(steps) * steps


def _learns(trial: Trial, steps: float) -> bool:
    """Whether so many steps at the initial rate make the loss fall enough."""
    return trial.fall_per_step(steps) * steps >= _required_fall(trial) and trial.movement * steps >= MIN_MOVEMENT


def _describe(trial: Trial) -> str:
    """The evidence."""
    settings, limit = trial.settings, trial.settings.gradient_clipping
    parts = []
    if np.isfinite(trial.final_loss):
        parts.append(f"the loss falls by {trial.fall_per_step(effective_steps(settings)):.2g} nats per step")
    parts.append(f"a step changes the weights by {100 * trial.movement:.2g} %")
    parts.append(f"the gradient norm is {np.median(trial.norms):.2g}, of which clipping keeps {trial.kept:.2g}")
    if limit is not None and settings.gradient_clipping_by == "norm":
        parts[-1] += f" ({np.mean(np.array(trial.norms) > limit):.0%} of the steps clipped)"
    rates = ", ".join(f"{rate * settings.learning_rate:.2g}" for rate in rates_at(settings))
    parts.append(f"the learning rate is {rates} at {', '.join(f'{100 * part:g}' for part in RATE_AT)} % of the steps")
    if trial.untrained:
        more = f" and {len(trial.untrained) - 3} more" if len(trial.untrained) > 3 else ""
        parts.append(f"never changed: {', '.join(trial.untrained[:3])}{more}")
    return "; ".join(parts)


def _find_remedy(context: CheckContext, config: Config, trial: Trial, on_progress: OnProgress) -> Changes | None:
    """Settings with which a trial passes; None if none is found."""
    changes: Changes = {}
    for _ in range(MAX_REMEDIES):
        change = _remedy(trial)
        if change is None:
            return None
        changes |= change
        training = Training.model_validate(config.training.model_dump() | changes)
        on_progress(f"trying {', '.join(f'{key}={value}' for key, value in change.items())}")
        trial = _try(context, config.model_copy(update={"training": training}), on_progress)
        if diagnose(trial) is None:
            return changes
    return None


def _remedy(trial: Trial) -> Changes | None:
    """What to change next; None if nothing is left."""
    cause, settings = diagnose(trial), trial.settings
    rate, usual = settings.learning_rate, USUAL_RATES[settings.optimizer] * (1 - settings.momentum)
    change: Changes | None = None
    if cause == CLIPPED:
        change = {"gradient_clipping": Training.model_fields["gradient_clipping"].default}
    elif cause == DECAYED:
        slower = settings.learning_rate_decay**0.5 > MIN_RATE and settings.learning_rate_decay_steps < settings.steps
        change = {"learning_rate_decay_steps": settings.steps} if slower else {"learning_rate_schedule": "constant"}
    elif cause == TOO_HIGH:
        change = {"learning_rate": min(usual, rate / 10)}
    elif cause == TOO_LOW and rate < usual:
        change = {"learning_rate": usual}
    elif cause == TOO_LOW and settings.optimizer != "adam":
        change = {"optimizer": "adam", "learning_rate": USUAL_RATES["adam"]}
        change |= {"momentum": 0.0} if settings.momentum else {}
    elif cause == TOO_LOW and (fall := _expected_fall(trial)) > 0:
        needed = 2 * settings.steps * _required_fall(trial) / fall
        change = {"steps": math.ceil(needed)} if needed <= MAX_STEPS else None
    return change


def _command(context: CheckContext, changes: Mapping[str, Any]) -> str:
    """The command that checks the changed settings."""
    config_file, overrides = context.source
    keys = {f"training.{key}": value for key, value in changes.items()}
    kept = [each for each in overrides if each.partition("=")[0] not in keys]
    changed = [*kept, *(f"{key}={value}" for key, value in keys.items())]
    options = [part for override in changed for part in ("--set", override)]
    fast = ["--fast"] if context.fast else []
    return shlex.join(["seq2seq-chat", "check", config_file, *options, *fast, "--only", "learning"])
