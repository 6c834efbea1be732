"""The encoder: reads the source word by word, statically unrolled."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from seq2seq_chat.architecture.variables import encoder_output_size
from seq2seq_chat.config import Model
from seq2seq_chat.model.cells import Cell, make_cell, masked_update
from seq2seq_chat.model.deferred import concat
from seq2seq_chat.model.randomness import RandomContext, dropout
from seq2seq_chat.model.step_copies import copied
from seq2seq_chat.model.variables import Weight


class EncoderOutput(NamedTuple):
    """What the decoder gets from the encoder."""

    outputs: tf.Tensor  # of the top layer at every step: [batch, source steps, encoder output size]
    states: tuple[Any, ...]  # of each layer after the last word: the thought vector
    lengths: tf.Tensor  # words of each source: [batch]


class Encoder(tf.Module):
    """Stacked recurrent cells over the source, in one direction or in both.

    The state passes through padding unchanged, so the decoder's initial state does not depend on the padding of a
    batch. With two directions (Schuster & Paliwal 1997) each layer concatenates the outputs of both, and
    :class:`Bridge` computes the decoder's initial state from their final states. With ``residual`` each layer from the
    second on adds its input to its outputs (Wu et al. 2016, section 3.1).
    """

    def __init__(self, config: Model, seed: int) -> None:
        super().__init__()
        self.residual = config.residual
        input_sizes = [config.embedding_size] + [encoder_output_size(config)] * (config.layers - 1)

        def cells(direction: str) -> list[Cell]:
            return [
                make_cell(config, f"encoder/layer{layer}{direction}", input_size, 0, seed)
                for layer, input_size in enumerate(input_sizes)
            ]

        self.cells = cells("")
        self.backward_cells = cells("/backward") if config.bidirectional else []
        self.bridges = [
            Bridge(f"encoder/layer{layer}/bridge", cell, seed, backward_only=config.bridge == "backward")
            for layer, cell in enumerate(self.backward_cells)
        ]

    @property
    def weights_of_steps(self) -> list[Weight]:
        """The matrices of the products that depend on the step before."""
        return [weight for cell in (*self.cells, *self.backward_cells) for weight in cell.recurrent_weights]

    def __call__(
        self, vectors: tf.Tensor, lengths: tf.Tensor, random: RandomContext | None = None, unrolled: bool = True
    ) -> EncoderOutput:
        """vectors: [source steps, batch, embedding] (time-major), lengths: [batch].

        If not ``unrolled``, by loops, for any number of source steps; without gradients.
        """
        run, steps = _run_cell if unrolled else _loop_cell, vectors.shape[0] or tf.shape(vectors)[0]
        mask = tf.transpose(tf.sequence_mask(lengths, steps))[:, :, tf.newaxis]
        outputs, states = vectors, []
        for layer, cell in enumerate(self.cells):
            below, inputs = outputs, dropout(outputs, random, f"encoder/{layer}")
            state, outputs = run(cell, inputs, mask)
            if self.backward_cells:
                backward_state, backward = run(self.backward_cells[layer], inputs, mask, backward=True)
                state = self.bridges[layer](state, backward_state)
                outputs = tf.concat([outputs, backward], axis=2)
            if self.residual and layer:
                outputs += below
            states.append(state)
        return EncoderOutput(tf.transpose(outputs, [1, 0, 2]), tuple(states), lengths)


class Bridge(tf.Module):
    """Combines the final states of two directions: h = tanh(W_h [h→; h←] + b_h), c = W_c [c→; c←] + b_c.

    tanh keeps h in the range of a cell's outputs; c is unbounded. ``backward_only`` leaves out h→ and c→ (Bahdanau et
    al. 2014).
    """

    def __init__(self, name: str, cell: Cell, seed: int, backward_only: bool = False) -> None:
        super().__init__()
        fields, self.backward_only = cell.STATE._fields, backward_only
        inputs = (1 if backward_only else 2) * cell.hidden_size
        self.weights = [Weight(f"{name}/{field}", inputs, cell.hidden_size, seed) for field in fields]
        self.biases = [tf.Variable(tf.zeros(cell.hidden_size), name=f"{name}/{field}/bias") for field in fields]

    def __call__(self, forward: Any, backward: Any) -> Any:
        """Two states of a cell → one of the same type."""
        combined = [
            weight(directions[1] if self.backward_only else concat(directions)) + bias
            for weight, bias, *directions in zip(self.weights, self.biases, forward, backward, strict=True)
        ]
        return type(forward)(tf.tanh(combined[0]), *combined[1:])


def _run_cell(cell: Cell, inputs: tf.Tensor, mask: tf.Tensor, backward: bool = False) -> tuple[Any, tf.Tensor]:
    """Run a cell over all steps: its final state, and its outputs, [source steps, batch, hidden]."""
    steps = inputs.shape[0]
    projected, masks = tf.unstack(cell.project_inputs(inputs), steps), tf.unstack(mask, steps)
    state, outputs = cell.zero_state(tf.shape(inputs)[1]), list(projected)
    step = copied(lambda mask, projected, state: masked_update(mask, cell(projected, None, state), state))
    for t in range(steps)[::-1] if backward else range(steps):
        state = step(masks[t], projected[t], state)
        outputs[t] = state.output
    return state, tf.stack(outputs)


def _loop_cell(cell: Cell, inputs: tf.Tensor, mask: tf.Tensor, backward: bool = False) -> tuple[Any, tf.Tensor]:
    """Like :func:`_run_cell`, as a loop."""
    projected, steps = cell.project_inputs(inputs), tf.shape(inputs)[0]
    state = cell.zero_state(tf.shape(inputs)[1])

    def step(i: tf.Tensor, state: Any, outputs: tf.TensorArray) -> tuple[tf.Tensor, Any, tf.TensorArray]:
        t = steps - 1 - i if backward else i
        state = masked_update(tf.gather(mask, t), cell(tf.gather(projected, t), None, state), state)
        return i + 1, state, outputs.write(t, state.output)

    outputs = tf.TensorArray(tf.float32, steps, element_shape=state.output.shape)
    _, state, outputs = tf.while_loop(lambda i, *_: i < steps, step, (tf.constant(0), state, outputs))
    return state, outputs.stack()
