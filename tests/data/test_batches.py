"""Batches: every sample once, and a loss that does not depend on the buckets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.data.batches import Batches, evenly_spaced
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.engines.tensorflow.engine import TensorFlowEngine
from seq2seq_chat.engines.tensorflow.scorer import Scorer
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.text.vocabulary import Vocabulary
from seq2seq_chat.training.validation import SampleValidator, corpus_loss
from tests.random_runs import small_config


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
    expected = [
        (position, tuple(corpus.source_ids(int(i))), tuple(corpus.target_ids(int(i))))
        for position, i in enumerate(chosen)
    ]
    assert sorted(seen) == expected


def test_evenly_spaced() -> None:
    assert evenly_spaced(10, 3).tolist() == [0, 3, 6]
    assert evenly_spaced(3, 10).tolist() == [0, 1, 2]
    assert evenly_spaced(3, None).tolist() == [0, 1, 2]
