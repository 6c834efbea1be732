"""Language models: the loss against NumPy, truncated gradients against a plain tape over the whole text."""

from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.chat.generator import LanguageModelScorer
from seq2seq_chat.config import Model, Training, Truncation
from seq2seq_chat.data.running_text import Streams
from seq2seq_chat.engines.tensorflow.language_model import TensorFlowLanguageModel
from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.training.language_model import LanguageModelLoss
from seq2seq_chat.training.optimizers import build_optimizer
from seq2seq_chat.training.step import TrainingStep
from tests.random_weights import randomize
from tests.reference_model import Reference

pytestmark = pytest.mark.usefixtures("unoptimized_graphs")

VOCABULARY = 11
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "lstm": {"cell": "lstm", "projection_size": None},
    "two_layers_of_gru": {"cell": "gru", "layers": 2, "projection_size": 5, "residual": True},
    "rnn_with_maxout": {"cell": "rnn", "output": "maxout", "projection_size": 4},
    "tied": {"cell": "lstm", "projection_size": 6, "tie_embeddings": True},
}
TRUNCATIONS = [(4, 4), (3, 7), (7, 3), (15, 40), (2, 1), (40, 2)]
CASES = [("lstm", 2, *pair) for pair in TRUNCATIONS] + [("two_layers_of_gru", 1, *pair) for pair in TRUNCATIONS[:3]]


def build(name: str, seed: int = 1) -> LanguageModel:
    settings = {"hidden_size": 7, "embedding_size": 6, "attention": "none", **ARCHITECTURES[name]}
    model = LanguageModel(Model.model_validate(settings), VOCABULARY, seed)
    randomize(model, seed, scale=0.5)
    return model


def random_text(length: int, seed: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).integers(4, VOCABULARY, length).astype(np.uint16)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_loss_of_a_text_is_that_of_numpy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one stream, and divided into streams that are read in parallel."""
    model, tokens = build(name), random_text(203)
    nats = Reference(model).text_loss(tokens.tolist())
    most_probable = Reference(model).text_logits(tokens[:-1].tolist()).argmax(axis=1)
    for length, warm_up, steps in ((512, 256, 256), (40, 12, 7), (40, 40, 256), (13, 1, 3)):
        monkeypatch.setattr("seq2seq_chat.chat.generator.MIN_LENGTH", length)
        monkeypatch.setattr("seq2seq_chat.chat.generator.WARM_UP", warm_up)
        monkeypatch.setattr("seq2seq_chat.chat.generator.MAX_STEPS", steps)
        score = LanguageModelScorer(TensorFlowLanguageModel(model)).score(tokens)
        assert score.tokens == 202
        assert score.nats == pytest.approx(nats.sum(), rel=2e-5)
        assert score.correct == np.sum(most_probable == tokens[1:])


def test_streams_are_read_again_until_their_states_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network that never forgets: each time only one further stream is right."""
    monkeypatch.setattr("seq2seq_chat.chat.generator.MIN_LENGTH", 20)
    monkeypatch.setattr("seq2seq_chat.chat.generator.WARM_UP", 5)
    model, tokens = build("lstm"), random_text(122)
    bias = model.decoder.cells[0].bias
    bias.assign(tf.tensor_scatter_nd_update(bias, [[n] for n in range(7, 14)], [30.0] * 7))  # of the forget gates
    engine = TensorFlowLanguageModel(model)
    monkeypatch.setattr(engine, "score", score := MagicMock(wraps=engine.score))
    found = LanguageModelScorer(engine).score(tokens)
    assert found.nats == pytest.approx(Reference(model).text_loss(tokens.tolist()).sum(), rel=2e-5)
    assert [len(call.args[0]) for call in score.call_args_list] == [5, 6, 5, 4, 3, 2, 1, 1]  # 5 estimates, the tail


def test_a_step_of_generation_is_that_of_numpy() -> None:
    for name in ARCHITECTURES:
        model, tokens = build(name), random_text(9)
        states = model.start(1)
        expected = Reference(model).text_logits(tokens.tolist())
        for token, row in zip(tokens, expected, strict=True):
            logits, states = model.step(tf.constant([token], tf.int32), states)
            np.testing.assert_allclose(logits[0], row, rtol=1e-4, atol=1e-5)


