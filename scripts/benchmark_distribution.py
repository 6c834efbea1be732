#!/usr/bin/env python3
"""What several workers gain and what they pay: measured on two cores, computed for eight GPUs and four machines.

python scripts/benchmark_distribution.py configs/thesis_reddit.json

Measured: a model of --hidden units learns the bundled conversations, as one process on one core, and as two workers
with a core each that meet on the loopback interface; the same batch for both. One process with half the batch shows
what a worker computes, and so what it waits for the other. They take turns. Run nothing else meanwhile.

Computed: the bytes that the workers exchange at each step of CONFIG, and how long that takes at given bandwidths.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, Optional

import click
from contenders.table import print_table, write_json
from tqdm import tqdm

from seq2seq_chat.config import Config, load_config
from seq2seq_chat.environment import load_tensorflow
from seq2seq_chat.runs import list_runs
from seq2seq_chat.training.cluster import loopback_addresses
from seq2seq_chat.training.metrics import read_json_lines

SAMPLE = "seq2seq_chat/corpus/sample/conversations.txt"
FLOAT, INDEX = 4, 8  # bytes
STRETCH = 5  # steps whose time is taken together
ON_CORE = "import os, sys; os.sched_setaffinity(0, {int(sys.argv.pop(1))}); from seq2seq_chat.cli import main; main()"
THESIS_SECONDS = 0.58  # a batch of 64 on the thesis's card


class Place(NamedTuple):
    """Devices and what connects them."""

    name: str
    devices: int
    bandwidth: float  # bytes a second that each device can send while it receives as many


PLACES = [
    Place("8 GPUs, NVLink", 8, 100e9),
    Place("8 GPUs, PCIe 3.0 ×16", 8, 10e9),
    Place("4 machines, 100 Gbit/s", 4, 11e9),
    Place("4 machines, 10 Gbit/s", 4, 1.1e9),
    Place("4 machines, 1 Gbit/s", 4, 0.11e9),
]


class Exchange(NamedTuple):
    """Bytes of gradients that a device makes in one step."""

    dense: int  # of weights: summed in a ring
    sparse: int  # rows of tables with their numbers, at most: every device gets those of all


@click.command(help=__doc__)
@click.argument("config", metavar="CONFIG")
@click.option("--hidden", default=512, show_default=True, type=click.IntRange(1))
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(0), help="of measuring; 0: compute only")
@click.option("--steps", default=25, show_default=True, type=click.IntRange(2 * STRETCH), help="in a round")
@click.option("--seconds", default=THESIS_SECONDS, show_default=True, help="a batch of CONFIG takes on one device")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path))
def main(config: str, hidden: int, rounds: int, steps: int, seconds: float, json_file: Optional[Path]) -> None:
    """Measure, compute and print both."""
    load_tensorflow()
    found: dict[str, Any] = {}
    if rounds:
        found["measured"] = measure(hidden, rounds, steps)
        print_table(found["measured"], list(found["measured"][0]))
    experiment = load_config(config)
    found["computed"] = compute(experiment, seconds)
    print_table(found["computed"], list(found["computed"][0]))
    if json_file:
        write_json(json_file, found)


def measure(hidden: int, rounds: int, steps: int) -> list[dict[str, Any]]:
    """Median milliseconds of a step of each contender, in turns; what two workers gain, and what they wait."""
    times: dict[str, list[float]] = {"one": [], "two": [], "half": []}
    with tempfile.TemporaryDirectory() as folder, tqdm(total=3 * rounds, unit="training", disable=None) as bar:
        config = write_config(Path(folder), hidden, steps)
        for number in range(rounds):
            for name in times:
                times[name] += time_training(config, Path(folder, f"{name}{number}"), name)
                bar.update()
        exchange = exchanged(load_config(config), devices=2, batch=load_config(config).training.batch_size)
    one, two, half = (1e3 * median(times[name]) for name in ("one", "two", "half"))
    sent = exchange.dense + exchange.sparse
    return [
        {
            "hidden": hidden,
            "one core ms": one,
            "two workers ms": two,
            "gain": f"{one / two:.2f}",
            "efficiency": f"{100 * one / two / 2:.0f} %",
            "half a batch ms": half,
            "waits ms": two - half,
            "exchanged MB": sent / 1e6,
        }
    ]


def time_training(config: Path, results: Path, name: str) -> list[float]:
    """Seconds of a step, for every stretch but the first, which builds the graph."""
    train = [str(config), "--results", str(results)]
    if name == "two":
        workers = ["--workers", ",".join(loopback_addresses(2)), "--index"]
        processes = [on_core(0, [*train, *workers, "0"]), on_core(1, [*workers, "1"])]
    elif name == "half":
        batch = load_config(config).training.batch_size
        processes = [on_core(0, [*train, "--set", f"training.batch_size={batch // 2}"])]
    else:
        processes = [on_core(0, train)]
    for process in processes:
        said, _ = process.communicate()
        if process.returncode:
            raise click.ClickException(f"a training failed: {said.strip().splitlines()[-1]}")
    (run,) = list_runs(results)
    lines = [line for line in read_json_lines(run.metrics_file) if line["kind"] == "train"]
    return [line["seconds"] / STRETCH for line in lines[1:]]


def on_core(number: int, arguments: list[str]) -> subprocess.Popen[str]:
    """A training on one of the cores that this process may use."""
    core = sorted(os.sched_getaffinity(0))[number]
    command = [sys.executable, "-c", ON_CORE, str(core), "train", *arguments]
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)


def write_config(folder: Path, hidden: int, steps: int) -> Path:
    """An experiment with a model of some size."""
    often = {"log_every": STRETCH, "validate_every": 10**6, "checkpoint_every": 10**6, "snapshot_every": None}
    path = folder / "config.json"
    settings = {
        "name": "distribution",
        "data": {"train": SAMPLE},
        "model": {"hidden_size": hidden, "embedding_size": hidden // 2, "projection_size": hidden // 2},
        "training": {"batch_size": 64, "batch_parts": 1, "steps": steps, "sampled_softmax": 128, **often},
    }
    path.write_text(json.dumps(settings), encoding="utf-8")
    return path


def exchanged(config: Config, devices: int, batch: int) -> Exchange:
    """What a device makes of its share of a batch, if all words of the share differ, which is the most it can be."""
    from seq2seq_chat.model.seq2seq import outline

    vocabulary, sampled = config.data.vocabulary_size, config.training.sampled_softmax
    rows = {
        "embedding/source": batch // devices * config.model.encoder_steps,
        "embedding/target": batch // devices * config.model.decoder_steps,
        "embedding/shared": batch // devices * (config.model.encoder_steps + config.model.decoder_steps),
    }
    if sampled is not None and sampled < vocabulary:
        rows["output/words"] = rows["output/bias"] = batch // devices * config.model.decoder_steps + sampled
    dense = sparse = 0
    for variable in outline(config.model, vocabulary).trainable_variables:
        name, numbers = variable.name.split(":")[0], variable.shape.num_elements()
        if name in rows:
            used = min(rows[name], vocabulary)
            sparse += used * (FLOAT * numbers // vocabulary + INDEX)
        else:
            dense += FLOAT * numbers
    return Exchange(dense, sparse)


def compute(config: Config, seconds: float) -> list[dict[str, Any]]:
    """What distribution would give for an experiment whose step takes some seconds on one device.

    Once with the same batch, divided, and once with a batch for each device. A ring sends each dense number
    2 (n - 1) / n times; of the sparse rows a device sends its own n - 1 times. Nothing is computed meanwhile.
    """
    table = []
    for place in PLACES:
        one = config.training.batch_size
        for label, batch in (("divided", one), ("each", one * place.devices)):
            made = exchanged(config, place.devices, batch)
            sent = 2 * (place.devices - 1) / place.devices * made.dense + (place.devices - 1) * made.sparse
            works = seconds * batch / one / place.devices
            waits = sent / place.bandwidth
            gain = seconds * batch / one / (works + waits)
            table.append(
                {
                    "devices": place.name,
                    "batch": f"{batch} ({label})",
                    "dense MB": made.dense / 1e6,
                    "sparse MB": made.sparse / 1e6,
                    "sent MB": sent / 1e6,
                    "computes ms": 1e3 * works,
                    "sends ms": 1e3 * waits,
                    "gain": f"{gain:.2f}",
                    "efficiency": f"{100 * gain / place.devices:.0f} %",
                }
            )
    return table


if __name__ == "__main__":
    main()
