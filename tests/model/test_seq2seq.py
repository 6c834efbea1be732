"""The model against its equations and those of the papers in NumPy, and invariances of its loss."""

import math
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.config import Model
from seq2seq_chat.model.deferred import DeferredGradients
from seq2seq_chat.model.seq2seq import Seq2Seq, decoder_inputs
from seq2seq_chat.text.vocabulary import EOS, GO, PAD
from tests.pairwise import pairwise
from tests.random_weights import randomize
from tests.reference_model import Reference, sigmoid

VOCABULARY, STEPS = 17, 4
SAMPLES = [([5, 6, 7], [8, 9, EOS]), ([4], [EOS]), ([9, 8, 7, 6], [4, 5, 6, 7]), ([10, 11], [12, EOS])]


def is_valid(settings: dict[str, Any]) -> bool:
    """Whether the sizes fit, and both directions of the encoder are used."""
    if settings["output"] == "concatenated" and settings["attention"] == "none":
        return False
    if settings["activation"] == "relu" and settings["cell"] != "rnn":
        return False
    if settings["residual"] and settings["layers"] == 1:
        return False
    return not settings["bidirectional"] or not (
        settings["attention"] == "dot" or (settings["attention"] == "none" and settings["bridge"] == "backward")
    )


VALUES: dict[str, tuple[Any, ...]] = {
    "attention": ("additive", "concat", "dot", "general", "none"),
    "attention_query": ("current", "previous"),
    "input_feeding": (True, False),
    "context": ("initial_state", "every_step"),
    "output": ("attentional", "maxout", "concatenated"),
    "cell": ("lstm", "gru", "rnn"),
    "activation": ("tanh", "relu"),
    "layers": (1, 2, 3),
    "residual": (False, True),
    "bidirectional": (False, True),
    "bridge": ("both", "backward"),
    "projection_size": (3, None),
}
ARCHITECTURES = pairwise(VALUES, is_valid=is_valid)


def make_model(**architecture: Any) -> Seq2Seq:
    sizes = {"hidden_size": 5, "embedding_size": 4, "encoder_steps": STEPS, "decoder_steps": STEPS}
    model = Seq2Seq(Model(**(sizes | architecture)), VOCABULARY, seed=2)
    randomize(model, seed=1, scale=0.6)
    return model


def make_batch(samples: Any = SAMPLES, steps: int = STEPS) -> list[np.ndarray]:
    batch = []
    for rows in zip(*samples, strict=True):
        batch.append(np.array([words + [PAD] * (steps - len(words)) for words in rows], np.int32))
        batch.append(np.array([len(words) for words in rows], np.int32))
    return batch


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=str)
def test_losses_and_gradients_equal_the_reference(architecture: dict[str, Any]) -> None:
    """Gradients along a random direction in each variable, by finite differences of the reference in float64."""
    model = make_model(**architecture)
    reference = Reference(model)

    def expected_loss() -> float:
        return sum(reference.loss(source, target) for source, target in SAMPLES)

    with DeferredGradients() as tape:
        loss = model.loss(*make_batch())
    assert float(loss.nats) == pytest.approx(expected_loss(), rel=1e-5)
    assert int(loss.tokens) == sum(len(target) for _, target in SAMPLES)
    rng, epsilon = np.random.default_rng(0), 1e-7  # small, as max has kinks
    gradients = tape.gradient(loss.nats, model.trainable_variables)
    for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
        values = reference.v[variable.name.split(":")[0]]
        direction = rng.standard_normal(values.shape)
        ends = []
        for sign in (1, -2):  # to +1, then from there to -1
            values += sign * epsilon * direction
            ends.append(expected_loss())
        values += epsilon * direction
        slope = np.sum(tf.convert_to_tensor(gradient).numpy() * direction)
        assert (ends[0] - ends[1]) / (2 * epsilon) == pytest.approx(slope, rel=1e-3, abs=1e-4), variable.name


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=str)
def test_decoding_step_by_step_equals_teacher_forcing(
    architecture: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seq2seq_chat.model.matrix_copies.MIN_SIZE", 1)
    model = make_model(**architecture)
    source, lengths, target, _ = make_batch()
    encoded = model.encode(source, lengths)
    vectors = model.target_embedding(decoder_inputs(tf.transpose(target)))
    expected = model.decoder.unroll(vectors, encoded)
    # scheduled sampling's loop, which knows no input before its step, with the target words as inputs
    np.testing.assert_allclose(model.decoder.unroll(vectors, encoded, None, lambda t, x, h: x), expected, atol=1e-5)
    computed_once = model.search_weights()
    for weights in (None, computed_once, computed_once._replace(copies={}), computed_once._replace(inputs=())):
        state, memory = model.start(encoded)
        for t, words in enumerate([np.full(len(SAMPLES), GO, np.int32), *target.T[:-1]]):
            logits, state, attention = model.step(tf.constant(words), state, memory, weights)
            np.testing.assert_allclose(logits, model.output.logits(expected[t]), atol=1e-5)
            if architecture["attention"] == "none":
                assert attention is None
            else:
                np.testing.assert_allclose(np.sum(attention, axis=1), 1, rtol=1e-5)
                assert not np.any(attention.numpy()[np.arange(STEPS) >= lengths[:, np.newaxis]]), "attends to padding"


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=str)
def test_a_search_reads_only_the_words_of_the_longest_source(architecture: dict[str, Any]) -> None:
    model = make_model(**architecture)
    source, lengths, _, _ = (part[:2] for part in make_batch())  # three words and one, padded to four
    expected_state, expected_memory = model.start(model.encode(source, lengths))
    state, memory = model.start_search(source, lengths)
    tf.nest.map_structure(
        lambda part, expected: np.testing.assert_allclose(part, expected, atol=1e-6), state, expected_state
    )
    if architecture["attention"] != "none":
        for part, expected in zip(memory.attended, expected_memory.attended, strict=True):
            np.testing.assert_allclose(part, expected[:, :3], atol=1e-6)


