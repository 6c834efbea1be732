"""One loaded run for all tests of the analysis."""

from pathlib import Path

import pytest

from seq2seq_chat.report.loaded_run import LoadedRun
from seq2seq_chat.runs.run import Run
from tests.webui.conftest import page  # noqa: F401  (a fixture)


@pytest.fixture(scope="session")
def loaded(tiny_run: Path) -> LoadedRun:
    """The tiny run with its newest weights and its compiled graphs."""
    return LoadedRun(Run(tiny_run))
