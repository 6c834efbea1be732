"""The model against an implementation of its equations in NumPy, and invariances of its loss."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.config import Model
from seq2seq_chat.data.vocabulary import EOS, GO
from seq2seq_chat.inference.scorer import Scorer
from seq2seq_chat.model.seq2seq import Seq2Seq, parameter_counts
from tests.random_weights import randomize

VOCABULARY = 19


def make_model(**changes: object) -> Seq2Seq:
    settings = {
        "hidden_size": 6,
        "embedding_size": 4,
        "projection_size": 5,
        "encoder_steps": 5,
        "decoder_steps": 5,
    }
    model = Seq2Seq(Model(**(settings | changes)), VOCABULARY, seed=2)
    randomize(model, seed=1, scale=0.6)
    return model


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


class Reference:
    """The equations for one sample at a time, in float64."""

    def __init__(self, model: Seq2Seq) -> None:
        self.v = {v.name.split(":")[0]: v.numpy().astype(np.float64) for v in model.trainable_variables}
        self.config = model.config
        self.layers, self.attends = model.config.layers, model.config.attention != "none"
        self.projects = model.config.projection_size is not None

    def cell(self, name: str, inputs: list[np.ndarray], state: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        h, bias, input_matrix = state[0], self.v[f"{name}/bias"], self.v.get(f"{name}/input")
        recurrent_input = np.concatenate([*inputs[0 if input_matrix is None else 1 :], h])
        x = (0 if input_matrix is None else inputs[0] @ input_matrix) + bias
        if self.config.cell == "rnn":
            return (np.tanh(x + recurrent_input @ self.v[f"{name}/recurrent"]),)
        if self.config.cell == "gru":
            x_z, x_r, x_h = np.split(x, 3)
            u_z, u_r = np.split(self.v[f"{name}/recurrent"], 2, axis=1)
            z, r = sigmoid(x_z + recurrent_input @ u_z), sigmoid(x_r + recurrent_input @ u_r)
            after_reset = np.concatenate([recurrent_input[: len(recurrent_input) - len(h)], r * h])
            return ((1 - z) * h + z * np.tanh(x_h + after_reset @ self.v[f"{name}/candidate"]),)
        i, f, o, g = np.split(x + recurrent_input @ self.v[f"{name}/recurrent"], 4)
        c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c

    def encode(self, source: list[int], zero: tuple[np.ndarray, ...]) -> tuple[list[np.ndarray], list[tuple]]:
        steps, states = [self.v["embedding/source"][word] for word in source], []
        for layer in range(self.layers):
            name, directions = f"encoder/layer{layer}", []
            for direction in ("", "/backward")[: 2 if self.config.bidirectional else 1]:
                state, outputs = zero, []
                for x in steps[::-1] if direction else steps:
                    state = self.cell(name + direction, [x], state)
                    outputs.append(state[0])
                directions.append((outputs[::-1] if direction else outputs, state))
            steps = [np.concatenate(both) for both in zip(*(outputs for outputs, _ in directions), strict=True)]
            states.append(directions[0][1])
            if self.config.bidirectional:
                parts = []
                for part, both in zip(
                    ("output", "memory"), zip(*(state for _, state in directions), strict=True), strict=False
                ):
                    joined = np.concatenate(both) @ self.v[f"{name}/bridge/{part}"]
                    parts.append(joined + self.v[f"{name}/bridge/{part}/bias"])
                states[-1] = (np.tanh(parts[0]), *parts[1:])
        return steps, states

    def score(self, h: np.ndarray, d: np.ndarray) -> float:
        if self.config.attention == "dot":
            return float(d @ h)
        w1 = self.v["decoder/attention/key"]
        if self.config.attention == "general":
            return float(d @ (h @ w1))
        return float(self.v["decoder/attention/score"] @ np.tanh(h @ w1 + d @ self.v["decoder/attention/query"]))

    def loss(self, source: list[int], target: list[int]) -> float:
        hidden = self.v["output/projection" if self.projects else "output/words"].shape[0 if self.projects else 1]
        zero = (np.zeros(hidden),) * (2 if self.config.cell == "lstm" else 1)
        outputs, states = self.encode(source, zero)
        attentional, nats = np.zeros(hidden), 0.0
        for previous, word in zip([GO, *target], target, strict=False):
            inputs = [self.v["embedding/target"][previous], *([attentional] if self.attends else [])]
            for layer in range(self.layers):
                states[layer] = self.cell(f"decoder/layer{layer}", inputs, states[layer])
                inputs = [states[layer][0]]
            d = attentional = states[-1][0]
            if self.attends:
                u = np.array([self.score(h, d) for h in outputs])
                a = np.exp(u) / np.exp(u).sum()
                context = a @ np.array(outputs)
                attentional = np.tanh(
                    context @ self.v["decoder/combine/context"] + d @ self.v["decoder/combine/output"]
                )
            p = attentional @ self.v["output/projection"] if self.projects else attentional
            logits = self.v["output/words"] @ p + self.v["output/bias"]
            nats -= logits[word] - np.log(np.exp(logits).sum())
        return nats


def padded(rows: list[list[int]], steps: int) -> tuple[np.ndarray, np.ndarray]:
    ids = np.zeros((len(rows), steps), np.int32)
    for row, words in enumerate(rows):
        ids[row, : len(words)] = words
    return ids, np.array([len(words) for words in rows], np.int32)


SAMPLES = [([5, 6, 7], [8, 9, EOS]), ([4], [EOS]), ([9, 8, 7, 6, 5], [4, 5, 6, 7, 8]), ([10, 11], [12, EOS])]


@pytest.mark.parametrize(
    "architecture",
    [
        {},
        {"layers": 2},
        {"attention": "none"},
        {"attention": "none", "layers": 2},
        {"projection_size": None},
        {"attention": "dot"},
        {"attention": "concat"},
        {"attention": "general", "bidirectional": True},
        {"attention": "none", "bidirectional": True, "layers": 2},
        {"cell": "gru"},
        {"cell": "gru", "layers": 2, "bidirectional": True},
        {"cell": "rnn", "attention": "dot", "layers": 2},
        {"cell": "rnn", "bidirectional": True},
    ],
    ids=str,
)
def test_loss_equals_the_reference(architecture: dict[str, object]) -> None:
    model = make_model(**architecture)
    reference = Reference(model)
    expected = [reference.loss(source, target) for source, target in SAMPLES]
    batch = *padded([s for s, _ in SAMPLES], 5), *padded([t for _, t in SAMPLES], 5)
    loss = model.loss(*batch)
    assert float(loss.nats) == pytest.approx(sum(expected), rel=1e-5)
    np.testing.assert_allclose(Scorer(model).log_probabilities(*batch), np.negative(expected), rtol=1e-5)
    assert int(loss.tokens) == sum(len(target) for _, target in SAMPLES)


def test_decoding_step_by_step_equals_teacher_forcing() -> None:
    model = make_model(layers=2)
    for source, target in SAMPLES:
        state, memory = model.start(model.encode(*padded([source], 5)))
        nats = 0.0
        for previous, word in zip([GO, *target], target, strict=False):
            logits, state, attention = model.step(tf.constant([previous]), state, memory)
            nats -= float(tf.nn.log_softmax(logits)[0, word])
            assert attention is not None
            assert float(tf.reduce_sum(attention[0, : len(source)])) == pytest.approx(1, abs=1e-6)
            assert not np.any(attention[0, len(source) :]), "padding has attention"
        assert nats == pytest.approx(float(model.loss(*padded([source], 5), *padded([target], 5)).nats), rel=1e-5)


@pytest.mark.parametrize("attention", ["additive", "none"])
def test_loss_does_not_depend_on_padding_or_batch(attention: str) -> None:
    model = make_model(attention=attention)
    padded_model = make_model(attention=attention, encoder_steps=9, decoder_steps=8)
    alone = [float(model.loss(*padded([s], 5), *padded([t], 5)).nats) for s, t in SAMPLES]
    more_padding = [float(padded_model.loss(*padded([s], 9), *padded([t], 8)).nats) for s, t in SAMPLES]
    batch = model.loss(*padded([s for s, _ in SAMPLES], 5), *padded([t for _, t in SAMPLES], 5))
    assert more_padding == pytest.approx(alone, rel=1e-5)
    assert float(batch.nats) == pytest.approx(sum(alone), rel=1e-5)


def test_thought_vector_is_the_state_after_the_last_word() -> None:
    model = make_model()
    words, lengths = padded([[5, 6]], 5)
    changed_padding = words.copy()
    changed_padding[0, 2:] = 13  # arbitrary ids instead of padding
    for ids in (words, changed_padding):
        encoded = model.encode(ids, lengths)
        np.testing.assert_allclose(encoded.states[0].output[0], encoded.outputs[0, 1], rtol=1e-6)
    np.testing.assert_array_equal(model.encode(words, lengths).states[0].memory, encoded.states[0].memory)


def test_untrained_model_considers_all_words_equally_likely() -> None:
    model = Seq2Seq(Model(hidden_size=64, embedding_size=32, projection_size=32), vocabulary_size=3000, seed=1)
    source, target = np.random.default_rng(1).integers(4, 3000, (2, 8, 30)).astype(np.int32)
    full = np.full(8, 30, np.int32)
    loss = model.loss(source, full, target, full)
    assert float(loss.nats / loss.tokens) == pytest.approx(math.log(3000), rel=0.01)


def test_parameter_counts() -> None:
    """By hand: tables 2·50000·1024; LSTMs (E+H)·4H+4H and (E+2H)·4H+4H; attention 2·H²+H; W_c 2H·H; W_p, W_s, b."""
    small = Model(hidden_size=20, embedding_size=10, projection_size=10)
    counts = parameter_counts(Seq2Seq(small, vocabulary_size=500, seed=1))
    e, h, p, v = 10, 20, 10, 500
    assert counts == {
        "embedding": 2 * v * e,
        "encoder": (e + h) * 4 * h + 4 * h,
        "decoder": (e + 2 * h) * 4 * h + 4 * h + 2 * h * h + h + 2 * h * h,
        "output": h * p + v * p + v,
    }


def test_initial_values_are_a_function_of_the_seed() -> None:
    config = Model(hidden_size=4, embedding_size=3, projection_size=None)
    one, same, other = (Seq2Seq(config, 9, seed=seed) for seed in (1, 1, 2))
    for a, b, c in zip(one.trainable_variables, same.trainable_variables, other.trainable_variables, strict=True):
        np.testing.assert_array_equal(a, b)
        if a.shape.rank > 1:
            assert np.any(a.numpy() != c.numpy())
    # no two matrices are equal or multiples of each other
    starts = [v.numpy().ravel()[:3] / v.numpy().ravel()[0] for v in one.trainable_variables if v.shape.rank > 1]
    assert len({tuple(np.round(start, 4)) for start in starts}) == len(starts)