class PlainTape:
    """Truncated backpropagation by its definition: the whole stream up to an update, step by step."""

    def __init__(self, model: LanguageModel, streams: np.ndarray) -> None:
        self.model, self.streams = model, streams  # [streams, tokens + 1]

    def gradients(self, end: int, forward: int, backward: int) -> tuple[float, list[np.ndarray]]:
        """The loss of the update after ``end`` tokens, per token, and its gradient."""
        start = end - forward
        with tf.GradientTape() as tape:
            states, losses = self.model.start(len(self.streams)), []
            for t in range(min(end, self.streams.shape[1] - 1)):
                if t == end - backward:
                    states = tf.nest.map_structure(tf.stop_gradient, states)
                logits, states = self.model.step(tf.constant(self.streams[:, t]), states)
                if t >= max(start, end - backward):
                    targets = tf.constant(self.streams[:, t + 1])
                    losses.append(tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits))
            loss = tf.reduce_mean(tf.concat(losses, axis=0))
        gradients = tape.gradient(loss, self.model.trainable_variables)
        return float(loss), [tf.convert_to_tensor(gradient).numpy() for gradient in gradients]


def training_gradients(
    model: LanguageModel, tokens: np.ndarray, settings: Training, passes: int = 1
) -> list[tuple[float, list[Any]]]:
    """(loss per token, gradients) of each update of some passes; the weights stay as they are."""
    steps = settings.truncation
    streams = Streams(tokens, settings.batch_size, steps.forward, steps.backward)
    loss = LanguageModelLoss(model, settings)
    training_step = TrainingStep(model, build_optimizer(settings), settings, task_loss=loss)
    results = []

    @tf.function(autograph=False)
    def compute(*arrays: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        loss, gradients = training_step.gradients(arrays, tf.constant(0, tf.int64))
        return loss.nats / loss.tokens, [tf.convert_to_tensor(gradient) for gradient in gradients]

    for number in range(passes * streams.batches_per_pass):
        per_token, gradients = compute(*map(tf.constant, streams.batch(number)))
        results.append((float(per_token), [gradient.numpy() for gradient in gradients]))
    return results


@pytest.mark.parametrize(("name", "micro_batches", "forward", "backward"), CASES)
def test_truncated_gradients_are_those_of_a_plain_tape(
    name: str, micro_batches: int, forward: int, backward: int
) -> None:
    """Of every update of a pass, the last of which has fewer tokens; the carried state is part of it."""
    model, tokens, length = build(name), random_text(3 * 44 + 2), 44
    settings = Training(
        batch_size=3, micro_batches=micro_batches, bptt_forward=forward, bptt_backward=backward, sampled_softmax=None
    )
    streams = np.stack([tokens[s * length : (s + 1) * length + 1] for s in range(3)]).astype(np.int32)
    plain = PlainTape(model, streams)
    updates = training_gradients(model, tokens, settings)
    assert len(updates) == sum(end - backward < length for end in range(forward, length + forward, forward))
    for number, (loss, gradients) in enumerate(updates):
        end = (number + 1) * forward
        expected_loss, expected = plain.gradients(end, forward, backward)
        assert loss == pytest.approx(expected_loss, rel=1e-4)
        for gradient, other in zip(gradients, expected, strict=True):
            np.testing.assert_allclose(gradient, other, rtol=2e-3, atol=2e-6)


def test_every_pass_over_the_text_is_the_same() -> None:
    """It begins without a state, whatever was at the end of the pass before it."""
    settings = Training(batch_size=2, bptt_forward=4, bptt_backward=6, sampled_softmax=None)
    updates = training_gradients(build("lstm"), random_text(2 * 12 + 1), settings, passes=2)
    assert len(updates) % 2 == 0
    for (loss, gradients), (again, others) in zip(updates, updates[len(updates) // 2 :], strict=False):
        assert loss == again
        for gradient, other in zip(gradients, others, strict=True):
            np.testing.assert_array_equal(gradient, other)


def test_truncation_divides_a_chunk() -> None:
    assert Truncation(4, 4) == (4, 4)
    properties = {
        pair: (t.steps, t.first_loss, t.first_gradient, t.skippable)
        for pair in [(4, 4), (3, 7), (7, 3)]
        if (t := Truncation(*pair))
    }
    assert properties == {(4, 4): (4, 0, 0, 0), (3, 7): (7, 4, 0, 4), (7, 3): (7, 4, 4, 0)}


def test_a_state_that_is_always_reset_is_never_carried() -> None:
    """Then each update is that of a text of its own."""
    model, tokens = build("lstm"), random_text(2 * 12 + 1)
    settings = Training(batch_size=2, bptt_forward=4, state_reset=1.0, sampled_softmax=None)
    for number, (loss, _) in enumerate(training_gradients(model, tokens, settings)):
        pieces = [tokens[12 * s + 4 * number : 12 * s + 4 * number + 5].tolist() for s in range(2)]
        expected = np.mean([Reference(model).text_loss(piece) for piece in pieces])
        assert loss == pytest.approx(expected, rel=1e-4)
