"""Shared by the tests of the prepare package."""

import importlib.util
import os
import shutil
from pathlib import Path

import pytest

from tests.prepare.raw import dump


@pytest.fixture
def spark() -> None:
    """Skip the test if Spark is unavailable."""
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("pyspark is not installed; ./test.sh -m slow installs it")
    java = os.environ.get("JAVA_HOME")
    if shutil.which("java") is None and not (java and Path(java, "bin", "java").is_file()):
        pytest.skip("Java, which Spark needs, is not installed")


@pytest.fixture
def months(tmp_path: Path) -> Path:
    """A folder with two monthly dumps of comments."""
    folder = tmp_path / "months"
    folder.mkdir()
    dump(folder / "RC_2010-01", range(1, 2000))
    dump(folder / "RC_2010-02", range(2000, 4000))
    return folder
