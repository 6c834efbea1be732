"""Training that is killed at any moment is resumed bit for bit; damage that cannot be repaired is reported."""

import errno
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.model.variables import variable_name
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import remove_folder
from seq2seq_chat.training import experiment
from seq2seq_chat.training.learner import build_learner, training_batches
from seq2seq_chat.training.loop import Trainer
from seq2seq_chat.training.restore import TrainingInputs, load_newest_checkpoint
from tests.conftest import Cli

KILLS = 6
STEPS = 70
DEADLINE = 900  # seconds for one training process
TIMES = ("seconds", "data_seconds")  # of a line of metrics: different in every run

DRIVER = """
import sys
from seq2seq_chat.system.versions import load_tensorflow
load_tensorflow()
from seq2seq_chat.cli import main
from seq2seq_chat.data.running_text import Streams
from seq2seq_chat.chat.generator import LanguageModelScorer
from seq2seq_chat.training import saving, validation
from seq2seq_chat.training.learner import ShuffledBatches

def reported(kind, function):
    def report(*arguments):
        sys.__stdout__.write(f"AT {kind} {arguments[1] if kind == 'step' else ''}\\n")
        sys.__stdout__.flush()
        return function(*arguments)
    return report

for batches in (ShuffledBatches, Streams):
    batches.batch = reported("step", batches.batch)
saving.write_arrays = reported("save", saving.write_arrays)
validation.corpus_loss = reported("validation", validation.corpus_loss)
LanguageModelScorer.score = reported("validation", LanguageModelScorer.score)
main()
"""
"""Trains like the command line does, and prints what it is doing."""


def settings(tiny_settings: dict[str, Any]) -> dict[str, Any]:
    """Dropout, sampled softmax, buckets and a shuffled order, all on; saving and validating often."""
    tiny_settings["name"] = "killed"
    tiny_settings["data"]["buckets"] = [[5, 5]]
    often = {"steps": STEPS, "log_every": 3, "validate_every": 10, "checkpoint_every": 4, "snapshot_every": 30}
    tiny_settings["training"] |= often | {"validation_limit": 20}
    return tiny_settings


def text_settings(tiny_settings: dict[str, Any]) -> dict[str, Any]:
    """The same for a language model of two layers, whose state is carried from step to step, with a warm-up."""
    changed = settings(tiny_settings)
    model = {key: changed["model"][key] for key in ("hidden_size", "embedding_size", "projection_size", "dropout")}
    data = {key: changed["data"][key] for key in ("train", "validation")}
    training = {key: value for key, value in changed["training"].items() if key != "validation_limit"}
    training |= {"sampled_softmax": None, "label_smoothing": 0.1}
    training |= {"learning_rate_schedule": "inverse_sqrt", "warmup_steps": 20}
    return {
        "name": "killed",
        "task": "language_model",
        "data": data | {"tokenizer": "character"},
        "model": model | {"layers": 2, "cell": "gru"},
        "training": training | {"bptt_forward": 5, "bptt_backward": 8, "state_reset": 0.1},
    }


class Training:
    """Training in a separate process."""

    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, "-c", DRIVER, "train", *map(str, arguments)]
        environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": os.pathsep.join(sys.path)}
        pipe: Any = subprocess.PIPE
        self._process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment)

    def events(self) -> Iterator[str]:
        """The events the process reports, as they happen."""
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


def kill_somewhere(training: Training, kind: str, rng: random.Random) -> str:
    """Kill it during a step, a validation or a write; returns where, or "" if it ended before."""
    first = rng.randrange(6, 14)  # some progress in between
    for number, event in enumerate(training.events()):
        if number >= first and event.startswith(kind):
            delay = rng.uniform(0, 0.015)
            end = time.monotonic() + delay
            while time.monotonic() < end:
                pass
            training.kill()
            return f"{1000 * delay:.1f} ms after the start of {event}"
    training.finish()
    return ""


def only_run(results: Path) -> Run:
    (folder,) = [entry for entry in results.iterdir() if (entry / "config.json").is_file()]
    return Run(folder)


def arrays(path: Path) -> dict[str, bytes]:
    with np.load(path) as file:
        return {name: file[name].tobytes() for name in file.files if name != "metadata.json"}


