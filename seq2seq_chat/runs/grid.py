"""Grids of experiments: configurations that differ in a few settings, and training them one after another."""

from __future__ import annotations

import itertools
import json
import logging
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from seq2seq_chat.config import RUN_NAME, Config, ConfigError, flat_settings, load_config
from seq2seq_chat.runs.find import list_runs
from seq2seq_chat.runs.run import Run
from seq2seq_chat.runs.summary import summarize
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import as_user_error, write_atomically
from seq2seq_chat.system.signals import handle_signals

MAX_EXPERIMENTS = 1000  # in a grid; more are probably a mistake

logger = logging.getLogger(__name__)


class Experiment(NamedTuple):
    """A configuration and its file."""

    path: Path
    config: Config


class Axis(NamedTuple):
    """A setting and the values it takes."""

    key: str  # e.g. model.hidden_size
    values: list[Any]


def parse_axis(text: str) -> Axis:
    """Parse ``model.hidden_size=256,512``. Values are JSON, or else plain text.

    Raises:
        ConfigError: The key or the values are missing, or the key is ``name``.
    """
    key, equals, values = text.partition("=")
    if not (key and equals and values):
        raise ConfigError(f"--grid {text}: must be KEY=VALUE,VALUE…, for example model.hidden_size=256,512")
    if key == "name":
        raise ConfigError("--grid name: the experiments are named after the values of the other settings")
    try:
        return Axis(key, json.loads(f"[{values}]"))
    except ValueError:
        return Axis(key, [_value(part) for part in values.split(",")])


def new_experiments(base: str | Path, axes: Sequence[Axis], folder: str | Path) -> list[Experiment]:
    """Write a configuration for each combination of the axes' values, named after the base and the values.

    Nothing is written unless all are valid. An existing file with the same configuration is left alone.

    Raises:
        ConfigError: One of the configurations is invalid.
        UserError: There are too many, a file holds another experiment, or the folder is not writable.
    """
    base_name = load_config(base).name
    combinations = list(itertools.product(*(axis.values for axis in axes)))
    if len(combinations) > MAX_EXPERIMENTS:
        raise UserError(
            f"the grid has {len(combinations):,} experiments, and the maximum is {MAX_EXPERIMENTS:,}; use fewer values"
        )
    experiments = []
    for values in combinations:
        settings = {axis.key: value for axis, value in zip(axes, values, strict=True)}
        name = _name(base_name, settings)
        overrides = [f"{key}={json.dumps(value)}" for key, value in {**settings, "name": name}.items()]
        experiments.append(
            Experiment(Path(folder) / f"{name}.json", load_config(base, overrides, warn=False, option="--grid"))
        )
    names = [path.name for path, _ in experiments]
    if duplicate := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"two experiments would be called {duplicate}; list each value once, and use shorter names")
    for path, config in experiments:
        if path.exists() and load_config(path, warn=False) != config:
            raise UserError(f"{path} already holds another experiment; choose another --output, or remove it")
    with as_user_error(folder):
        Path(folder).mkdir(parents=True, exist_ok=True)
    for path, config in experiments:
        if not path.exists():
            write_atomically(path, config.to_json())
    return experiments


def find_started(config: Config, results: str | Path) -> Run | None:
    """Find the newest run of an experiment: the same name, seed, model and data."""
    for run in reversed(list_runs(results)):
        try:
            started = run.config
        except ConfigError:
            continue
        if started.name == config.name and _identity(started) == _identity(config):
            return run
    return None


def train_all(experiments: Sequence[Experiment], results: str | Path) -> int:
    """Train experiments one after another, each in its own process; resume stopped ones and skip finished ones.

    If one fails, the others are still trained. SIGINT and SIGTERM stop the grid once the current training has saved.

    Returns:
        The exit status: 0, 1 if one failed, 128 + the signal's number if one was stopped.
    """
    failed = []
    for number, (path, config) in enumerate(experiments, 1):
        run = find_started(config, results)
        label = f"{number} of {len(experiments)}, {config.name}"
        if run is not None and _is_finished(run, config):
            logger.info("%s: already trained, in %s", label, run.path)
            continue
        logger.info("%s: %s", label, f"resuming {run.path}" if run else "starting")
        resume = ["--resume", str(run.path)] if run else ["--results", str(results)]
        status = _run([sys.executable, "-m", "seq2seq_chat", "train", str(path), *resume])
        if status in (128 + signal.SIGINT, 128 + signal.SIGTERM):
            logger.info("stopped; run the same command to continue")
            return status
        if status:
            failed.append(config.name)
    if failed:
        logger.info("failed: %s; run the same command to try again", ", ".join(failed))
    return 1 if failed else 0


def _is_finished(run: Run, config: Config) -> bool:
    summary = summarize(run)
    return summary.state == "finished" and summary.step >= config.training.steps


def _run(command: list[str]) -> int:
    """Run a command, forwarding signals to it; return its exit status, or 128 + the signal if it ended well."""
    process = subprocess.Popen(command)
    received: list[int] = []

    def forward(number: int, frame: object) -> None:
        received.append(number)
        if number != signal.SIGINT:  # the terminal sends Ctrl-C to both processes
            process.send_signal(number)

    with handle_signals(forward):
        status = process.wait()
    if received and not status:  # the training was about to end anyway, but the next one must not start
        return 128 + received[0]
    return 128 - status if status < 0 else status


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _name(base: str, settings: dict[str, Any]) -> str:
    """Name an experiment after its settings: ``quickstart_hidden_size-256_cell-gru``."""
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in settings.items()}
    parts = [f"{key.rpartition('.')[2]}-{text}" for key, text in texts.items()]
    name = "_".join([base, *(re.sub(r"[^A-Za-z0-9._-]+", "-", part).strip("-") for part in parts)])
    assert re.match(RUN_NAME, name), name
    return name[:100]


def _identity(config: Config) -> dict[str, Any]:
    return {key: value for key, value in flat_settings(config).items() if key.startswith(("seed", "model.", "data."))}
