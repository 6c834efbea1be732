"""All contenders of the benchmarks compute the same losses and replies."""

from typing import Any

import numpy as np
import pytest
from contenders.workload import SIZES, Workload, model_config, read_workload, write_workload

from seq2seq_chat.config import Config, Data, Decoding, Training
from seq2seq_chat.data.dataset import Batch
from seq2seq_chat.engines.tensorflow.search import GraphSearch
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.text.vocabulary import EOS, GO, PAD
from seq2seq_chat.training.optimizers import build_optimizer, why_unavailable
from seq2seq_chat.training.step import TrainingStep
from tests.random_weights import randomize

pytestmark = pytest.mark.slow

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
    step = TrainingStep(model, optimizer, config.training)
    lengths = np.full(SIZE.batch, SIZE.steps, np.int32)
    batches = zip(workload.source, workload.target, range(STEPS), strict=True)
    results = [step(Batch(source, lengths, target, lengths), number) for source, target, number in batches]
    assert (max(float(result.gradient_norm) for result in results) > clipping) == (clipping < 1.0)
    return [float(result.loss.nats / result.loss.tokens) for result in results]


def check_losses(step: Any, expected: list[float], tolerance: float = 1e-5) -> None:
    np.testing.assert_allclose([step.step(number) for number in range(STEPS)], expected, rtol=tolerance)


def test_pytorch_losses_equal_ours(workload: Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when clipped: with a repeated word, the norm is only right if the slices of its row are summed first."""
    pytest.importorskip("torch")
    from contenders import pytorch

    expected = our_losses(workload)
    for precision, tolerance in {"float32": 1e-5, "bfloat16": 2e-2}.items():
        if not why_unavailable(precision):
            check_losses(pytorch.TrainingStep(workload, precision), expected, tolerance)
    target = np.where(workload.target == EOS, EOS, 9).astype(np.int32)
    repetitive = workload._replace(source=np.full_like(workload.source, 9), target=target)
    monkeypatch.setattr(pytorch, "MAX_NORM", 0.3)
    check_losses(pytorch.TrainingStep(repetitive), our_losses(repetitive, clipping=0.3))


def test_keras_with_addons_losses_equal_ours(workload: Workload) -> None:
    """Except for targets that were sampled twice, of which TensorFlow's loss keeps one; this workload has none."""
    from contenders.keras_addons import TrainingStep as Contender

    targets = []
    for sampled, ids in zip(workload.sampled_words, workload.target, strict=True):
        distinct, counts = np.unique(sampled, return_counts=True)
        assert EOS not in distinct[counts > 1]
        others = np.setdiff1d(np.arange(4, SIZE.vocabulary), distinct[counts > 1])
        targets.append(others[ids % len(others)])
    target = np.stack(targets).astype(np.int32)
    target[:, :, -1] = EOS
    clean = workload._replace(target=target)
    check_losses(Contender(clean, "float32"), our_losses(clean))


@pytest.fixture(scope="module")
def utterances() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    lengths = rng.integers(1, SIZE.steps + 1, 30).astype(np.int32)
    source = rng.integers(4, SIZE.vocabulary, (30, SIZE.steps)).astype(np.int32)
    source[np.arange(SIZE.steps) >= lengths[:, np.newaxis]] = PAD
    return source, lengths


def peaked_model(special_word_bias: float) -> Seq2Seq:
    """A model with random weights, confident predictions and a likely end marker."""
    model = Seq2Seq(model_config(SIZE), SIZE.vocabulary, SEED)
    randomize(model, seed=9, scale=0.7)
    bias = model.output.bias.numpy()
    bias[[PAD, GO]], bias[EOS] = special_word_bias, 2.0
    model.output.bias.assign(bias)
    return model


def contender_of(workload: Workload, model: Seq2Seq) -> Any:
    from contenders.keras_addons import Search

    return Search(workload._replace(weights={one.name: one.numpy() for one in model.trainable_variables}))


@pytest.mark.parametrize("likely", [True, False])
def test_addons_greedy_replies_equal_ours(
    workload: Workload, utterances: tuple[np.ndarray, np.ndarray], likely: bool
) -> None:
    """Also if padding and start marker are likely; the addons' scores are then higher, as they exclude these words."""
    model = peaked_model(5.0 if likely else -50.0)
    ours = GraphSearch(model, Decoding(method="greedy", allow_unknown=True))(*utterances)
    words, scores = contender_of(workload, model).replies(*utterances, width=None)
    np.testing.assert_array_equal(words, ours.words)
    assert 0 < ours.ended.mean() < 1
    if likely:
        assert np.all(scores > ours.scores)
    else:
        np.testing.assert_allclose(scores, ours.scores, rtol=1e-4)


def test_addons_beam_replies_equal_ours(workload: Workload, utterances: tuple[np.ndarray, np.ndarray]) -> None:
    model = peaked_model(-50.0)
    contender = contender_of(workload, model)
    for width in (4, 1):
        decoding = Decoding(method="beam", beam_width=width, n_best=width, allow_unknown=True)
        ours, (words, scores) = GraphSearch(model, decoding)(*utterances), contender.replies(*utterances, width)
        np.testing.assert_array_equal(words, ours.words)
        np.testing.assert_allclose(scores, ours.scores, rtol=1e-4)
        assert 0 < ours.ended.mean() < 1
    np.testing.assert_array_equal(contender.replies(*utterances, width=None)[0], words)
