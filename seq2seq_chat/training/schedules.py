"""How the learning rate falls, and when training stops because nothing gets better."""

from __future__ import annotations

from collections.abc import Mapping

from seq2seq_chat.config import Training


class Progress:
    """What the validations so far mean for the rest of the training.

    All of it is in :attr:`state`, numbers that are kept in checkpoints.
    """

    def __init__(self, config: Training) -> None:
        self._config = config
        self.state = {"since_best": 0, "since_fall": 0, "falls": 0}

    def restore(self, state: Mapping[str, int]) -> None:
        """Go on from a checkpoint."""
        self.state |= {key: int(value) for key, value in state.items() if key in self.state}

    def learning_rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0.

        ::

            constant      rate
            exponential   rate · decay^(step / decay steps)
            plateau       rate · decay^falls
        """
        config = self._config
        if config.learning_rate_schedule == "exponential":
            return config.learning_rate * config.learning_rate_decay ** (step / config.learning_rate_decay_steps)
        if config.learning_rate_schedule == "plateau":
            return config.learning_rate * config.learning_rate_decay ** self.state["falls"]
        return config.learning_rate

    def validated(self, best: bool) -> bool:
        """Count a validation; whether the learning rate falls because of it."""
        if best:
            self.state |= {"since_best": 0, "since_fall": 0}
            return False
        self.state["since_best"] += 1
        self.state["since_fall"] += 1
        falls = (
            self._config.learning_rate_schedule == "plateau"
            and self.state["since_fall"] >= self._config.learning_rate_patience
        )
        if falls:
            self.state |= {"since_fall": 0, "falls": self.state["falls"] + 1}
        return falls

    @property
    def gave_up(self) -> bool:
        """Whether early stopping ends the training."""
        patience = self._config.early_stopping
        return patience is not None and self.state["since_best"] >= patience
