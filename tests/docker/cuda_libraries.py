"""Run inside the image, without a GPU: which CUDA libraries TensorFlow and the system's loader find, as JSON."""

import ctypes
import importlib.util
import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

SITE = Path(str(importlib.util.find_spec("tensorflow").origin)).parents[1]
# TensorFlow looks for ptxas relative to the name under which this library was loaded. If a module of TensorFlow loads
# it, the name ends in rubbish in some processes, such as "….so.2gnu/"; so it is loaded first, by its full name.
framework = ctypes.CDLL(str(SITE / "tensorflow" / "libtensorflow_framework.so.2"))

import tensorflow as tf  # noqa: E402

OPENED_BY_TENSORFLOW = ("CudaRuntime", "Cublas", "CublasLt", "Cufft", "Cusolver", "Cusparse", "Cudnn", "Cupti", "Nccl")


def opens(library: str) -> bool:
    """Whether TensorFlow's own loader finds a library: StatusOr<void*>, whose first word is 0 if it is a handle."""
    name = f"Get{library}DsoHandle"
    result = (ctypes.c_uint64 * 4)()
    function = framework[f"_ZN3tsl8internal9DsoLoader{len(name)}{name}Ev"]
    function.restype = None
    function(ctypes.byref(result))
    return result[0] == 0 and result[1] != 0


def compiler_folders() -> list[str]:
    """Where TensorFlow looks for ptxas: a std::vector<std::string>."""
    vector = (ctypes.c_uint64 * 3)()
    function = framework["_ZN3tsl18CandidateCudaRootsB5cxx11Ev"]
    function.restype = None
    function(ctypes.byref(vector))
    words = [(ctypes.c_uint64 * 2).from_address(address) for address in range(vector[0], vector[1], 32)]
    return [ctypes.string_at(pointer, length).decode() for pointer, length in words]


def printed_version(compiler: Path) -> str | None:
    """What a compiler prints with its exit status; None if there is no such file."""
    if not compiler.exists():
        return None
    run = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    return f"{run.stdout}{run.stderr}exit status {run.returncode}"


def main() -> None:
    """Print everything."""
    opened = {library: opens(library) for library in OPENED_BY_TENSORFLOW}
    with open("/proc/self/maps", encoding="utf-8") as maps:
        files = {line.split()[-1] for line in maps if "/nvidia/" in line}
    compilers = {folder: printed_version(Path(folder, "bin", "ptxas")) for folder in compiler_folders()}
    installed = {each.name: each.version for each in metadata.distributions() if each.name.startswith("nvidia-")}
    build = {key: tf.sysconfig.get_build_info()[key] for key in ("cuda_version", "cudnn_version")}
    report = {"build": build, "opened": opened, "files": sorted(files), "packages": installed, "ptxas": compilers}
    json.dump(report | {"gpus": len(tf.config.list_physical_devices("GPU"))}, sys.stdout)


main()
