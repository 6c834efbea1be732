#!/usr/bin/env python3
"""Estimate the time of a training step of the thesis's model on GPUs, from their data sheets. Nothing is measured.

The estimate adds, without overlap, the time of (a) matrix products over all steps at once, which arithmetic limits, (b)
products of one step inside the loops, limited by arithmetic or by reading the weights, (c) elementwise operations,
which memory limits, and (d) starting the graph's operations one after another.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import click
from contenders.table import json_option, print_table
from contenders.workload import SIZES, Size

from seq2seq_chat.cli.running import run_command
from seq2seq_chat.system.files import write_json

FLOAT = 4  # bytes
EFFICIENCY = 0.6  # share of the peak that products reach, as large ones do with 64 rows
BANDWIDTH_SHARE = 0.75  # of memory, that simple operations reach
START = 5e-6  # seconds from one operation to the next
OPERATIONS = 3_750  # of the training step's graph
ATTENTION_PASSES = 12  # reads and writes of [batch, source steps, hidden] for each word, forward and backward
UPDATE_PASSES = 9  # reads and writes of a dense weight: transposed copy, gradient, norm, AdaGrad


class Gpu(NamedTuple):
    """A GPU by its data sheet."""

    name: str
    float32: float  # peak FLOP/s outside tensor cores
    products: float  # peak FLOP/s of TensorFlow's float32 products: TF32 tensor cores where there are any
    bandwidth: float  # bytes per second
    memory: float  # bytes


GPUS = [
    Gpu("GTX TITAN X", 6.7e12, 6.7e12, 336e9, 12e9),  # the thesis's
    Gpu("Tesla T4", 8.1e12, 8.1e12, 320e9, 16e9),
    Gpu("Tesla V100", 15.7e12, 15.7e12, 900e9, 16e9),
    Gpu("GeForce RTX 4090", 82.6e12, 82.6e12, 1008e9, 24e9),
    Gpu("A100", 19.5e12, 156e12, 1555e9, 40e9),
    Gpu("H100", 67e12, 494e12, 3350e9, 80e9),
    Gpu("H200", 67e12, 494e12, 4800e9, 141e9),
]


class Work(NamedTuple):
    """What a training step computes and moves."""

    flop: float  # of products over all steps at once
    loop_flop: float  # of products inside the loops
    loop_bytes: float  # of weights read for these
    elementwise_bytes: float

    @classmethod
    def of(cls, size: Size) -> Work:
        """Count both kinds of products by hand; together they are :meth:`Size.step_flop`."""
        hidden = size.hidden
        # read at every step: recurrent weights of the encoder and of the decoder with input feeding, W2, D
        loop_weights = hidden * 4 * hidden + 2 * hidden * 4 * hidden + 2 * hidden * hidden
        loop_flop = 2 * 2 * loop_weights * size.batch * size.steps  # forward, and backward to the inputs
        attention = ATTENTION_PASSES * size.batch * size.steps**2 * hidden
        input_weights = 2 * size.embedding * 4 * hidden + 2 * hidden * hidden + hidden * size.projection
        update = UPDATE_PASSES * (loop_weights + input_weights)
        return cls(
            flop=size.step_flop() - loop_flop,
            loop_flop=loop_flop,
            loop_bytes=FLOAT * 2 * loop_weights * size.steps,
            elementwise_bytes=FLOAT * (attention + update),
        )


def estimate(gpu: Gpu, size: Size) -> dict[str, Any]:
    """The row of a GPU, in milliseconds for a batch."""
    work = Work.of(size)
    large = work.flop / (EFFICIENCY * gpu.products)
    reading = work.loop_bytes / (BANDWIDTH_SHARE * gpu.bandwidth)
    loops = max(work.loop_flop / (EFFICIENCY * gpu.products), reading)
    elementwise = work.elementwise_bytes / (BANDWIDTH_SHARE * gpu.bandwidth)
    total = large + loops + elementwise + OPERATIONS * START
    return {
        "GPU": gpu.name,
        "large products": 1e3 * large,
        "products in loops": 1e3 * loops,
        "elementwise": 1e3 * elementwise,
        "starting": 1e3 * OPERATIONS * START,
        "ms": 1e3 * total,
        "tokens/s": size.batch * size.steps / total,
        "days": 3_000_000 * total / 86_400,
    }


@click.command(help=__doc__)
@json_option
def main(json_file: Path | None) -> None:
    """Print the estimates."""
    rows = [estimate(gpu, SIZES["thesis"]) for gpu in GPUS]
    print_table(rows, list(rows[0]))
    if json_file:
        write_json(json_file, {"size": SIZES["thesis"]._asdict(), "gpus": rows})


if __name__ == "__main__":
    run_command(main)
