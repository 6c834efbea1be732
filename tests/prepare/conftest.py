"""Shared by the tests of the prepare package."""

from pathlib import Path

import pytest

from tests.prepare.raw import dump


@pytest.fixture
def months(tmp_path: Path) -> Path:
    """A folder with two monthly dumps of comments."""
    folder = tmp_path / "months"
    folder.mkdir()
    dump(folder / "RC_2010-01", range(1, 2000))
    dump(folder / "RC_2010-02", range(2000, 4000))
    return folder
