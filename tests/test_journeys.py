"""A training batch, a chat message and a raw dump pass few files."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

LIMITS = {"batch": 60, "dump": 45, "message": 43}
JOURNEYS = Path(__file__).with_name("journeys.py")


@pytest.mark.slow(minutes=0.5)
def test_journeys_pass_few_files(tmp_path: Path) -> None:
    command = [sys.executable, JOURNEYS]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600)
    assert result.returncode == 0, result.stderr
    counts = {name: int(number) for name, number in re.findall(r"^(\w+): (\d+) files$", result.stdout, re.MULTILINE)}
    assert counts.keys() == LIMITS.keys()
    for name, limit in LIMITS.items():
        assert 10 <= counts[name] <= limit, result.stdout
