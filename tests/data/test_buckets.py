"""Buckets: every sample in one that holds it, and a loss that does not depend on them."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq_chat.config import Model
from seq2seq_chat.corpus import EncodedCorpus, Vocabulary
from seq2seq_chat.corpus.buckets import choose_buckets, complete_buckets, cost, route
from seq2seq_chat.errors import UserError
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.training.batches import Batches
from seq2seq_chat.training.validation import LossFunction, spread

LENGTHS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 8)), min_size=1, max_size=60)


@settings(max_examples=40, deadline=None)
@given(lengths=LENGTHS, most=st.integers(1, 4))
def test_every_sample_is_in_the_cheapest_bucket_that_holds_it(lengths: list[tuple[int, int]], most: int) -> None:
    source, target = np.array(lengths, np.int32).T
    limits = (6, 6)
    buckets = choose_buckets(source, target, limits, most)
    assert 1 <= len(buckets) <= most and buckets[-1] == limits
    members = route(source, target, buckets)
    assert sorted(itertools.chain(*members)) == list(range(len(lengths)))
    for bucket, samples in zip(buckets, members, strict=True):
        for sample in samples:
            fitting = [b for b in buckets if source[sample] <= b[0] and target[sample] <= b[1]]
            assert cost(bucket) == min(map(cost, fitting or [limits]))


def test_two_buckets_are_the_best_two() -> None:
    rng = np.random.default_rng(1)
    source, target = rng.integers(1, 8, 300).astype(np.int32), rng.integers(1, 8, 300).astype(np.int32)

    def total(buckets: list[tuple[int, int]]) -> float:
        return sum(cost(b) * len(m) for b, m in zip(buckets, route(source, target, buckets), strict=True))

    every = [complete_buckets([pair], (7, 7)) for pair in itertools.product(range(1, 8), repeat=2)]
    assert total(choose_buckets(source, target, (7, 7), 2)) == min(map(total, every))


def test_long_models_get_buckets_too() -> None:
    """Characters: hundreds of steps, of which only some limits are tried."""
    rng = np.random.default_rng(1)
    source, target = rng.integers(1, 300, (2, 1000)).astype(np.int32)
    buckets = choose_buckets(source, target, (250, 200), 4)
    assert len(buckets) == 4 and buckets[-1] == (250, 200)
    padded = sum(cost(b) * len(m) for b, m in zip(buckets, route(source, target, buckets), strict=True))
    assert padded < 0.9 * cost((250, 200)) * len(source)


def test_buckets_beyond_the_model_are_refused() -> None:
    with pytest.raises(UserError, match=r"\[40, 10\] is larger than the model's steps"):
        complete_buckets([(40, 10)], (30, 30))
    assert complete_buckets([(20, 20), (10, 10), (30, 30)], (30, 30)) == [(10, 10), (20, 20), (30, 30)]


@pytest.fixture
def corpus(tmp_path: Path) -> EncodedCorpus:
    rng = np.random.default_rng(0)
    words = [f"w{number}" for number in range(20)]
    lines = [" ".join(rng.choice(words, rng.integers(1, 9))) for _ in range(150)]
    (tmp_path / "corpus.txt").write_text("\n".join(lines) + "\n")
    vocabulary = Vocabulary.from_counts(dict.fromkeys(words, 1), 100)
    return EncodedCorpus.open(tmp_path / "corpus.txt", vocabulary)


def test_the_loss_of_a_corpus_does_not_depend_on_buckets(corpus: EncodedCorpus) -> None:
    config = Model(hidden_size=5, embedding_size=4, projection_size=None, encoder_steps=6, decoder_steps=6)
    model = Seq2Seq(config, 24, seed=1)
    one = LossFunction(model, [(6, 6)], reverse_input=True)(corpus)
    many = LossFunction(model, [(3, 3), (6, 4), (6, 6)], reverse_input=True)(corpus)
    assert many.samples == one.samples == 149
    assert many.tokens == one.tokens == int(np.minimum(corpus.target_lengths() + 1, 6).sum())
    assert many.nats == pytest.approx(one.nats, rel=1e-5)
    some = LossFunction(model, [(3, 3), (6, 6)], reverse_input=True)(corpus, limit=10)
    assert some.samples == 10


def test_batches_hold_the_samples_of_their_bucket(corpus: EncodedCorpus) -> None:
    chosen = spread(len(corpus), 70)
    batches = Batches(corpus, [(4, 4), (9, 9)], size=8, reverse=False, chosen=chosen)
    seen = []
    for batch, samples in batches:
        assert batch.source.shape[0] == 8
        assert not np.any(batch.target_length[samples:])
        for row in range(samples):
            source = tuple(batch.source[row, : batch.source_length[row]])
            seen.append((source, tuple(batch.target[row, : batch.target_length[row] - 1])))
    expected = [(tuple(corpus.source_ids(int(i))), tuple(corpus.target_ids(int(i)))) for i in chosen]
    assert sorted(seen) == sorted(expected)


def test_spread_is_even() -> None:
    assert spread(10, 3).tolist() == [0, 3, 6]
    assert spread(3, 10).tolist() == [0, 1, 2]
    assert spread(3, None).tolist() == [0, 1, 2]
