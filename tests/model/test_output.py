"""Sampled softmax: the distribution of the words, and the loss; files of pretrained vectors, valid and invalid."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.config import Model, Training
from seq2seq_chat.model.output import Output, WordSampler, load_vectors, softmax_sampler
from seq2seq_chat.system.errors import UserError


def test_words_have_their_expected_counts() -> None:
    sampler = WordSampler(vocabulary_size=40, sampled=12, seed=7)
    sample = tf.function(lambda step: sampler(step).words, autograph=False)
    rounds = 4000
    counts = np.bincount(np.concatenate([sample(tf.constant(step)) for step in range(rounds)]), minlength=40)
    expected = sampler(tf.constant(0)).expected_counts.numpy() * rounds
    assert expected.sum() == pytest.approx(12 * rounds, rel=1e-5)
    assert np.all(np.diff(expected) <= 1e-3), "frequent words, which have low ids, must be sampled more often"
    # one word is sampled in each unit of the line: the variance of a count is at most its mean
    assert np.all(np.abs(counts - expected) <= 5 * np.sqrt(expected) + 1)
    certain = expected >= rounds * (1 - 1e-6)
    assert certain.any()
    np.testing.assert_allclose(counts[certain], rounds, atol=1)


def test_expected_counts_are_log_uniform() -> None:
    counts = WordSampler(vocabulary_size=50_000, sampled=2, seed=1)(tf.constant(0)).expected_counts.numpy()
    rank = np.arange(50_000)
    log_uniform = np.log((rank + 2) / (rank + 1)) / np.log(50_001)  # as TensorFlow documents its candidate sampler
    np.testing.assert_allclose(counts, 2 * log_uniform, rtol=1e-4)


def test_uniform_candidates_are_sampled_alike_and_steps_of_the_decoder_independently() -> None:
    sampler = WordSampler(vocabulary_size=20, sampled=5, seed=7, steps=4, uniform=True)
    words = np.stack([sampler(tf.constant(step)).words for step in range(2000)])
    assert words.shape == (2000, 4, 5)
    np.testing.assert_allclose(sampler(tf.constant(0)).expected_counts, 5 / 20, rtol=1e-6)
    for step in range(4):
        np.testing.assert_allclose(np.bincount(words[:, step].ravel(), minlength=20) / 2000, 5 / 20, atol=0.05)
    first = [np.corrcoef(words[:, step, 0], words[:, 3, 0])[0, 1] for step in range(3)]
    assert np.all(np.abs(first) < 0.1)


def test_words_are_a_function_of_seed_and_step() -> None:
    first = WordSampler(1000, 64, seed=1)(tf.constant(5)).words
    np.testing.assert_array_equal(WordSampler(1000, 64, seed=1)(tf.constant(5)).words, first)
    assert np.any(WordSampler(1000, 64, seed=1)(tf.constant(6)).words != first)
    assert np.any(WordSampler(1000, 64, seed=2)(tf.constant(5)).words != first)


def test_label_smoothing_equals_the_cross_entropy_with_both_distributions() -> None:
    """And its gradient pulls the logits towards the smoothed labels: p - q."""
    output = Output(Model(hidden_size=8, embedding_size=4, projection_size=None), 30, seed=1)
    rng = np.random.default_rng(0)
    hidden, targets = rng.standard_normal([5, 8]).astype(np.float32), rng.integers(0, 30, 5).astype(np.int32)
    logits = hidden @ output.words.numpy().T
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    expected = -0.9 * log_p[np.arange(5), targets] - 0.1 * log_p.mean(axis=1)
    with tf.GradientTape() as tape:
        loss = output.loss(tf.constant(hidden), tf.constant(targets), None, smoothing=0.1)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    labels = np.eye(30)[targets] * 0.9 + 0.1 / 30
    np.testing.assert_allclose(tape.gradient(loss, output.bias), (np.exp(log_p) - labels).sum(axis=0), atol=1e-5)


@pytest.mark.parametrize("steps", [None, 7])
def test_loss_equals_the_paper(steps: int | None) -> None:
    """Cross-entropy over target and sampled words, logits minus log Q, accidental hits excluded."""
    output = Output(Model(hidden_size=8, embedding_size=4, projection_size=6), 30, seed=1)
    rng = np.random.default_rng(0)
    output.bias.assign(rng.standard_normal(30))
    hidden = rng.standard_normal([50, 8]).astype(np.float32)
    targets = rng.integers(0, 30, 50).astype(np.int32)
    sample = next(
        sample
        for sample in (WordSampler(30, 9, seed=1, steps=steps)(tf.constant(step)) for step in range(100))
        if set(targets) & {word for word, times in Counter(sample.words.numpy().ravel()).items() if times == 2}
    )  # a target was sampled twice
    cells = np.sort(rng.permutation(7 * 10)[:50])  # 50 targets in 7 steps of 10 rows
    positions = np.stack([cells // 10, cells % 10], axis=1)
    logits = hidden @ output.projection.matrix.numpy() @ output.words.numpy().T + output.bias.numpy()
    logits -= np.log(sample.expected_counts.numpy())
    expected = []
    for row, target in enumerate(targets):
        words = sample.words.numpy() if steps is None else sample.words.numpy()[positions[row, 0]]
        others = [logits[row, word] for word in words if word != target]
        expected.append(np.log(np.sum(np.exp([logits[row, target], *others]))) - logits[row, target])
    ours = output.sampled_loss(tf.constant(hidden), tf.constant(targets), sample, tf.constant(positions))
    np.testing.assert_allclose(ours, expected, rtol=1e-5)


def test_no_sampler_where_all_words_would_be_sampled() -> None:
    assert softmax_sampler(Training(sampled_softmax=100), 100, seed=1, decoder_steps=3) is None
    assert softmax_sampler(Training(sampled_softmax=None), 100, seed=1, decoder_steps=3) is None
    assert softmax_sampler(Training(sampled_softmax=100), 101, seed=1, decoder_steps=3) is not None
    with pytest.raises(ValueError, match="cannot sample"):
        WordSampler(10, 10, seed=1)


WORDS = ["<pad>", "<go>", "<eos>", "<unknown>", "the", "cat", "sat"]


@pytest.mark.parametrize("header", ["", "3 2\n"], ids=["no header", "header"])
def test_vectors_of_known_words_are_read(tmp_path: Path, header: str) -> None:
    file = tmp_path / "vectors.vec"
    file.write_text(header + "cat 1.0 -2.5 \nzebra 9 9\nthe 3e-1 4\ncat 7 7\n")
    rows, vectors = load_vectors(file, WORDS, size=2)
    assert {WORDS[row]: vector.tolist() for row, vector in zip(rows, vectors, strict=True)} == {
        "cat": [1.0, -2.5],
        "the": [pytest.approx(0.3), 4.0],
    }
    assert vectors.dtype == np.float32


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"cat 1 2 3\n", r"line 1: 3 numbers, but model.embedding_size is 2"),
        (b"1 2\ncat 1 2\nsat 1 two\n", r"line 3: .*two"),
        (b"1 2\ncat 1 nan\n", "line 2: the vector of cat is not finite"),
        (b"cat \xff\xfe 1\n", "not a UTF-8 text file"),
    ],
)
def test_invalid_files_are_reported(tmp_path: Path, contents: bytes, message: str) -> None:
    (tmp_path / "vectors.vec").write_bytes(contents)
    with pytest.raises(UserError, match=message):
        load_vectors(tmp_path / "vectors.vec", WORDS, size=2)


def test_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="could not read pretrained embeddings: No such file"):
        load_vectors(tmp_path / "missing.vec", WORDS, size=2)


def test_no_known_word_gives_no_rows(tmp_path: Path) -> None:
    (tmp_path / "vectors.vec").write_text("zebra 1 2\n")
    rows, vectors = load_vectors(tmp_path / "vectors.vec", WORDS, size=2)
    assert rows.shape == (0,) and vectors.shape == (0, 2)
