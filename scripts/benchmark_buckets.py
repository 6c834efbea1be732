#!/usr/bin/env python3
"""Time training on a real corpus with and without buckets: target words per second and time spent waiting for batches.

python scripts/benchmark_buckets.py data/dailydialog/train.txt --vocabulary data/dailydialog/vocabulary.txt

The training runs take turns. Steps that trace a graph are not counted. Run nothing else at the same time.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import click
from contenders.table import json_option, print_table
from contenders.worker import Contender, Worker
from contenders.workload import PEAK_FLOP, write_workload_in_subprocess
from tqdm import tqdm

from seq2seq_chat.cli.running import run_command
from seq2seq_chat.config import Config, Data
from seq2seq_chat.data.codec import Codecs
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.data.vocabulary import Vocabulary
from seq2seq_chat.model.micro_batches import micro_batch_count, share_cores
from seq2seq_chat.system.files import write_json
from seq2seq_chat.training.learner import build_learner
from seq2seq_chat.training.precision import why_unavailable
from seq2seq_chat.training.sampler import training_batches

STEPS_PER_TURN = 15
COLUMNS = ["training", "tokens/s", "gain", "ms", "% waiting"]


class TimedTraining:
    """A training run and its measurements."""

    def __init__(self, config: Config, codecs: Codecs, corpus: Dataset) -> None:
        self.label = f"{config.training.precision}, {'buckets' if config.data.buckets else 'one bucket'}"
        self.config = config
        self.batches = training_batches(config, codecs, corpus)
        self.learner = build_learner(config, codecs, self.batches)
        self.tokens = self.seconds = self.waited = self.steps = 0.0

    def warm_up(self, bar: Any) -> None:
        """Train until the graph of every bucket is traced."""
        while self.learner.traces < len(self.batches.buckets):
            float(self.learner.train_step().loss.nats)
            bar.update()

    def time_steps(self) -> None:
        """Time the steps of one turn."""
        for _ in range(STEPS_PER_TURN):
            start = time.perf_counter()
            self.tokens += float(self.learner.train_step().loss.tokens)
            self.seconds += time.perf_counter() - start
            self.waited += self.learner.data_seconds
            self.steps += 1


@click.command(help=__doc__)
@click.argument("corpus_file", metavar="CORPUS")
@click.option("--vocabulary", "vocabulary_file", required=True, help="one word a line; the first 8,000 are used")
@click.option("--pairing", default="sliding", show_default=True, type=click.Choice(["sliding", "alternating"]))
@click.option("--buckets", default=8, show_default=True, type=click.IntRange(2), help="maximum number of buckets")
@click.option("--turns", default=6, show_default=True, type=click.IntRange(1))
@json_option
def main(
    corpus_file: str, vocabulary_file: str, pairing: Any, buckets: int, turns: int, json_file: Path | None
) -> None:
    """Time four training runs: two precisions, with and without buckets."""
    codecs = Codecs.of_words(Vocabulary(Vocabulary.load(vocabulary_file).words[:8000]))
    corpus = Dataset.open(corpus_file, codecs, Data(train=corpus_file, pairing=pairing))
    precisions = [name for name in ("float32", "bfloat16") if why_unavailable(name) is None]
    peaks = peak_speeds(precisions)
    configs = [experiment(corpus_file, precision, count) for precision in precisions for count in (buckets, 1)]
    share_cores(micro_batch_count(configs[0].model, configs[0].training))
    trainings = [TimedTraining(config, codecs, corpus) for config in configs]
    with tqdm(unit="step", disable=None) as bar:
        for training in trainings:
            bar.set_description(f"{training.label}: tracing graphs")
            training.warm_up(bar)
        for _ in range(turns):
            for training in trainings:
                bar.set_description(training.label)
                training.time_steps()
                bar.update(STEPS_PER_TURN)
    baseline = {t.config.training.precision: t.tokens / t.seconds for t in trainings if t.config.data.buckets is None}
    rows = [
        {
            "training": t.label,
            "tokens/s": t.tokens / t.seconds,
            "gain": f"{t.tokens / t.seconds / baseline[t.config.training.precision]:.2f} ×",
            "ms": 1e3 * t.seconds / t.steps,
            "% waiting": f"{100 * t.waited / t.seconds:.2f}",
            "buckets": [list(bucket) for bucket in t.batches.buckets],
        }
        for t in trainings
    ]
    speeds = ", ".join(f"{name} {speed / 1e9:.0f} GFLOP/s" for name, speed in peaks.items())
    click.echo(f"buckets: {rows[0]['buckets']}; peak of a large product: {speeds}\n")
    print_table(rows, COLUMNS)
    if json_file:
        write_json(json_file, {"corpus": corpus_file, "peaks": peaks, "trainings": rows})


def experiment(corpus: str, precision: str, buckets: int) -> Config:
    """The configuration to time."""
    bucket_settings = {"buckets": "auto", "max_buckets": buckets} if buckets > 1 else {}
    return Config.model_validate(
        {
            "name": "buckets",
            "data": {"train": corpus, "vocabulary_size": 8000, **bucket_settings},
            "model": {"embedding_size": 256, "hidden_size": 512, "projection_size": 256},
            "training": {"precision": precision},
        }
    )


def peak_speeds(precisions: list[str]) -> dict[str, float]:
    """FLOP per second of a large square matrix product on all cores."""
    speeds = {}
    with tempfile.TemporaryDirectory() as folder:
        write_workload_in_subprocess(Path(folder), "tiny", 1)
        for precision in precisions:
            with Worker(Contender("peak", "peak", {"precision": precision}), "TrainingStep", Path(folder)) as worker:
                worker.call("step", 0)
                speeds[precision] = PEAK_FLOP / sorted(worker.time_call("step", 0) for _ in range(7))[3]
    return speeds


if __name__ == "__main__":
    run_command(main)
