"""Available processor cores, GPUs and memory, within the limits of a container, and what computes models on them.

GPUs are reported only once TensorFlow is imported; importing this module does not import it.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import platform
import sys
from collections import Counter
from pathlib import Path
from typing import Literal, NamedTuple

from seq2seq_chat import GROWTH, ONEDNN

CPU_QUOTAS = (  # files with the processor time per period that a container may use, in microseconds
    ("/sys/fs/cgroup/cpu.max",),
    ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"),
)
MEMORY_LIMITS = (  # folder, limit, usage, and the part of the usage that is reclaimable file cache
    ("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")  # exists if the kernel has the driver, also inside a container
DEVICES = Path("/dev")  # contains nvidia0, nvidia1, …, in a container only the GPUs passed to it
CONTAINER_MARKERS = (Path("/.dockerenv"), Path("/run/.containerenv"))  # of Docker and Podman
EngineName = Literal["auto", "tensorflow", "onnx"]


class EngineOptions(NamedTuple):
    """What computes a model."""

    name: EngineName = "auto"  # auto: ONNX Runtime, which starts in a fraction of the time, where it can
    quantize: str | None = None  # int8: matrices as integers of 8 bits, ONNX only


AUTO, TENSORFLOW = EngineOptions(), EngineOptions("tensorflow")


def available_cores() -> int:
    """Number of cores that this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(cores, _cpu_quota())))


def _cpu_quota() -> float:
    """Cores that the container may use; infinite without a limit."""
    for files in CPU_QUOTAS:
        with contextlib.suppress(OSError, ValueError):  # the file does not exist, or contains "max"
            time, period = map(float, " ".join(Path(file).read_text() for file in files).split())
            if time > 0:
                return time / period
    return math.inf


@functools.cache
def processor_flags() -> frozenset[str]:
    """Instruction set extensions by their Linux names; empty on other systems."""
    return frozenset((_find_value("cpuinfo", "flags") or "").split())


def uses_avx2_kernels() -> bool:
    """Whether TensorFlow multiplies matrices with the kernels that oneDNN has for AVX2."""
    flags = processor_flags()
    return os.environ.get(ONEDNN) == "1" and "avx2" in flags and "avx512f" not in flags


def processor_name() -> str:
    """Model of the processor."""
    return _find_value("cpuinfo", "model name") or platform.processor() or platform.machine()


def _find_value(file: str, key: str) -> str | None:
    """The first value of a key in a file of /proc; None if there is no such key or file, as on other systems."""
    with contextlib.suppress(OSError):
        for line in Path("/proc", file).read_text(encoding="utf-8").splitlines():
            if line.partition(":")[0].strip() == key:
                return line.partition(":")[2].strip()
    return None


def has_gpu() -> bool:
    """Whether there is an NVIDIA GPU that programs may use, told without TensorFlow."""
    return os.environ.get("CUDA_VISIBLE_DEVICES") not in ("", "-1") and any(DEVICES.glob("nvidia[0-9]*"))


def gpu_names() -> list[str]:
    """Names of the GPUs that TensorFlow finds; empty if TensorFlow is not imported."""
    if "tensorflow" not in sys.modules:
        return []
    import tensorflow as tf

    devices = tf.config.list_physical_devices("GPU")
    return [tf.config.experimental.get_device_details(device).get("device_name", device.name) for device in devices]


def describe_devices(used: int = 1) -> str:
    """Describe the GPUs and how many of them are used, or the cores and how to use a GPU."""
    names = gpu_names()
    if not names:
        cores = available_cores()
        return f"no GPU found: training on {cores} processor core{'s' if cores > 1 else ''}" + _gpu_remedy()
    listed = ", ".join(name if count == 1 else f"{count} × {name}" for name, count in Counter(names).items())
    if used >= len(names):
        selection = ""
    elif used > 1:
        selection = f"using the first {used}; "
    else:
        selection = "using the first one (training.strategy=mirrored uses all); "
    growing = os.environ.get(GROWTH, "").lower() in ("true", "1")
    memory = "memory is allocated as needed" if growing else f"all memory is allocated at once ({GROWTH} is set)"
    return f"{len(names)} GPU{'s' if len(names) > 1 else ''}: {listed}; {selection}{memory}"


def _gpu_remedy() -> str:
    """How to make a GPU available that TensorFlow may have missed."""
    if any(DEVICES.glob("nvidia[0-9]*")):
        if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
            return "; there is an NVIDIA GPU, but CUDA_VISIBLE_DEVICES hides it"
        return (
            "; there is an NVIDIA GPU, but TensorFlow could not find CUDA 12.2 and cuDNN 8.9: install them with "
            "pip install 'tensorflow[and-cuda]==2.15.1'"
        )
    if any(marker.exists() for marker in CONTAINER_MARKERS):
        return "; to use an NVIDIA GPU, install the NVIDIA Container Toolkit and start the container with --gpus all"
    if NVIDIA_DRIVER.exists():
        return "; the NVIDIA driver is loaded, but there is no GPU: check nvidia-smi"
    return ""


def available_memory() -> float:
    """Bytes available to TensorFlow: of the first GPU if there is one, else of the machine or its container."""
    if gpu_names():
        with contextlib.suppress(ImportError, RuntimeError):
            from tensorflow.python.client import device_lib  # the only way to get the size without allocating all of it

            devices = device_lib.list_local_devices()
            if sizes := [device.memory_limit for device in devices if device.device_type == "GPU"]:
                return float(sizes[0])
    return free_memory()


def free_memory() -> float:
    """Bytes of free memory of the machine, or of its container."""
    free = _machine_memory()
    for folder, limit_file, usage_file, cache_key in MEMORY_LIMITS:
        limit, usage = _read_number(Path(folder, limit_file)), _read_number(Path(folder, usage_file))
        if limit is not None and usage is not None:
            free = min(free, limit - usage + _read_statistic(Path(folder, "memory.stat"), cache_key))
    return free


def _machine_memory() -> float:
    kibibytes = (_find_value("meminfo", "MemAvailable") or "inf").split()[0]
    return float(kibibytes) * 1024


def _read_number(path: Path) -> float | None:
    try:
        return float(path.read_text())
    except (OSError, ValueError):  # the file does not exist, or contains "max"
        return None


def _read_statistic(path: Path, name: str) -> float:
    try:
        return next(float(value) for key, value in map(str.split, path.read_text().splitlines()) if key == name)
    except (OSError, ValueError, StopIteration):
        return 0.0
