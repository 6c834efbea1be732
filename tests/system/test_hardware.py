"""Cores, GPUs and memory, within the limits of a container; and what is recorded about code and machine."""

import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import seq2seq_chat
from seq2seq_chat import GROWTH, ONEDNN
from seq2seq_chat.system import hardware, versions
from seq2seq_chat.system.hardware import available_cores, available_memory, describe_devices, uses_avx2_kernels


@pytest.mark.parametrize(
    ("cgroup2", "cgroup1", "cores"),
    [
        (None, None, 8),
        ("max 100000\n", None, 8),
        ("200000 100000\n", None, 2),
        ("150000 100000\n", None, 2),  # a core and a half
        ("1000 100000\n", None, 1),
        ("6400000 100000\n", None, 8),
        (None, ("-1\n", "100000\n"), 8),
        (None, ("300000\n", "100000\n"), 3),
        ("nonsense", None, 8),
    ],
)
def test_cores_are_limited_by_the_quota_of_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cgroup2: str | None, cgroup1: tuple[str, str] | None, cores: int
) -> None:
    names = ("cpu.max", "quota", "period")
    for name, text in zip(names, (cgroup2, *(cgroup1 or (None, None))), strict=True):
        if text is not None:
            (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(hardware, "CPU_QUOTAS", ((tmp_path / "cpu.max",), (tmp_path / "quota", tmp_path / "period")))
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)))
    assert available_cores() == cores


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fake machine with two cores; files in this folder give it a driver, a GPU or a container."""
    monkeypatch.setattr(hardware, "available_cores", lambda: 2)
    monkeypatch.setattr(hardware, "gpu_names", lambda: [])
    monkeypatch.setattr(hardware, "NVIDIA_DRIVER", tmp_path / "driver")
    monkeypatch.setattr(hardware, "DEVICES", tmp_path)
    monkeypatch.setattr(hardware, "CONTAINER_MARKERS", (tmp_path / "marker",))
    monkeypatch.setenv(GROWTH, "true")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("files", "remedy"),
    [
        ([], ""),
        (
            ["marker"],
            "; to use an NVIDIA GPU, install the NVIDIA Container Toolkit and start the container with --gpus all",
        ),
        (["marker", "driver"], "; to use an NVIDIA GPU, install the NVIDIA Container Toolkit and start"),
        (["nvidia0", "nvidiactl", "driver"], "; there is an NVIDIA GPU, but TensorFlow could not find CUDA 12.2 and"),
        (["marker", "nvidia0"], "; there is an NVIDIA GPU, but TensorFlow could not find CUDA 12.2 and cuDNN 8.9"),
        (["nvidiactl", "driver"], "; the NVIDIA driver is loaded, but there is no GPU"),
    ],
)
def test_without_a_gpu_the_remedy_depends_on_the_machine(machine: Path, files: list[str], remedy: str) -> None:
    for name in files:
        (machine / name).touch()
    description = describe_devices()
    assert description.startswith("no GPU found: training on 2 processor cores" + remedy)
    assert bool(remedy) == (description != "no GPU found: training on 2 processor cores")


def test_a_gpu_that_is_hidden_is_named_so(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (machine / "nvidia0").touch()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert describe_devices().endswith("; there is an NVIDIA GPU, but CUDA_VISIBLE_DEVICES hides it")


@pytest.mark.parametrize(
    ("names", "used", "growth", "description"),
    [
        (["A"], 1, "true", "1 GPU: A; memory is allocated as needed"),
        (["A", "B"], 2, "true", "2 GPUs: A, B; memory is allocated as needed"),
        (
            ["A", "A", "B"],
            1,
            "true",
            "3 GPUs: 2 × A, B; using the first one (training.strategy=mirrored uses all); memory is",
        ),
        (["A", "A", "B"], 2, "true", "3 GPUs: 2 × A, B; using the first 2; memory is"),
        (["A"], 1, "false", f"1 GPU: A; all memory is allocated at once ({GROWTH} is set)"),
    ],
)
def test_gpus_are_listed(
    machine: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], used: int, growth: str, description: str
) -> None:
    monkeypatch.setattr(hardware, "gpu_names", lambda: names)
    monkeypatch.setenv(GROWTH, growth)
    assert describe_devices(used).startswith(description)


IS_X86 = platform.machine() in ("x86_64", "AMD64")  # elsewhere oneDNN is TensorFlow's choice


@pytest.mark.parametrize(
    ("growth", "onednn", "first", "after"),
    [(None, None, "os", "true 1"), ("false", "0", "os", "false 0"), (None, None, "tensorflow", "true None")],
)
def test_gpu_memory_grows_and_onednn_is_used_unless_tensorflow_was_imported_without_it(
    growth: str | None, onednn: str | None, first: str, after: str
) -> None:
    given = {GROWTH: growth, ONEDNN: onednn}
    environment = {name: value for name, value in (os.environ | given).items() if value is not None}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    variables = f"os.environ['{GROWTH}'], os.environ.get('{ONEDNN}')"
    program = f"import os, sys, {first}, seq2seq_chat; print({variables}, 'tensorflow' in sys.modules)"
    found = subprocess.check_output([sys.executable, "-c", program], env=environment, text=True).split()
    expected = [*after.split(), str(first == "tensorflow")]
    assert found == expected if IS_X86 else found[::2] == expected[::2]


def test_where_the_kernels_for_avx2_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ONEDNN, "1")
    for flags, expected in (("avx avx2", True), ("avx2 avx512f", False), ("avx", False), ("", False), ("avx2", True)):
        monkeypatch.setattr(hardware, "processor_flags", flags.split)
        assert uses_avx2_kernels() == expected
    monkeypatch.setenv(ONEDNN, "0")
    assert not uses_avx2_kernels()
    monkeypatch.delenv(ONEDNN)
    assert not uses_avx2_kernels()


@pytest.mark.parametrize(
    ("limit", "statistics", "free"),
    [
        ("max\n", "inactive_file 5000000000\n", 50e9),
        ("10000000000\n", "", 4e9),
        ("10000000000\n", "anon 1000000000\ninactive_file 5000000000\nactive_file 1\n", 9e9),  # reclaimable
        ("10000000000\n", "nonsense\n", 4e9),
        ("9223372036854771712\n", "inactive_file 5\n", 50e9),
    ],
)
def test_memory_in_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, statistics: str, free: float
) -> None:
    """On a machine of 50 GB without a GPU."""
    monkeypatch.setattr(hardware, "MEMORY_LIMITS", ((tmp_path, "memory.max", "memory.current", "inactive_file"),))
    monkeypatch.setattr(hardware, "_machine_memory", lambda: 50e9)
    monkeypatch.setattr(hardware, "gpu_names", lambda: [])
    assert available_memory() == 50e9
    (tmp_path / "memory.max").write_text(limit, encoding="utf-8")
    (tmp_path / "memory.current").write_text("6000000000\n", encoding="utf-8")
    (tmp_path / "memory.stat").write_text(statistics, encoding="utf-8")
    assert available_memory() == free


GIT = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]


def test_the_revision_of_another_project_is_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package in an environment inside a repository does not belong to it."""
    module = tmp_path / "versions.py"
    module.touch()
    subprocess.run([*GIT, "init", "-q", str(tmp_path)], check=True)
    subprocess.run([*GIT, "-C", str(tmp_path), "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    monkeypatch.setattr(versions, "__file__", str(module))
    monkeypatch.setenv(versions.REVISION, "given")
    assert versions.describe_environment()["code"] == {"revision": "given", "changed": None}

    subprocess.run([*GIT, "-C", str(tmp_path), "add", "versions.py"], check=True)
    subprocess.run([*GIT, "-C", str(tmp_path), "commit", "-q", "-m", "second"], check=True)
    code = versions.describe_environment()["code"]
    assert len(code["revision"]) == 40 and code["changed"] is False


def test_the_version_has_what_a_report_of_a_bug_needs(cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    lines = cli("--version").out.splitlines()
    assert lines[0] == f"seq2seq-chat, version {seq2seq_chat.__version__}"
    found = dict(line.split(": ", 1) for line in lines[1:])
    assert found["Python"].startswith(platform.python_version())
    for package in ("tensorflow", "onnxruntime", "numpy"):
        assert f"{package} {metadata.version(package)}" in found["packages"]
    cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    assert set(found["processor flags"].split()) <= {*cpuinfo, "unknown"}
    assert ("avx2" in found["processor flags"].split()) == ("avx2" in cpuinfo)
    assert found["cores"].endswith(f" of {os.cpu_count()}")
    free, total = map(float, re.findall(r"([\d.]+) GB", found["memory"]))
    assert 0 < free <= total
    assert found["engine"].startswith("TensorFlow (oneDNN o")
    monkeypatch.setattr(versions, "_version", lambda name: None)
    assert cli("--version").out.splitlines()[-1] == "engine: none is installed"
