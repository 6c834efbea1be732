"""The ONNX graphs compute what the models in TensorFlow compute, for every architecture; and 8-bit matrices."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from seq2seq_chat.config import Config, Data, Model
from seq2seq_chat.engines.onnx.layers import OPSET
from seq2seq_chat.engines.onnx.manifest import ENCODER_FILE, STEP_FILE
from seq2seq_chat.engines.onnx.quantization import QuantizedMatrix, quantize, relative_error
from seq2seq_chat.export.onnx import export_onnx, model_graphs
from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.model.variables import by_name
from tests.random_weights import randomize

VOCABULARY, SOURCE_VOCABULARY = 13, 12
SIZES = {"hidden_size": 8, "embedding_size": 6, "projection_size": 5, "encoder_steps": 5, "decoder_steps": 6}
ARCHITECTURES: list[dict[str, Any]] = [
    {},
    {"cell": "gru", "layers": 2, "bidirectional": True, "attention": "general", "residual": True},
    {"cell": "rnn", "attention": "dot", "input_feeding": False, "projection_size": None},
    {"attention": "none", "layers": 2},
    {"attention": "none", "context": "every_step", "output": "maxout", "cell": "gru"},
    {"attention": "none", "output": "maxout", "cell": "rnn", "activation": "relu", "bidirectional": True},
    {"attention_query": "previous", "output": "maxout", "bidirectional": True, "bridge": "backward", "cell": "gru"},
    {"attention_query": "previous", "attention": "concat", "context": "every_step"},
    {"output": "maxout", "context": "every_step", "layers": 3, "residual": True},
    {"output": "concatenated", "bidirectional": True, "projection_size": None},
    {"output": "concatenated", "attention_query": "previous", "cell": "gru"},
    {"tie_embeddings": True, "projection_size": 6, "bidirectional": True},
]
LENGTHS = np.array([3, 5, 1, 0], np.int32)


def graphs_of(model: Seq2Seq | LanguageModel, int8: str | None = None) -> dict[str, onnx.ModelProto]:
    task = "language_model" if isinstance(model, LanguageModel) else "conversation"
    config = Config(name="x", task=task, data=Data(train="x"), model=model.config)
    return model_graphs(config, {name: variable.numpy() for name, variable in by_name(model.variables).items()}, int8)


def open_graph(graph: onnx.ModelProto) -> onnxruntime.InferenceSession:
    onnx.checker.check_model(graph, full_check=True)
    assert graph.opset_import[0].version == OPSET
    return onnxruntime.InferenceSession(graph.SerializeToString())


def run(graph: onnxruntime.InferenceSession, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    names = [output.name for output in graph.get_outputs()]
    return dict(zip(names, graph.run(None, inputs), strict=True))


def flat(tensors: Any) -> list[np.ndarray]:
    return [part.numpy() for part in tf.nest.flatten(tensors) if part is not None]


def assert_close(arrays: list[np.ndarray], expected: list[np.ndarray]) -> None:
    assert len(arrays) == len(expected)
    for one, other in zip(arrays, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def sources() -> np.ndarray:
    ids = np.random.default_rng(5).integers(4, SOURCE_VOCABULARY, [len(LENGTHS), 5]).astype(np.int32)
    ids[np.arange(5) >= LENGTHS[:, np.newaxis]] = 0
    return ids


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=str)
def test_encoder_and_steps(architecture: dict[str, Any]) -> None:
    model = Seq2Seq(Model(**(SIZES | architecture)), VOCABULARY, 4, SOURCE_VOCABULARY)
    randomize(model, seed=9, scale=0.7)
    graphs = {name: open_graph(graph) for name, graph in graphs_of(model).items()}
    encoded = run(graphs[ENCODER_FILE], {"source": sources(), "lengths": LENGTHS})
    state, memory = model.start(model.encode(tf.constant(sources()), tf.constant(LENGTHS)))
    attended = (memory.attended.values, memory.attended.keys, memory.attended.mask) if memory.attended else ()
    assert_close(list(encoded.values()), flat(state) + flat(attended) + flat(memory.thought))
    for words in ([1, 1, 1, 1], [2, 5, 12, 3]):
        ids = np.array(words, np.int32)
        stepped = run(graphs[STEP_FILE], {"words": ids, **encoded})
        logits, state, attention = model.step(tf.constant(ids), state, memory)
        expected = [logits, tf.reduce_logsumexp(logits, axis=1), state, attention]
        assert_close(list(stepped.values()), flat(expected))
        encoded |= {name.removeprefix("next_"): part for name, part in stepped.items() if name.startswith("next_")}


def test_padding_changes_nothing() -> None:
    model = Seq2Seq(Model(**SIZES, bidirectional=True), VOCABULARY, 4, SOURCE_VOCABULARY)
    randomize(model, seed=9)
    graph = open_graph(graphs_of(model)[ENCODER_FILE])
    short = {"source": sources()[:1, :3], "lengths": LENGTHS[:1]}
    padded, exact = run(graph, {"source": sources()[:1], "lengths": LENGTHS[:1]}), run(graph, short)
    for name, part in exact.items():
        np.testing.assert_allclose(padded[name][:, :3] if part.ndim > 2 else padded[name][:, : part.shape[1]], part)


@pytest.mark.parametrize("settings", [{"layers": 2}, {"cell": "gru", "output": "maxout"}], ids=str)
def test_language_model(settings: dict[str, Any]) -> None:
    model = LanguageModel(Model(**(SIZES | {"attention": "none"} | settings)), VOCABULARY, 4)
    randomize(model, seed=9, scale=0.7)
    graph = open_graph(graphs_of(model)[STEP_FILE])
    states = model.start(3)
    inputs = {tensor.name: np.zeros([3, 8], np.float32) for tensor in graph.get_inputs()[1:]}
    for words in ([2, 7, 12], [4, 4, 5]):
        ids = np.array(words, np.int32)
        stepped = run(graph, {"words": ids, **inputs})
        logits, states = model.step(tf.constant(ids), states)
        assert_close(list(stepped.values()), flat([logits, tf.reduce_logsumexp(logits, axis=1)]) + flat(states))
        inputs = {name.removeprefix("next_"): part for name, part in stepped.items() if name.startswith("next_")}


def test_the_export_loads_no_tensorflow(tiny_run: Path, tmp_path: Path) -> None:
    program = f"""
