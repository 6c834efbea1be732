"""Training on several devices gives the same losses as training on one.

TensorFlow must know its devices before its first operation, so training on several devices runs in processes of its
own. Workers of several machines are processes that connect over the loopback interface.
"""

import copy
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.config import parse_config
from seq2seq_chat.data.build_codecs import build_codecs
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.model.execution import Share
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.training import assemble
from seq2seq_chat.training.distribution import Distribution, ensure_divisible
from seq2seq_chat.training.optimizers import build_optimizer
from seq2seq_chat.training.rendezvous import Cluster
from seq2seq_chat.training.step import TrainingStep
from tests.conftest import Cli, loopback_addresses, write_conversations
from tests.training.test_recovery import arrays, logged_lines, only_run
from tests.training.test_step import VOCABULARY, configuration, random_batch

STEPS = 50
DEADLINE = 400  # seconds for one training process
COMMAND = [sys.executable, "-m", "seq2seq_chat", "train"]


class Device(Distribution):
    """One of several devices, without the others."""

    def __init__(self, number: int, devices: int) -> None:
        self._share, self.devices = Share(number, devices), devices

    def share(self) -> Share:
        return self._share


@pytest.mark.parametrize("sampled", [8, None])
@pytest.mark.parametrize("micro_batches", [1, 3])
@pytest.mark.parametrize("devices", [2, 4])
def test_gradients_of_shares_add_up(devices: int, micro_batches: int, sampled: int | None) -> None:
    """With dropout, scheduled sampling and sampled softmax on; rows of a small last batch are empty."""
    sampling = {"scheduled_sampling": "constant", "scheduled_sampling_probability": 0.5}
    config = configuration(micro_batches=micro_batches, sampled_softmax=sampled, **sampling)
    model = Seq2Seq(config.model, VOCABULARY, config.seed)
    batch, step = random_batch(1), tf.constant(3, tf.int64)
    batch.source_length[3] = batch.target_length[3] = 0

    def results(distribution: Distribution) -> list[np.ndarray]:
        training_step = TrainingStep(model, build_optimizer(config.training), config.training, distribution)
        loss, gradients = training_step.gradients(batch, step)
        return [loss.nats.numpy(), *(tf.convert_to_tensor(gradient).numpy() for gradient in gradients)]

    expected = results(Distribution())
    shares = [results(Device(number, devices)) for number in range(devices)]
    for total, *parts in zip(expected, *shares, strict=True):
        np.testing.assert_allclose(sum(parts), total, rtol=2e-5, atol=1e-7)


def test_a_batch_that_cannot_be_divided_evenly_is_rejected() -> None:
    with pytest.raises(UserError, match="batch_size is 64, which is not divisible by 6 devices; set it to 60 or 66"):
        ensure_divisible(64, 6)
    with pytest.raises(UserError, match="set it to 3, the number of samples of all devices together"):
        ensure_divisible(2, 3)


def settings(tiny: dict[str, Any]) -> dict[str, Any]:
    """Dropout, scheduled sampling, sampled softmax, buckets, clipping; micro-batches that devices divide unevenly."""
    changed = copy.deepcopy(tiny)
    changed["name"] = "shared"
    changed["data"]["buckets"] = [[3, 3]]
    changed["model"] |= {"encoder_steps": 5, "decoder_steps": 5}
    often = {"steps": STEPS, "log_every": 1, "validate_every": 20, "checkpoint_every": 5, "snapshot_every": None}
    stochastic = {"scheduled_sampling": "constant", "scheduled_sampling_probability": 0.2, "micro_batches": 3}
    changed["training"] |= (
        often
        | stochastic
        | {"gradient_clipping": 0.5, "optimizer": "adagrad", "learning_rate": 0.1, "validation_limit": 20}
    )
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


def wait_for_exit(process: subprocess.Popen[str], status: int = 0) -> str:
    """Wait for the process to end with this status and without a traceback; returns its last message."""
    out, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == status, out + err
    assert "Traceback" not in err
    return (err.strip().splitlines() or [""])[-1]


def start_pair(*arguments: object) -> list[subprocess.Popen[str]]:
    """Start two workers; only the chief has arguments."""
    workers = ["--workers", ",".join(loopback_addresses(2)), "--index"]
    return [start(*arguments, *workers, 0), start(*workers, 1)]


