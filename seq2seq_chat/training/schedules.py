"""Learning rate schedules and early stopping."""

from __future__ import annotations

from collections.abc import Mapping

from seq2seq_chat.config import Training


class Schedule:
    """The learning rate of each step and early stopping, given the validations so far.

    Its :attr:`state` is part of every checkpoint: validations since the best one, validations since the learning rate
    dropped, and how often it dropped.
    """

    def __init__(self, settings: Training) -> None:
        self._settings = settings
        self.state = {"since_best": 0, "since_fall": 0, "falls": 0}

    def restore(self, state: Mapping[str, int]) -> None:
        """Continue from the state in a checkpoint."""
        self.state |= {key: int(value) for key, value in state.items() if key in self.state}

    def learning_rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0.

        ::

            constant      rate
            exponential   rate · decay^(step / decay steps)
            plateau       rate · decay^drops
        """
        settings = self._settings
        if settings.learning_rate_schedule == "exponential":
            return settings.learning_rate * settings.learning_rate_decay ** (step / settings.learning_rate_decay_steps)
        if settings.learning_rate_schedule == "plateau":
            return settings.learning_rate * settings.learning_rate_decay ** self.state["falls"]
        return settings.learning_rate

    def record_validation(self, improved: bool) -> bool:
        """Count a validation; returns whether the learning rate drops because of it."""
        if improved:
            self.state |= {"since_best": 0, "since_fall": 0}
            return False
        self.state["since_best"] += 1
        self.state["since_fall"] += 1
        drops = (
            self._settings.learning_rate_schedule == "plateau"
            and self.state["since_fall"] >= self._settings.learning_rate_patience
        )
        if drops:
            self.state |= {"since_fall": 0, "falls": self.state["falls"] + 1}
        return drops

    @property
    def stopped_early(self) -> bool:
        """Whether early stopping ends the training."""
        patience = self._settings.early_stopping
        return patience is not None and self.state["since_best"] >= patience
