"""One loaded run for all tests of the analysis."""

from pathlib import Path

import pytest

from seq2seq_chat.report.loaded_run import LoadedRun
from seq2seq_chat.runs.run import Run


@pytest.fixture(scope="session")
def loaded_tiny_run(tiny_run: Path) -> LoadedRun:
    """The tiny run with its newest weights and its compiled graphs."""
    return LoadedRun(Run(tiny_run))


@pytest.fixture
def loaded(loaded_tiny_run: LoadedRun) -> LoadedRun:
    """The same; a test may load other snapshots."""
    loaded_tiny_run.load_snapshot("latest")
    return loaded_tiny_run
