"""Every operation of the thesis's graphs has a GPU kernel: audited without a GPU.

TensorFlow's package for Linux registers GPU kernels even where there is no GPU. An operation without one would be
computed on the processor, with a copy there and back at every step; if it uses a variable, it would fail.
"""

import functools
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.python.framework import config as tf_config
from tensorflow.python.framework import kernels

from seq2seq_chat.architecture.variables import SLOTS
from seq2seq_chat.config import Config, parse_config
from seq2seq_chat.engines.tensorflow.scorer import Scorer
from seq2seq_chat.engines.tensorflow.search import GraphSearch
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.training.optimizers import build_optimizer
from seq2seq_chat.training.step import TrainingStep

THESIS = Path(__file__).parents[1] / "configs" / "thesis_reddit.json"
SIZES = {"hidden_size": 8, "embedding_size": 6, "projection_size": 7, "encoder_steps": 2, "decoder_steps": 2}
GPU_DEVICES = ("GPU", "DEFAULT")  # kernels of the latter run on every type of device
ALLOWED: dict[str, str] = {}
"""Operations without a GPU kernel → why that is acceptable."""
REFUSE_DETERMINISM = {
    "Bincount",
    "DenseBincount",
    "SoftmaxCrossEntropyWithLogits",
    "SparseSoftmaxCrossEntropyWithLogits",
    "SparseTensorDenseMatMul",
    *(f"Scatter{kind}" for kind in ("Add", "Div", "Max", "Min", "Mul", "Sub", "Update")),
}
"""Operations whose GPU kernel raises UnimplementedError in a deterministic training, according to TensorFlow's source;
those for images are left out."""


def small_config(training: Mapping[str, object] | None = None, **sizes: int) -> Config:
    """The thesis's experiment with small layers, its own vocabulary, and one micro-batch as on a GPU."""
    settings = json.loads(THESIS.read_text(encoding="utf-8"))
    settings["model"] |= SIZES | sizes
    settings["training"] |= {"micro_batches": 1, **(training or {})}
    return parse_config(settings, where=str(THESIS))


def build_model(config: Config) -> Seq2Seq:
    return Seq2Seq(config.model, config.data.vocabulary_size, config.seed)


@pytest.fixture(scope="module")
def config() -> Config:
    return small_config()


@pytest.fixture(scope="module")
def model(config: Config) -> Seq2Seq:
    return build_model(config)


def batch_specs(config: Config) -> list[tf.TensorSpec]:
    batch, shape = config.training.batch_size, config.model
    rows = [(batch, shape.encoder_steps), (batch,), (batch, shape.decoder_steps), (batch,)]
    return [tf.TensorSpec(size, tf.int32) for size in rows]


def training(config: Config, model: Seq2Seq) -> Any:
    optimizer = build_optimizer(config.training)
    optimizer._create_all_weights(model.trainable_variables)
    return TrainingStep(model, optimizer, config.training).build(batch_specs(config))


def validation(config: Config, model: Seq2Seq) -> Any:
    return Scorer(model, count_correct=True)._graph.get_concrete_function(*batch_specs(config))


def scoring(config: Config, model: Seq2Seq) -> Any:
    return Scorer(model)._graph.get_concrete_function(*batch_specs(config))


def search(**decoding: Any) -> Callable[[Config, Seq2Seq], Any]:
    def graph(config: Config, model: Seq2Seq) -> Any:
        settings = config.decoding.model_copy(update=decoding)
        return GraphSearch(model, settings)._compiled.get_concrete_function()

    return graph


GRAPHS = {
    "training": training,
    "validation": validation,
    "scoring": scoring,
    "greedy": search(method="greedy"),
    "beam": search(method="beam"),
    "sampling": search(method="sample", n_best=2, top_k=40, top_p=0.9),
}


def all_nodes(graph: tf.compat.v1.GraphDef) -> Iterator[Any]:
    """The nodes of a graph and of its functions: bodies of loops, branches, gradients."""
    yield from graph.node
    for function in graph.library.function:
        yield from function.node_def


