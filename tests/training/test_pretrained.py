"""Pretrained word vectors: they are what a training run starts with, and a resumed one does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seq2seq_chat.config import parse_config
from seq2seq_chat.data.vocabulary import training_vocabulary
from seq2seq_chat.model.embeddings import Embedding
from seq2seq_chat.runs.run import create_run
from seq2seq_chat.training.distribution.collective import SINGLE_DEVICE
from seq2seq_chat.training.setup import build_trainer


@pytest.mark.parametrize("shared", [False, True])
def test_both_tables_start_with_the_vectors(tiny_settings: dict[str, Any], tmp_path: Path, shared: bool) -> None:
    vectors = np.arange(24, dtype=np.float32).reshape(3, 8)
    lines = [" ".join([word, *map(str, vector)]) for word, vector in zip(("you", "nothing", "?"), vectors, strict=True)]
    (tmp_path / "vectors.vec").write_text("\n".join(lines) + "\n", encoding="utf-8")
    tiny_settings["model"] |= {"pretrained_embeddings": str(tmp_path / "vectors.vec"), "shared_embeddings": shared}
    config = parse_config(tiny_settings, where="test")
    vocabulary = training_vocabulary(config.data)
    run = create_run(tmp_path, config, vocabulary, {})
    with run.lock():
        state = build_trainer(run, config, SINGLE_DEVICE).state
        model = state.learner.model
        assert "initialized 2 of 60 word embeddings" in run.log_file.read_text(encoding="utf-8")
        rows = vocabulary.ids(["you", "?"])
        for table, name in (
            (model.source_embedding.table, "embedding/shared" if shared else "embedding/source"),
            (model.target_embedding.table, "embedding/shared" if shared else "embedding/target"),
        ):
            expected = Embedding(name, 60, 8, config.seed).table.numpy()
            expected[rows] = vectors[[0, 2]]
            np.testing.assert_array_equal(table, expected)
