#!/usr/bin/env python3
"""Time what saving costs a training: stretches of steps with a checkpoint, best weights and a snapshot, and without.

python scripts/benchmark_checkpoints.py configs/quickstart.json

The model is that of CONFIG with a vocabulary of the full size; it learns the bundled conversations, whatever the
corpus of CONFIG. A stretch lasts until everything is written. Run nothing else meanwhile.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, Optional

import click
from contenders.table import print_table, write_json
from tqdm import tqdm

from seq2seq_chat.config import Config, load_config
from seq2seq_chat.corpus.encoded import EncodedCorpus
from seq2seq_chat.corpus.experiment_data import training_vocabulary
from seq2seq_chat.corpus.vocabulary import Vocabulary
from seq2seq_chat.environment import load_tensorflow, make_deterministic
from seq2seq_chat.runs import Run
from seq2seq_chat.training.learner import Learner
from seq2seq_chat.training.parts import batch_parts, share_cores
from seq2seq_chat.training.saving import Saver

SAMPLE = "seq2seq_chat/corpus/sample/conversations.txt"
COLUMNS = ["experiment", "step ms", "saved MB", "stall ms", "stall in steps", "costs ms", "every", "overhead"]


@click.command(help=__doc__)
@click.argument("configs", nargs=-1, required=True, metavar="CONFIG...")
@click.option("--stretches", default=5, show_default=True, type=click.IntRange(1), help="of each kind")
@click.option("--steps", default=40, show_default=True, type=click.IntRange(2), help="in a stretch, at least")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path))
def main(configs: tuple[str, ...], stretches: int, steps: int, json_file: Optional[Path]) -> None:
    """Time the experiments one after another."""
    load_tensorflow()
    rows = [time_saving(load_config(path), stretches, steps) for path in configs]
    print_table(rows, COLUMNS)
    if json_file:
        write_json(json_file, {"experiments": rows})


def time_saving(config: Config, stretches: int, steps: int) -> dict[str, Any]:
    """Stretches with and without saving in turns."""
    learner = make_learner(config)
    with tempfile.TemporaryDirectory() as folder, tqdm(desc=config.name, unit="step", disable=None) as bar:
        saver = Saver(Run(folder), learner, {}, keep=config.training.keep_checkpoints)
        while learner.traces < sum(size > 0 for size in learner.batches.sizes):
            learn(learner, bar)
        stalls, times, counts = [], {True: 0.0, False: 0.0}, {True: 0, False: 0}
        for number in range(2 * stretches):
            saves = number % 2 == 0
            begun = time.perf_counter()
            if saves:
                saver.save_best()
                saver.save_snapshot()
                saver.save_checkpoint({})
                stalls.append(time.perf_counter() - begun)
                bar.set_postfix_str(f"{stalls[-1]:.1f} s")
            count = 0
            while count < steps or (saves and saver.saved_step < learner.step - count):
                saver.check()
                learn(learner, bar)
                count += 1
            saver.finish()
            times[saves] += time.perf_counter() - begun
            counts[saves] += count
        size = sum(path.stat().st_size for path in Path(folder).rglob(f"*{learner.step - count:010d}.npz"))
        size = size or max(path.stat().st_size for path in Path(folder).rglob("*.npz"))
    step = times[False] / counts[False]
    extra = (times[True] - counts[True] * step) / stretches
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


def learn(learner: Learner, bar: Any) -> None:
    """One step, until its result is there."""
    float(learner.learn().loss.nats)
    bar.update()


def make_learner(config: Config) -> Learner:
    """A learner of the experiment's size on the bundled conversations."""
    settings = config.model_dump(mode="json")
    settings["data"] |= {"train": SAMPLE, "vocabulary": None}
    config = Config.model_validate(settings)
    share_cores(batch_parts(config))
    make_deterministic(config.seed, config.training.deterministic)
    known = training_vocabulary(config.data).words
    more = [f"word{number}" for number in range(max(0, config.data.vocabulary_size - len(known)))]
    vocabulary = Vocabulary([*known, *more])
    corpus = EncodedCorpus.open(SAMPLE, vocabulary, level=config.data.level, pairing=config.data.pairing)
    return Learner(config, len(vocabulary), corpus)


if __name__ == "__main__":
    main()
