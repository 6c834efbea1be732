"""What the program runs on: the versions it needs, and a record of what was there.

Importing this module imports no TensorFlow; :func:`load_tensorflow` does, after it has checked what it can.
"""

from __future__ import annotations

import contextlib
import math
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from seq2seq_chat.errors import UserError

PYTHON = ((3, 10), (3, 11))
TENSORFLOW = "2.15"
REVISION = "SEQ2SEQ_CHAT_REVISION"  # names the code's where there is no repository
RECORDED_PACKAGES = ("seq2seq-chat", "tensorflow", "tensorflow-addons", "numpy", "pydantic")
QUOTAS = (  # files that say how many microseconds of how many a container may compute
    ("/sys/fs/cgroup/cpu.max",),
    ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"),
)


class EnvironmentFault(UserError):
    """A Python or TensorFlow this program does not work with."""


def load_tensorflow() -> Any:
    """Import TensorFlow quietly, and refuse versions the program was not made for in one sentence."""
    if sys.version_info[:2] not in PYTHON:
        raise EnvironmentFault(
            f"this is Python {platform.python_version()}, and TensorFlow {TENSORFLOW} exists for Python 3.10 and 3.11 "
            "only; make the environment with one of them (./run.sh looks for it)"
        )
    try:
        import tensorflow as tf
    except ImportError as error:
        raise EnvironmentFault(
            f"TensorFlow cannot be imported ({error}); install it with: pip install -c constraints.txt -e ."
        ) from error
    tf.get_logger().setLevel("ERROR")  # it advises against several graphs of one function, which is what buckets are
    if not tf.__version__.startswith(TENSORFLOW + "."):
        raise EnvironmentFault(
            f"this is TensorFlow {tf.__version__}, and {TENSORFLOW} is needed; "
            "install it with: pip install -c constraints.txt -e ."
        )
    return tf


def available_cores() -> int:
    """Cores that this process may use, as many as its container is given the time of."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(cores, _quota())))


def _quota() -> float:
    """The share of time that a container may use, 1 for one core's; infinite outside of one."""
    for files in QUOTAS:
        with contextlib.suppress(OSError, ValueError):  # there is no such file, or it says "max"
            time, period = map(float, " ".join(Path(file).read_text() for file in files).split())
            if time > 0:
                return time / period
    return math.inf


def make_deterministic(seed: int, wanted: bool | None = True) -> None:
    """The same operations in the same order give the same bits from here on, in this process.

    ``wanted`` None leaves it to the device: a processor computes as fast this way, a GPU does not.
    """
    import tensorflow as tf

    tf.keras.utils.set_random_seed(seed)
    if wanted or (wanted is None and not tf.config.list_physical_devices("GPU")):
        tf.config.experimental.enable_op_determinism()


def describe_environment() -> dict[str, Any]:
    """Versions, hardware and the command line, for a run's environment.json."""
    return {
        "command": sys.argv,
        "code": _code_revision(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in RECORDED_PACKAGES},
        "processor": _processor(),
        "cores": os.cpu_count(),
        "gpus": gpu_names(),
        "threads": _threads(),
    }


def _code_revision() -> dict[str, Any]:
    """The Git revision the code was taken from, and whether it was changed since; an image only knows the first."""
    try:
        revision = _git("rev-parse", "HEAD").strip()
        return {"revision": revision, "changed": bool(_git("status", "--porcelain", "--untracked-files=no").strip())}
    except (OSError, subprocess.SubprocessError):
        return {"revision": os.environ.get(REVISION) or None, "changed": None}


def _git(*arguments: str) -> str:
    folder = Path(__file__).resolve().parent
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=20).stdout


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def processor_flags() -> set[str]:
    """The instruction sets of the processor by their Linux names; empty where the system does not tell."""
    return set((_cpuinfo("flags") or "").split())


def _processor() -> str:
    return _cpuinfo("model name") or platform.processor() or platform.machine()


def _cpuinfo(key: str) -> str | None:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.partition(":")[0].strip() == key:
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return None


def gpu_names() -> list[str]:
    """The GPUs that TensorFlow sees; none while it is not loaded."""
    if "tensorflow" not in sys.modules:
        return []
    import tensorflow as tf

    devices = tf.config.list_physical_devices("GPU")
    return [tf.config.experimental.get_device_details(device).get("device_name", device.name) for device in devices]


def _threads() -> dict[str, Any]:
    """Threads TensorFlow was told to use, 0 for as many as there are cores, and what else may limit them."""
    told: dict[str, Any] = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS")}
    if "tensorflow" in sys.modules:
        import tensorflow as tf

        told["in an operation"] = tf.config.threading.get_intra_op_parallelism_threads()
        told["between operations"] = tf.config.threading.get_inter_op_parallelism_threads()
    return told
