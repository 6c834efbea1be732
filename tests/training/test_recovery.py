"""A training killed at any moment goes on to the same bits; what cannot be repaired is refused in a sentence."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seq2seq_chat.errors import UserError
from seq2seq_chat.runs import Run

Cli = Callable[..., Any]

KILLS = 20
STEPS = 130
DEADLINE = 900  # seconds for one training process
TIMES = ("seconds", "data_seconds")  # of a line of metrics: what no two trainings have in common

DRIVER = '''
"""Trains like the command line does, tells what it is doing, and notes the order of the samples."""
import sys
import numpy as np
from seq2seq_chat.environment import load_tensorflow
load_tensorflow()
from seq2seq_chat.cli import main
from seq2seq_chat.training import learner, saving, validation

def tell(text):
    sys.__stdout__.write(f"AT {text}\\n")
    sys.__stdout__.flush()

batch, write, measure = learner.Learner._batch, saving.write_arrays, validation.LossFunction.__call__

def noted_batch(self, step):
    found = batch(self, step)
    with open(ORDER, "a") as file:
        file.write(f"{step} {found.source.tolist()} {found.target.tolist()}\\n")
    tell(f"step {step}")
    return found

def noted_write(path, arrays, metadata):
    tell(f"save {path.name}")
    write(path, arrays, metadata)

def noted_measure(self, *arguments):
    tell("validation")
    return measure(self, *arguments)

learner.Learner._batch, saving.write_arrays, validation.LossFunction.__call__ = noted_batch, noted_write, noted_measure
main()
'''


def settings(tiny_settings: dict[str, Any]) -> dict[str, Any]:
    """Dropout, sampled softmax, buckets and a shuffled order, all on; saving and validating often."""
    tiny_settings["name"] = "killed"
    tiny_settings["data"]["buckets"] = [[5, 5]]
    often = {"steps": STEPS, "log_every": 3, "validate_every": 10, "checkpoint_every": 4, "snapshot_every": 50}
    tiny_settings["training"] |= often | {"validation_limit": 20}
    return tiny_settings


class Training:
    """A training in a process of its own."""

    def __init__(self, order: Path, *arguments: object) -> None:
        driver = order.with_suffix(".py")
        driver.write_text(f"ORDER = {str(order)!r}\n{DRIVER}", encoding="utf-8")
        command = [sys.executable, str(driver), "train", *map(str, arguments)]
        environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": os.pathsep.join(sys.path)}
        pipe: Any = subprocess.PIPE
        self._process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment)

    def events(self) -> Iterator[str]:
        """What it is doing, as it does it."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("AT "):
                yield line.removeprefix("AT ").strip()

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def finish(self) -> None:
        _, err = self._process.communicate(timeout=DEADLINE)
        assert self._process.returncode == 0, err


def kill_somewhere(training: Training, draw: random.Random) -> str:
    """Kill it during a step, a validation or the writing of a file, and tell where that was."""
    kind = draw.choice(["step", "step", "save", "validation"])
    first = draw.randrange(6, 14)  # it gets on a little in between
    for number, event in enumerate(training.events()):
        if number >= first and event.startswith(kind):
            delay = draw.uniform(0, 0.015)
            end = time.monotonic() + delay
            while time.monotonic() < end:
                pass
            training.kill()
            return f"{1000 * delay:.1f} ms after the beginning of {event}"
    training.finish()
    return ""


def the_run(results: Path) -> Run:
    (found,) = [entry for entry in results.iterdir() if (entry / "config.json").is_file()]
    return Run(found)


def arrays(path: Path) -> dict[str, bytes]:
    with np.load(path) as file:
        return {name: file[name].tobytes() for name in file.files if name != "metadata.json"}


