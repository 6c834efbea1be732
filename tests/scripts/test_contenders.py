"""The systems that the benchmarks compare compute the same: losses while learning, and replies."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from contenders.workload import SIZES, Workload, model_config, read_workload, write_workload

from seq2seq_chat.config import Config, Data, Decoding, Training
from seq2seq_chat.corpus.encoded import Batch
from seq2seq_chat.corpus.vocabulary import EOS, GO, PAD
from seq2seq_chat.decoding.reply_search import ReplySearch
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.training.optimizers import build_optimizer
from seq2seq_chat.training.step import TrainingStep

STEPS, SEED = 3, 1
SIZE = SIZES["tiny"]


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Workload:
    folder = tmp_path_factory.mktemp("workload")
    write_workload(folder, "tiny", STEPS, SEED)
    return read_workload(folder)


def our_losses(workload: Workload, clipping: float = 10.0) -> list[float]:
    training = Training(sampled_softmax=SIZE.sampled, gradient_clipping=clipping)
    config = Config(name="ours", seed=SEED, data=Data(train="none"), model=model_config(SIZE), training=training)
    model = Seq2Seq(config.model, SIZE.vocabulary, config.seed)
    optimizer = build_optimizer(config.training)
    optimizer._create_all_weights(model.trainable_variables)
    step = TrainingStep(model, optimizer, config)
    lengths = np.full(SIZE.batch, SIZE.steps, np.int32)
    results = [
        step(Batch(workload.source[number], lengths, workload.target[number], lengths), number)
        for number in range(STEPS)
    ]
    assert (max(float(result.gradient_norm) for result in results) > clipping) == (clipping < 1.0)
    return [float(result.loss.nats / result.loss.tokens) for result in results]


def test_pytorch_learns_what_ours_learns(workload: Workload) -> None:
    pytest.importorskip("torch")
    from contenders.pytorch import TrainingStep as Contender

    expected = our_losses(workload)
    for precision, tolerance in {"float32": 1e-5, "bfloat16": 2e-2}.items():
        step = Contender(workload, precision)
        losses = [step.step(number) for number in range(STEPS)]
        np.testing.assert_allclose(losses, expected, rtol=tolerance, err_msg=precision)


def test_pytorch_clips_as_ours_does(workload: Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    """One word again and again: the norm is right only where the slices of its row are summed first."""
    pytest.importorskip("torch")
    from contenders import pytorch

    target = np.where(workload.target == EOS, EOS, 9).astype(np.int32)
    repetitive = workload._replace(source=np.full_like(workload.source, 9), target=target)
    monkeypatch.setattr(pytorch, "LARGEST_NORM", 0.3)
    step = pytorch.TrainingStep(repetitive)
    losses = [step.step(number) for number in range(STEPS)]
    np.testing.assert_allclose(losses, our_losses(repetitive, clipping=0.3), rtol=1e-5)


def test_keras_with_addons_learns_what_ours_learns(workload: Workload) -> None:
    """But for right words that were drawn twice, of which TensorFlow's loss keeps one: such steps have none here."""
    pytest.importorskip("tensorflow_addons")
    from contenders.keras_addons import TrainingStep as Contender

    repeated = [drawn_twice(words) for words in workload.sampled_words]
    other_words = [np.setdiff1d(np.arange(4, SIZE.vocabulary), words) for words in repeated]
    target = np.stack([words[ids % len(words)] for words, ids in zip(other_words, workload.target, strict=True)])
    target[:, :, -1] = EOS
    assert not any(EOS in words for words in repeated)
    clean = workload._replace(target=target.astype(np.int32))
    step = Contender(clean, "float32")
    losses = [step.step(number) for number in range(STEPS)]
    np.testing.assert_allclose(losses, our_losses(clean), rtol=1e-5)


def drawn_twice(words: np.ndarray) -> np.ndarray:
    drawn, times = np.unique(words, return_counts=True)
    return drawn[times > 1]


@pytest.fixture(scope="module")
def utterances() -> tuple[np.ndarray, np.ndarray]:
    numbers = np.random.default_rng(3)
    lengths = numbers.integers(1, SIZE.steps + 1, 30).astype(np.int32)
    source = numbers.integers(4, SIZE.vocabulary, (30, SIZE.steps)).astype(np.int32)
    source[np.arange(SIZE.steps) >= lengths[:, np.newaxis]] = PAD
    return source, lengths


def peaked_model(bias_of_forbidden: float) -> Seq2Seq:
    """A model of random weights that is sure of its words, some of which are the end marker."""
    model = Seq2Seq(model_config(SIZE), SIZE.vocabulary, SEED)
    numbers = np.random.default_rng(9)
    for variable in model.trainable_variables:
        variable.assign(numbers.standard_normal(variable.shape) * 0.7)
    bias = model.output.bias.numpy()
    bias[[PAD, GO]], bias[EOS] = bias_of_forbidden, 2.0
    model.output.bias.assign(bias)
    return model


@pytest.mark.parametrize("likely", [True, False])
def test_addons_find_the_same_greedy_replies(utterances: tuple[np.ndarray, np.ndarray], likely: bool) -> None:
    """Also where the model finds padding and start marker likely; their share is then missing from the scores."""
    pytest.importorskip("tensorflow_addons")
    from contenders.keras_addons import Decoding as Contender

    model = peaked_model(5.0 if likely else -50.0)
    ours = ReplySearch(model, Decoding(method="greedy", allow_unknown=True))(*utterances)
    theirs = Contender({v.name: v.numpy() for v in model.trainable_variables}, SIZE).greedy(*utterances)
    np.testing.assert_array_equal(theirs.words, ours.words)
    assert 0 < ours.ended.mean() < 1
    if likely:
        assert np.all(theirs.scores > ours.scores)
    else:
        np.testing.assert_allclose(theirs.scores, ours.scores, rtol=1e-4)


def test_addons_find_the_same_replies_by_beam_search(utterances: tuple[np.ndarray, np.ndarray]) -> None:
    pytest.importorskip("tensorflow_addons")
    from contenders.keras_addons import Decoding as Contender

    model = peaked_model(-50.0)
    contender = Contender({v.name: v.numpy() for v in model.trainable_variables}, SIZE)
    for width in (4, 1):
        decoding = Decoding(method="beam", beam_width=width, n_best=width, allow_unknown=True)
        ours, theirs = ReplySearch(model, decoding)(*utterances), contender.beam(*utterances, width)
        np.testing.assert_array_equal(theirs.words, ours.words)
        np.testing.assert_allclose(theirs.scores, ours.scores, rtol=1e-4)
        assert 0 < ours.ended.mean() < 1
    np.testing.assert_array_equal(contender.greedy(*utterances).words, theirs.words)
