"""The steps of an unrolled loop as copies of one trace.

Tracing an operation takes a third of a millisecond of Python, copying one from another graph a tenth of that. So the
first step of a loop is traced into a graph of its own, with the operations of its gradient, and each step is a copy of
them. A copied step consists of the same operations as a traced one, except that all copies share their constants.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import record
from tensorflow.python.framework.func_graph import FuncGraph

from seq2seq_chat.model.deferred import ConstantMatrix, DeferredGradients, Product, recorder
from seq2seq_chat.model.matrix_copies import SharedTensor, SharedUses


def copied(step: Callable[..., Any]) -> Callable[..., Any]:
    """A step of a loop that is traced at its first call, and copied at all calls.

    Its arguments are nested tensors or numbers, of the same shapes at every step. Other tensors that it uses must have
    no gradient, unless it gives them to :mod:`seq2seq_chat.model.deferred`. Without deferred gradients, and outside of
    graphs, this is the step itself.
    """
    outer, trace = recorder(), None
    if outer is None or not isinstance(tf.compat.v1.get_default_graph(), FuncGraph):
        return step

    def call(*arguments: Any) -> Any:
        nonlocal trace
        arguments = tf.nest.map_structure(tf.convert_to_tensor, arguments)
        if trace is None:
            trace = _StepTrace(step, arguments, outer)
        return trace(arguments)

    return call


class _StepGradients(DeferredGradients):
    """Records a single step. Matrices and shared tensors belong to the loop, outside of the step's graph."""

    def __init__(self, outer: DeferredGradients) -> None:
        super().__init__(outer.compute)
        self._outer, self._outer_graph = outer, tf.compat.v1.get_default_graph()
        self.uses: dict[SharedTensor, SharedUses] = {}

    @property
    def products(self) -> list[tuple[tf.Variable, Product]]:
        """The products of the step, with their matrices."""
        return [(key.deref(), product) for key, products in self._products.items() for product in products]

    def constant(self, matrix: tf.Variable) -> ConstantMatrix:
        with self._outer_graph.as_default():
            return self._outer.constant(matrix)

    def shared(self, tensor: tf.Tensor) -> SharedUses:
        with self._outer_graph.as_default():
            shared = self._outer.shared(tensor)
        assert isinstance(shared, SharedTensor)
        return self.uses.setdefault(shared, SharedUses(shared.constant))

    def variables(self) -> Sequence[tf.Variable]:
        """The variables that the step uses directly."""
        return self._tape.watched_variables()


