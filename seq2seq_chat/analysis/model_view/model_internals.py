"""What goes on inside a model: its weights, their gradients, and its gates while it reads and speaks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from matplotlib.figure import Figure

from seq2seq_chat.analysis.style import SHADES, look, new_figure, plain
from seq2seq_chat.analysis.subject import Subject
from seq2seq_chat.corpus.encoded import fit_source
from seq2seq_chat.corpus.experiment_data import open_samples
from seq2seq_chat.corpus.text import tokenize
from seq2seq_chat.corpus.vocabulary import EOS, GO
from seq2seq_chat.errors import UserError
from seq2seq_chat.model.cells import Cell, GRUCell, LSTMCell
from seq2seq_chat.model.deferred import DeferredGradients
from seq2seq_chat.training.checkpoints import plain_name
from seq2seq_chat.training.validation import spread

SAMPLES = 64  # whose gradients are looked at
UNITS_SHOWN = 40
OPEN = 0.9  # of a gate: it lets through more than this; below 1 - OPEN it is shut
GATES: dict[type[Cell], dict[str, str]] = {  # in the order in which they lie in a cell's matrices
    LSTMCell: {"input gate": "i, writes", "forget gate": "f, keeps", "output gate": "o, shows"},
    GRUCell: {"update gate": "z, renews", "reset gate": "r, lets the past in"},
}


class VariableNorms(NamedTuple):
    """One variable of a model."""

    name: str
    shape: tuple[int, ...]
    parameters: int
    norm: float  # Euclidean
    rms: float  # of an entry
    gradient_norm: float  # of the mean loss over some samples; 0 where the loss does not depend on it


class Gradients(NamedTuple):
    """The gradients of some samples' loss."""

    variables: list[VariableNorms]
    by_step: dict[str, list[float]]  # norm at the gates of the top cells, step by step


class Gates(NamedTuple):
    """A cell's gates word by word."""

    words: list[str]  # what the cell was given, in the order it was given
    values: dict[str, np.ndarray]  # by gate: [words, units], 0 (shut) to 1 (open)
    meanings: dict[str, str]  # by gate: its letter, and what it does where it is open


def gradients(subject: Subject, data: object) -> Gradients:
    """Norms of weights and gradients, on samples of a corpus file that are evenly spread."""
    settings, model = subject.config.data, subject.model
    corpus = open_samples(str(data), subject.vocabulary, settings)
    chosen = spread(len(corpus), SAMPLES)
    batch = corpus.batch(
        chosen,
        size=len(chosen),
        source_steps=subject.config.model.encoder_steps,
        target_steps=subject.config.model.decoder_steps,
        reverse=settings.reverse_input,
    )
    variables = list(model.trainable_variables)
    with DeferredGradients() as tape:
        loss = model.loss(*(tf.constant(part) for part in batch))
        mean = loss.nats / loss.tokens
    found = tape.gradient(mean, variables)
    by_step = {
        part: [_norm(gradient) for gradient in tape.gradient_by_use(cell.recurrent.matrix)]
        for part, cell in (("encoder", model.encoder.cells[-1]), ("decoder", model.decoder.cells[-1]))
    }
    rows = [_variable_norms(variable, gradient) for variable, gradient in zip(variables, found, strict=True)]
    return Gradients(rows, by_step)


def _variable_norms(variable: tf.Variable, gradient: Any) -> VariableNorms:
    values = variable.numpy().astype(np.float64)
    norm = float(np.linalg.norm(values))
    return VariableNorms(
        plain_name(variable), values.shape, values.size, norm, norm / np.sqrt(values.size), _norm(gradient)
    )


def _norm(gradient: Any) -> float:
    if gradient is None:
        return 0.0
    if isinstance(gradient, tf.IndexedSlices):  # rows that come several times add up
        rows, places = tf.unique(gradient.indices)
        gradient = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(rows))
    return float(tf.norm(gradient))


def gates(subject: Subject, text: str) -> dict[str, Gates]:
    """The gates of the first encoder layer reading an utterance, and of the first decoder layer saying its reply.

    Of an encoder of two directions it is the one that reads forwards.

    Raises:
        UserError: the cells have no such gates, or there is nothing to read.
    """
    model, data = subject.model, subject.config.data
    cells = {"encoder": model.encoder.cells[0], "decoder": model.decoder.cells[0]}
    if type(cells["encoder"]) not in GATES:
        raise UserError(f'cells of kind "{subject.config.model.cell}" have no gates')
    words = tokenize(text, data.level)
    if not words:
        raise UserError(f"{text!r} has no word that the model can read; give another utterance")
    ids, length = fit_source(subject.vocabulary.ids(words), subject.config.model.encoder_steps, data.reverse_input)
    read = ids[:length]
    cell = cells["encoder"]
    prepared = cell.prepare(model.source_embedding(tf.constant(read)))
    state, steps = cell.zero_state(1), []
    for t in range(length):
        steps.append(open_gates(cell, prepared[t : t + 1], None, state))
        state = cell(prepared[t : t + 1], None, state)
    result = {"encoder": _stacked(subject.vocabulary.tokens(read), cell, steps)}

    reply = subject.bot.reply(text)
    if reply.hypotheses:
        said = [*subject.vocabulary.ids(reply.hypotheses[0].words), EOS][: subject.config.model.decoder_steps]
        result["decoder"] = _decoder_gates(subject, ids, length, said)
    return result