import sys
from pathlib import Path
from {export_onnx.__module__} import export_onnx
from seq2seq_chat.runs.run import Run
export_onnx(Run(Path({str(tiny_run)!r})), {str(tmp_path / "exported")!r})
assert "tensorflow" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_int8_is_close_and_small() -> None:
    """Weights of 8 bits change the logits by a few percent of their spread, and take about a quarter of the space."""
    sizes = {"hidden_size": 256, "embedding_size": 96, "projection_size": 96, "encoder_steps": 5, "decoder_steps": 6}
    model = Seq2Seq(Model(**sizes, tie_embeddings=True), 500, 4)
    exact, rounded = graphs_of(model), graphs_of(model, "int8")
    logits = []
    for graphs in (exact, rounded):
        encoder, step = (open_unchecked(graphs[name]) for name in (ENCODER_FILE, STEP_FILE))
        encoded = run(encoder, {"source": sources(), "lengths": LENGTHS})
        logits.append(run(step, {"words": LENGTHS + 3, **encoded})["logits"])
    assert (logits[1] - logits[0]).std() < 0.03 * logits[0].std()
    sizes_in_bytes = [sum(graph.ByteSize() for graph in graphs.values()) for graphs in (exact, rounded)]
    assert sizes_in_bytes[1] < 0.29 * sizes_in_bytes[0]


def open_unchecked(graph: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """The package onnx does not know the operators of ONNX Runtime."""
    return onnxruntime.InferenceSession(graph.SerializeToString())


# quantized matrices

MATRICES = arrays(np.float32, st.tuples(st.integers(1, 6), st.integers(1, 6)), elements=st.floats(-1e6, 1e6, width=32))


def test_numbers_computed_by_hand() -> None:
    matrix = np.array([[1.27, 0.5], [-0.635, -100.0], [0.004, 60.0]], np.float32)
    quantized = quantize(matrix.T)
    assert quantized.values.tolist() == [[127, -64, 0], [1, -127, 76]]  # -63.5 is rounded to the even integer
    np.testing.assert_allclose(quantized.scales, [0.01, 100 / 127], rtol=1e-6)


def test_the_relative_error_computed_by_hand() -> None:
    matrix = np.array([[3.0, 4.0]], np.float32)
    quantized = QuantizedMatrix(np.array([[3, 1]], np.int8), np.ones(1, np.float32))
    assert relative_error(matrix, quantized) == pytest.approx(3 / 5)


@given(MATRICES)
def test_no_value_is_off_by_more_than_half_a_scale(matrix: npt.NDArray[np.float32]) -> None:
    quantized = quantize(matrix)
    assert len(quantized.scales) == len(matrix)
    allowed = 0.5001 * quantized.scales[:, np.newaxis] + 1e-6 * np.abs(matrix)
    assert np.all(np.abs(quantized.dequantize() - matrix) <= allowed)
    negative = quantize(-matrix)
    assert np.array_equal(negative.values, -quantized.values) and np.array_equal(negative.scales, quantized.scales)


@given(MATRICES)
def test_a_row_does_not_depend_on_the_others(matrix: npt.NDArray[np.float32]) -> None:
    assert np.array_equal(quantize(matrix).values[:1], quantize(matrix[:1]).values)


@pytest.mark.parametrize("value", [0.0, 1e-45, 1e-40])
def test_zeros_and_the_smallest_numbers_stay_finite(value: float) -> None:
    matrix = np.full([2, 3], value, np.float32)
    quantized = quantize(matrix)
    assert np.all(np.isfinite(quantized.dequantize())) and relative_error(np.zeros_like(matrix), quantized) == 0.0
