"""The training step: one trace for each bucket, and the updates of the optimizers."""

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.config import Config, parse_config
from seq2seq_chat.data.dataset import Batch
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.text.vocabulary import EOS
from seq2seq_chat.training.optimizers import build_optimizer
from seq2seq_chat.training.step import TrainingStep

VOCABULARY = 30


def configuration(**training: object) -> Config:
    return parse_config(
        {
            "name": "step",
            "data": {"train": "nowhere.txt"},
            "model": {"hidden_size": 6, "embedding_size": 4, "projection_size": 5, "dropout": 0.2},
            "training": {"sampled_softmax": 8, "batch_size": 4, **training},
        },
        where="test",
    )


def random_batch(seed: int, source_steps: int = 5, target_steps: int = 4) -> Batch:
    rng = np.random.default_rng(seed)
    source_length = rng.integers(1, source_steps + 1, 4).astype(np.int32)
    target_length = rng.integers(1, target_steps + 1, 4).astype(np.int32)
    source, target = np.zeros((4, source_steps), np.int32), np.zeros((4, target_steps), np.int32)
    for row in range(4):
        source[row, : source_length[row]] = rng.integers(4, VOCABULARY, source_length[row])
        target[row, : target_length[row]] = [*rng.integers(4, VOCABULARY, target_length[row] - 1), EOS]
    return Batch(source, source_length, target, target_length)


def make_step(config: Config) -> tuple[Seq2Seq, TrainingStep]:
    model = Seq2Seq(config.model, VOCABULARY, config.seed)
    optimizer = build_optimizer(config.training)
    optimizer._create_all_weights(model.trainable_variables)
    return model, TrainingStep(model, optimizer, config.training)


@pytest.fixture(scope="module")
def step() -> TrainingStep:
    """A step that hardly changes its model. Tests share its graphs, as tracing takes longest."""
    return make_step(configuration(learning_rate=1e-9, sampled_softmax=None))[1]


def test_one_trace_for_each_bucket(step: TrainingStep) -> None:
    for number in range(12):
        step(random_batch(number, *((5, 4), (3, 2))[number % 2]), number)
    assert step.traces == 2


def test_adagrad_update() -> None:
    """w ← w - η g / sqrt(0.1 + g²) after one step, also for rows of a table that occur several times."""
    config = configuration(learning_rate=0.5, sampled_softmax=None, gradient_clipping=None).model_copy(
        update={"model": configuration().model.model_copy(update={"dropout": 0.0})}
    )
    model, step = make_step(config)
    batch = random_batch(3)
    batch.source[0, :2] = batch.source[1, 0] = 7
    with tf.GradientTape() as tape:
        result = model.loss(*batch)
        loss = result.nats / result.tokens
    gradients = [tf.convert_to_tensor(g).numpy() for g in tape.gradient(loss, model.trainable_variables)]
    before = [v.numpy() for v in model.trainable_variables]
    step(batch, 0)
    for variable, old, g in zip(model.trainable_variables, before, gradients, strict=True):
        expected = old - 0.5 * g / np.sqrt(0.1 + g * g)
        np.testing.assert_allclose(variable.numpy(), expected, rtol=1e-4, atol=1e-6, err_msg=variable.name)


@pytest.mark.parametrize("by", ["norm", "value"])
def test_an_update_by_clipped_gradients(by: str) -> None:
    """With plain gradient descent and a rate of 1, the update is the clipped gradient."""
    config = configuration(optimizer="sgd", learning_rate=1.0, gradient_clipping=0.01, gradient_clipping_by=by)
    model, step = make_step(config)
    batch, number = Batch(*map(tf.constant, random_batch(3))), tf.constant(0, tf.int64)
    _, gradients = step.gradients(batch, number)
    dense = np.concatenate([tf.convert_to_tensor(gradient).numpy().ravel() for gradient in gradients])
    norm = np.linalg.norm(dense)
    assert norm > 0.1
    before = np.concatenate([variable.numpy().ravel() for variable in model.trainable_variables])
    result = step._replica_step(batch, number, tf.constant(0.0))  # not compiled, which would take longer
    update = before - np.concatenate([variable.numpy().ravel() for variable in model.trainable_variables])
    assert float(result.gradient_norm) == pytest.approx(norm, rel=1e-4)
    expected = dense * 0.01 / norm if by == "norm" else np.clip(dense, -0.01, 0.01)
    np.testing.assert_allclose(update, expected, atol=1e-6)


def test_scheduled_sampling_follows_its_settings() -> None:
    settings = {"scheduled_sampling_probability": 0.5, "scheduled_sampling_steps": 100}
    _, step = make_step(configuration(scheduled_sampling="linear", **settings))
    random = step._random_context(tf.constant(30, tf.int64))
    assert random.sampling_probability is not None
    assert float(random.sampling_probability) == pytest.approx(0.15)
    assert random.dropout_rate == 0.2


def test_dropout_is_a_function_of_the_step(step: TrainingStep) -> None:
    first, same, other, again = (float(step(random_batch(1), number).loss.nats) for number in (0, 0, 1, 0))
    assert [same, again] == pytest.approx([first, first], rel=1e-5)
    assert other != pytest.approx(first, rel=1e-5)


def test_sampled_words_are_a_function_of_the_step() -> None:
    config = configuration()
    config = config.model_copy(update={"model": config.model.model_copy(update={"dropout": 0.0})})
    batch, losses = Batch(*map(tf.constant, random_batch(1))), []
    for number in (0, 0, 1):
        _, step = make_step(config)
        losses.append(float(step.gradients(batch, tf.constant(number, tf.int64))[0].nats))
    assert losses[0] == losses[1]
    assert losses[2] != pytest.approx(losses[0], rel=1e-5)
