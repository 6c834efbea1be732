"""What is recorded about the code of a run."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from seq2seq_chat.system import versions

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
    assert lines[0] == f"seq2seq-chat, version {metadata.version('seq2seq-chat')}"
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
    assert "TensorFlow for runs" in found["engine"]
    monkeypatch.setattr(versions, "_version", lambda name: None)
    assert cli("--version").out.splitlines()[-1] == "engine: none is installed"
