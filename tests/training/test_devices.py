"""What a training says about the devices it found, and that it does not take all of a GPU's memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from seq2seq_chat import GROWTH
from seq2seq_chat.training import devices
from seq2seq_chat.training.devices import describe_devices


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of two cores whose kernel, cards and container are told by files: driver, nvidia0, mark."""
    monkeypatch.setattr(devices, "available_cores", lambda: 2)
    monkeypatch.setattr(devices, "gpu_names", lambda: [])
    monkeypatch.setattr(devices, "DRIVER", tmp_path / "driver")
    monkeypatch.setattr(devices, "CARDS", tmp_path)
    monkeypatch.setattr(devices, "CONTAINERS", (tmp_path / "mark",))
    monkeypatch.setenv(GROWTH, "true")
    return tmp_path


@pytest.mark.parametrize(
    ("files", "remedy"),
    [
        ([], ""),
        (["mark"], "; on a machine with NVIDIA's driver and container toolkit start the container with --gpus all"),
        (["mark", "driver"], "; on a machine with NVIDIA's driver and container toolkit start the container with"),
        (["nvidia0", "nvidiactl", "driver"], "; there is a card, but TensorFlow finds no CUDA 12.2 with cuDNN 8.9"),
        (["mark", "nvidia0"], "; there is a card, but TensorFlow finds no CUDA 12.2 with cuDNN 8.9"),
        (["nvidiactl", "driver"], "; NVIDIA's driver is loaded, but there is no card"),
    ],
)
def test_without_a_gpu_it_says_what_would_bring_one_into_use(machine: Path, files: list[str], remedy: str) -> None:
    for name in files:
        (machine / name).touch()
    said = describe_devices()
    assert said.startswith("no GPU found: training on 2 processor cores" + remedy)
    assert bool(remedy) == (said != "no GPU found: training on 2 processor cores")


@pytest.mark.parametrize(
    ("names", "used", "growth", "said"),
    [
        (["A"], 1, "true", "1 GPU: A; memory is taken as it is needed"),
        (["A", "B"], 2, "true", "2 GPUs: A, B; memory is taken as it is needed"),
        (
            ["A", "A", "B"],
            1,
            "true",
            "3 GPUs: 2 × A, B; the first one (training.strategy=mirrored uses all) is used, and",
        ),
        (["A", "A", "B"], 2, "true", "3 GPUs: 2 × A, B; the first 2 are used, and"),
        (["A"], 1, "false", f"1 GPU: A; all memory is taken at once ({GROWTH} says so)"),
    ],
)
def test_gpus_are_named_with_what_becomes_of_their_memory(
    machine: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], used: int, growth: str, said: str
) -> None:
    monkeypatch.setattr(devices, "gpu_names", lambda: names)
    monkeypatch.setenv(GROWTH, growth)
    assert describe_devices(used).startswith(said)


@pytest.mark.parametrize(("before", "after"), [(None, "true"), ("false", "false")])
def test_memory_grows_unless_somebody_wants_it_otherwise(before: str | None, after: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != GROWTH}
    environment |= {} if before is None else {GROWTH: before}
    look = f"import os, seq2seq_chat.environment, sys; print(os.environ['{GROWTH}'], 'tensorflow' in sys.modules)"
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", look],
        env=environment | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    assert done.stdout.split() == [after, "False"]