def reported(path: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [{key: value for key, value in line.items() if key not in TIMES} for line in lines]


def order_of(path: Path) -> dict[int, set[str]]:
    """What each step was trained with; a killed process may leave half a line."""
    steps: dict[int, set[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.endswith("]]"):
            step, _, batch = line.partition(" ")
            steps.setdefault(int(step), set()).add(batch)
    return steps


@pytest.fixture(scope="module")
def straight(tiny_config: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, dict[int, set[str]], Path]:
    """A run that nothing happened to, the order of its samples, and its configuration."""
    folder = tmp_path_factory.mktemp("straight")
    tiny = json.loads(tiny_config.read_text(encoding="utf-8"))
    config = folder / "config.json"
    config.write_text(json.dumps(settings(tiny)), encoding="utf-8")
    training = Training(folder / "order.txt", config, "--results", folder / "results")
    training.finish()
    return the_run(folder / "results"), order_of(folder / "order.txt"), config


def ensure_same(run: Run, expected: Run) -> None:
    """Everything a training leaves behind is the same, to the last bit."""
    for name in (f"checkpoints/{STEPS:010d}.npz", "checkpoints/best.npz", "snapshots/50/weights.npz"):
        assert arrays(run.path / name) == arrays(expected.path / name), name
    for name in ("metrics.jsonl", "samples.jsonl"):
        assert reported(run.path / name) == reported(expected.path / name)
    assert [step for step, _ in run.checkpoints()] == [step for step, _ in expected.checkpoints()]
    assert not list(run.path.rglob("*.tmp")), "what a killed process left half written is tidied up"


@pytest.mark.slow
def test_killed_at_twenty_moments_it_ends_in_the_same_bits(
    straight: tuple[Run, dict[int, set[str]], Path], tmp_path: Path
) -> None:
    expected, order, config = straight
    seed = random.SystemRandom().randrange(10**6)
    draw = random.Random(seed)
    print(f"seed {seed}")
    results, kills, begin = tmp_path / "results", 0, [str(config)]
    noted = tmp_path / "order.txt"
    while kills < KILLS:
        where = kill_somewhere(Training(noted, *begin, "--results", results), draw)
        if not where:  # it was at its end; from the beginning, then
            ensure_same(the_run(results), expected)
            shutil.rmtree(results)
            begin = [str(config)]
            continue
        kills += 1
        print(f"kill {kills}: {where}")
        begin = ["--resume", str(the_run(results).path)]
    Training(noted, *begin, "--results", results).finish()
    ensure_same(the_run(results), expected)
    found = order_of(noted)
    assert {step: found[step] for step in range(STEPS)} == {step: order[step] for step in range(STEPS)}


@pytest.mark.slow
def test_it_goes_on_elsewhere_and_without_the_cache(
    straight: tuple[Run, dict[int, set[str]], Path], corpora: Path, tmp_path: Path
) -> None:
    """The folder of the run is moved, and the corpus is encoded anew."""
    expected, _, config = straight
    assert kill_somewhere(Training(tmp_path / "order.txt", config, "--results", tmp_path / "results"), random.Random(1))
    moved = tmp_path / "elsewhere" / "with another name"
    moved.parent.mkdir()
    the_run(tmp_path / "results").path.rename(moved)
    caches = list(corpora.glob("*.cache"))
    assert caches
    for cache in caches:
        shutil.rmtree(cache)
    Training(tmp_path / "order.txt", "--resume", moved).finish()
    ensure_same(Run(moved), expected)


@pytest.mark.slow
def test_a_checkpoint_cut_or_changed_anywhere_is_left_aside(cli: Cli, tiny_run: Path, tmp_path: Path) -> None:
    """The training goes on from the one before to the same end, or at once, where nothing it needs has changed."""
    expected = arrays(tiny_run / "checkpoints" / "0000000020.npz")
    size = (tiny_run / "checkpoints" / "0000000020.npz").stat().st_size
    draw = random.Random(5)
    damages = [("cut", size * part // 16) for part in range(16)] + [("bit", draw.randrange(8 * size)) for _ in range(4)]
    for number, (kind, place) in enumerate(damages):
        run = tmp_path / str(number)
        shutil.copytree(tiny_run, run)
        newest = run / "checkpoints" / "0000000020.npz"
        content = bytearray(newest.read_bytes())
        if kind == "cut":
            del content[place:]
        else:
            content[place // 8] ^= 1 << place % 8
        newest.write_bytes(content)
        answer = cli("train", "--resume", run)
        assert answer.status == 0, (kind, place, answer)
        assert "Traceback" not in answer.out + answer.err
        assert "the checkpoint of step 20 is damaged" in answer.out or kind == "bit"
        assert arrays(newest) == expected, (kind, place)
        assert reported(run / "metrics.jsonl") == reported(tiny_run / "metrics.jsonl")


def test_lines_that_are_lost_are_told(cli: Cli, own_run: Path) -> None:
    metrics = own_run / "metrics.jsonl"
    text = metrics.read_text(encoding="utf-8")
    metrics.write_text(text[: len(text) // 2], encoding="utf-8")  # somewhere in the middle of a line
    answer = cli("train", "--resume", own_run, "--set", "training.steps=22")
    assert answer.status == 0
    assert "of the lines that metrics.jsonl had are missing or damaged" in answer.out
    assert all(isinstance(line["step"], int) for line in reported(metrics))


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (lambda text: text[:-20], "not valid JSON"),
        (lambda text: text.replace('"seed": 3', '"seed": 4'), "other settings of seed (3 → 4)"),
        (lambda text: text.replace('"dropout": 0.1', '"dropout": 0.2'), "model.dropout (0.1 → 0.2)"),
        (lambda text: text.replace('"hidden_size": 16', '"hidden_size": 17'), "model.hidden_size (16 → 17)"),
        (lambda text: text.replace("hidden_size", "hiden_size"), "hiden_size"),
        (lambda text: "", "not valid JSON"),
    ],
    ids=["cut", "seed", "dropout", "size", "misspelt", "empty"],
)
def test_a_configuration_edited_by_hand(cli: Cli, own_run: Path, edit: Callable[[str], str], told: str) -> None:
    path = own_run / "config.json"
    path.write_text(edit(path.read_text(encoding="utf-8")), encoding="utf-8")
    before = {file: file.read_bytes() for file in own_run.rglob("*") if file.is_file() and file.name != "train.log"}
    assert told in cli("train", "--resume", own_run, "--set", "training.steps=22").complaint
    assert {file: file.read_bytes() for file in before} == before


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of four megabytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(disk)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small file system")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_training_that_fails_before_its_first_checkpoint_names_no_run_to_go_on_with(
    cli: Cli, tiny_config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder is gone."""
    from seq2seq_chat.training import saving

    def full(path: Path, *arguments: Any) -> None:
        raise UserError(f"{path} could not be written")

    monkeypatch.setattr(saving, "write_arrays", full)
    answer = cli("train", tiny_config, "--results", tmp_path / "results")
    assert answer.status == 1
    assert "could not be written" in answer.err
    assert "begin anew" in answer.err
    assert "--resume" not in answer.err
    assert not list((tmp_path / "results").iterdir())


def test_on_a_disk_that_is_still_full_a_training_does_not_begin(
    cli: Cli, own_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = {path: path.read_bytes() for path in (own_run / "checkpoints").iterdir()}
    monkeypatch.setattr("seq2seq_chat.runs.os.write", full)  # who holds the run
    monkeypatch.setattr("seq2seq_chat.training.console.Console._log", full)
    answer = cli("train", "--resume", own_run, "--set", "training.steps=22")
    assert answer.status == 1
    assert f"{own_run}: No space left on device; the training did not begin" in answer.err
    assert {path: path.read_bytes() for path in (own_run / "checkpoints").iterdir()} == before


def test_a_full_disk_stops_the_training_and_loses_nothing(
    cli: Cli, tiny_config: Path, tiny_run: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from seq2seq_chat.training import saving

    write, ballast = saving.write_arrays, small_disk / "ballast"

    def fill_before_ten(path: Path, *arguments: Any) -> None:
        if path.name == "0000000010.npz":
            with open(ballast, "wb") as file, pytest.raises(OSError, match="No space left"):
                while True:
                    file.write(bytes(1 << 16))
                    file.flush()
        write(path, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(saving, "write_arrays", fill_before_ten)
        answer = cli("train", tiny_config, "--results", small_disk)
    (run,) = (Run(entry) for entry in small_disk.iterdir() if entry.is_dir())
    assert answer.status == 1
    assert "No space left on device" in answer.err
    assert f"go on with: seq2seq-chat train --resume {run.path}" in answer.err
    assert "Traceback" not in answer.err
    assert [step for step, _ in run.checkpoints()] == [5]
    assert not list(run.path.rglob("*.tmp"))
    ballast.unlink()
    answer = cli("train", "--resume", run.path)
    assert "going on from step 5" in answer.out
    expected = arrays(tiny_run / "checkpoints" / "0000000020.npz")
    assert arrays(run.checkpoint_path(20)) == expected
    assert reported(run.metrics_file) == reported(tiny_run / "metrics.jsonl")
