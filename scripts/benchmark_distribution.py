#!/usr/bin/env python3
"""The speedup by several workers, measured on two cores and estimated for eight GPUs and four machines.

python scripts/benchmark_distribution.py configs/thesis_reddit.json

Measured: a model of --hidden units is trained on the bundled conversations by one process on one core, and by two
workers with a core each that communicate over the loopback interface, with the same batch. One process with half the
batch shows how long a worker computes, and so how long it waits. They alternate. Run nothing else at the same time.

Computed: the bytes that workers exchange at each step of CONFIG, and how long that takes at given bandwidths.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import click
from contenders.table import json_option, print_table
from tqdm import tqdm

from seq2seq_chat.architecture.variables import variable_shapes
from seq2seq_chat.cli.running import run_command
from seq2seq_chat.config import Config, load_config
from seq2seq_chat.runs.find import list_runs
from seq2seq_chat.runs.json_lines import read_json_lines
from seq2seq_chat.system.files import write_json
from seq2seq_chat.system.versions import load_tensorflow
from seq2seq_chat.training.distribution.rendezvous import loopback_addresses

SAMPLE = "configs/sample/dialogues.txt"
FLOAT, INDEX = 4, 8  # bytes
INTERVAL = 5  # steps that are timed together
ON_CORE = "import os, sys; os.sched_setaffinity(0, {int(sys.argv.pop(1))}); from seq2seq_chat.cli import main; main()"
THESIS_SECONDS = 0.35  # for a batch of 64 on the GPU of the thesis: 500,000 batches in about two days


class Setup(NamedTuple):
    """Devices and their connection."""

    name: str
    devices: int
    bandwidth: float  # bytes per second in each direction


SETUPS = [
    Setup("8 GPUs, NVLink", 8, 100e9),
    Setup("8 GPUs, PCIe 3.0 ×16", 8, 10e9),
    Setup("4 machines, 100 Gbit/s", 4, 11e9),
    Setup("4 machines, 10 Gbit/s", 4, 1.1e9),
    Setup("4 machines, 1 Gbit/s", 4, 0.11e9),
]


class Exchange(NamedTuple):
    """Bytes of gradients that a device computes in one step."""

    dense: int  # of weights; summed in a ring
    sparse: int  # rows of tables with their indices, at most; every device receives those of all


@click.command(help=__doc__)
@click.argument("config", metavar="CONFIG")
@click.option("--hidden", default=512, show_default=True, type=click.IntRange(1))
@click.option(
    "--rounds", default=3, show_default=True, type=click.IntRange(0), help="rounds to measure; 0: compute only"
)
@click.option("--steps", default=25, show_default=True, type=click.IntRange(2 * INTERVAL), help="steps of a round")
@click.option("--seconds", default=THESIS_SECONDS, show_default=True, help="for a batch of CONFIG on one device")
@json_option
def main(config: str, hidden: int, rounds: int, steps: int, seconds: float, json_file: Path | None) -> None:
    """Measure, compute, and print both."""
    load_tensorflow()
    results: dict[str, Any] = {}
    if rounds:
        results["measured"] = measure(hidden, rounds, steps)
        print_table(results["measured"], list(results["measured"][0]))
    experiment = load_config(config)
    results["computed"] = compute(experiment, seconds)
    print_table(results["computed"], list(results["computed"][0]))
    if json_file:
        write_json(json_file, results)


def measure(hidden: int, rounds: int, steps: int) -> list[dict[str, Any]]:
    """The median milliseconds of a step of each contender, the speedup by two workers, and their waiting time."""
    times: dict[str, list[float]] = {"one": [], "two": [], "half": []}
    with tempfile.TemporaryDirectory() as folder, tqdm(total=3 * rounds, unit="training", disable=None) as bar:
        config = write_config(Path(folder), hidden, steps)
        for number in range(rounds):
            for name in times:
                times[name] += time_training(config, Path(folder, f"{name}{number}"), name)
                bar.update()
        exchange = exchange_per_step(load_config(config), devices=2, batch=load_config(config).training.batch_size)
    one, two, half = (1e3 * median(times[name]) for name in ("one", "two", "half"))
    sent = exchange.dense + exchange.sparse
    return [
        {
            "hidden": hidden,
            "one core ms": one,
            "two workers ms": two,
            "speedup": f"{one / two:.2f}",
            "efficiency": f"{100 * one / two / 2:.0f} %",
            "half a batch ms": half,
            "waiting ms": two - half,
            "exchanged MB": sent / 1e6,
        }
    ]


def time_training(config: Path, results: Path, name: str) -> list[float]:
    """Seconds of a step, for every interval but the first, in which the graph is traced."""
    train = [str(config), "--results", str(results)]
    if name == "two":
        workers = ["--workers", ",".join(loopback_addresses(2)), "--index"]
        processes = [train_on_core(0, [*train, *workers, "0"]), train_on_core(1, [*workers, "1"])]
    elif name == "half":
        batch = load_config(config).training.batch_size
        processes = [train_on_core(0, [*train, "--set", f"training.batch_size={batch // 2}"])]
    else:
        processes = [train_on_core(0, train)]
    for process in processes:
        output, _ = process.communicate()
        if process.returncode:
            raise click.ClickException(f"training failed: {output.strip().splitlines()[-1]}")
    (run,) = list_runs(results)
    lines = [line for line in read_json_lines(run.metrics_file) if line["kind"] == "train"]
    return [line["seconds"] / INTERVAL for line in lines[1:]]


def train_on_core(number: int, arguments: list[str]) -> subprocess.Popen[str]:
    """Start a training run on one of the cores that this process may use."""
    core = sorted(os.sched_getaffinity(0))[number]
    command = [sys.executable, "-c", ON_CORE, str(core), "train", *arguments]
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)


def write_config(folder: Path, hidden: int, steps: int) -> Path:
    """Write a configuration with a model of this size."""
    intervals = {"log_every": INTERVAL, "validate_every": 10**6, "checkpoint_every": 10**6, "snapshot_every": None}
    path = folder / "config.json"
    settings = {
        "name": "distribution",
        "data": {"train": SAMPLE},
        "model": {"hidden_size": hidden, "embedding_size": hidden // 2, "projection_size": hidden // 2},
        "training": {"batch_size": 64, "micro_batches": 1, "steps": steps, "sampled_softmax": 128, **intervals},
    }
    path.write_text(json.dumps(settings), encoding="utf-8")
    return path


def exchange_per_step(config: Config, devices: int, batch: int) -> Exchange:
    """The gradients of a device's share of a batch; an upper bound, for a share of distinct words."""
    vocabulary, sampled = config.data.vocabulary_size, config.training.sampled_softmax
    rows = {
        "embedding/source": batch // devices * config.model.encoder_steps,
        "embedding/target": batch // devices * config.model.decoder_steps,
        "embedding/shared": batch // devices * (config.model.encoder_steps + config.model.decoder_steps),
    }
    if sampled is not None and sampled < vocabulary:
        rows["output/words"] = rows["output/bias"] = batch // devices * config.model.decoder_steps + sampled
    dense = sparse = 0
    for name, shape in variable_shapes(config, vocabulary).items():
        numbers = math.prod(shape)
        if name in rows:
            used = min(rows[name], vocabulary)
            sparse += used * (FLOAT * numbers // vocabulary + INDEX)
        else:
            dense += FLOAT * numbers
    return Exchange(dense, sparse)


def compute(config: Config, seconds: float) -> list[dict[str, Any]]:
    """Estimate the speedup of an experiment, with the batch divided among devices and with a full batch on each.

    With n devices, a ring sends dense gradients 2 (n - 1) / n times, and each device sends its sparse gradients n - 1
    times. Communication does not overlap with computation. ``seconds`` is the time of a step on one device.
    """
    table = []
    full_batch = config.training.batch_size
    for name, n, bandwidth in SETUPS:
        for label, batch in (("divided", full_batch), ("each", full_batch * n)):
            exchange = exchange_per_step(config, n, batch)
            sent = 2 * (n - 1) / n * exchange.dense + (n - 1) * exchange.sparse
            one_device = seconds * batch / full_batch
            computing, sending = one_device / n, sent / bandwidth
            speedup = one_device / (computing + sending)
            table.append(
                {
                    "devices": name,
                    "batch": f"{batch} ({label})",
                    "dense MB": exchange.dense / 1e6,
                    "sparse MB": exchange.sparse / 1e6,
                    "sent MB": sent / 1e6,
                    "computing ms": 1e3 * computing,
                    "sending ms": 1e3 * sending,
                    "speedup": f"{speedup:.2f}",
                    "efficiency": f"{100 * speedup / n:.0f} %",
                }
            )
    return table


if __name__ == "__main__":
    run_command(main)
