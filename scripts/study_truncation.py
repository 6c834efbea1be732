"""Does it matter whether truncated backpropagation carries the state from chunk to chunk? A task of long documents.

Two equal GRUs read documents in chunks of 10 tokens. One starts each chunk with an empty state, as naive truncation
does (training.state_reset 1), the other with the state after the chunk before. The symbol at the start of a document
is asked for only in later chunks, so that no gradient ever reaches it.
"""

from __future__ import annotations

import click
import numpy as np
from study_memory import BLANK, FIRST, RECALL, VOCABULARY_SIZE
from tqdm import tqdm

from seq2seq_chat.cli.options import run_command
from seq2seq_chat.config import Model, Training
from seq2seq_chat.data.running_text import IntArray, TextBatch
from seq2seq_chat.model.execution import share_cores
from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.system.tables import format_table
from seq2seq_chat.training.language_model import LanguageModelLoss
from seq2seq_chat.training.optimizers import build_optimizer
from seq2seq_chat.training.step import TrainingStep

ROWS, TEST_ROWS = 64, 512
TEST_DOCUMENTS = 2**31  # beyond the documents of training
LENGTH, CHUNK = 100, 10  # tokens
QUESTIONS = 0.2  # share of the tokens after the first chunk
DISTANCES = ((10, 20), (20, 50), (50, 100))


def documents(rows: int, number: int, seed: int) -> tuple[IntArray, IntArray]:
    """Some documents, a function of (seed, number).

    A document is a random symbol and blanks, among which marks after the first chunk ask for the symbol; everything
    else is to be answered with a blank.

    Returns:
        Inputs and targets, [rows, LENGTH] each.
    """
    random = np.random.default_rng([seed, number])
    symbols = random.integers(FIRST, BLANK, (rows, 1))
    asked = random.random((rows, LENGTH)) < QUESTIONS
    asked[:, :CHUNK] = False
    inputs = np.where(asked, RECALL, BLANK).astype(np.int32)
    inputs[:, :1] = symbols
    return inputs, np.where(asked, symbols, BLANK).astype(np.int32)


def train(state_reset: float, steps: int, seed: int, bar: tqdm) -> LanguageModel:
    """Train a network on chunks; state_reset: the probability that one starts with an empty state."""
    config = Model(cell="gru", hidden_size=64, embedding_size=64, projection_size=None, attention="none")
    settings = Training(
        batch_size=ROWS,
        bptt_forward=CHUNK,
        state_reset=state_reset,
        optimizer="adam",
        learning_rate=0.01,
        gradient_clipping=1.0,
        sampled_softmax=None,
    )
    model = LanguageModel(config, VOCABULARY_SIZE, seed)
    step = TrainingStep(model, build_optimizer(settings), settings, task_loss=LanguageModelLoss(model, settings))
    for done in range(steps):
        document, first = divmod(done * CHUNK, LENGTH)
        inputs, targets = (part[:, first : first + CHUNK] for part in documents(ROWS, document, seed))
        step(TextBatch(inputs, targets, np.int32(0), np.int32(CHUNK), np.bool_(first == 0)), done)
        bar.update()
    return model


def recalled(model: LanguageModel, seed: int) -> list[float]:
    """The share of questions about unseen documents that are answered, by distance; the state is always carried."""
    inputs, targets = documents(TEST_ROWS, TEST_DOCUMENTS, seed)
    hidden, _ = model.read(inputs, model.start(TEST_ROWS))
    answers = np.argmax(np.stack([model.output.logits(h) for h in hidden], axis=1), axis=2)
    is_right = np.where(inputs == RECALL, answers == targets, np.nan)
    return [float(np.nanmean(is_right[:, first:end])) for first, end in DISTANCES]


@click.command(help=__doc__)
@click.option("--steps", type=click.IntRange(1), default=2000, show_default=True, help="Training steps of each.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
def main(steps: int, seed: int) -> None:
    """Train both networks, and print what they recall."""
    share_cores(2)
    rows = [["symbols recalled after", *(f"{first} to {end} tokens" for first, end in DISTANCES)]]
    with tqdm(total=2 * steps, unit="step", disable=None) as bar:
        for label, state_reset in (("independent chunks", 1.0), ("state carried", 0.0)):
            bar.set_description(label)
            model = train(state_reset, steps, seed, bar)
            rows.append([label, *(f"{share:.0%}" for share in recalled(model, seed))])
    click.echo(format_table(rows, "lr"))


if __name__ == "__main__":
    run_command(main)
