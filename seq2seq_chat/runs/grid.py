"""Grids of experiments: configurations that differ in a few settings, and training them one after another."""

from __future__ import annotations

import itertools
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Union

from seq2seq_chat.atomic import atomic_write, told_as_user_error
from seq2seq_chat.config import RUN_NAME, Config, ConfigError, flat_settings, load_config
from seq2seq_chat.errors import UserError
from seq2seq_chat.runs import Run, list_runs

MOST = 1000  # experiments of a grid; more are a slip of the hand


class Experiment(NamedTuple):
    """A configuration and where it is kept."""

    path: Path
    config: Config


class Axis(NamedTuple):
    """A setting and the values it takes."""

    key: str  # e.g. model.hidden_size
    values: list[Any]


def parse_axis(text: str) -> Axis:
    """``model.hidden_size=256,512`` → the axis. Values are JSON; what is no JSON is taken as text.

    Raises:
        ConfigError: there is no key, or no value.
    """
    key, equals, values = text.partition("=")
    if not (key and equals and values):
        raise ConfigError(f"--grid {text}: write KEY=VALUE,VALUE…, for example model.hidden_size=256,512")
    try:
        return Axis(key, json.loads(f"[{values}]"))
    except ValueError:
        return Axis(key, [_value(part) for part in values.split(",")])


def new_experiments(base: Union[str, Path], axes: Sequence[Axis], folder: Union[str, Path]) -> list[Experiment]:
    """Write a configuration for each combination of the axes' values, named after the base and the values.

    All are checked before the first is written. One that is there already, the same, is left as it is.

    Raises:
        ConfigError: one of them is no configuration.
        UserError: there are too many, a file of the name holds something else, or the folder cannot be written.
    """
    name = load_config(base).name
    combinations = list(itertools.product(*(axis.values for axis in axes)))
    if len(combinations) > MOST:
        raise UserError(f"{len(combinations):,} experiments are more than the {MOST:,} of a grid; name fewer values")
    experiments = []
    for values in combinations:
        settings = {axis.key: value for axis, value in zip(axes, values, strict=True)}
        called = _name(name, settings)
        overrides = [f"{key}={json.dumps(value)}" for key, value in {**settings, "name": called}.items()]
        experiments.append(Experiment(Path(folder) / f"{called}.json", load_config(base, overrides)))
    _ensure_distinct(experiments)
    for path, config in experiments:
        if path.exists() and load_config(path) != config:
            raise UserError(f"{path} is another experiment already; name another folder with --output, or remove it")
    with told_as_user_error(folder):
        Path(folder).mkdir(parents=True, exist_ok=True)
    for path, config in experiments:
        if not path.exists():
            with atomic_write(path) as file:
                file.write(config.to_json())
    return experiments


def find_started(config: Config, results: Union[str, Path]) -> Run | None:
    """The newest run of an experiment: of its name, its seed, its model and its data."""
    for run in reversed(list_runs(results)):
        try:
            started = run.config
        except ConfigError:
            continue
        if started.name == config.name and _shape(started) == _shape(config):
            return run
    return None


def train_all(
    experiments: Sequence[Experiment],
    results: Union[str, Path],
    is_finished: Callable[[Run, Config], bool],
    say: Callable[[str], object],
) -> int:
    """Train one after another, each in a process of its own, going on where that was stopped.

    One that fails does not keep the others from their turn. SIGINT and SIGTERM reach the one that trains, which saves;
    then this stops as well.

    Returns:
        the exit status: 0, 1 if one failed, 128 + the signal's number if one was stopped.
    """
    failed = []
    for number, (path, config) in enumerate(experiments, 1):
        run = find_started(config, results)
        place = f"{number} of {len(experiments)}, {config.name}"
        if run is not None and is_finished(run, config):
            say(f"{place}: trained already, in {run.path}")
            continue
        say(f"{place}: " + (f"going on in {run.path}" if run else "begins"))
        resume = ["--resume", str(run.path)] if run else ["--results", str(results)]
        status = _run([sys.executable, "-m", "seq2seq_chat", "train", str(path), *resume])
        if status in (128 + signal.SIGINT, 128 + signal.SIGTERM):
            say("stopped; the same command goes on")
            return status
        if status:
            failed.append(config.name)
    if failed:
        say(f"failed: {', '.join(failed)}; the same command tries again")
    return 1 if failed else 0


def _run(command: list[str]) -> int:
    """Run a training to its end, and let it be the one that signals stop."""
    process = subprocess.Popen(command)
    with _signals_to(process):
        status = process.wait()
    return 128 - status if status < 0 else status


@contextmanager
def _signals_to(process: subprocess.Popen[bytes]) -> Iterator[None]:
    def pass_on(number: int, frame: Any) -> None:
        if number != signal.SIGINT:  # that one a terminal sends to both
            process.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _name(base: str, settings: dict[str, Any]) -> str:
    """``quickstart_hidden_size-256_cell-gru``: what a person tells the experiments apart by."""
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in settings.items()}
    parts = [f"{key.rpartition('.')[2]}-{text}" for key, text in texts.items()]
    name = "_".join([base, *(re.sub(r"[^A-Za-z0-9._-]+", "-", part).strip("-") for part in parts)])
    assert re.match(RUN_NAME, name), name
    return name[:100]


def _ensure_distinct(experiments: Sequence[Experiment]) -> None:
    names = [path.name for path, _ in experiments]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"two experiments would be called {twice}; give each value once, and shorter names")


def _shape(config: Config) -> dict[str, Any]:
    return {key: value for key, value in flat_settings(config).items() if key.startswith(("seed", "model.", "data."))}
