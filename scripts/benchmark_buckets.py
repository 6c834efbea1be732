#!/usr/bin/env python3
"""Time training on a real corpus with and without buckets: real target words per second, and the wait for batches.

python scripts/benchmark_buckets.py data/dailydialog/train.txt --vocabulary data/dailydialog/vocabulary.txt

The trainings take turns, some steps each. Steps in which a graph is built are not counted. Run nothing else meanwhile.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any, Optional

import click
from contenders.table import print_table, write_json
from contenders.worker import Contender, Worker
from contenders.workload import SQUARE_FLOP, make_workload
from tqdm import tqdm

from seq2seq_chat.config import Config
from seq2seq_chat.corpus.encoded import EncodedCorpus
from seq2seq_chat.corpus.vocabulary import Vocabulary
from seq2seq_chat.training.learner import Learner
from seq2seq_chat.training.parts import batch_parts, share_cores
from seq2seq_chat.training.precision import unavailable

TURN = 15  # steps until it is another training's turn
COLUMNS = ["training", "tokens/s", "gain", "ms", "% waiting"]


class Entrant:
    """One of the trainings, and what was measured of it."""

    def __init__(self, config: Config, words: int, corpus: EncodedCorpus) -> None:
        self.label = f"{config.training.precision}, {'buckets' if config.data.buckets else 'one bucket'}"
        self.config = config
        self.learner = Learner(config, words, corpus)
        self.tokens = self.seconds = self.waited = self.steps = 0.0

    def warm_up(self, bar: Any) -> None:
        """Learn until every graph is built."""
        while self.learner.traces < len(self.learner.buckets):
            float(self.learner.learn().loss.nats)
            bar.update()

    def turn(self) -> None:
        """Some steps against the clock."""
        for _ in range(TURN):
            begun = time.perf_counter()
            self.tokens += float(self.learner.learn().loss.tokens)
            self.seconds += time.perf_counter() - begun
            self.waited += self.learner.data_seconds
            self.steps += 1


@click.command(help=__doc__)
@click.argument("corpus_file", metavar="CORPUS")
@click.option("--vocabulary", "vocabulary_file", required=True, help="one word a line; the first 8,000 are used")
@click.option("--pairing", default="sliding", show_default=True, type=click.Choice(["sliding", "alternating"]))
@click.option("--buckets", default=8, show_default=True, type=click.IntRange(2), help="graphs that may be chosen")
@click.option("--turns", default=6, show_default=True, type=click.IntRange(1))
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path))
def main(
    corpus_file: str, vocabulary_file: str, pairing: Any, buckets: int, turns: int, json_file: Optional[Path]
) -> None:
    """Time four trainings: two precisions, with and without buckets."""
    vocabulary = Vocabulary(Vocabulary.load(vocabulary_file).words[:8000])
    corpus = EncodedCorpus.open(corpus_file, vocabulary, level="word", pairing=pairing)
    kinds = [kind for kind in ("float32", "bfloat16") if unavailable(kind) is None]
    peaks = peak_speeds(kinds)
    configs = [configuration(corpus_file, kind, most) for kind in kinds for most in (buckets, 1)]
    share_cores(batch_parts(configs[0]))
    entrants = [Entrant(config, len(vocabulary), corpus) for config in configs]
    with tqdm(unit="step", disable=None) as bar:
        for entrant in entrants:
            bar.set_description(f"{entrant.label}: building graphs")
            entrant.warm_up(bar)
        for _ in range(turns):
            for entrant in entrants:
                bar.set_description(entrant.label)
                entrant.turn()
                bar.update(TURN)
    slow = {e.config.training.precision: e.tokens / e.seconds for e in entrants if e.config.data.buckets is None}
    rows = [
        {
            "training": e.label,
            "tokens/s": e.tokens / e.seconds,
            "gain": f"{e.tokens / e.seconds / slow[e.config.training.precision]:.2f} ×",
            "ms": 1e3 * e.seconds / e.steps,
            "% waiting": f"{100 * e.waited / e.seconds:.2f}",
            "buckets": [list(bucket) for bucket in e.learner.buckets],
        }
        for e in entrants
    ]
    speeds = ", ".join(f"{kind} {speed / 1e9:.0f} GFLOP/s" for kind, speed in peaks.items())
    click.echo(f"buckets: {rows[0]['buckets']}; peak of a large product: {speeds}\n")
    print_table(rows, COLUMNS)
    if json_file:
        write_json(json_file, {"corpus": corpus_file, "peaks": peaks, "trainings": rows})


def configuration(corpus: str, precision: str, buckets: int) -> Config:
    """The experiment that is timed, with this many buckets."""
    choice = {"buckets": "auto", "most_buckets": buckets} if buckets > 1 else {}
    return Config.model_validate(
        {
            "name": "buckets",
            "data": {"train": corpus, "vocabulary_size": 8000, **choice},
            "model": {"embedding_size": 256, "hidden_size": 512, "projection_size": 256},
            "training": {"precision": precision},
        }
    )


def peak_speeds(precisions: list[str]) -> dict[str, float]:
    """Floating-point operations per second of a large square product, in a process that has all threads."""
    speeds = {}
    with tempfile.TemporaryDirectory() as folder:
        make_workload(Path(folder), "tiny", 1)
        for kind in precisions:
            with Worker(Contender("peak", "peak", {"precision": kind}), "TrainingStep", Path(folder)) as worker:
                worker.do("step", 0)
                speeds[kind] = SQUARE_FLOP / sorted(worker.time("step", 0) for _ in range(7))[3]
    return speeds


if __name__ == "__main__":
    main()