@functools.cache
def gpu_kernels(operation: str) -> list[Any]:
    registered = kernels.get_registered_kernels_for_op(operation).kernel
    return [kernel for kernel in registered if kernel.device_type in GPU_DEVICES]


def supports(kernel: Any, node: Any) -> bool:
    """Whether a kernel is registered for a node's types."""
    return all(
        set(node.attr[constraint.name].list.type or [node.attr[constraint.name].type])
        <= set(constraint.allowed_values.list.type)
        for constraint in kernel.constraint
    )


def without_gpu_kernel(graph: tf.compat.v1.GraphDef) -> set[str]:
    """Operations of a graph without a GPU kernel, with their types: ``Bincount[T=int32]``."""
    return {
        f"{node.op}[{types_of(node)}]"
        for node in all_nodes(graph)
        if not any(supports(kernel, node) for kernel in gpu_kernels(node.op))
    }


def types_of(node: Any) -> str:
    types = {name: tf.as_dtype(value.type).name for name, value in sorted(node.attr.items()) if value.type}
    return ", ".join(f"{name}={kind}" for name, kind in types.items())


def test_gpu_kernels_are_registered_without_a_gpu() -> None:
    """Otherwise the audit would find nothing, or everything."""
    assert tf.test.is_built_with_cuda()
    assert gpu_kernels("MatMul")
    assert not gpu_kernels("StringSplitV2")


@pytest.fixture
def deterministic() -> Iterator[None]:
    """As the checks compute. On a GPU, a training does so only with ``training.deterministic``."""
    tf.config.experimental.enable_op_determinism()
    yield
    tf_config.disable_op_determinism()


@pytest.mark.parametrize("name", GRAPHS)
def test_every_operation_has_a_gpu_kernel(name: str, config: Config, model: Seq2Seq, deterministic: None) -> None:
    graph = GRAPHS[name](config, model).graph.as_graph_def()
    assert without_gpu_kernel(graph) <= set(ALLOWED)
    assert not {node.op for node in all_nodes(graph)} & REFUSE_DETERMINISM


@pytest.mark.parametrize("name", ["training", "validation"])
def test_the_default_softmax_has_a_gpu_kernel(name: str, config: Config, model: Seq2Seq) -> None:
    """TensorFlow chooses another one for deterministic training."""
    graph = GRAPHS[name](config, model).graph.as_graph_def()
    assert "SparseSoftmaxCrossEntropyWithLogits" in {node.op for node in all_nodes(graph)}
    assert without_gpu_kernel(graph) <= set(ALLOWED)


@pytest.mark.nightly
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("optimizer", sorted(SLOTS))
def test_every_optimizer_updates_on_a_gpu(optimizer: str, momentum: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables are on the GPU, so an update without a GPU kernel would fail: such optimizers are refused there."""
    try:
        config = small_config({"optimizer": optimizer, "momentum": momentum})
    except UserError:
        pytest.skip("has no momentum")
    missing = without_gpu_kernel(training(config, build_model(config)).graph.as_graph_def())
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [kind])
    if missing:
        assert missing == {"ResourceSparseApplyRMSProp[T=float32, Tindices=int32]"}
        with pytest.raises(UserError, match=f"training.optimizer={optimizer} and training.momentum on a GPU; use adam"):
            build_optimizer(config.training)
    else:
        build_optimizer(config.training)


def test_an_operation_without_a_gpu_kernel_is_found_inside_a_loop() -> None:
    @tf.function(autograph=False)
    def loop(x: tf.Tensor) -> tf.Tensor:
        def body(y: tf.Tensor) -> list[tf.Tensor]:
            sampled = tf.random.log_uniform_candidate_sampler(tf.ones([1, 1], tf.int64), 1, 5, False, 50)
            return [y + tf.reduce_sum(sampled.sampled_expected_count)]

        return tf.while_loop(lambda y: y < 9.0, body, [x])[0]

    graph = loop.get_concrete_function(tf.TensorSpec([], tf.float32)).graph.as_graph_def()
    assert without_gpu_kernel(graph) == {"LogUniformCandidateSampler[]"}
