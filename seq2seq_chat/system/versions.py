"""Required versions of Python and TensorFlow, and the environment recorded with a run.

Importing this module does not import TensorFlow; :func:`load_tensorflow` does, after checking Python.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from seq2seq_chat import ONEDNN
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.hardware import available_cores, free_memory, gpu_names, processor_flags, processor_name

PYTHON_VERSIONS = ((3, 10), (3, 11))
TENSORFLOW = "2.15"
REVISION = "SEQ2SEQ_CHAT_REVISION"  # environment variable with the Git revision, for code outside a repository
INSTRUCTION_SETS = ("sse4", "avx", "fma", "f16c", "amx")  # prefixes of the flags that decide which kernels run
RECORDED_PACKAGES = ("seq2seq-chat", "tensorflow", "tensorflow-addons", "numpy", "pydantic")


class UnsupportedVersion(UserError):
    """A version of Python or TensorFlow that is not supported."""


def load_tensorflow() -> Any:
    """Import TensorFlow without its informational messages.

    Raises:
        UnsupportedVersion: Python or TensorFlow has another version, or TensorFlow is missing.
    """
    if sys.version_info[:2] not in PYTHON_VERSIONS:
        raise UnsupportedVersion(
            f"this is Python {platform.python_version()}, but TensorFlow {TENSORFLOW} requires Python 3.10 or 3.11; "
            "create the virtual environment with one of them (./run.sh finds it)"
        )
    try:
        import tensorflow as tf
    except ImportError as error:
        raise UnsupportedVersion(
            f"could not import TensorFlow ({error}); install it with: pip install -c constraints.txt -e ."
        ) from error
    tf.get_logger().setLevel("ERROR")  # no warnings of retracing: each bucket needs a trace
    if not tf.__version__.startswith(TENSORFLOW + "."):
        raise UnsupportedVersion(
            f"this is TensorFlow {tf.__version__}, but {TENSORFLOW} is required; "
            "install it with: pip install -c constraints.txt -e ."
        )
    return tf


def make_deterministic(seed: int, deterministic: bool | None = True) -> None:
    """Make TensorFlow compute bit-for-bit reproducibly in this process.

    Also seeds the global random number generators. With ``deterministic`` None, computation is deterministic only
    without a GPU, where this costs no time.
    """
    import tensorflow as tf

    tf.keras.utils.set_random_seed(seed)
    if deterministic or (deterministic is None and not tf.config.list_physical_devices("GPU")):
        tf.config.experimental.enable_op_determinism()


def describe_environment() -> dict[str, Any]:
    """Versions, hardware and the command line, for a run's environment.json."""
    return {
        "command": sys.argv,
        "code": _code_revision(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in RECORDED_PACKAGES},
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "gpus": gpu_names(),
        "threads": _threads(),
    }


def describe_installation() -> list[str]:
    """What a report of a bug needs, a line each, without importing TensorFlow or ONNX Runtime."""
    code, versions = _code_revision(), {name: _version(name) for name in (*RECORDED_PACKAGES, "onnxruntime")}
    flags = sorted(flag for flag in processor_flags() if flag.startswith(INSTRUCTION_SETS))
    one_dnn = f"oneDNN {'on' if os.environ.get(ONEDNN) == '1' else 'off'}"
    engines = {"tensorflow": f"TensorFlow ({one_dnn})", "onnxruntime": "ONNX Runtime for replies without a GPU"}
    total_memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return [
        f"revision: {code['revision'] or 'unknown'}{' with changes' if code['changed'] else ''}",
        f"Python: {platform.python_version()} on {platform.platform()}",
        f"packages: {', '.join(f'{name} {version}' for name, version in versions.items())}",
        f"processor: {processor_name()}",
        f"processor flags: {' '.join(flags) or 'unknown'}",
        f"cores: {available_cores()} of {os.cpu_count()}",
        f"memory: {free_memory() / 1e9:.1f} GB free of {total_memory / 1e9:.1f} GB",
        f"engine: {', '.join(text for name, text in engines.items() if versions[name]) or 'none is installed'}",
    ]


def _code_revision() -> dict[str, Any]:
    """The Git revision of the code, and whether files were changed since; None if unknown."""
    try:
        _git("ls-files", "--error-unmatch", Path(__file__).name)  # fails in the repository of another project
        revision = _git("rev-parse", "HEAD").strip()
        return {"revision": revision, "changed": bool(_git("status", "--porcelain", "--untracked-files=no").strip())}
    except (OSError, subprocess.SubprocessError):
        return {"revision": os.environ.get(REVISION) or None, "changed": None}


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(Path(__file__).resolve().parent), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=20).stdout


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _threads() -> dict[str, Any]:
    """TensorFlow's numbers of threads (0: one per core), and the environment variable that limits other libraries."""
    threads: dict[str, Any] = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS")}
    if "tensorflow" in sys.modules:
        import tensorflow as tf

        threads["in an operation"] = tf.config.threading.get_intra_op_parallelism_threads()
        threads["between operations"] = tf.config.threading.get_inter_op_parallelism_threads()
    return threads
