#!/usr/bin/env python3
"""Measure the cost of saving: intervals of steps with and without a checkpoint, best weights and a snapshot.

python scripts/benchmark_checkpoints.py configs/quickstart.json

The model is that of CONFIG with a vocabulary of the full size; it is trained on the bundled conversations instead of
the corpus of CONFIG. An interval ends when everything is written. Run nothing else at the same time.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import click
from contenders.table import json_option, print_table
from tqdm import tqdm

from seq2seq_chat.cli.running import run_command
from seq2seq_chat.config import Config, load_config
from seq2seq_chat.data.build_codecs import build_codecs
from seq2seq_chat.data.codec import Codecs
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.data.vocabulary import Vocabulary
from seq2seq_chat.model.micro_batches import micro_batch_count, share_cores
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.files import write_json
from seq2seq_chat.system.versions import load_tensorflow, make_deterministic
from seq2seq_chat.training.learner import Learner, build_learner
from seq2seq_chat.training.sampler import ShuffledBatches, training_batches
from seq2seq_chat.training.saving import Saver

SAMPLE = "configs/sample/dialogues.txt"
COLUMNS = ["experiment", "step ms", "saved MB", "stall ms", "stall in steps", "costs ms", "every", "overhead"]


@click.command(help=__doc__)
@click.argument("configs", nargs=-1, required=True, metavar="CONFIG...")
@click.option("--intervals", default=5, show_default=True, type=click.IntRange(1), help="intervals of each kind")
@click.option(
    "--steps", default=40, show_default=True, type=click.IntRange(2), help="minimum number of steps in an interval"
)
@json_option
def main(configs: tuple[str, ...], intervals: int, steps: int, json_file: Path | None) -> None:
    """Measure the experiments one after another."""
    load_tensorflow()
    rows = [time_saving(load_config(path), intervals, steps) for path in configs]
    print_table(rows, COLUMNS)
    if json_file:
        write_json(json_file, {"experiments": rows})


def time_saving(config: Config, intervals: int, steps: int) -> dict[str, Any]:
    """Alternate intervals with and without saving."""
    learner, batches = make_learner(config)
    with tempfile.TemporaryDirectory() as folder, tqdm(desc=config.name, unit="step", disable=None) as bar:
        saver = Saver(Run(folder), learner, {}, keep=config.training.keep_checkpoints)
        graphs = sum(size > 0 for size in batches.sizes)
        while learner.traces < graphs:
            train_step(learner, bar)
        stalls, times, counts = [], {True: 0.0, False: 0.0}, {True: 0, False: 0}
        for number in range(2 * intervals):
            saves = number % 2 == 0
            start = time.perf_counter()
            if saves:
                saver.save_best()
                saver.save_snapshot()
                saver.save_checkpoint({})
                stalls.append(time.perf_counter() - start)
                bar.set_postfix_str(f"{stalls[-1]:.1f} s")
            count = 0
            while count < steps or (saves and saver.saved_step < learner.step - count):
                saver.poll()
                train_step(learner, bar)
                count += 1
            saver.finish()
            times[saves] += time.perf_counter() - start
            counts[saves] += count
        size = sum(path.stat().st_size for path in Path(folder).rglob(f"*{learner.step - count:010d}.npz"))
        size = size or max(path.stat().st_size for path in Path(folder).rglob("*.npz"))
    step = times[False] / counts[False]
    extra = (times[True] - counts[True] * step) / intervals
    return {
        "experiment": config.name,
        "step ms": 1e3 * step,
        "saved MB": size / 1e6,
        "stall ms": 1e3 * median(stalls),
        "stall in steps": f"{median(stalls) / step:.2f}",
        "costs ms": 1e3 * extra,
        "every": config.training.checkpoint_every,
        "overhead": f"{100 * extra / (config.training.checkpoint_every * step):.2f} %",
    }


def train_step(learner: Learner, bar: Any) -> None:
    """Train one step and wait for its result."""
    float(learner.train_step().loss.nats)
    bar.update()


def make_learner(config: Config) -> tuple[Learner, ShuffledBatches]:
    """Build a learner of the experiment's size and its batches, of the bundled conversations."""
    settings = config.model_dump(mode="json")
    settings["data"] |= {"train": SAMPLE, "vocabulary": None}
    config = Config.model_validate(settings)
    share_cores(micro_batch_count(config.model, config.training))
    make_deterministic(config.seed, config.training.deterministic)
    codec = build_codecs(config.data).source
    known = codec.vocabulary.words
    more = [f"word{number}" for number in range(max(0, config.data.vocabulary_size - len(known)))]
    codecs = Codecs.shared(codec._replace(vocabulary=Vocabulary([*known, *more])))
    corpus = Dataset.open(SAMPLE, codecs, config.data)
    batches = training_batches(config, codecs, corpus)
    return build_learner(config, codecs, batches), batches


if __name__ == "__main__":
    run_command(main)
