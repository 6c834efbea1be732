"""One training on several devices is the training on one: the same losses, whatever shares the batches.

TensorFlow must know its devices before its first operation, so every training here is a process of its own. Workers of
several machines are processes that meet on the loopback interface.
"""

from __future__ import annotations

import copy
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.config import ConfigError, parse_config
from seq2seq_chat.corpus.vocabulary import SPECIAL_WORDS
from seq2seq_chat.errors import UserError
from seq2seq_chat.model.seq2seq import Loss, Seq2Seq
from seq2seq_chat.runs import Run
from seq2seq_chat.training import follower
from seq2seq_chat.training.cluster import Cluster, loopback_addresses
from seq2seq_chat.training.distribution import Distribution, ensure_divisible
from seq2seq_chat.training.optimizers import build_optimizer
from seq2seq_chat.training.parts import Share
from seq2seq_chat.training.step import StepResult, TrainingStep
from tests.conftest import write_conversations
from tests.training.test_recovery import arrays, reported, the_run
from tests.training.test_step import VOCABULARY, configuration, random_batch

Cli = Callable[..., Any]

STEPS = 50
DEADLINE = 400  # seconds for one training process
COMMAND = [sys.executable, "-m", "seq2seq_chat", "train"]


class Device(Distribution):
    """One of several devices that does not know the others."""

    def __init__(self, number: int, devices: int) -> None:
        self._share, self.devices = Share(number, devices), devices

    def share(self) -> Share:
        return self._share


@pytest.mark.parametrize("sampled", [8, None])
@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("devices", [2, 4])
def test_gradients_of_the_slices_add_up_to_those_of_the_batch(devices: int, parts: int, sampled: int | None) -> None:
    """With dropout, scheduled sampling and sampled softmax on; rows of a small last batch are empty."""
    own = {"scheduled_sampling": "constant", "own_words": 0.5}
    config = configuration(batch_parts=parts, sampled_softmax=sampled, **own)
    model = Seq2Seq(config.model, VOCABULARY, config.seed)
    batch, step = random_batch(1), tf.constant(3, tf.int64)
    batch.source_length[3] = batch.target_length[3] = 0

    def found(distribution: Distribution) -> list[np.ndarray]:
        training_step = TrainingStep(model, build_optimizer(config.training), config, distribution)
        loss, gradients, _ = training_step.gradients(batch, step)
        return [loss.nats.numpy(), *(tf.convert_to_tensor(gradient).numpy() for gradient in gradients)]

    whole = found(Distribution())
    slices = [found(Device(number, devices)) for number in range(devices)]
    for one, *some in zip(whole, *slices, strict=True):
        np.testing.assert_allclose(sum(some), one, rtol=2e-5, atol=1e-7)


def test_a_batch_that_cannot_be_divided_is_refused() -> None:
    settings = {"name": "d", "data": {"train": "x"}, "training": {"strategy": "mirrored", "batch_size": 64}}
    settings["training"] |= {"replicas": 3}
    with pytest.raises(ConfigError, match="batch_size is 64, which 3 replicas cannot share equally"):
        parse_config(settings, where="test")
    settings["training"] |= {"strategy": "single", "replicas": 2}
    with pytest.raises(ConfigError, match="replicas is used by the strategy mirrored only"):
        parse_config(settings, where="test")
    with pytest.raises(UserError, match="batch_size is 64, which 6 devices cannot share equally; set it to 60 or 66"):
        ensure_divisible(64, 6)
    with pytest.raises(UserError, match="set it to 3: it counts the samples of all devices"):
        ensure_divisible(2, 3)


def settings(tiny: dict[str, Any]) -> dict[str, Any]:
    """Dropout, scheduled sampling, sampled softmax, buckets, clipping; parts that no number of devices divides."""
    changed = copy.deepcopy(tiny)
    changed["name"] = "shared"
    changed["data"]["buckets"] = [[4, 4]]
    changed["model"] |= {"encoder_steps": 6, "decoder_steps": 6}
    often = {"steps": STEPS, "log_every": 1, "validate_every": 20, "checkpoint_every": 5, "snapshot_every": None}
    chance = {"scheduled_sampling": "constant", "own_words": 0.2, "batch_parts": 3, "gradient_clipping": 0.5}
    changed["training"] |= often | chance | {"optimizer": "adagrad", "learning_rate": 0.1, "validation_limit": 20}
    return changed


