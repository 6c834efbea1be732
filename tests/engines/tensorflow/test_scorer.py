"""The exact scorer against the loss of each sample alone."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.config import Model
from seq2seq_chat.data.batches import evenly_spaced
from seq2seq_chat.data.dataset import Batch, Dataset
from seq2seq_chat.engines import scorer as scorer_module
from seq2seq_chat.engines.scorer import StepScorer
from seq2seq_chat.engines.tensorflow.scorer import Scorer
from seq2seq_chat.engines.tensorflow.search import TensorFlowSteps
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.text.vocabulary import GO, Vocabulary
from tests.random_weights import randomize

pytestmark = pytest.mark.usefixtures("unoptimized_graphs")

BUCKETS = [(3, 3), (6, 4), (6, 6)]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    rng = np.random.default_rng(0)
    words = [f"w{number}" for number in range(20)]
    lines = [" ".join(rng.choice(words, rng.integers(1, 8))) for _ in range(60)]
    path: Path = tmp_path_factory.mktemp("scorer") / "corpus.txt"
    path.write_text("\n".join(lines) + "\n")
    return Dataset.open(path, Codecs.of_words(Vocabulary.from_counts(dict.fromkeys(words, 1), 100)))


@pytest.fixture(scope="module")
def model() -> Seq2Seq:
    model = Seq2Seq(Model(hidden_size=5, embedding_size=4, encoder_steps=6, decoder_steps=6), 24, seed=1)
    randomize(model, seed=2, scale=0.7)
    return model


def all_samples(dataset: Dataset, chosen: np.ndarray) -> Batch:
    return dataset.batch(chosen, size=len(chosen), source_steps=6, target_steps=6, reverse=True)


def expected_scores(model: Seq2Seq, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """Nats and correct words of each sample, [samples], word by word with the decoder's step."""
    state, memory = model.start(model.encode(batch.source, batch.source_length))
    previous = tf.fill([len(batch.source)], GO)
    nats, correct = np.zeros(len(batch.source)), np.zeros(len(batch.source))
    for t in range(batch.target.shape[1]):
        logits, state, _ = model.step(previous, state, memory)
        word, is_word = batch.target[:, t], t < batch.target_length
        nats -= is_word * tf.gather(tf.nn.log_softmax(logits), word, batch_dims=1).numpy()
        correct += is_word & (np.argmax(logits, axis=1) == word)
        previous = tf.constant(word)
    return nats, correct


@pytest.mark.parametrize("micro_batches", [1, 3])
def test_scores_equal_stepwise_decoding(dataset: Dataset, model: Seq2Seq, micro_batches: int) -> None:
    chosen = evenly_spaced(len(dataset), 45)
    batch = all_samples(dataset, chosen)
    nats, correct = expected_scores(model, batch)
    scorer = Scorer(model, micro_batches, max_rows=8, count_correct=True)
    scores = scorer.score_samples(dataset, BUCKETS, True, chosen)
    np.testing.assert_allclose(scores.nats, nats, rtol=1e-5)
    np.testing.assert_array_equal(scores.tokens, batch.target_length)
    np.testing.assert_array_equal(scores.correct, correct)
    losses = [scores.loss for _, _, scores in scorer.score_batches(dataset, BUCKETS, True, chosen)]
    assert sum(float(loss.nats) for loss in losses) == pytest.approx(nats.sum(), rel=1e-5)
    assert sum(int(loss.tokens) for loss in losses) == batch.target_length.sum()


def test_log_probabilities_of_pairs(dataset: Dataset, model: Seq2Seq, monkeypatch: pytest.MonkeyPatch) -> None:
    """By whole targets, and step by step in batches; words beyond the length of a target do not count."""
    batch = all_samples(dataset, np.arange(20))
    expected, _ = expected_scores(model, batch)
    np.testing.assert_allclose(Scorer(model).log_probabilities(*batch), -expected, rtol=1e-5)
    scorer = StepScorer(TensorFlowSteps(model))
    np.testing.assert_allclose(scorer.log_probabilities(*batch).sum(axis=1), -expected, rtol=1e-5)
    monkeypatch.setattr(scorer_module, "MAX_ROWS", 7)
    np.testing.assert_allclose(scorer.log_probabilities(*batch).sum(axis=1), -expected, rtol=1e-5)
    prefixes = batch._replace(target_length=np.minimum(batch.target_length, 2))
    expected, _ = expected_scores(model, prefixes)
    np.testing.assert_allclose(scorer.log_probabilities(*prefixes).sum(axis=1), -expected, rtol=1e-5)
    assert scorer.log_probabilities(*(part[:0] for part in batch)).shape == (0, 6)