def test_rnnsearch_equals_its_paper() -> None:
    """Bahdanau et al. 2014, appendix A, in its notation, for a model with the same weights.

    Differences: our biases, zero here; and the readout gets s_i, as g(y_{i-1}, s_i, c_i) in equation 4, where the
    appendix has s_{i-1}. Matrices are transposed.
    """
    model = make_model(
        cell="gru",
        bidirectional=True,
        bridge="backward",
        attention_query="previous",
        output="maxout",
        projection_size=3,
    )
    n, weights = 5, {v.name.split(":")[0]: v for v in model.trainable_variables}
    for name, variable in weights.items():
        if name.endswith("bias"):
            variable.assign(tf.zeros_like(variable))
    w = {name: variable.numpy().astype(np.float64).T for name, variable in weights.items()}

    def gru(name: str, x: np.ndarray, c: np.ndarray, h: np.ndarray) -> np.ndarray:
        w_z, w_r, w_h = np.split(w[f"{name}/input"], 3)
        (cu_z, cu_r), cu_h = np.split(w[f"{name}/recurrent"], 2), w[f"{name}/candidate"]
        (c_z, u_z), (c_r, u_r), (c_h, u_h) = (np.split(matrix, [len(c)], axis=1) for matrix in (cu_z, cu_r, cu_h))
        z = sigmoid(w_z @ x + u_z @ h + c_z @ c)
        r = sigmoid(w_r @ x + u_r @ h + c_r @ c)
        return (1 - z) * h + z * np.tanh(w_h @ x + u_h @ (r * h) + c_h @ c)

    def log_probability(source: list[int], target: list[int]) -> float:
        nothing, forward, backward = np.zeros(0), [np.zeros(n)], [np.zeros(n)]
        for x in source:
            forward.append(gru("encoder/layer0", w["embedding/source"].T[x], nothing, forward[-1]))
        for x in reversed(source):
            backward.append(gru("encoder/layer0/backward", w["embedding/source"].T[x], nothing, backward[-1]))
        h = [np.concatenate(both) for both in zip(forward[1:], backward[:0:-1], strict=True)]
        s, total = np.tanh(w["encoder/layer0/bridge/output"] @ backward[-1]), 0.0
        w_a, u_a, v_a = (w[f"decoder/attention/{name}"] for name in ("query", "key", "score"))
        for y_before, y in zip([GO, *target], target, strict=False):
            e = np.array([v_a @ np.tanh(w_a @ s + u_a @ h_j) for h_j in h])
            c = (np.exp(e) / np.exp(e).sum()) @ np.array(h)
            word = w["embedding/target"].T[y_before]
            s = gru("decoder/layer0", word, c, s)
            u_o, v_o, c_o = (w[f"decoder/maxout/{name}"] for name in ("output", "words", "context"))
            readout = u_o @ s + v_o @ word + c_o @ c
            scores = w["output/words"].T @ np.maximum(readout[:3], readout[3:])
            total += scores[y] - np.log(np.exp(scores).sum())
        return total

    expected = -sum(log_probability(source, target) for source, target in SAMPLES)
    assert float(model.loss(*make_batch()).nats) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("attention", ["additive", "none"])
def test_loss_does_not_depend_on_padding_or_batch(attention: str) -> None:
    model = make_model(attention=attention)
    padded = make_model(attention=attention, encoder_steps=9, decoder_steps=8)
    alone = [float(model.loss(*make_batch([sample])).nats) for sample in SAMPLES]
    assert [float(padded.loss(*make_batch([s], 8)).nats) for s in SAMPLES] == pytest.approx(alone, rel=1e-5)
    assert float(model.loss(*make_batch()).nats) == pytest.approx(sum(alone), rel=1e-5)


def test_thought_vector_is_the_state_after_the_last_word() -> None:
    model = make_model()
    words, lengths = make_batch([([5, 6], [])])[:2]
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


def test_products_of_all_words_are_not_kept_for_large_vocabularies(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Seq2Seq(Model(hidden_size=8, embedding_size=4, projection_size=6), 30, seed=1)
    assert model.search_weights().inputs.cell.shape == (30, 32)  # type: ignore[union-attr]
    monkeypatch.setattr("seq2seq_chat.model.seq2seq.MAX_PROJECTED_BYTES", 4 * 30 * 32 - 1)
    assert model.search_weights().inputs == ()
