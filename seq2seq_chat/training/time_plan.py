"""Fit the number of training steps to the hours that a run may take."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

from seq2seq_chat.config import Training

UNPLANNED_STEPS = 10**9  # of a run with training.hours, until its first steps have been timed
MIN_TIMED_STEPS = 10
FIRST_SECONDS, FIRST_SHARE = 20.0, 0.02  # of timed steps before the first plan: the lesser of both, as a share of all
LATER_SHARE, LAST_SHARE = 0.3, 0.04  # a plan is corrected after a share of its time or steps, until little time is left
VALIDATIONS, MAX_VALIDATION_SHARE = 12, 0.1  # of a run; the share of the time that they may take
MAX_SPACING_ERROR = 0.2  # relative, of the steps between validations
FINISH_SECONDS, FINISH_SHARE = 1.0, 0.002  # kept for the last checkpoint: the greater of both


def without_plan(settings: Training) -> Training:
    """The settings of a run with training.hours before its first steps: nothing is due until the first plan."""
    return _with_intervals(settings, UNPLANNED_STEPS, UNPLANNED_STEPS, learning_rate_schedule="linear")


def _with_intervals(settings: Training, steps: int, every: int, **changes: str) -> Training:
    snapshots = settings.snapshot_every and min(3 * every, UNPLANNED_STEPS)
    intervals = {"validate_every": every, "checkpoint_every": every, "snapshot_every": snapshots}
    return settings.model_copy(update={"steps": steps, **intervals, **changes})


class TimePlan:
    """Times steps and validations, and fits the training to the rest of the time.

    A plan sets training.steps, to which the learning rate falls, and how often to validate and save. Later plans
    correct the first one, as a machine is not always equally fast: if it is slower now, before the time is over, and if
    it is faster, before the steps are done. They change the spacing of validations only if it is far off.

    Args:
        hours: The length of the whole run.
        started: When it started, a time of ``clock``.
        clock: Returns the time in seconds.
    """

    def __init__(self, hours: float, started: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._start, self._seconds, self._clock = started, 3600 * hours, clock
        self._steps, self._step_seconds = 0, 0.0  # since the last plan
        self._due_seconds, self._due_step = 0.0, 0  # of the next plan; 0 before the first one
        self.validation_seconds = 0.0  # of the last validation

    @property
    def is_first(self) -> bool:
        """Whether the next plan is the first one, for which a validation must be timed."""
        return self._due_step == 0

    def add_step(self, seconds: float) -> None:
        """Count a step that built no graph, and what followed it, without plan and validation."""
        self._steps += 1
        self._step_seconds += seconds

    def is_due(self, step: int) -> bool:
        """Whether it is time for a plan, after a number of steps."""
        if self._steps < MIN_TIMED_STEPS:
            return False
        if self.is_first:
            return self._step_seconds >= min(FIRST_SECONDS, FIRST_SHARE * self._seconds)
        elapsed = self._clock() - self._start
        is_last = elapsed >= (1 - LAST_SHARE) * self._seconds
        return not is_last and (elapsed >= self._due_seconds or step >= self._due_step)

    def fit(self, settings: Training, step: int) -> Training:
        """The settings for the rest of the time, after a number of steps."""
        elapsed = self._clock() - self._start
        left = self._seconds - elapsed - max(FINISH_SECONDS, FINISH_SHARE * self._seconds)
        validation, per_step = self.validation_seconds, self._step_seconds / self._steps
        count = int(np.clip(MAX_VALIDATION_SHARE * self._seconds / max(validation, 1e-9), 1, VALIDATIONS))

        def steps_with(validations: float) -> int:
            return step + max(0, round((left - validations * validation) / per_step))

        every, spacing = settings.validate_every, math.ceil(steps_with(count * left / self._seconds) / count)
        if self.is_first or abs(spacing - every) > MAX_SPACING_ERROR * every:
            every = max(1, spacing)
        steps = steps_with((steps_with(0) - step) / every)
        steps = steps_with(1 + (steps - 1) // every - step // every)  # those at multiples, and the last one
        self._due_seconds = elapsed + LATER_SHARE * max(0.0, left)
        self._due_step = step + max(1, int(LATER_SHARE * (steps - step)))
        self._steps, self._step_seconds = 0, 0.0
        return _with_intervals(settings, steps, every)

    def describe(self, settings: Training, step: int) -> str:
        """A sentence for the log."""
        left = max(0.0, self._seconds - (self._clock() - self._start)) / 60
        return (
            f"{settings.steps:,} steps fit into {self._seconds / 3600:g} h: {settings.steps - step:,} more in "
            f"{left:.1f} min, validations every {settings.validate_every:,}"
        )
