"""Run inside the image, without a GPU: which CUDA libraries TensorFlow and the system's loader find, as JSON."""

import ctypes
import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import tensorflow as tf

SITE = Path(tf.__file__).parents[1]
OPENED_BY_TENSORFLOW = ("CudaRuntime", "Cublas", "CublasLt", "Cufft", "Cusolver", "Cusparse", "Cudnn", "Cupti", "Nccl")
PROPERTIES = {  # libraries that report their version without a GPU, part by part
    "cublas": ("libcublas.so.12", "cublasGetProperty"),
    "cufft": ("libcufft.so.11", "cufftGetProperty"),
    "curand": ("libcurand.so.10", "curandGetProperty"),
    "cusolver": ("libcusolver.so.11", "cusolverGetProperty"),
    "cusparse": ("libcusparse.so.12", "cusparseGetProperty"),
}
PACKAGES = {"cudart": "cuda-runtime", "cublasLt": "cublas", "ptxas": "cuda-nvcc", "cupti": "cuda-cupti"}


def opens(framework: ctypes.CDLL, library: str) -> bool:
    """Whether TensorFlow's own loader finds a library: StatusOr<void*>, whose first word is 0 if it is a handle."""
    name = f"Get{library}DsoHandle"
    result = (ctypes.c_uint64 * 4)()
    function = framework[f"_ZN3tsl8internal9DsoLoader{len(name)}{name}Ev"]
    function.restype = None
    function(ctypes.byref(result))
    return result[0] == 0 and result[1] != 0


def call(library: str, function: str) -> int:
    """The number that a function like ``f(int *number)`` stores."""
    number = ctypes.c_int()
    assert ctypes.CDLL(library)[function](ctypes.byref(number)) == 0, function
    return number.value


def result_of(library: str, function: str) -> int:
    """What a function without arguments returns."""
    called = ctypes.CDLL(library)[function]
    called.restype = ctypes.c_size_t
    return int(called())


def versions() -> dict[str, list[int]]:
    """The versions [major, minor] that the libraries themselves report."""
    found = {}
    for name, (library, function) in PROPERTIES.items():
        loaded, number = ctypes.CDLL(library), ctypes.c_int()
        found[name] = []
        for part in range(2):
            assert loaded[function](part, ctypes.byref(number)) == 0, name
            found[name].append(number.value)
    cudart, nccl = call("libcudart.so.12", "cudaRuntimeGetVersion"), call("libnccl.so.2", "ncclGetVersion")
    cudnn, lt = result_of("libcudnn.so.8", "cudnnGetVersion"), result_of("libcublasLt.so.12", "cublasLtGetVersion")
    found["cudart"] = [cudart // 1000, cudart % 1000 // 10]
    found["nccl"] = [nccl // 10_000, nccl % 10_000 // 100]
    found["cudnn"] = [cudnn // 1000, cudnn % 1000 // 100]
    found["cublasLt"] = [lt // 10_000, lt % 10_000 // 100]
    return found


def compiler_folders(framework: ctypes.CDLL) -> list[str]:
    """Where TensorFlow looks for ptxas: a std::vector<std::string>."""
    vector = (ctypes.c_uint64 * 3)()
    function = framework["_ZN3tsl18CandidateCudaRootsB5cxx11Ev"]
    function.restype = None
    function(ctypes.byref(vector))
    words = [(ctypes.c_uint64 * 2).from_address(address) for address in range(vector[0], vector[1], 32)]
    return [ctypes.string_at(pointer, length).decode() for pointer, length in words]


def main() -> None:
    """Print everything."""
    framework = ctypes.CDLL(str(SITE / "tensorflow" / "libtensorflow_framework.so.2"))
    opened = {library: opens(framework, library) for library in OPENED_BY_TENSORFLOW}
    with open("/proc/self/maps", encoding="utf-8") as maps:
        files = {line.split()[-1] for line in maps if "/nvidia/" in line}
    found = versions()
    compilers = [Path(folder, "bin", "ptxas") for folder in compiler_folders(framework)]
    ptxas = next((str(path) for path in compilers if path.exists()), None)
    output = subprocess.run([ptxas, "--version"], capture_output=True, text=True, check=True).stdout if ptxas else ""
    names = {*found, "cupti", "ptxas"}
    packages = {name: metadata.version(f"nvidia-{PACKAGES.get(name, name)}-cu12") for name in sorted(names)}
    build = {key: tf.sysconfig.get_build_info()[key] for key in ("cuda_version", "cudnn_version")}
    report = {"build": build, "opened": opened, "files": sorted(files), "versions": found, "packages": packages}
    json.dump(report | {"ptxas": output, "gpus": len(tf.config.list_physical_devices("GPU"))}, sys.stdout)


main()
