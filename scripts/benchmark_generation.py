#!/usr/bin/env python3
"""Time how fast a language model writes: one text at a time, and many at once.

To write one token, all weights are read once. So a single text takes about as long per token as one product of a vector
with a matrix of that size, which is timed in turns with it. Run nothing else at the same time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import click
import numpy as np
from contenders.table import json_option, print_table

from seq2seq_chat.chat.generator import Generator
from seq2seq_chat.cli.running import run_command
from seq2seq_chat.config import Decoding, Model
from seq2seq_chat.data.codec import Codec
from seq2seq_chat.data.tokenizers.character import CharacterTokenizer
from seq2seq_chat.data.vocabulary import SPECIAL_WORDS, Vocabulary
from seq2seq_chat.engines.tensorflow.language_model import TensorFlowLanguageModel
from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.runs.find import find_run
from seq2seq_chat.system.files import write_json

COLUMNS = ["texts", "tokens/s", "µs per step", "µs of one product", "product, % of step"]
WORDS = [chr(code) for code in range(ord("!"), ord("!") + 65)]


@click.command(help=__doc__)
@click.option("--run", "run_name", help="a trained run instead of untrained weights")
@click.option("--hidden-size", type=click.IntRange(1), default=512, show_default=True, help="of untrained weights")
@click.option("--layers", type=click.IntRange(1), default=1, show_default=True, help="of untrained weights")
@click.option("--texts", type=click.IntRange(1), multiple=True, default=(1, 64), show_default=True)
@click.option("--length", type=click.IntRange(32), default=512, show_default=True, help="tokens per text")
@click.option("--turns", type=click.IntRange(1), default=5, show_default=True)
@click.option("--results", default="results", show_default=True, help="folder of the runs")
@json_option
def main(
    run_name: str | None,
    hidden_size: int,
    layers: int,
    texts: tuple[int, ...],
    length: int,
    turns: int,
    results: str,
    json_file: Path | None,
) -> None:
    """Time generation and print the results."""
    generator = Generator.load(find_run(run_name, results)) if run_name else untrained(hidden_size, layers)
    if not isinstance(generator.engine, TensorFlowLanguageModel):
        raise click.UsageError(f"{run_name} is an exported model; specify a run")
    read_weights = weight_reader(generator.engine.model)
    rows = []
    for count in texts:
        write_texts(generator, count, 64)  # traces the graph
        seconds: list[list[float]] = [[], []]
        for _ in range(turns):
            seconds[0].append(timed(partial(write_texts, generator, count, length)))
            seconds[1].append(median(timed(read_weights) for _ in range(20)))
        step, limit = median(seconds[0]) / length, median(seconds[1])
        values = (count, count / step, 1e6 * step, 1e6 * limit, 100 * limit / step)
        rows.append(dict(zip(COLUMNS, values, strict=True)))
    print_table(rows, COLUMNS)
    if json_file:
        write_json(json_file, {"length": length, "turns": turns, "results": rows})


def untrained(hidden_size: int, layers: int) -> Generator:
    """A model of 69 characters with random weights."""
    config = Model(hidden_size=hidden_size, layers=layers, embedding_size=128, projection_size=None, attention="none")
    vocabulary = Vocabulary([*SPECIAL_WORDS, *WORDS])
    return Generator(
        TensorFlowLanguageModel(LanguageModel(config, len(vocabulary), 1)), Codec(CharacterTokenizer(), vocabulary)
    )


def write_texts(generator: Generator, count: int, length: int) -> None:
    """Write ``count`` texts of ``length`` tokens together."""
    for _ in generator.blocks([[]] * count, length, Decoding(method="sample"), list(range(count))):
        pass


def weight_reader(model: LanguageModel) -> Callable[[], object]:
    """A product of a vector with a matrix that has as many numbers as the weights that are read at each step."""
    import tensorflow as tf  # after seq2seq_chat, which chooses its kernels

    size = sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)
    if not model.config.tie_embeddings:  # of which a step reads one row for each text
        size -= int(np.prod(model.target_embedding.table.shape))
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
