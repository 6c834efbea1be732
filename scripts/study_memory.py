"""What can a recurrent network remember? Gradients by distance, and the copy-memory task at growing gaps.

Vanilla cells with random, orthogonal and identity matrices, GRU and LSTM learn to recall some symbols after a gap. The
table shows who solves the task, the picture how far back the gradient of a prediction reaches, before and after.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import click
import numpy as np
from matplotlib.figure import Figure
from tqdm import tqdm

from seq2seq_chat.cli.options import run_command
from seq2seq_chat.config import Model, Training
from seq2seq_chat.data.running_text import TextBatch
from seq2seq_chat.model.execution import share_cores
from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.report.figures.model_internals import draw_gradients_by_distance, gradient_by_distance
from seq2seq_chat.report.figures.style import legend_beside, new_figure, save
from seq2seq_chat.system.tables import format_table
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS
from seq2seq_chat.training.language_model import LanguageModelLoss
from seq2seq_chat.training.optimizers import build_optimizer
from seq2seq_chat.training.step import TrainingStep


class Network(NamedTuple):
    """A kind of cell, the initial matrix of its state, and how it learns."""

    label: str
    cell: Any
    initializer: Any
    learning_rate: float
    activation: Any = "tanh"
    scale: float = 1.0  # of the initial matrix; a large one makes gradients explode
    clipping: float | None = 1.0  # norm to which the gradient is clipped


NETWORKS = (
    Network("RNN, random", "rnn", "glorot", 0.0003),
    Network("RNN, orthogonal", "rnn", "orthogonal", 0.0003),
    Network("RNN, identity", "rnn", "identity", 0.0003),
    Network("ReLU, identity", "rnn", "identity", 0.0003, activation="relu"),
    Network("RNN, random × 3", "rnn", "glorot", 0.0003, scale=3.0),
    Network("RNN, random × 3, not clipped", "rnn", "glorot", 0.0003, scale=3.0, clipping=None),
    Network("GRU", "gru", "glorot", 0.01),
    Network("LSTM", "lstm", "glorot", 0.01),
)
ROWS, TEST_ROWS = 64, 512
TEST_EVERY, SOLVED = 250, 0.995  # steps; share of recalled symbols at which training stops
TEST_BATCH = 2**31  # beyond the batches of training
KINDS = 8  # of symbols
FIRST = len(SPECIAL_WORDS)
BLANK, RECALL = FIRST + KINDS, FIRST + KINDS + 1
VOCABULARY_SIZE = RECALL + 1


class Task(NamedTuple):
    """The copy-memory task of one gap, and the size of the networks that learn it.

    Remember some symbols while blanks pass (Hochreiter & Schmidhuber 1997; as here: Arjovsky et al. 2016, "Unitary
    evolution recurrent neural networks").
    """

    gap: int
    symbols: int
    hidden_size: int
    seed: int

    def batch(self, rows: int, number: int) -> TextBatch:
        """A batch of sequences, a function of (seed, number).

        A sequence is some random symbols, ``gap`` - 1 blanks, a mark, and as many blanks as there are symbols, during
        which they have to be recalled; everything else is to be answered with a blank.

        Returns:
            Ids, [rows, gap + 2 · symbols] each.
        """
        symbols, gap = self.symbols, self.gap
        remembered = np.random.default_rng([self.seed, number]).integers(FIRST, BLANK, (rows, symbols))
        inputs = np.full([rows, gap + 2 * symbols], BLANK, np.int32)
        inputs[:, :symbols] = remembered
        inputs[:, symbols + gap - 1] = RECALL
        targets = np.full_like(inputs, BLANK)
        targets[:, -symbols:] = remembered
        return TextBatch(inputs, targets, np.int32(0), np.int32(inputs.shape[1]), np.bool_(True))


class Result(NamedTuple):
    """A network after training on a task."""

    recalled: float  # share of the symbols of unseen sequences
    steps: int  # of training
    before: np.ndarray  # gradient norm by distance, at the start
    after: np.ndarray


@click.command(help=__doc__)
@click.option("--gap", "gaps", multiple=True, type=click.IntRange(1), default=(20, 50, 100, 200), show_default=True)
@click.option("--symbols", type=click.IntRange(1), default=3, show_default=True, help="Symbols to recall.")
@click.option("--steps", type=click.IntRange(1), default=4000, show_default=True, help="Training steps, at most.")
@click.option("--hidden-size", type=click.IntRange(1), default=64, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option("--output", default="memory.png", show_default=True, metavar="FILE", help="Picture to write.")
def main(gaps: tuple[int, ...], symbols: int, steps: int, hidden_size: int, seed: int, output: str) -> None:
    """Train the networks, print who solves the task, and draw the picture."""
    share_cores(2)
    results: dict[str, dict[int, Result]] = {network.label: {} for network in NETWORKS}
    with tqdm(total=len(NETWORKS) * len(gaps) * steps, unit="step", disable=None) as bar:
        for gap in gaps:
            for network in NETWORKS:
                bar.set_description(f"{network.label}, {gap}")
                result = train(network, Task(gap, symbols, hidden_size, seed), steps, bar)
                results[network.label][gap] = result
                bar.update(steps - result.steps)
    rows = [["symbols recalled after", *(f"{gap}" for gap in gaps)]]
    rows += [[label, *map(describe, by_gap.values())] for label, by_gap in results.items()]
    click.echo(format_table(rows, "lr"))
    middle = sorted(gaps)[len(gaps) // 2]
    save(draw_gradients(middle, {label: by_gap[middle] for label, by_gap in results.items()}), output)
    click.echo(f"written: {output}")


def train(network: Network, task: Task, steps: int, bar: Any) -> Result:
    """Train a network until it recalls all symbols."""
    config = Model(
        cell=network.cell,
        activation=network.activation,
        recurrent_initializer=network.initializer,
        hidden_size=task.hidden_size,
        embedding_size=task.hidden_size,
        projection_size=None,
        attention="none",
    )
    settings = Training(
        batch_size=ROWS,
        bptt_forward=task.gap + 2 * task.symbols,
        optimizer="adam",
        learning_rate=network.learning_rate,
        gradient_clipping=network.clipping,
        sampled_softmax=None,
    )
    model = LanguageModel(config, VOCABULARY_SIZE, task.seed)
    recurrent = model.decoder.cells[0].recurrent.matrix
    recurrent.assign(network.scale * recurrent)
    before = gradients(model, task)
    step = TrainingStep(model, build_optimizer(settings), settings, task_loss=LanguageModelLoss(model, settings))
    recalled, done = 0.0, 0
    while done < steps and recalled < SOLVED:
        step(task.batch(ROWS, done), done)
        bar.update()
        done += 1
        if done % TEST_EVERY == 0 or done == steps:
            recalled = recall(model, task)
    return Result(recalled, done, before, gradients(model, task))


def gradients(model: LanguageModel, task: Task) -> np.ndarray:
    """Gradient norms of the loss of the first recalled symbol, by distance; it was read at the greatest one."""
    batch = task.batch(ROWS, TEST_BATCH)
    last = task.symbols + task.gap
    return gradient_by_distance(model, batch.inputs[:, : last + 1], batch.targets[:, last])


def recall(model: LanguageModel, task: Task) -> float:
    """The share of symbols of unseen sequences that are the most probable ones where they have to be recalled."""
    batch = task.batch(TEST_ROWS, TEST_BATCH + 1)
    hidden, _ = model.read(batch.inputs, model.start(TEST_ROWS))
    words = np.argmax(np.stack([model.output.logits(h) for h in hidden[-task.symbols :]]), axis=2)
    return float(np.mean(words.T == batch.targets[:, -task.symbols :]))


def describe(result: Result) -> str:
    """How much was recalled, and after how many steps if that is everything."""
    solved = f" ({result.steps:,} steps)" if result.recalled >= SOLVED else ""
    return f"{result.recalled:.0%}{solved}"


def draw_gradients(gap: int, results: Mapping[str, Result]) -> Figure:
    """Gradient norms by distance, at the start and after training, relative to the last token's."""
    figure = new_figure(13, 4.4)
    at_start, after_training = figure.subplots(1, 2, sharey=True)
    draw_gradients_by_distance({label: result.before for label, result in results.items()}, at_start)
    draw_gradients_by_distance({label: result.after for label, result in results.items()}, after_training)
    legend_beside(figure, at_start)
    at_start.set(title="At the start", ylim=(1e-12, 1e12))
    after_training.set(title=f"After training, gap of {gap}", ylabel=None)
    return figure


if __name__ == "__main__":
    run_command(main)