def wait_for(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdout is not None
    assert any(text in line for line in process.stdout), f"{text!r} was never printed"


def losses(run: Run) -> np.ndarray:
    """[lines, 2]: loss and gradient norm (or 0) of every line of metrics."""
    return np.array([[line["loss"], line.get("gradient_norm", 0.0)] for line in logged_lines(run.metrics_file)])


@pytest.fixture(scope="module")
def pair(tiny_config: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    """A run of two workers without interruptions, and its configuration."""
    folder = tmp_path_factory.mktemp("pair")
    config = write_config(folder / "shared.json", json.loads(tiny_config.read_text(encoding="utf-8")))
    for process in start_pair(config, "--results", folder / "results"):
        wait_for_exit(process)
    return only_run(folder / "results"), config


@pytest.mark.slow
def test_several_devices_match_the_loss_curve_of_one(cli: Cli, pair: tuple[Run, Path], tmp_path: Path) -> None:
    run, config = pair
    several = ["--set", "training.strategy=mirrored", "--set", "training.replicas=2"]
    mirrored = start(config, *several, "--results", tmp_path / "mirrored")
    assert cli("train", config, "--results", tmp_path / "single").status == 0
    wait_for_exit(mirrored)
    curve = losses(only_run(tmp_path / "single"))
    assert len(curve) == STEPS + 3
    assert curve[-2, 0] < 0.7 * curve[0, 0], "the model learns"
    assert (curve[:, 1] > 0.5).any(), "gradients are clipped"
    for other in (only_run(tmp_path / "mirrored"), run):
        np.testing.assert_allclose(losses(other), curve, rtol=2e-5)


@pytest.mark.slow
def test_interrupted_workers_end_bit_for_bit_identical(pair: tuple[Run, Path], tmp_path: Path) -> None:
    """One worker receives SIGTERM, then one is killed, then the chief is; all others stop, and are resumed."""
    expected, config = pair
    chief, worker = start_pair(config, "--results", tmp_path)
    wait_for(chief, "step 3 ")
    worker.send_signal(signal.SIGTERM)
    message = wait_for_exit(chief, status=128 + signal.SIGTERM)
    run = only_run(tmp_path)
    (step, _) = run.checkpoints()[-1]
    assert message.startswith(f"stopped and saved; resume with: seq2seq-chat train --resume {run.path}"), message
    stopped = wait_for_exit(worker, status=128 + signal.SIGTERM)
    assert stopped.startswith(f"stopped at step {step:,}; worker 0 (127.0.0.1:")

    chief, worker = start_pair("--resume", run.path)
    wait_for(chief, "step 17 ")
    message = kill(worker, survivor=chief, name="worker 1")
    options = shlex.split(message.partition("resume with: seq2seq-chat train ")[2])
    assert options[:2] == ["--resume", str(run.path)]
    chief, worker = start(*options), start(*options[2:-1], 1)
    wait_for(chief, "step 32 ")
    kill(chief, survivor=worker, name="worker 0")
    assert 25 <= run.checkpoints()[-1][0] < STEPS  # the one of step 30 may still be written

    for process in start_pair("--resume", run.path):
        wait_for_exit(process)
    assert arrays(run.checkpoint_path(STEPS)) == arrays(expected.checkpoint_path(STEPS))
    assert arrays(run.best_path) == arrays(expected.best_path)
    assert logged_lines(run.metrics_file) == logged_lines(expected.metrics_file)
    assert logged_lines(run.samples_file) == logged_lines(expected.samples_file)


@pytest.mark.slow
def test_several_devices_start_from_the_weights_of_another_run(
    cli: Cli, pair: tuple[Run, Path], tmp_path: Path
) -> None:
    run, config = pair
    arguments = [config, "--set", "training.steps=3", "--set", "data.vocabulary_size=40", "--init-from", run.path]
    workers = start_pair(*arguments, "--results", tmp_path / "two")
    several = ["--set", "training.strategy=mirrored", "--set", "training.replicas=2"]
    mirrored = start(*arguments, *several, "--results", tmp_path / "mirrored")
    assert cli("train", *arguments, "--results", tmp_path / "one").status == 0
    for process in (*workers, mirrored):
        wait_for_exit(process)
    one = only_run(tmp_path / "one")
    assert losses(one)[0, 0] < 0.9 * losses(run)[0, 0], "it has learned before"
    for other in (only_run(tmp_path / "two"), only_run(tmp_path / "mirrored")):
        assert arrays(other.checkpoint_path(0)) == arrays(one.checkpoint_path(0))
        np.testing.assert_allclose(losses(other), losses(one), rtol=2e-5)


def kill(victim: subprocess.Popen[str], survivor: subprocess.Popen[str], name: str) -> str:
    """Kill a worker; returns the last message of the other one, which stops."""
    victim.kill()
    message = wait_for_exit(survivor, status=1)
    victim.communicate()
    assert f"{name} (127.0.0.1:" in message
    assert "is gone; training stopped" in message
    return message


def test_a_worker_without_enough_memory_is_rejected(
    tiny_settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assemble, "available_memory", lambda: 1e6)
    config = parse_config(tiny_settings, where="test")
    codecs = build_codecs(config.data)
    fingerprint = Dataset.open(config.data.train, codecs, config.data).fingerprint
    with pytest.raises(UserError, match="1 MB is available"):
        assemble._open_corpus(config, codecs, Distribution(), Cluster(("one:1", "two:2"), 1), fingerprint)


@pytest.mark.slow
def test_a_worker_with_another_corpus_is_rejected(config: Path, tmp_path: Path) -> None:
    changed = json.loads(config.read_text(encoding="utf-8"))
    changed["data"] |= {"train": "train.txt", "validation": None}
    config.write_text(json.dumps(changed), encoding="utf-8")
    folders = [tmp_path / "here", tmp_path / "there"]
    for number, folder in enumerate(folders):
        folder.mkdir()
        write_conversations(folder / "train.txt", 20, seed=number)
    workers = ["--workers", ",".join(loopback_addresses(2)), "--index"]
    chief = start(config, "--results", tmp_path / "results", *workers, 0, folder=folders[0])
    other = start(*workers, 1, folder=folders[1])
    message = wait_for_exit(other, status=2)
    assert "train.txt differs from the corpus of worker 0 (127.0.0.1:" in message
    assert "cannot take part: train.txt differs from the corpus" in wait_for_exit(chief, status=1)
    assert not list((tmp_path / "results").iterdir()), "a run that never started leaves no folder"