def logged_lines(path: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [{key: value for key, value in line.items() if key not in TIMES} for line in lines]


@pytest.fixture(scope="module", params=[settings, text_settings], ids=["conversation", "language_model"])
def uninterrupted(
    request: pytest.FixtureRequest, tiny_config: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Run, Path]:
    """A run without interruptions, and its configuration."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    tiny = json.loads(tiny_config.read_text(encoding="utf-8"))
    config = folder / "config.json"
    config.write_text(json.dumps(request.param(tiny)), encoding="utf-8")
    Training(config, "--results", folder / "results").finish()
    return only_run(folder / "results"), config


def assert_same(run: Run, expected: Run) -> None:
    """Everything that training writes is equal, bit for bit."""
    for name in (f"checkpoints/{STEPS:010d}.npz", "checkpoints/best.npz", "snapshots/30/weights.npz"):
        assert arrays(run.path / name) == arrays(expected.path / name), name
    for name in ("metrics.jsonl", "samples.jsonl"):
        assert logged_lines(run.path / name) == logged_lines(expected.path / name)
    assert [step for step, _ in run.checkpoints()] == [step for step, _ in expected.checkpoints()]
    assert not list(run.path.rglob("*.tmp")), "incomplete files of a killed process are removed"


@pytest.mark.slow
def test_training_killed_at_random_moments_ends_bit_for_bit_identical(
    uninterrupted: tuple[Run, Path], corpora: Path, tmp_path: Path
) -> None:
    """The folder of the run is moved meanwhile, and the corpus is encoded again."""
    expected, config = uninterrupted
    seed = random.SystemRandom().randrange(10**6)
    rng = random.Random(seed)
    print(f"seed {seed}")
    results, kills, arguments = tmp_path / "results", 0, [str(config)]
    kinds = ["save", "validation", *rng.choices(["step", "step", "save", "validation"], k=KILLS - 2)]
    while kills < KILLS:
        where = kill_somewhere(Training(*arguments, "--results", results), kinds[kills], rng)
        if not where:  # it ended before; start again
            assert_same(only_run(results), expected)
            shutil.rmtree(results)
            arguments = [str(config)]
            continue
        kills += 1
        print(f"kill {kills}: {where}")
        arguments = ["--resume", str(only_run(results).path.rename(results / f"moved {kills} times"))]
        for cache in corpora.glob("*.cache"):
            shutil.rmtree(cache)
    Training(*arguments, "--results", results).finish()
    assert_same(only_run(results), expected)


def damage(path: Path, kind: str, position: int) -> None:
    """Truncate a file at a byte, or flip a bit of it."""
    content = bytearray(path.read_bytes())
    if kind == "cut":
        del content[position:]
    else:
        content[position // 8] ^= 1 << position % 8
    path.write_bytes(content)


def test_a_checkpoint_damaged_anywhere_is_skipped(run_copy: Path) -> None:
    """The previous checkpoint is loaded, or the newest one, if none of its values are damaged."""
    run = Run(run_copy)
    config, codecs = run.config, run.codecs
    corpus = Dataset.open(config.data.train, codecs, config.data)
    learner = build_learner(config, codecs, training_batches(config, codecs, corpus))
    inputs = TrainingInputs(run, config, codecs, corpus)
    newest, previous = run.checkpoint_path(20), run.checkpoint_path(15)
    content, expected = newest.read_bytes(), {20: arrays(newest), 15: arrays(previous)}
    rng, size = random.Random(5), len(content)
    damages = [("cut", size * part // 16) for part in range(16)] + [("bit", rng.randrange(8 * size)) for _ in range(24)]
    for kind, position in damages:
        newest.write_bytes(content)
        damage(newest, kind, position)
        messages: list[str] = []
        metadata = load_newest_checkpoint(inputs, learner, messages.append)
        assert metadata is not None
        assert metadata["step"] == 15 or kind == "bit", (kind, position)
        assert bool(messages) == (metadata["step"] == 15)
        assert all("the checkpoint of step 20 is damaged" in message for message in messages)
        loaded = {variable_name(variable): variable.numpy().tobytes() for variable in learner.variables}
        assert loaded == expected[metadata["step"]], (kind, position)


@pytest.mark.slow
def test_missing_metrics_are_reported(cli: Cli, run_copy: Path) -> None:
    metrics = run_copy / "metrics.jsonl"
    text = metrics.read_text(encoding="utf-8")
    metrics.write_text(text[: len(text) // 2], encoding="utf-8")  # somewhere in the middle of a line
    result = cli("train", "--resume", run_copy, "--set=training.steps=22", "--set=training.sample_replies=0")
    assert result.status == 0
    assert "lines of metrics.jsonl are missing or damaged" in result.out
    assert all(isinstance(line["step"], int) for line in logged_lines(metrics))


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda text: text[:-20], "invalid JSON"),
        (lambda text: text.replace('"dropout": 0.1', '"dropout": 0.2'), "settings: model.dropout (0.1 → 0.2)"),
        (lambda text: text.replace("hidden_size", "hiden_size"), "hiden_size"),
    ],
    ids=["cut", "dropout", "misspelt"],
)
def test_a_configuration_edited_by_hand(cli: Cli, run_copy: Path, edit: Callable[[str], str], message: str) -> None:
    path = run_copy / "config.json"
    path.write_text(edit(path.read_text(encoding="utf-8")), encoding="utf-8")
    before = {file: file.read_bytes() for file in run_copy.rglob("*") if file.is_file() and file.name != "train.log"}
    assert message in cli("train", "--resume", run_copy, "--set", "training.steps=22").error_message
    assert {file: file.read_bytes() for file in before} == before


def test_training_that_fails_before_its_first_checkpoint_leaves_no_run(
    cli: Cli, tiny_config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the message suggests none to resume."""
    from seq2seq_chat.training import saving

    monkeypatch.setattr(saving, "write_arrays", Mock(side_effect=UserError("x could not be written")))
    smaller = ["--set=model.encoder_steps=2", "--set=model.decoder_steps=2", "--set=training.checkpoint_every=1"]
    result = cli("train", tiny_config, "--results", tmp_path / "results", *smaller)
    assert result.status == 1
    assert "could not be written" in result.err
    assert "start again" in result.err
    assert "--resume" not in result.err
    assert not list((tmp_path / "results").iterdir())


def test_training_does_not_start_on_a_full_disk(cli: Cli, run_copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    before = {path: path.read_bytes() for path in (run_copy / "checkpoints").iterdir()}
    monkeypatch.setattr("seq2seq_chat.runs.run.os.write", full)  # writes who holds the run
    monkeypatch.setattr("seq2seq_chat.training.reporter.Console._append", full)
    result = cli("train", "--resume", run_copy, "--set", "training.steps=22")
    assert result.status == 1
    assert f"{run_copy}: No space left on device; training did not start" in result.err
    assert {path: path.read_bytes() for path in (run_copy / "checkpoints").iterdir()} == before


@pytest.mark.parametrize("log_every", [1, 100])
@pytest.mark.parametrize("pulled", ["run", "results", "moved"])
def test_a_run_that_is_deleted_or_moved_while_it_trains(
    cli: Cli, tiny_config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pulled: str, log_every: int
) -> None:
    results, train_step = tmp_path / "results", Trainer._train_step

    def pull(trainer: Trainer) -> None:
        train_step(trainer)
        if trainer.state.step == 3:
            (run,) = results.iterdir()
            if pulled == "moved":
                run.rename(tmp_path / "moved")
            else:
                shutil.rmtree(run if pulled == "run" else results)

    monkeypatch.setattr(Trainer, "_train_step", pull)
    every = [f"--set=training.{name}_every={value}" for name, value in (("log", log_every), ("checkpoint", 5))]
    result = cli("train", tiny_config, "--results", results, *every)
    assert result.status == 1
    assert re.fullmatch(r"seq2seq-chat: \S+ was deleted or moved during training; .*FOLDER\n", result.err)
    assert not results.exists() or not list(results.iterdir())
    assert (tmp_path / "moved" / "vocabulary.txt").exists() == (pulled == "moved")


def test_impatience_before_the_first_checkpoint(
    cli: Cli, tiny_config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signals that follow each other leave no half-deleted run and no traceback."""
    train_step = Trainer._train_step

    def impatient_step(trainer: Trainer) -> None:
        train_step(trainer)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)

    def impatient_removal(path: Path) -> None:
        signal.raise_signal(signal.SIGINT)
        monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: signal.raise_signal(signal.SIGINT))
        remove_folder(path)

    monkeypatch.setattr(Trainer, "_train_step", impatient_step)
    monkeypatch.setattr(experiment, "remove_folder", impatient_removal)
    result = cli("train", tiny_config, "--results", tmp_path / "results")
    assert result.status == 130
    assert result.err.endswith("stopped; no checkpoint was saved yet; start training again\n")
    assert all(path.name.startswith(".") for path in (tmp_path / "results").iterdir())


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of four megabytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(disk)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs permission to mount a small file system")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.mark.parametrize("room", [0, 8192], ids=["full", "nearly full"])
def test_only_the_disk_of_tensorboard_is_full(cli: Cli, run_copy: Path, small_disk: Path, room: int) -> None:
    """TensorFlow calls that an exhausted resource, as it calls exhausted memory."""
    shutil.rmtree(run_copy / "tensorboard")
    (run_copy / "tensorboard").symlink_to(small_disk)
    (small_disk / "ballast").write_bytes(bytes((4 << 20) - room))
    result = cli("train", "--resume", run_copy, "--set=training.steps=400", "--set=training.log_every=1")
    assert result.status == 1
    assert f"{run_copy / 'tensorboard'}: No space left on device; training " in result.err
    assert "memory" not in result.err


@pytest.mark.slow
def test_a_full_disk_stops_training_without_losses(
    cli: Cli, tiny_config: Path, tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from seq2seq_chat.training import saving

    write = saving.write_arrays

    def full_at_ten(path: Path, *arguments: Any) -> None:
        if path.name == "0000000010.npz":
            raise UserError(f"{path} could not be written: No space left on device")
        write(path, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(saving, "write_arrays", full_at_ten)
        result = cli("train", tiny_config, "--results", tmp_path)
    run = only_run(tmp_path)
    assert result.status == 1
    assert "No space left on device" in result.err
    assert f"resume with: seq2seq-chat train --resume {run.path}" in result.err
    assert "Traceback" not in result.err
    assert [step for step, _ in run.checkpoints()] == [5]
    result = cli("train", "--resume", run.path)
    assert "resuming from step 5" in result.out
    assert arrays(run.checkpoint_path(20)) == arrays(tiny_run / "checkpoints" / "0000000020.npz")
    assert logged_lines(run.metrics_file) == logged_lines(tiny_run / "metrics.jsonl")


def test_too_little_memory_for_numpy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment, "build_trainer", Mock(side_effect=MemoryError))
    session = Mock(distribution=Mock(detect_lost_workers=nullcontext))
    with pytest.raises(UserError, match="out of memory; lower"):
        experiment._start(session, None)
