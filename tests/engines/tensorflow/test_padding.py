"""Graphs whose loops multiply by padded copies of the matrices; see :mod:`seq2seq_chat.model.matrix_copies`."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from seq2seq_chat.config import Decoding, Model
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.engines.tensorflow.language_model import TensorFlowLanguageModel
from seq2seq_chat.engines.tensorflow.scorer import Scorer
from seq2seq_chat.model import matrix_copies
from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.search.engine import BlockRequest, WordDistribution
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, Vocabulary

ROWS, STEPS, VOCABULARY = 3, 5, 30
SIZES = {"hidden_size": 8, "embedding_size": 4, "encoder_steps": STEPS, "decoder_steps": STEPS}


def sample_nats(feeding: bool) -> np.ndarray:
    model = Seq2Seq(Model(**SIZES, projection_size=6, input_feeding=feeding), VOCABULARY, seed=1)
    words = [f"word{number}" for number in range(VOCABULARY - len(SPECIAL_WORDS))]
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder, "corpus.txt")
        corpus.write_text("".join(f"{' '.join(words[first : first + 4])}\n" for first in range(ROWS + 1)))
        dataset = Dataset.open(corpus, Codecs.of_words(Vocabulary([*SPECIAL_WORDS, *words])))
        return Scorer(model, count_correct=True).score_samples(dataset, [(STEPS, STEPS)], False, np.arange(ROWS)).nats


def nats() -> np.ndarray:
    engine = _text_engine()
    return engine.score(_ids()[:, :-1], _ids()[:, 1:], engine.start(ROWS))[0]


def state() -> np.ndarray:
    engine = _text_engine()
    return engine.read(_ids(), engine.start(ROWS))[0]


def probabilities(rows: int) -> np.ndarray:
    engine = _text_engine()
    uniform, distribution = np.full([rows, STEPS], 0.5), WordDistribution.of_settings(Decoding(method="sample"))
    request = BlockRequest(_ids()[:rows, 0], uniform, distribution, explain=True)
    block, _ = engine.sample_block(engine.start(rows), request)
    assert block.probabilities is not None
    return block.probabilities


@pytest.mark.parametrize(
    ("compute", "pads"),
    [
        pytest.param(lambda: sample_nats(feeding=True), True, id="samples"),
        pytest.param(lambda: sample_nats(feeding=False), True, id="samples-without-feeding"),
        pytest.param(nats, True, id="text-score"),
        pytest.param(state, True, id="prompts"),
        pytest.param(lambda: probabilities(rows=ROWS), True, id="texts"),
        pytest.param(lambda: probabilities(rows=1), False, id="one-text"),
    ],
)
def test_padded_copies_give_the_same_result(
    monkeypatch: pytest.MonkeyPatch, compute: Callable[[], np.ndarray], pads: bool
) -> None:
    """Wrong copies give another result, so the copies are used."""
    monkeypatch.setattr(matrix_copies, "uses_padding", lambda: False)
    expected = compute()
    monkeypatch.setattr(matrix_copies, "CONFLICTING", 1)
    monkeypatch.setattr(matrix_copies, "uses_padding", lambda: True)
    np.testing.assert_allclose(compute(), expected, rtol=1e-5)
    pad_rows = matrix_copies.pad_rows
    monkeypatch.setattr(matrix_copies, "pad_rows", lambda matrix: pad_rows(matrix) + 1.0)
    assert np.allclose(compute(), expected, rtol=1e-3) != pads


def _ids() -> np.ndarray:
    return np.random.default_rng(1).integers(4, VOCABULARY, [ROWS, STEPS]).astype(np.int32)


def _text_engine() -> TensorFlowLanguageModel:
    model = LanguageModel(Model(hidden_size=8, embedding_size=4, attention="none"), VOCABULARY, seed=1)
    return TensorFlowLanguageModel(model)
