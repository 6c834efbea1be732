#!/usr/bin/env python3
"""Time a language model: a training step here and with PyTorch's nn.LSTM, or with --generate, writing.

Training: the same weights, batches and optimizer; each contender runs in its own process, and they take turns step by
step, so that a slow phase of the machine affects all of them. Writing: one text at a time, and many at once. To write
one token, all weights are read once, so a single text takes about as long per token as one product of a vector with a
matrix of that size, which is timed in turns with it. The results are medians. Run nothing else at the same time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
from contenders import TOLERANCE, WARM_UP, Contender, json_option, print_table, time_steps
from contenders.workload import TEXT_SIZES
from tqdm import tqdm

from seq2seq_chat.chat.generator import Generator
from seq2seq_chat.cli.options import run_command
from seq2seq_chat.config import Decoding, Model
from seq2seq_chat.engines.tensorflow.language_model import TensorFlowLanguageModel
from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.system.files import write_json
from seq2seq_chat.text.codec import TextCodec
from seq2seq_chat.text.tokenizers.tokenizer import CharacterTokenizer
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, Vocabulary

TRAINING_COLUMNS = ["contender", "ms", "tokens/s", "GFLOP/s", "% of peak", "GB", "loss", "ours is"]
COLUMNS = ["texts", "tokens/s", "µs per step", "µs of one product", "product, % of step"]
TEXTS = (1, 64)  # written at once
TURNS = 5  # of writing
WORDS = [chr(code) for code in range(ord("!"), ord("!") + 65)]


@click.command(help=__doc__)
@click.option("--generate", is_flag=True, help="time writing instead of training")
@click.option("--size", type=click.Choice(list(TEXT_SIZES)), default="quick", show_default=True, help="for training")
@click.option("--steps", type=click.IntRange(1), default=15, show_default=True, help="training steps to time")
@click.option("--hidden-size", type=click.IntRange(1), default=512, show_default=True, help="for writing")
@click.option("--length", type=click.IntRange(32), default=512, show_default=True, help="tokens per text")
@json_option
def main(generate: bool, size: str, steps: int, hidden_size: int, length: int, json_file: Path | None) -> None:
    """Time training or writing, and print the results."""
    results = time_generation(hidden_size, length) if generate else time_training(size, steps)
    if json_file:
        write_json(json_file, results)
    for row in results.get("contenders", []):
        pairs = zip(row["first losses"], results["contenders"][0]["first losses"], strict=True)
        if any(abs(loss / expected - 1) > TOLERANCE[row["precision"]] for loss, expected in pairs):
            raise click.ClickException(f"the first losses of {row['contender']} differ from ours in float32")


def time_training(size: str, steps: int) -> dict[str, Any]:
    """Time training steps of all available contenders."""
    contenders = [
        Contender(f"{name}, {precision}", module, {"size": size, "precision": precision})
        for precision in ("float32", "bfloat16")
        for name, module in (("ours", "contenders.ours"), ("PyTorch nn.LSTM", "contenders.pytorch"))
    ]
    for contender in contenders:
        if reason := contender.unavailable_reason():
            click.echo(f"skipped: {contender.label} ({reason})", err=True)
    contenders = [contender for contender in contenders if contender.unavailable_reason() is None]
    text = TEXT_SIZES[size]
    with tqdm(total=(steps + WARM_UP) * len(contenders), unit="step", disable=None) as bar:
        rows = time_steps(contenders, "TextStep", None, text.streams * text.steps, text.step_flop(), steps, bar)
    print_table(rows, TRAINING_COLUMNS)
    return {"size": size, **text._asdict(), "steps": steps, "contenders": rows}


def time_generation(hidden_size: int, length: int) -> dict[str, Any]:
    """Time writing by a model of 69 characters with random weights."""
    config = Model(hidden_size=hidden_size, embedding_size=128, projection_size=None, attention="none")
    vocabulary = Vocabulary([*SPECIAL_WORDS, *WORDS])
    model = LanguageModel(config, len(vocabulary), 1)
    generator = Generator(TensorFlowLanguageModel(model), TextCodec(CharacterTokenizer(), vocabulary))
    read_weights = weight_reader(model)
    rows = []
    for count in TEXTS:
        write_texts(generator, count, 64)  # traces the graph
        seconds: list[list[float]] = [[], []]
        for _ in range(TURNS):
            seconds[0].append(timed(partial(write_texts, generator, count, length)))
            seconds[1].append(median(timed(read_weights) for _ in range(20)))
        step, limit = median(seconds[0]) / length, median(seconds[1])
        values = (count, count / step, 1e6 * step, 1e6 * limit, 100 * limit / step)
        rows.append(dict(zip(COLUMNS, values, strict=True)))
    print_table(rows, COLUMNS)
    return {"length": length, "turns": TURNS, "results": rows}


def write_texts(generator: Generator, count: int, length: int) -> None:
    """Write ``count`` texts of ``length`` tokens together."""
    for _ in generator.blocks([[]] * count, length, Decoding(method="sample"), list(range(count))):
        pass


def weight_reader(model: LanguageModel) -> Callable[[], object]:
    """A product of a vector with a matrix that has as many numbers as the weights that are read at each step."""
    import tensorflow as tf  # after seq2seq_chat, which chooses its kernels

    size = sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)
    size -= int(np.prod(model.target_embedding.table.shape))  # of which a step reads one row for each text
    vector, matrix = tf.random.normal([1, 512], seed=1), tf.random.normal([512, size // 512], seed=2)
    product = tf.function(lambda: tf.matmul(vector, matrix)[0])
    return lambda: product().numpy()


def timed(action: Callable[[], object]) -> float:
    """The seconds that an action takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


if __name__ == "__main__":
    run_command(main)
