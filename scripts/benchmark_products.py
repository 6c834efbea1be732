#!/usr/bin/env python3
"""Time products of a few rows with a matrix, and with copies of it in other layouts.

The layouts are those of seq2seq_chat/model/matrix_copies.py: rows that are one cache line longer, and blocks of columns
that are stored one after the other, besides the transposed matrix. They take turns. Run nothing else at the same time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import click
from contenders.table import json_option, print_table
from tqdm import tqdm

from seq2seq_chat.cli.running import run_command
from seq2seq_chat.model.matrix_copies import column_blocks, matmul_padded, pad_rows
from seq2seq_chat.system.files import write_json

MATRICES = [(512, 2048), (1024, 8192), (256, 20_000), (512, 5_922)]
ROWS = (1, 2, 5, 10, 24, 32, 64, 160)
BLOCKS = (16, 48)
COLUMNS = [
    "matrix",
    "rows",
    "as it is µs",
    "padded µs",
    *(f"blocks of {width} µs" for width in BLOCKS),
    "transposed µs",
]
FLOP = 4e8  # of the products that are timed together


@click.command(help=__doc__)
@click.option("--rows", type=click.IntRange(1), multiple=True, default=ROWS, show_default=True)
@click.option("--turns", type=click.IntRange(1), default=9, show_default=True)
@json_option
def main(rows: Sequence[int], turns: int, json_file: Path | None) -> None:
    """Time all layouts and print the medians."""
    results = []
    with tqdm(total=len(MATRICES) * len(rows), unit="product", disable=None) as bar:
        for inputs, outputs in MATRICES:
            for count in rows:
                seconds = time_layouts(count, inputs, outputs, turns)
                values = (f"{inputs} × {outputs}", count, *(1e6 * value for value in seconds))
                results.append(dict(zip(COLUMNS, values, strict=True)))
                bar.update()
    print_table(results, COLUMNS)
    if json_file:
        write_json(json_file, {"turns": turns, "results": results})


def time_layouts(rows: int, inputs: int, outputs: int, turns: int) -> list[float]:
    """Seconds of a product of [rows, inputs] with a matrix [inputs, outputs] in each layout; medians."""
    import tensorflow as tf

    tf.get_logger().setLevel("ERROR")  # it would warn about the number of functions
    x, matrix = tf.random.normal([rows, inputs], seed=1), tf.random.normal([inputs, outputs], seed=2)
    layouts: list[Callable[[Any], Any]] = [
        partial(tf.matmul, b=matrix),
        partial(matmul_padded, padded=pad_rows(matrix), outputs=outputs),
        *(partial(multiply_blocks, blocks=column_blocks(matrix, width)) for width in BLOCKS),
        partial(tf.matmul, b=tf.transpose(matrix), transpose_b=True),
    ]
    repetitions = max(2, min(30, int(FLOP / (2 * rows * inputs * outputs))))

    def repeated(multiply: Callable[[Any], Any]) -> Any:
        @tf.function
        def products(x: Any) -> Any:
            number = 0.0
            for _ in range(repetitions):  # each depends on the one before
                number = tf.reshape(multiply(x + 1e-9 * number), [-1])[0]
            return number

        return products

    functions = [repeated(multiply) for multiply in layouts]
    for function in functions:
        function(x)
    seconds: list[list[float]] = [[] for _ in functions]
    for _ in range(turns):
        for function, times in zip(functions, seconds, strict=True):
            start = time.perf_counter()
            float(function(x))
            times.append((time.perf_counter() - start) / repetitions)
    return [median(times) for times in seconds]


def multiply_blocks(x: Any, blocks: Any) -> Any:
    """x: [rows, inputs], blocks: [blocks, inputs, columns] → [rows, blocks × columns]."""
    import tensorflow as tf

    return tf.reshape(tf.transpose(tf.matmul(x[tf.newaxis], blocks), [1, 0, 2]), [x.shape[0], -1])


if __name__ == "__main__":
    run_command(main)
