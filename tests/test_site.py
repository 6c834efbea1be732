"""The site is built without warnings: links lead somewhere, the notebooks of docs/tutorial/ are executed, and axe."""

import faulthandler
import subprocess
import sys
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from tests.webui.conftest import problems_of, set_view

REPOSITORY = Path(__file__).resolve().parent.parent
PRINTED = {"chatbot": "why did the neural network cross the road?", "translation": "1987-03-03", "gradients": "0.6 0.8"}


pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sphinx", reason="needs the extra docs", exc_type=ImportError)
    faulthandler.cancel_dump_traceback_later()  # three notebooks train; the command has a limit of its own
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-c", "docs", ".", str(folder)]
    build = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=1800)
    assert build.returncode == 0, build.stdout + build.stderr
    return folder


def test_site(site: Path) -> None:
    for name, text in PRINTED.items():
        assert text in (site / "docs" / "tutorial" / f"{name}.html").read_text(encoding="utf-8")
    assert "Reply to several independent utterances" in (site / "docs" / "python.html").read_text(encoding="utf-8")


def test_every_page_is_accessible_and_fits(browser: Any, site: Path) -> None:
    page = browser.new_page()
    for file, view in zip(sorted(site.rglob("*.html")), cycle([(1100, "light"), (360, "dark"), (360, "light")])):
        set_view(page, *view)
        page.goto(file.as_uri())
        assert not problems_of(page), file
    page.close()
