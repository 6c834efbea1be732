"""The site is built without warnings: links lead somewhere, and the notebooks of docs/tutorial/ are executed."""

import faulthandler
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
PRINTED = {"chatbot": "why did the neural network cross the road?", "translation": "1987-03-03", "gradients": "0.6 0.8"}


@pytest.mark.nightly
def test_site(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="needs the extra docs", exc_type=ImportError)
    faulthandler.cancel_dump_traceback_later()  # three notebooks train; the command has a limit of its own
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-c", "docs", ".", str(tmp_path)]
    build = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=1800)
    assert build.returncode == 0, build.stdout + build.stderr
    for name, text in PRINTED.items():
        assert text in (tmp_path / "docs" / "tutorial" / f"{name}.html").read_text(encoding="utf-8")
    assert "Reply to several independent utterances" in (tmp_path / "docs" / "python.html").read_text(encoding="utf-8")
