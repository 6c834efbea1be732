"""Gates word by word, gradient norms by time step, and norms of weights and gradients by variable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from seq2seq_chat.config import Decoding
from seq2seq_chat.data.batches import evenly_spaced
from seq2seq_chat.data.corpus_file import Corpus
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.model.cells import Cell, GRUCell, LSTMCell
from seq2seq_chat.model.deferred import DeferredGradients
from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.model.variables import variable_name
from seq2seq_chat.report.figures.style import (
    HEATMAP_COLORS,
    label_axes,
    legend_beside,
    line_style,
    new_figure,
    plot_label,
)
from seq2seq_chat.report.loaded_run import LoadedRun
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.text.vocabulary import EOS, GO, fit_source
from seq2seq_chat.training.optimizers import global_norm, sum_repeated_rows

MAX_UNITS = 40  # drawn per gate
OPEN = 0.9  # a gate above this counts as open, and below 1 - OPEN as closed


def draw_gates(gates: GateActivations, part: str) -> Figure:
    """Draw the mean of each gate at every word and, below, the units that vary most.

    Args:
        part: "encoder" or "decoder".
    """
    figure = new_figure(max(7.0, 3 + 0.8 * len(gates.words)), 3 + 2 * len(gates.values))
    top, *panels = figure.subplots(1 + len(gates.values), 1, height_ratios=[2, *[1.6] * len(gates.values)], sharex=True)
    positions = np.arange(len(gates.words))
    for index, (gate, values) in enumerate(gates.values.items()):
        top.plot(positions, values.mean(axis=1), label=f"{gate} ({gates.meanings[gate]})", **line_style(index))
    title = f"{part.capitalize()}: gates at each word"
    label_axes(top, ylim=(0, 1), ylabel="mean of all units", title=title)
    top.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.04), fontsize=8)
    for axes, (gate, values) in zip(panels, gates.values.items(), strict=True):
        image = _draw_units(axes, gate, values)
    labels = [plot_label(word) for word in gates.words]
    panels[-1].set_xticks(positions, labels, rotation=45, ha="right", rotation_mode="anchor")
    figure.colorbar(image, ax=panels, label="0: closed, 1: open", shrink=0.7)
    return figure


def _draw_units(axes: Axes, gate: str, values: np.ndarray) -> AxesImage:
    """Draw the most varying units of a gate, ordered by the word at which they peak."""
    varying = np.argsort(-values.std(axis=0), kind="stable")[:MAX_UNITS]
    varying = varying[np.argsort(np.argmax(values[:, varying], axis=0), kind="stable")]
    image = axes.imshow(
        values[:, varying].T, cmap=HEATMAP_COLORS, vmin=0, vmax=1, aspect="auto", interpolation="nearest"
    )
    opened, closed = float(np.mean(values > OPEN)), float(np.mean(values < 1 - OPEN))
    axes.set(
        ylabel=f"{len(varying)} units",
        yticks=[],
        title=f"{gate}: {opened:.0%} open (> {OPEN}), {closed:.0%} closed (< {1 - OPEN:.1f}), over all units and words",
    )
    axes.title.set_fontsize(9)
    axes.spines[:].set_visible(False)
    return image


def draw_gradients_by_step(norms: Mapping[str, Mapping[str, Sequence[float]]], legend_title: str = "") -> Figure:
    """Draw gradient norms at every encoder and decoder step.

    Args:
        norms: by label of the line (a snapshot, a loss) and then by "encoder", if there is one, and "decoder": norms by
            step.
    """
    figure, parts = new_figure(11, 4.2), list(next(iter(norms.values())))
    for axes, part in zip(figure.subplots(1, len(parts), sharey=True, squeeze=False)[0], parts, strict=True):
        for index, (label, by_step) in enumerate(norms.items()):
            values = np.array(by_step[part])
            steps = np.arange(1, len(values) + 1)
            style = line_style(index) | {"markersize": 3}
            axes.plot(steps[values > 0], values[values > 0], label=plot_label(label), **style)
        title, ylabel = f"{part.capitalize()}: gradient norm by time step", "gradient norm at the cell's gates"
        label_axes(axes, yscale="log", xlabel=f"{part} time step", ylabel=ylabel, title=title)
    legend_beside(figure, axes, title=legend_title or None)
    return figure


def draw_gradients_by_distance(norms: Mapping[str, np.ndarray], axes: Axes) -> None:
    """Draw the norm of the gradient of a token's loss with respect to earlier inputs, relative to the last one.

    Args:
        norms: by label of the line (a snapshot, an architecture): norms by distance.
        axes: to draw on.
    """
    for index, (label, values) in enumerate(norms.items()):
        style = line_style(index, marker=False)
        axes.plot(np.arange(len(values)), values / values[0], label=plot_label(label), **style)
    ylabel = "gradient norm, relative to that of the last token"
    label_axes(axes, yscale="log", xlabel="distance, tokens", ylabel=ylabel)


def draw_variables(variables: Sequence[VariableNorms]) -> Figure:
    """Draw the root mean square of each variable, and the ratio of gradient norm to weight norm."""
    figure = new_figure(11, 1.6 + 0.28 * len(variables))
    left, right = figure.subplots(1, 2, sharey=True)
    positions = np.arange(len(variables))
    left.barh(positions, [v.rms for v in variables], color=line_style(0)["color"])
    left.set_yticks(positions, [plot_label(v.name) for v in variables])
    left.invert_yaxis()
    label_axes(left, grid="x", xlabel="root mean square of the entries", title="Weights")
    ratios = [v.gradient_norm / v.norm if v.norm else 0.0 for v in variables]
    right.barh(positions, ratios, color=line_style(1)["color"], hatch="//")
    label_axes(right, grid="x", xlabel="gradient norm / weight norm", title="Gradients relative to weights")
    if any(ratios):
        right.set_xscale("log")
    return figure


GRADIENT_SAMPLES = 64
GATES: dict[type[Cell], dict[str, str]] = {  # in the order of the columns of a matrix, with what an open gate (1) does
    LSTMCell: {"input gate": "i, writes", "forget gate": "f, keeps", "output gate": "o, outputs"},
    GRUCell: {"update gate": "z, replaces", "reset gate": "r, uses the past"},
}


class VariableNorms(NamedTuple):
    name: str
    shape: tuple[int, ...]
    parameters: int
    norm: float  # Euclidean
    rms: float  # root mean square of the entries
    gradient_norm: float  # of the mean loss in nats per token; 0 without a gradient


class GradientNorms(NamedTuple):
    """Norms of the gradients of a loss."""

    variables: list[VariableNorms]
    by_step: dict[str, list[float]]  # encoder and decoder: norm at the gates of the top cell, by time step


class GateActivations(NamedTuple):
    """The gates of a cell at every word."""

    words: list[str]  # inputs of the encoder or outputs of the decoder
    values: dict[str, np.ndarray]  # by gate: [words, units], 0 (closed) to 1 (open)
    meanings: dict[str, str]  # by gate: its symbol and what it does when open


def gradient_norms(loaded: LoadedRun, data: Corpus) -> GradientNorms:
    """Norms of weights and gradients for the mean loss of evenly spaced samples of a corpus file."""
    settings, model = loaded.config.data, loaded.model
    corpus = Dataset.open(data, loaded.codecs, settings)
    samples = evenly_spaced(len(corpus), GRADIENT_SAMPLES)
    batch = corpus.batch(
        samples,
        size=len(samples),
        source_steps=loaded.config.model.encoder_steps,
        target_steps=loaded.config.model.decoder_steps,
        reverse=settings.reverse_input,
    )
    with DeferredGradients() as tape:
        loss = model.loss(*(tf.constant(field) for field in batch))
        mean = loss.nats / loss.tokens
    gradients = tape.gradient(mean, model.trainable_variables)
    variables = [_variable_norms(v, g) for v, g in zip(model.trainable_variables, gradients, strict=True)]
    return GradientNorms(variables, norms_by_step(model, tape))


def norms_by_step(model: Seq2Seq | LanguageModel, tape: DeferredGradients) -> dict[str, list[float]]:
    """Gradient norms at the gates of the top cells of the encoder, if there is one, and the decoder, by time step."""
    encoder = {"encoder": model.encoder.cells[-1]} if isinstance(model, Seq2Seq) else {}
    cells = encoder | {"decoder": model.decoder.cells[-1]}
    return {
        part: [_norm(gradient) for gradient in tape.output_gradients(cell.recurrent.matrix)]
        for part, cell in cells.items()
    }


def gradient_by_distance(model: LanguageModel, tokens: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """How much the loss after the last token depends on each input vector: ‖∂L/∂x_{T-d}‖ at the distances d.

    Args:
        tokens: ids, int32 [rows, T].
        targets: the token after the last one of each row, int32 [rows].

    Returns:
        Mean norm over the rows, by distance: [T]; the first value belongs to the last token.

    Source: Bengio et al. 1994; Pascanu et al. 2013.
    """
    vectors = tf.transpose(model.target_embedding(tf.constant(tokens)), [1, 0, 2])
    steps = tf.unstack(vectors)
    with tf.GradientTape() as tape:
        tape.watch(steps)
        states = model.start(len(tokens))
        maxout: tf.Tensor | tuple[()] = ()
        for vector in steps:
            inputs = model.decoder.project_inputs(vector)
            states, maxout = model.decoder.step_cells(inputs.cell, None, states), inputs.maxout
        logits = model.output.logits(model.decoder.combine(model.decoder.top_output(states), None, maxout))
        loss = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(tf.constant(targets), logits))
    norms = [tf.norm(gradient, axis=1) for gradient in tape.gradient(loss, steps)]
    return np.array([float(tf.reduce_mean(norm)) for norm in reversed(norms)])


def _variable_norms(variable: tf.Variable, gradient: Any) -> VariableNorms:
    values = variable.numpy().astype(np.float64)
    norm = float(np.linalg.norm(values))
    rms = norm / np.sqrt(values.size)
    return VariableNorms(variable_name(variable), values.shape, values.size, norm, rms, _norm(gradient))


def _norm(gradient: Any) -> float:
    if gradient is None:
        return 0.0
    return float(global_norm([sum_repeated_rows(gradient)]))


def gate_activations(loaded: LoadedRun, text: str, decoding: Decoding) -> dict[str, GateActivations]:
    """The gates of the first (forward) encoder layer reading an utterance, and of the first decoder layer replying.

    Raises:
        UserError: The cells have no gates, or the utterance has no words.
    """
    model, config = loaded.config.model, loaded.config.data
    if type(loaded.model.encoder.cells[0]) not in GATES:
        raise UserError(f'{model.cell} cells (model.cell = "{model.cell}") have no gates')
    words = loaded.codecs.source.tokenizer.encode(text)
    if not words:
        raise UserError(f"{text!r} has no words; try another utterance")
    ids, length = fit_source(loaded.codecs.source.vocabulary.ids(words), model.encoder_steps, config.reverse_input)
    result = {"encoder": _encoder_gates(loaded, ids[:length])}
    reply = loaded.chatbot.reply(text, decoding)
    if reply.hypotheses:
        target = [*loaded.codecs.target.vocabulary.ids(reply.hypotheses[0].words), EOS][: model.decoder_steps]
        result["decoder"] = _decoder_gates(loaded, ids, length, target)
    return result


def _encoder_gates(loaded: LoadedRun, ids: np.ndarray) -> GateActivations:
    cell = loaded.model.encoder.cells[0]
    inputs = cell.project_inputs(loaded.model.source_embedding(tf.constant(ids)))
    state, steps = cell.zero_state(1), []
    for t in range(len(ids)):
        steps.append(cell_gates(cell, inputs[t : t + 1], None, state))
        state = cell(inputs[t : t + 1], None, state)
    return _stack(loaded.codecs.source.vocabulary.tokens(ids), cell, steps)


def _decoder_gates(loaded: LoadedRun, ids: np.ndarray, length: int, target: list[int]) -> GateActivations:
    model, cell = loaded.model, loaded.model.decoder.cells[0]
    state, memory = model.start(model.encode(tf.constant(ids[np.newaxis]), tf.constant([length])))
    steps = []
    for word in [GO, *target[:-1]]:
        inputs = model.decoder.project_inputs(model.target_embedding(tf.constant([word])), memory.thought)
        step_input, _ = model.decoder.step_input(state, memory)
        steps.append(cell_gates(cell, inputs.cell, step_input, state.cells[0]))
        _, state, _ = model.decoder.step(inputs, state, memory)
    words = ["(end)" if word == EOS else loaded.codecs.target.vocabulary.words[word] for word in target]
    return _stack(words, cell, steps)


def cell_gates(cell: Cell, inputs: tf.Tensor, step_input: tf.Tensor | None, state: Any) -> dict[str, np.ndarray]:
    """The gates of one step of a cell for a single sample: [hidden] each; arguments as of the cell."""
    names = GATES[type(cell)]
    recurrent_input = state.output if step_input is None else tf.concat([step_input, state.output], axis=1)
    width = len(names) * cell.hidden_size  # the remaining columns are the candidate's
    logits = inputs[:, :width] + cell.recurrent(recurrent_input)[:, :width]
    values = tf.split(tf.sigmoid(logits), len(names), axis=1)
    return {name: value.numpy()[0] for name, value in zip(names, values, strict=True)}


def _stack(words: list[str], cell: Cell, steps: Sequence[dict[str, np.ndarray]]) -> GateActivations:
    meanings = GATES[type(cell)]
    return GateActivations(words, {gate: np.stack([step[gate] for step in steps]) for gate in meanings}, meanings)