def write_config(path: Path, tiny: dict[str, Any]) -> Path:
    path.write_text(json.dumps(settings(tiny)), encoding="utf-8")
    return path


@pytest.fixture
def config(tmp_path: Path, tiny_settings: dict[str, Any]) -> Path:
    return write_config(tmp_path / "shared.json", tiny_settings)


def start(*arguments: object, folder: Path | None = None) -> subprocess.Popen[str]:
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": os.pathsep.join(sys.path)}
    pipe: Any = subprocess.PIPE
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment, cwd=folder)


def end(process: subprocess.Popen[str], status: int = 0) -> str:
    """Wait for its end, which has the right status and no traceback; what it said last."""
    out, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == status, out + err
    assert "Traceback" not in err
    return (err.strip().splitlines() or [""])[-1]


def start_pair(*arguments: object) -> list[subprocess.Popen[str]]:
    """Two workers; only the first one has arguments."""
    workers = ["--workers", ",".join(loopback_addresses(2)), "--index"]
    return [start(*arguments, *workers, 0), start(*workers, 1)]


def wait_for(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdout is not None
    assert any(text in line for line in process.stdout), f"{text!r} never came"


def losses(run: Run) -> np.ndarray:
    """[lines, 2]: loss and gradient norm (or 0) of every line of metrics."""
    return np.array([[line["loss"], line.get("gradient_norm", 0.0)] for line in reported(run.metrics_file)])


def test_two_parts_of_the_processor_learn_as_one(cli: Cli, config: Path, tmp_path: Path) -> None:
    small = ["steps=4", "sample_replies=0", "scheduled_sampling=none", "gradient_clipping_by=value"]
    few = [config, "--set", "data.buckets=null", "--set", "data.validation=null"]
    few += [part for setting in small for part in ("--set", f"training.{setting}")]
    several = ["--set", "training.strategy=mirrored", "--set", "training.replicas=2"]
    process = start(*few, *several, "--results", tmp_path / "two")
    assert cli("train", *few, "--results", tmp_path / "one").status == 0
    end(process)
    np.testing.assert_allclose(losses(the_run(tmp_path / "two")), losses(the_run(tmp_path / "one")), rtol=1e-5)


@pytest.fixture(scope="module")
def pair(tiny_config: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    """The run of two workers that nothing happened to, and its configuration."""
    folder = tmp_path_factory.mktemp("pair")
    config = write_config(folder / "shared.json", json.loads(tiny_config.read_text(encoding="utf-8")))
    for process in start_pair(config, "--results", folder / "results"):
        end(process)
    return the_run(folder / "results"), config


@pytest.mark.slow
def test_any_devices_have_the_loss_curve_of_one(pair: tuple[Run, Path], tmp_path: Path) -> None:
    run, config = pair
    end(start(config, "--results", tmp_path / "single"))
    several = ["--set", "training.strategy=mirrored", "--set", "training.replicas=2"]
    end(start(config, *several, "--results", tmp_path / "mirrored"))
    curve = losses(the_run(tmp_path / "single"))
    assert len(curve) == STEPS + 3
    assert curve[-2, 0] < 0.7 * curve[0, 0], "it learns"
    assert (curve[:, 1] > 0.5).any(), "gradients are clipped"
    for found in (the_run(tmp_path / "mirrored"), run):
        np.testing.assert_allclose(losses(found), curve, rtol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_worker_stops_the_other_and_both_go_on_to_the_same_bits(
    pair: tuple[Run, Path], tmp_path: Path, victim: int
) -> None:
    expected, config = pair
    both = start_pair(config, "--results", tmp_path)
    wait_for(both[0], "step 12 ")
    both[victim].kill()
    told = end(both[1 - victim], status=1)
    both[victim].communicate()
    assert f"worker {victim} (127.0.0.1:" in told
    assert "is gone; the training stopped" in told
    run = the_run(tmp_path)
    assert 0 < run.checkpoints()[-1][0] < STEPS
    if victim == 1:  # what the first worker says is to be typed there, as it stands
        resumed = shlex.split(told.partition("go on with: seq2seq-chat train ")[2])
        assert resumed[:2] == ["--resume", str(run.path)]
        both = [start(*resumed), start(*resumed[2:-1], 1)]
    else:
        both = start_pair("--resume", run.path)
    for process in both:
        end(process)
    assert arrays(run.checkpoint_path(STEPS)) == arrays(expected.checkpoint_path(STEPS))
    assert arrays(run.best_path) == arrays(expected.best_path)
    assert reported(run.metrics_file) == reported(expected.metrics_file)
    assert reported(run.samples_file) == reported(expected.samples_file)


@pytest.mark.slow
def test_a_signal_to_any_worker_stops_all_after_the_same_step(config: Path, tmp_path: Path) -> None:
    first, other = start_pair(config, "--results", tmp_path / "results", "--set", "training.steps=5000")
    wait_for(first, "step 3 ")
    other.send_signal(signal.SIGTERM)
    assert "go on with: seq2seq-chat train --resume" in (said := end(first, status=128 + signal.SIGTERM)), said
    told = end(other, status=128 + signal.SIGTERM)
    run = the_run(tmp_path / "results")
    (step, _) = run.checkpoints()[-1]
    assert told.startswith(f"stopped at step {step:,}; worker 0 (127.0.0.1:")


class Told(Distribution):
    """Of a follower that is told to stop early after one step."""

    def __init__(self) -> None:
        settings = json.loads(configuration(validate_every=1, steps=50, log_every=50).to_json())
        settings["data"]["validation"] = "nowhere.txt"
        settings["training"]["early_stopping"] = 1
        self._said: list[Any] = [
            {"config": settings, "words": [*SPECIAL_WORDS, "a"], "corpus": "the corpus"},
            {"step": 0, "place": {}, "progress": {}},
            {"since_best": 1, "since_fall": 1, "falls": 0},
        ]

    def from_first(self, value: Any) -> Any:
        return self._said.pop(0)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that learns nothing; somebody asks to stop at every step."""
    learner = MagicMock(step=0, sampled=False, data_seconds=0.0)

    def learn(stop: bool) -> StepResult:
        learner.step += 1
        return StepResult(Loss(tf.constant(1.0), tf.constant(1.0)), tf.constant(1.0), tf.constant(1.0))

    learner.learn = learn
    monkeypatch.setattr(follower, "Learner", lambda *arguments: learner)
    monkeypatch.setattr(follower, "make_deterministic", lambda *arguments: None)
    monkeypatch.setattr(follower, "open_samples", lambda *arguments: MagicMock(fingerprint="the corpus"))


def test_a_signal_at_the_step_that_stops_early_is_no_interruption(alone: None) -> None:
    """The first worker ends with status 0 then, and so do the others."""
    assert follower.Follower(Told(), Cluster(("one:1", "two:2"), 1)).train() == 1


def test_a_worker_without_the_memory_is_not_taken(alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "available_memory", lambda: 1e6)
    with pytest.raises(UserError, match="1 MB are free"):
        follower.Follower(Told(), Cluster(("one:1", "two:2"), 1))


@pytest.mark.slow
def test_a_worker_with_another_corpus_is_not_taken(config: Path, tmp_path: Path) -> None:
    changed = json.loads(config.read_text(encoding="utf-8"))
    changed["data"] |= {"train": "train.txt", "validation": None}
    config.write_text(json.dumps(changed), encoding="utf-8")
    folders = [tmp_path / "here", tmp_path / "there"]
    for number, folder in enumerate(folders):
        folder.mkdir()
        write_conversations(folder / "train.txt", 20, seed=number)
    workers = ["--workers", ",".join(loopback_addresses(2)), "--index"]
    first = start(config, "--results", tmp_path / "results", *workers, 0, folder=folders[0])
    other = start(*workers, 1, folder=folders[1])
    told = end(other, status=2)
    assert "train.txt is not the corpus that worker 0 (127.0.0.1:" in told
    assert "cannot take part: train.txt is not the corpus" in end(first, status=1)
    assert not list((tmp_path / "results").iterdir()), "a run that never began leaves no folder"
