#!/usr/bin/env python3
"""Time building the graph of one bucket: tracing it, and its first call, which includes one step.

python scripts/benchmark_building.py configs/quickstart.json --source-steps 11 --target-steps 16

Seconds are those of the processor, in the thread that builds; values are medians of several graphs in one process.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
from contenders.table import json_option, print_table

from seq2seq_chat.cli.running import run_command
from seq2seq_chat.config import Config, load_config
from seq2seq_chat.data.dataset import Batch
from seq2seq_chat.model.micro_batches import micro_batch_count, share_cores
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.system.files import write_json
from seq2seq_chat.training.optimizers import build_optimizer
from seq2seq_chat.training.step import TrainingStep

VOCABULARY = 2000


@click.command(help=__doc__)
@click.argument("config_file", metavar="CONFIG")
@click.option("--source-steps", default=11, show_default=True, type=click.IntRange(1))
@click.option("--target-steps", default=16, show_default=True, type=click.IntRange(1))
@click.option("--graphs", default=5, show_default=True, type=click.IntRange(1), help="how many to build")
@json_option
def main(config_file: str, source_steps: int, target_steps: int, graphs: int, json_file: Path | None) -> None:
    """Build the graph of a bucket several times and print the medians."""
    config = load_config(config_file)
    share_cores(micro_batch_count(config.model, config.training))
    sizes = config.training.batch_size, source_steps, target_steps
    measured = [build(config, random_batch(*sizes)) for _ in range(graphs + 1)][1:]  # the first loads libraries
    row = {name: median(result[name] for result in measured) for name in measured[0]}
    print_table([{"bucket": f"{source_steps} + {target_steps}", **row}], ["bucket", *row])
    if json_file:
        write_json(
            json_file, {"config": config_file, "source_steps": source_steps, "target_steps": target_steps, **row}
        )


def random_batch(rows: int, source_steps: int, target_steps: int) -> Batch:
    """A batch without padding."""
    rng = np.random.default_rng(1)
    source, target = (
        rng.integers(4, VOCABULARY, (rows, steps)).astype(np.int32) for steps in (source_steps, target_steps)
    )
    return Batch(source, np.full(rows, source_steps, np.int32), target, np.full(rows, target_steps, np.int32))


def build(config: Config, batch: Batch) -> dict[str, Any]:
    """Build and call the graph of a new model."""
    model = Seq2Seq(config.model, VOCABULARY, config.seed)
    optimizer = build_optimizer(config.training)
    optimizer._create_all_weights(model.trainable_variables)
    step = TrainingStep(model, optimizer, config.training)
    start = time.thread_time()
    graph = step.build(batch).graph.as_graph_def()
    traced = time.thread_time()
    float(step(batch, 0).loss.nats)
    operations = len(graph.node) + sum(len(function.node_def) for function in graph.library.function)
    return {"operations": operations, "tracing s": traced - start, "first call s": time.thread_time() - traced}


if __name__ == "__main__":
    run_command(main)
