"""What is recorded about the code of a run."""

from __future__ import annotations

import subprocess
from pathlib import Path

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
