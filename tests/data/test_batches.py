"""Batches: each sample once, in the cheapest bucket, without a change of the loss; and noise in the sources."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.data.batches import Batches, SourceNoise, choose_buckets, complete_buckets, cost, evenly_spaced, route
from seq2seq_chat.data.dataset import Batch, Dataset
from seq2seq_chat.engines.tensorflow.engine import TensorFlowEngine
from seq2seq_chat.engines.tensorflow.scorer import Scorer
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.text.vocabulary import PAD, SPECIAL_WORDS, TURN, UNKNOWN, Vocabulary
from seq2seq_chat.training.validation import SampleValidator, corpus_loss
from tests.random_runs import small_config

LENGTHS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 8)), min_size=1, max_size=60)


@settings(max_examples=40, deadline=None)
@given(lengths=LENGTHS, max_buckets=st.integers(1, 4))
def test_samples_are_in_the_cheapest_bucket_they_fit_into(lengths: list[tuple[int, int]], max_buckets: int) -> None:
    source, target = np.array(lengths, np.int32).T
    limits = (6, 6)
    buckets = choose_buckets(source, target, limits, max_buckets)
    assert 1 <= len(buckets) <= max_buckets and buckets[-1] == limits
    members = route(source, target, buckets)
    assert sorted(itertools.chain(*members)) == list(range(len(lengths)))
    for bucket, samples in zip(buckets, members, strict=True):
        for sample in samples:
            fitting = [b for b in buckets if source[sample] <= b[0] and target[sample] <= b[1]]
            assert cost(bucket) == min(map(cost, fitting or [limits]))


def test_two_buckets_are_optimal() -> None:
    rng = np.random.default_rng(1)
    source, target = rng.integers(1, 8, 300).astype(np.int32), rng.integers(1, 8, 300).astype(np.int32)

    def total(buckets: list[tuple[int, int]]) -> float:
        return sum(cost(b) * len(m) for b, m in zip(buckets, route(source, target, buckets), strict=True))

    candidates = [complete_buckets([pair], (7, 7)) for pair in itertools.product(range(1, 8), repeat=2)]
    assert total(choose_buckets(source, target, (7, 7), 2)) == min(map(total, candidates))


def test_buckets_of_long_models() -> None:
    """Of the hundreds of steps of a character model, only some are candidates."""
    rng = np.random.default_rng(1)
    source, target = rng.integers(1, 300, (2, 1000)).astype(np.int32)
    buckets = choose_buckets(source, target, (250, 200), 4)
    assert len(buckets) == 4 and buckets[-1] == (250, 200)
    padded = sum(cost(b) * len(m) for b, m in zip(buckets, route(source, target, buckets), strict=True))
    assert padded < 0.9 * cost((250, 200)) * len(source)


def test_buckets_larger_than_the_model_are_rejected() -> None:
    with pytest.raises(UserError, match=r"\[40, 10\] is larger than the model's steps"):
        complete_buckets([(40, 10)], (30, 30))
    assert complete_buckets([(20, 20), (10, 10), (30, 30)], (30, 30)) == [(10, 10), (20, 20), (30, 30)]


@pytest.fixture
def corpus(tmp_path: Path) -> Dataset:
    rng = np.random.default_rng(0)
    words = [f"w{number}" for number in range(20)]
    lines = [" ".join(rng.choice(words, rng.integers(1, 9))) for _ in range(150)]
    (tmp_path / "corpus.txt").write_text("\n".join(lines) + "\n")
    vocabulary = Vocabulary.from_counts(dict.fromkeys(words, 1), 100)
    return Dataset.open(tmp_path / "corpus.txt", Codecs.of_words(vocabulary))


def test_loss_does_not_depend_on_buckets(corpus: Dataset) -> None:
    changes = ("data.reverse_input=true", "training.validation_limit=10")
    config = small_config(*changes, "model.encoder_steps=6", "model.decoder_steps=6")
    model = Seq2Seq(config.model, 24, seed=1)
    one = corpus_loss(Scorer(model), corpus, [(6, 6)], reverse_input=True)
    scorer, buckets = Scorer(model, count_correct=True), [(3, 3), (6, 4), (6, 6)]
    many = corpus_loss(scorer, corpus, buckets, reverse_input=True)
    assert many.samples == one.samples == 149
    assert many.tokens == one.tokens == int(np.minimum(corpus.target_lengths() + 1, 6).sum())
    assert many.nats == pytest.approx(one.nats, rel=1e-5)
    each = scorer.score_samples(corpus, buckets, reverse=True, indices=np.arange(149))
    assert each.nats.sum() == pytest.approx(one.nats, rel=1e-5)
    spaced = [n * 149 // 10 for n in range(10)]
    bot = Chatbot(TensorFlowEngine(model), corpus.codecs, config)
    limited = SampleValidator(scorer, bot, corpus, buckets).loss()
    assert (limited.samples, limited.tokens) == (10, each.tokens[spaced].sum())
    assert limited.nats == pytest.approx(each.nats[spaced].sum(), rel=1e-5)


def test_iteration_covers_the_chosen_samples(corpus: Dataset) -> None:
    chosen = evenly_spaced(len(corpus), 70)
    batches = Batches(corpus, [(4, 4), (9, 9)], size=8, reverse=False, indices=chosen)
    seen = []
    for batch, positions in batches:
        assert batch.source.shape[0] == 8
        assert not np.any(batch.target_length[len(positions) :])
        for row, position in enumerate(positions):
            source = tuple(batch.source[row, : batch.source_length[row]])
            seen.append((position, source, tuple(batch.target[row, : batch.target_length[row] - 1])))
    ids = [(tuple(corpus.source_ids(int(i))), tuple(corpus.target_ids(int(i)))) for i in chosen]
    assert sorted(seen) == [(position, *pair) for position, pair in enumerate(ids)]


WORDS = Vocabulary([*SPECIAL_WORDS, ".", "!", "hello", "there", "you", TURN])
PERIOD, MARK, HELLO, THERE, YOU, BETWEEN = range(4, 10)


def batch_of(sources: list[list[int]], steps: int = 6) -> Batch:
    source = np.array([row + [PAD] * (steps - len(row)) for row in sources], np.int32)
    target = np.ones((len(sources), 3), np.int32)
    return Batch(source, np.array([len(row) for row in sources], np.int32), target, np.full(len(sources), 3, np.int32))


def test_shares_of_replaced_words_and_removed_punctuation_are_the_rate() -> None:
    batch = batch_of([[HELLO, THERE, PERIOD, YOU, MARK]] * 20_000)
    noisy = SourceNoise(0.2, WORDS, seed=1)(batch, step=3)
    words = 3 * len(batch.source)
    assert np.sum(noisy.source == UNKNOWN) / words == pytest.approx(0.2, abs=0.01)
    assert 1 - np.sum(np.isin(noisy.source, [PERIOD, MARK])) / (2 * len(batch.source)) == pytest.approx(0.2, abs=0.01)
    assert np.sum(noisy.source != PAD) == noisy.source_length.sum()


def test_words_keep_their_order_and_no_source_becomes_empty() -> None:
    batch = batch_of([[HELLO, PERIOD, THERE, MARK, YOU]] * 500)
    noisy = SourceNoise(0.5, WORDS, seed=1)(batch, step=0)
    for row, length in zip(noisy.source, noisy.source_length, strict=True):
        assert np.all(row[:length] != PAD)
        assert np.all(row[length:] == PAD)
        words = [word for word in row[:length] if word not in (PERIOD, MARK)]
        assert all(word in (UNKNOWN, original) for word, original in zip(words, (HELLO, THERE, YOU), strict=True))
    noisy = SourceNoise(0.9, WORDS, seed=1)(batch_of([[PERIOD], [MARK, PERIOD]] * 200), step=0)
    assert noisy.source_length.min() == 1


def test_turn_markers_targets_and_padding_rows_are_unchanged() -> None:
    batch = batch_of([[BETWEEN, HELLO, BETWEEN, YOU], []])
    for step in range(50):
        noisy = SourceNoise(0.9, WORDS, seed=1)(batch, step)
        assert list(noisy.source[0, [0, 2]]) == [BETWEEN, BETWEEN]
        assert noisy.source_length.tolist() == [4, 0]
        assert np.array_equal(noisy.target, batch.target)


def test_noise_is_a_function_of_seed_and_step() -> None:
    batch = batch_of([[HELLO, THERE, YOU, MARK]] * 100)
    first = SourceNoise(0.3, WORDS, seed=1)(batch, step=7)
    assert np.array_equal(first.source, SourceNoise(0.3, WORDS, seed=1)(batch, step=7).source)
    assert not np.array_equal(first.source, SourceNoise(0.3, WORDS, seed=1)(batch, step=8).source)
    assert not np.array_equal(first.source, SourceNoise(0.3, WORDS, seed=2)(batch, step=7).source)
