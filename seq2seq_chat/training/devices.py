"""What a training computes on, in a sentence for whoever starts it."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import tensorflow as tf

from seq2seq_chat import GROWTH
from seq2seq_chat.environment import available_cores, gpu_names

DRIVER = Path("/proc/driver/nvidia/version")  # is there when the kernel has NVIDIA's driver, also inside a container
CARDS = Path("/dev")  # has nvidia0, nvidia1, …; in a container those that it was given
CONTAINERS = (Path("/.dockerenv"), Path("/run/.containerenv"))  # Docker's mark, and Podman's


def describe_devices(used: int = 1) -> str:
    """The GPUs, how many of them are used and what will be done with their memory; or the cores and what would bring a
    GPU into use."""
    names = gpu_names()
    if names:
        listed = ", ".join(name if count == 1 else f"{count} × {name}" for name, count in Counter(names).items())
        which = "" if used >= len(names) else f"{_first(used)} used, and "
        return f"{len(names)} GPU{'s' if len(names) > 1 else ''}: {listed}; {which}{_memory()}"
    cores = available_cores()
    return f"no GPU found: training on {cores} processor core{'s' if cores > 1 else ''}" + _remedy()


def _first(used: int) -> str:
    if used > 1:
        return f"the first {used} are"
    return "the first one (training.strategy=mirrored uses all) is"


def _memory() -> str:
    if os.environ.get(GROWTH, "").lower() in ("true", "1"):
        return "memory is taken as it is needed"
    return f"all memory is taken at once ({GROWTH} says so)"


def _remedy() -> str:
    """What has to be done where there might be a GPU."""
    if any(CARDS.glob("nvidia[0-9]*")):
        return (
            "; there is a card, but TensorFlow finds no CUDA 12.2 with cuDNN 8.9: "
            f"pip install 'tensorflow[and-cuda]=={tf.__version__}' brings them"
        )
    if any(mark.exists() for mark in CONTAINERS):
        return "; on a machine with NVIDIA's driver and container toolkit start the container with --gpus all"
    if DRIVER.exists():
        return "; NVIDIA's driver is loaded, but there is no card: see nvidia-smi"
    return ""
