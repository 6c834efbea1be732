#!/usr/bin/env python3
"""How fast configurations train, and how near they come to the peak speed of the processor.

python scripts/benchmark_recipes.py configs/recipes/characters.json configs/recipes/words.json

Each trains for some steps on its corpus, which must be prepared. The peak is measured before and after, by a large
matrix product. The share counts only products of weights and tokens: two operations for each weight and token, and
twice as many in the backward pass. What is spent on padding, attention over the source and the optimizer is a loss. Run
nothing else at the same time.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median

import click
import numpy as np
from benchmark_translation import train
from contenders import PEAK_FLOP, Contender, Worker, json_option, print_table

from seq2seq_chat.architecture.variables import variable_shapes
from seq2seq_chat.cli.options import run_command
from seq2seq_chat.config import load_config
from seq2seq_chat.data.dataset import open_training_corpus
from seq2seq_chat.runs.json_lines import read_json_lines
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.files import write_json
from seq2seq_chat.training.optimizers import why_unavailable

COLUMNS = ["configuration", "steps/s", "target tokens/s", "GFLOP/s", "peak GFLOP/s", "% of peak"]
CALLS = 5  # of the matrix product, before and after


@click.command(help=__doc__)
@click.argument("configs", metavar="CONFIG...", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@click.option("--steps", default=400, show_default=True, type=click.IntRange(8), help="Steps of each training.")
@click.option("--precision", type=click.Choice(["float32", "bfloat16"]), help="[default: the fastest available]")
@json_option
def main(configs: tuple[str, ...], steps: int, precision: str | None, json_file: Path | None) -> None:
    """Train each configuration for some steps, between measurements of the peak."""
    precision = precision or ("float32" if why_unavailable("bfloat16") else "bfloat16")
    rows = []
    for path in configs:
        settings = load_config(path).model_dump()
        settings["training"] |= {"precision": precision, "steps": steps, "log_every": steps // 8}
        settings["training"] |= {"validate_every": steps, "sample_replies": 0}
        with (
            tempfile.TemporaryDirectory() as folder,
            Worker(Contender("peak", "contenders", {"precision": precision}), "Peak", None) as peak,
        ):
            peak.call("step", 0)
            seconds = [peak.time_call("step", call) for call in range(CALLS)]
            run, _ = train(settings, Path(folder))
            seconds += [peak.time_call("step", call) for call in range(CALLS)]
            lines = [line for line in read_json_lines(run.metrics_file) if line["kind"] == "train"][1:]
            rate = median(line["tokens"] / line["seconds"] for line in lines)
            limit, speed = PEAK_FLOP / median(seconds), rate * flop_per_token(run)
            row = {"configuration": Path(path).stem, "target tokens/s": rate, "GFLOP/s": speed / 1e9}
            row["steps/s"] = f"{median(steps // 8 / line['seconds'] for line in lines):.1f}"
            rows.append(row | {"peak GFLOP/s": limit / 1e9, "% of peak": 100 * speed / limit})
    print_table(rows, COLUMNS)
    if json_file:
        write_json(json_file, {"precision": precision, "rows": rows})


def flop_per_token(run: Run) -> float:
    """Floating-point operations of training for a target token, with those of the source in proportion."""
    config = run.config
    shapes = variable_shapes(config, *run.codecs.vocabulary_sizes)
    products = {name: np.prod(shape) for name, shape in shapes.items() if len(shape) == 2 and "bridge" not in name}
    tied = {"embedding/shared", "embedding/target"} if config.model.tie_embeddings else set()
    products = {name: size for name, size in products.items() if "embedding" not in name or name in tied}
    of_source = sum(size for name, size in products.items() if name.startswith(("encoder/", "decoder/attention/key")))
    ratio = 0.0
    if config.task != "language_model":
        corpus = open_training_corpus(config, run.codecs, lambda message: None)
        read = np.minimum(corpus.source_lengths(), config.model.encoder_steps).sum()
        ratio = read / np.minimum(corpus.target_lengths() + 1, config.model.decoder_steps).sum()  # with end markers
    return float(6 * (sum(products.values()) - of_source + of_source * ratio))


if __name__ == "__main__":
    run_command(main)