class _StepTrace:
    """A step and its gradient as the operations of a graph of its own.

    Args:
        step: see :func:`copied`.
        arguments: the arguments of its first call.
        outer: records the loop.

    Raises:
        ValueError: the step uses a tensor whose gradient would be lost.
    """

    def __init__(self, step: Callable[..., Any], arguments: Any, outer: DeferredGradients) -> None:
        self._outer, self._tape = outer, _StepGradients(outer)
        self._graph = FuncGraph("step")
        with self._graph.as_default(), self._tape:
            placeholders = tf.nest.map_structure(_placeholder, arguments)
            self._inputs = tf.nest.flatten(placeholders)
            self._tape.watch([x for x in self._inputs if x.dtype.is_floating])
            self._structure = step(*placeholders)
        # one tensor may be several outputs, but has one gradient
        outputs = [output for output in tf.nest.flatten(self._structure) if output is not None]
        self._outputs = [*{output.name: output for output in outputs}.values()]
        self._variables = self._tape.variables()
        for tensor, inside in self._graph.captures:
            if tensor.dtype.is_floating and record.should_record_backprop([tensor]):
                raise ValueError(f"a step must have {inside.name} as an argument, because it has a gradient")
        self._forward = _Operations("step", self._graph.get_operations())

    def __call__(self, arguments: Any) -> Any:
        """Copy the step into the current graph."""
        inputs = tf.nest.flatten(arguments)
        values = self._forward.copy(self._captures | dict(zip(_names(self._inputs), inputs, strict=True)))
        outputs = [values[name] for name in _names(self._outputs)]
        products = []
        for matrix, product in self._tape.products:
            products.append(Product(values[product.x.name], None))
            self._outer.add_product(matrix, products[-1])

        def gradients(*output_gradients: tf.Tensor) -> list[tf.Tensor | None]:
            return self._copy_gradients(values, output_gradients, products)

        anchors = [shared.anchor for shared in self._tape.uses]
        sources = [*inputs, *(variable.handle for variable in self._variables), *anchors]
        record.record_operation("CustomGradient", outputs, sources, gradients)
        return tf.nest.map_structure(lambda output: output if output is None else values[output.name], self._structure)

    def _copy_gradients(
        self, values: dict[str, tf.Tensor], output_gradients: Sequence[tf.Tensor], products: Sequence[Product]
    ) -> list[tf.Tensor | None]:
        """Copy the gradient of a copied step: of its inputs, its variables and the anchors of shared tensors.

        Args:
            values: the tensors of the copied step by the names of the originals.
            output_gradients: the gradients of its outputs.
            products: the products of the copied step; their output gradients are set.
        """
        backward, sources, targets = self._gradient
        known = values | self._captures | dict(zip(_names(sources), output_gradients, strict=True))
        values = backward.copy(known)

        def copy_of(tensor: tf.Tensor | None) -> tf.Tensor | None:
            return None if tensor is None else values[tensor.name]

        for product, (_, original) in zip(products, self._tape.products, strict=True):
            product.dy = copy_of(original.dy)
        anchor_gradients = []
        for shared, uses in self._tape.uses.items():
            pairs = [(values[x.name], values[y.name]) for x, y in uses.outer_products]
            anchor_gradients.append(shared.add_gradient(pairs, copy_of(uses.sum)))
        return [*map(copy_of, targets), *anchor_gradients]

    @functools.cached_property
    def _gradient(self) -> tuple[_Operations, list[tf.Tensor], list[tf.Tensor | None]]:
        """The operations of the gradient; the gradients of all outputs; the gradients of all inputs and variables."""
        first = len(self._graph.get_operations())
        with self._graph.as_default():
            sources = [_placeholder(output) for output in self._outputs]
            targets = self._tape.backward(self._outputs, [*self._inputs, *self._variables], sources)
        return _Operations("step_gradient", self._graph.get_operations()[first:]), sources, targets

    @property
    def _captures(self) -> dict[str, tf.Tensor]:
        """The tensors from outside of the step, by their names in its graph."""
        graph = tf.compat.v1.get_default_graph()
        return {inside.name: graph.capture(outside) for outside, inside in self._graph.captures}


class _Operations:
    """Operations of a graph, to be copied into others.

    Args:
        name: prefix of the names of copied operations.
        operations: the operations; placeholders among them are replaced by other tensors.
    """

    def __init__(self, name: str, operations: Sequence[tf.Operation]) -> None:
        self._name = name
        computed = [operation for operation in operations if operation.type not in ("Placeholder", "Const")]
        constants = [operation for operation in operations if operation.type == "Const"]
        self._computed, self._outputs = _graph_def(computed), _names(x for op in computed for x in op.outputs)
        self._inputs = {*_names(x for op in computed for x in op.inputs)} - {*self._outputs}
        self._constants = _graph_def(constants), _names(operation.outputs[0] for operation in constants)

    def copy(self, values: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Copy the operations into the current graph.

        Args:
            values: tensors that replace others, by their names.

        Returns:
            These and all copied tensors, by the names of the originals.
        """
        values = values | self._copied_constants
        inputs = {name: values[name] for name in self._inputs}
        return values | self._import(self._computed, self._outputs, inputs)

    @functools.cached_property
    def _copied_constants(self) -> dict[str, tf.Tensor]:
        return self._import(*self._constants, {})

    def _import(self, graph: Any, outputs: list[str], inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        copies = tf.graph_util.import_graph_def(graph, inputs, outputs, self._name) if outputs else []
        return dict(zip(outputs, copies, strict=True))


def _graph_def(operations: Sequence[tf.Operation]) -> Any:
    graph = tf.compat.v1.GraphDef(node=[operation.node_def for operation in operations])
    graph.versions.producer = tf.version.GRAPH_DEF_VERSION
    return graph


def _placeholder(tensor: tf.Tensor) -> tf.Tensor:
    return tf.compat.v1.placeholder(tensor.dtype, tensor.shape)


def _names(tensors: Iterable[tf.Tensor]) -> list[str]:
    return [tensor.name for tensor in tensors]
