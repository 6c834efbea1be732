"""What can a recurrent network remember? Gradients by distance, and the copy-memory task at growing distances.

Vanilla cells with random, orthogonal and identity matrices, GRU and LSTM learn to recall 10 symbols after a gap. The
pictures show how far back the gradient of a prediction reaches, before and after training, and who solves the task.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from contenders.table import json_option
from matplotlib.figure import Figure
from picture_script import Pictures, picture_options
from tqdm import tqdm

from seq2seq_chat.analysis.figures.model_internals import draw_gradients_by_distance
from seq2seq_chat.analysis.figures.style import line_style, new_figure
from seq2seq_chat.analysis.model_view.memory import gradient_by_distance
from seq2seq_chat.cli.running import run_command
from seq2seq_chat.config import Model, Training
from seq2seq_chat.data.copy_memory import LENGTH, SYMBOLS, VOCABULARY_SIZE, copy_memory_batch
from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.model.micro_batches import share_cores
from seq2seq_chat.system.files import write_json
from seq2seq_chat.system.tables import format_table
from seq2seq_chat.training.optimizers import build_optimizer
from seq2seq_chat.training.step import TrainingStep
from seq2seq_chat.training.text_loss import TextLoss


class Network(NamedTuple):
    """A kind of cell and the initial matrix of its state."""

    label: str
    cell: Any
    initializer: Any


NETWORKS = (
    Network("RNN, random", "rnn", "glorot"),
    Network("RNN, orthogonal", "rnn", "orthogonal"),
    Network("RNN, identity", "rnn", "identity"),
    Network("GRU", "gru", "glorot"),
    Network("LSTM", "lstm", "glorot"),
)
ROWS, TEST_ROWS, DISTANCE = 64, 512, 100


class Result(NamedTuple):
    """A network after training on one gap."""

    recalled: float  # share of the symbols that are recalled; 1 / 8 by chance
    before: np.ndarray  # gradient norm by distance, at the start
    after: np.ndarray

    def to_json(self) -> dict[str, Any]:
        """The values for a JSON file."""
        return {"recalled": self.recalled, "before": self.before.tolist(), "after": self.after.tolist()}


@click.command(help=__doc__)
@click.option("--gap", "gaps", multiple=True, type=click.IntRange(1), default=(20, 50, 100, 200), show_default=True)
@click.option("--steps", type=click.IntRange(1), default=2000, show_default=True, help="Training steps.")
@click.option("--hidden-size", type=click.IntRange(1), default=64, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@json_option
@picture_options
def main(
    pictures: Pictures, gaps: tuple[int, ...], steps: int, hidden_size: int, seed: int, json_file: Path | None
) -> None:
    """Train the networks, print who solves the task, and draw the pictures."""
    share_cores(2)
    results: dict[str, dict[int, Result]] = {network.label: {} for network in NETWORKS}
    with tqdm(total=len(NETWORKS) * len(gaps) * steps, unit="step", disable=None) as bar:
        for gap in gaps:
            for network in NETWORKS:
                bar.set_description(f"{network.label}, {gap}")
                results[network.label][gap] = train(network, gap, steps, hidden_size, seed, bar)
    rows = [["symbols recalled after", *(f"{gap}" for gap in gaps)]]
    rows += [[label, *(f"{each[gap].recalled:.1%}" for gap in gaps)] for label, each in results.items()]
    click.echo(format_table(rows, "lr"))
    pictures.write(draw_gradients({label: each[gaps[0]] for label, each in results.items()}), "memory", main=True)
    pictures.write(draw_recall(results), "recall")
    if json_file:
        found = {label: {str(gap): each[gap].to_json() for gap in gaps} for label, each in results.items()}
        write_json(json_file, {"steps": steps, "hidden_size": hidden_size, "results": found})


def train(network: Network, gap: int, steps: int, hidden_size: int, seed: int, bar: Any) -> Result:
    """Train a network on the task with one gap."""
    config = Model(
        cell=network.cell,
        recurrent_initializer=network.initializer,
        hidden_size=hidden_size,
        embedding_size=hidden_size,
        projection_size=None,
        attention="none",
    )
    settings = Training(
        batch_size=ROWS,
        bptt_forward=gap + 2 * LENGTH,
        optimizer="adam",
        learning_rate=0.001 if network.cell == "rnn" else 0.003,
        gradient_clipping=1.0,
        sampled_softmax=None,
    )
    model = LanguageModel(config, VOCABULARY_SIZE, seed)
    before = gradients(model, seed)
    step = TrainingStep(model, build_optimizer(settings), settings, batch_loss=TextLoss(model, settings))
    for number in range(steps):
        step(copy_memory_batch(ROWS, gap, seed, number), number)
        bar.update()
    return Result(recall(model, gap, seed), before, gradients(model, seed))


def gradients(model: LanguageModel, seed: int) -> np.ndarray:
    """Gradient norms by distance on random symbols."""
    batch = copy_memory_batch(ROWS, DISTANCE - LENGTH, seed, number=2**31)
    tokens = batch.inputs[:, :DISTANCE]
    return gradient_by_distance(model, tokens, batch.targets[:, -1])


def recall(model: LanguageModel, gap: int, seed: int) -> float:
    """The share of symbols of unseen sequences that are the most probable ones where they have to be recalled."""
    batch = copy_memory_batch(TEST_ROWS, gap, seed, number=2**31 + 1)
    hidden, _ = model.read(batch.inputs, model.start(TEST_ROWS))
    words = np.argmax(np.stack([model.output.logits(h) for h in hidden[-LENGTH:]]), axis=2)
    return float(np.mean(words.T == batch.targets[:, -LENGTH:]))


def draw_gradients(results: Mapping[str, Result]) -> Figure:
    """Gradient norms by distance, at the start and after training, relative to those of the last token."""
    figure = new_figure(11, 4.4)
    at_start, after_training = figure.subplots(1, 2, sharey=True)
    draw_gradients_by_distance({label: result.before for label, result in results.items()}, at_start)
    draw_gradients_by_distance({label: result.after for label, result in results.items()}, after_training)
    at_start.set_title("At the start")
    after_training.set(title="After training", ylabel=None)
    return figure


def draw_recall(results: Mapping[str, Mapping[int, Result]]) -> Figure:
    """The share of recalled symbols by the length of the gap."""
    figure = new_figure(7, 4.4)
    axes = figure.subplots()
    for index, (label, by_gap) in enumerate(results.items()):
        axes.plot(list(by_gap), [100 * r.recalled for r in by_gap.values()], label=label, **line_style(index))
    axes.axhline(100 / SYMBOLS, color="gray", linestyle=":", label="chance")
    axes.set(xscale="log", xlabel="gap, tokens", ylabel="symbols recalled, %", ylim=(0, 103))
    axes.set_xticks(list(next(iter(results.values()))), [str(gap) for gap in next(iter(results.values()))])
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


if __name__ == "__main__":
    run_command(main)
