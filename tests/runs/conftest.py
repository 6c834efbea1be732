"""Empty runs: folders with a configuration and a vocabulary, without checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from seq2seq_chat.config import parse_config
from seq2seq_chat.runs.run import Run, create_run
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, Vocabulary

STEPS = 100


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run of STEPS steps that was just created."""
    config = parse_config({"name": "new", "data": {"train": "train.txt"}, "training": {"steps": STEPS}}, "x")
    return create_run(tmp_path / "results", config, Codecs.of_words(Vocabulary([*SPECIAL_WORDS, "hello"])), {})


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder of three runs, of which the newest was created first."""
    folder = tmp_path / "results"
    for name in ("2026-03-01_00-00-00_reddit", "2025-01-01_00-00-00_tiny", "2026-02-01_00-00-00_tiny"):
        config = parse_config({"name": name[20:], "data": {"train": "train.txt"}}, "x")
        created = create_run(tmp_path / "new", config, Codecs.of_words(Vocabulary([*SPECIAL_WORDS, "hello"])), {})
        folder.mkdir(exist_ok=True)
        created.path.rename(folder / name)
    return folder