def _decoder_gates(subject: Subject, ids: np.ndarray, length: int, said: list[int]) -> Gates:
    """Gates of the first decoder layer while it says some words; a column is named by the word that is being said."""
    model, cell = subject.model, subject.model.decoder.cells[0]
    encoded = model.encode(tf.constant(ids[np.newaxis]), tf.constant([length]))
    state, memory = model.start(encoded)
    steps = []
    for word in [GO, *said[:-1]]:
        prepared = model.decoder.prepare(model.target_embedding(tf.constant([word])))
        fed = state.attentional if memory is not None else None
        steps.append(open_gates(cell, prepared, fed, state.cells[0]))
        _, state, _ = model.decoder.step(prepared, state, memory)
    words = ["(end)" if word == EOS else subject.vocabulary.words[word] for word in said]
    return _stacked(words, cell, steps)


def open_gates(cell: Cell, prepared: tf.Tensor, fed: tf.Tensor | None, state: Any) -> dict[str, np.ndarray]:
    """The gates of one step of a cell, whose arguments these are, of one sample: [hidden] each."""
    names = GATES[type(cell)]
    inside = state.output if fed is None else tf.concat([fed, state.output], axis=1)
    wide = len(names) * cell.hidden  # what lies beyond is the candidate
    sums = prepared[:, :wide] + cell.recurrent(inside)[:, :wide]
    return dict(zip(names, (part.numpy()[0] for part in tf.split(tf.sigmoid(sums), len(names), axis=1)), strict=True))


def _stacked(words: list[str], cell: Cell, steps: Sequence[dict[str, np.ndarray]]) -> Gates:
    names = GATES[type(cell)]
    return Gates(words, {gate: np.stack([step[gate] for step in steps]) for gate in names}, names)


def draw_gates(found: Gates, part: str) -> Figure:
    """Mean openness of each gate at every word, and below it the units whose gates move most."""
    figure = new_figure(max(7.0, 3 + 0.8 * len(found.words)), 3 + 2 * len(found.values))
    top, *panels = figure.subplots(1 + len(found.values), 1, height_ratios=[2, *[1.6] * len(found.values)], sharex=True)
    places = np.arange(len(found.words))
    for number, (gate, values) in enumerate(found.values.items()):
        top.plot(places, values.mean(axis=1), label=f"{gate} ({found.meanings[gate]})", **look(number))
    top.set(ylim=(0, 1), ylabel="mean of all units", title=f"{part.capitalize()}: how open the gates are at each word")
    top.grid(alpha=0.3)
    top.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.04), fontsize=8)
    image = None
    for axes, (gate, values) in zip(panels, found.values.items(), strict=True):
        moving = np.argsort(-values.std(axis=0), kind="stable")[:UNITS_SHOWN]
        moving = moving[np.argsort(np.argmax(values[:, moving], axis=0), kind="stable")]  # by where they open most
        image = axes.imshow(values[:, moving].T, cmap=SHADES, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        wide, shut = float(np.mean(values > OPEN)), float(np.mean(values < 1 - OPEN))
        axes.set(
            ylabel=f"{len(moving)} units",
            yticks=[],
            title=f"{gate}: {wide:.0%} of all gates wide open (> {OPEN}), {shut:.0%} shut (< {1 - OPEN:.1f})",
        )
        axes.title.set_fontsize(9)
        axes.spines[:].set_visible(False)
    panels[-1].set_xticks(
        places, [plain(word) for word in found.words], rotation=45, ha="right", rotation_mode="anchor"
    )
    if image is not None:
        figure.colorbar(image, ax=panels, label="0: shut, 1: open", shrink=0.7)
    return figure


def draw_gradients_by_step(by_moment: dict[str, dict[str, list[float]]]) -> Figure:
    """The gradient's norm at every step of encoder and decoder, at one moment of the training or several."""
    figure = new_figure(11, 4.2)
    for axes, part in zip(figure.subplots(1, 2, sharey=True), ("encoder", "decoder"), strict=True):
        for number, (label, by_step) in enumerate(by_moment.items()):
            norms = np.array(by_step[part])
            steps = np.arange(1, len(norms) + 1)
            axes.plot(steps[norms > 0], norms[norms > 0], label=plain(label), **look(number) | {"markersize": 3})
        axes.set(
            yscale="log",
            xlabel=f"{part} step",
            ylabel="gradient norm at the cell's gates",
            title=f"{part.capitalize()}: how much of the loss's gradient reaches each step",
        )
        axes.grid(alpha=0.3)
    axes.legend(title="after steps" if len(by_moment) > 1 else None)
    return figure


def draw_variables(variables: Sequence[VariableNorms]) -> Figure:
    """Size of a weight's entries, and gradient norm over weight norm, variable by variable."""
    figure = new_figure(11, 1.6 + 0.28 * len(variables))
    left, right = figure.subplots(1, 2, sharey=True)
    places = np.arange(len(variables))
    left.barh(places, [v.rms for v in variables], color=look(0)["color"])
    left.set_yticks(places, [plain(v.name) for v in variables])
    left.invert_yaxis()
    left.set(xlabel="root mean square of the entries", title="Weights")
    right.barh(
        places, [v.gradient_norm / v.norm if v.norm else 0.0 for v in variables], color=look(1)["color"], hatch="//"
    )
    right.set(xlabel="norm of the gradient / norm of the weight", title="What the gradient would change")
    if any(v.gradient_norm for v in variables):
        right.set_xscale("log")
    for axes in (left, right):
        axes.grid(alpha=0.3, axis="x")
    return figure
