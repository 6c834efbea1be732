"""The rows of a search on ONNX Runtime: each continues its parent and attends to its own source, without a graph."""

from typing import Any

import numpy as np
import pytest

from seq2seq_chat.config import Model
from seq2seq_chat.engines.onnx.engine import OnnxEngine, OnnxOutput
from seq2seq_chat.search.logit_rules import log_normalizer
from seq2seq_chat.text.vocabulary import GO
from tests.search.table_model import TableModel
from tests.search.table_model import settings as decoding


class Graphs:
    """A table of probabilities in place of the graphs: the state is the history, the memory is the utterance."""

    has_top_k, has_attention = False, True

    def __init__(self, table: TableModel) -> None:
        self._table, self.vocabulary_size = table, table.words

    def encode(self, source: np.ndarray, lengths: np.ndarray) -> Any:
        return [np.zeros(len(source), np.int64)], [source[:, 0]]

    def step(
        self, words: np.ndarray, state: list[np.ndarray], memory: list[np.ndarray], k: int | None = None
    ) -> OnnxOutput:
        histories = np.where(words == GO, 1, state[0] * self._table.words + words)
        logits = self._table.logits[memory[0], histories % self._table.logits.shape[1]]
        attention = np.stack([histories, memory[0]], axis=1).astype(np.float32)
        return OnnxOutput(logits, log_normalizer(logits), [histories], attention, None)


@pytest.mark.parametrize("options", [{}, {"beam_width": 3}, {"method": "sample", "n_best": 4}], ids=str)
def test_each_row_continues_its_parent(options: dict[str, Any]) -> None:
    """Also when hypotheses of some utterances have ended, so that rows move."""
    table = TableModel(6, 4, range(8))
    config = Model(hidden_size=4, embedding_size=4, encoder_steps=2, decoder_steps=4)
    search = OnnxEngine(Graphs(table), config).search(decoding(**options))  # type: ignore[arg-type]
    found = search(np.arange(8, dtype=np.int32)[:, np.newaxis], np.ones(8, np.int32), seed=3)
    for one, other in zip(found, table.search(decoding(**options), seed=3), strict=True):
        np.testing.assert_array_equal(one, other)
