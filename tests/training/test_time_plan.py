"""The number of steps that fits into the time, on a simulated machine, and a run with training.hours."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from seq2seq_chat.config import Training
from seq2seq_chat.training.time_plan import UNPLANNED_STEPS, TimePlan, without_plan
from tests.conftest import Cli


class Machine:
    """Trains without a model: its steps and validations take time, by a clock of its own."""

    def __init__(self, step: float, validation: float, started: float = 7.0) -> None:
        self.step_seconds, self.validation_seconds, self.now = step, validation, 1000.0 + started
        self.changes_at, self.change, self.noise = -1, 1.0, random.Random(1)
        self.validated: list[int] = []

    def train(self, hours: float) -> tuple[Training, int]:
        """The last settings, and the steps done; the command started at 1000 s."""
        settings, step = without_plan(Training(validate_every=10)), 0
        plan = TimePlan(hours, started=1000.0, clock=lambda: self.now)
        while step < settings.steps:
            seconds = self.step_seconds * self.noise.uniform(0.5, 1.5)
            self.now += seconds
            step += 1
            if plan.is_due(step):
                if plan.is_first:
                    self.validate(plan, step)
                settings = plan.fit(settings, step)
            if step % settings.validate_every == 0 or step >= settings.steps:
                self.validate(plan, step)
            plan.add_step(seconds)
            if step == self.changes_at:
                self.step_seconds *= self.change
        return settings, step

    def validate(self, plan: TimePlan, step: int) -> None:
        self.now += self.validation_seconds
        self.validated.append(step)
        plan.validation_seconds = self.validation_seconds


@pytest.mark.parametrize(
    ("hours", "step", "validation"),
    [(0.1, 0.05, 0.1), (0.1, 0.05, 0), (0.1, 0.3, 8), (1, 0.3, 8), (1, 2, 15), (10, 2, 15)],
)
@pytest.mark.parametrize("slows_down", [False, True])
def test_training_ends_in_time(hours: float, step: float, validation: float, slows_down: bool) -> None:
    machine = Machine(step, validation)
    if slows_down:
        machine.changes_at, machine.change = round(0.3 * 3600 * hours / step), 1.5
    settings, done = machine.train(hours)
    assert settings.steps == done < UNPLANNED_STEPS
    assert machine.now - 1000 == pytest.approx(3600 * hours, rel=0.03)
    assert len(machine.validated) * validation <= 0.15 * 3600 * hours + 2 * validation
    assert 2 <= len(machine.validated) <= 18
    assert settings.checkpoint_every == settings.validate_every


def test_a_machine_that_was_busy_at_first() -> None:
    """The steps of a plan are done early; there is time for more."""
    machine = Machine(step=15.0, validation=8.0)
    machine.changes_at, machine.change = 30, 0.05
    _, done = machine.train(hours=0.35)
    assert machine.now - 1000 == pytest.approx(3600 * 0.35, rel=0.03)
    assert done > 500


def test_the_time_is_over_before_it_began() -> None:
    settings, done = Machine(1.0, 1.0, started=100.0).train(hours=0.01)
    assert settings.steps == done == 11  # ten timed ones


@pytest.mark.slow
def test_a_run_of_seconds_is_resumed_with_its_plan(cli: Cli, tiny_config: Path, tmp_path: Path) -> None:
    """The configuration has the plan, so that more steps and a resumed training follow it."""
    result = cli("train", tiny_config, "--results", tmp_path, "--hours", "0.002")
    assert result.status == 0, result
    run = Path(result.out.splitlines()[-1])
    plan: dict[str, Any] = json.loads((run / "config.json").read_text(encoding="utf-8"))["training"]
    assert plan["hours"] == 0.002
    assert plan["learning_rate_schedule"] == "linear"
    assert f"{plan['steps']:,} steps fit into 0.002 h" in result.out
    end = json.loads((run / "end.json").read_text(encoding="utf-8"))
    assert (end["state"], end["step"]) == ("finished", plan["steps"])
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    rates = [line["learning_rate"] for line in metrics if line["kind"] == "train"]
    assert rates[-1] == pytest.approx(plan["learning_rate"] / plan["steps"])
    more = cli("train", "--resume", run, "--set", f"training.steps={plan['steps'] + 5}")
    assert more.status == 0, more
    changes = [line for line in more.out.splitlines() if line.startswith("changed: ")]
    assert changes == [f"changed: training.steps from {plan['steps']} to {plan['steps'] + 5}"]
    assert f"step {plan['steps'] + 5:,} of {plan['steps'] + 5:,}" in more.out
    refused = cli("train", "--resume", run, "--hours", "1")
    assert refused.status == 2 and "--hours is for a new run" in refused.err
