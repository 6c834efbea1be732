"""Empty runs: folders with a configuration and a vocabulary, without checkpoints."""

from pathlib import Path

import pytest

from seq2seq_chat.config import parse_config
from seq2seq_chat.runs.run import Run, create_run
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, Vocabulary

STEPS = 100


def new_run(results: Path, name: str = "tiny", **environment: str) -> Run:
    """Create a run of STEPS steps."""
    config = parse_config({"name": name, "data": {"train": "train.txt"}, "training": {"steps": STEPS}}, "x")
    return create_run(results, config, Codecs.of_words(Vocabulary([*SPECIAL_WORDS, "hello"])), environment)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run that was just created."""
    return new_run(tmp_path / "results")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder of three runs, of which the newest was created first."""
    folder = tmp_path / "results"
    for name in ("2026-03-01_00-00-00_reddit", "2025-01-01_00-00-00_tiny", "2026-02-01_00-00-00_tiny"):
        folder.mkdir(exist_ok=True)
        new_run(tmp_path / "new", name[20:]).path.rename(folder / name)
    return folder
