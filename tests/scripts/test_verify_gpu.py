"""What can be tested without a GPU: a dry run of the verification, and its refusal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "verify_gpu.sh"


@pytest.mark.nightly
def test_dry_run_without_a_gpu(tmp_path: Path) -> None:
    folder = tmp_path / "verified"
    command = [str(SCRIPT), "--folder", str(folder)]
    refused = run(command)
    assert refused.returncode == 1
    assert "no GPU found" in refused.stdout
    assert "there is no GPU to verify; --cpu does a dry run without one" in refused.stderr
    assert not folder.exists()

    verified = run([*command, "--cpu"])
    assert verified.returncode == 0, verified.stdout + verified.stderr
    rows = {row["what"]: row for row in json.loads((folder / "summary.json").read_text(encoding="utf-8"))}
    assert set(rows) == {"checks", "benchmark", "a batch", "loss after 200 steps", "peak memory", "two runs"}
    assert all(row["passed"] == "yes" for row in rows.values())
    assert rows["two runs"]["measured"] == "equal"


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command with the Python of these tests first on the path, and without a GPU, also where there is one."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=1500)
