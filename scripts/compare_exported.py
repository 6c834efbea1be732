#!/usr/bin/env python3
"""Compare exported models with the run that they are from: replies, scores, loss, size and speed.

Replies to the sources of a corpus by greedy and beam search, and the exact loss of its targets. Then the models take
turns replying to one source at a time. Run nothing else at the same time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
from contenders.table import json_option, print_table

from seq2seq_chat.analysis.loaded_run import LoadedRun
from seq2seq_chat.cli.running import run_command
from seq2seq_chat.config import Decoding, override_decoding
from seq2seq_chat.data.batches import evenly_spaced
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.runs.find import find_run
from seq2seq_chat.runs.run import Run
from seq2seq_chat.search.hypotheses import Hypotheses
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import write_json

COLUMNS = ["model", "MB", "perplexity", "greedy equal %", "beam equal %", "score ±", "greedy ms", "beam ms"]
MAX_ROWS = 128  # scored together


@click.command(help=__doc__)
@click.argument("run_names", nargs=-1, required=True, metavar="RUN EXPORTED...")
@click.option("--data", help="corpus file  [default: the validation corpus of the run]")
@click.option("--limit", type=click.IntRange(1), default=1000, show_default=True, help="samples of the corpus")
@click.option("--beam-width", type=click.IntRange(1), default=5, show_default=True)
@click.option("--calls", type=click.IntRange(3), default=30, show_default=True, help="replies that are timed")
@click.option("--results", default="results", show_default=True, help="folder of the runs")
@json_option
def main(
    run_names: Sequence[str],
    data: str | None,
    limit: int,
    beam_width: int,
    calls: int,
    results: str,
    json_file: Path | None,
) -> None:
    """Compare and print."""
    models = [LoadedRun(find_run(name, results)) for name in run_names]
    config, codecs = models[0].config, models[0].codecs
    if any(model.codecs.fingerprints() != codecs.fingerprints() for model in models):
        raise UserError("the models have different vocabularies or tokenizers; compare exports of one run")
    corpus = Dataset.open(data or config.data.validation or config.data.train, codecs, config.data)
    samples = evenly_spaced(len(corpus), limit)
    searches = {
        "greedy": override_decoding(config.decoding, method="greedy", n_best=1),
        "beam": override_decoding(config.decoding, method="beam", beam_width=beam_width, n_best=1),
    }
    rows: list[dict[str, Any]] = [{"model": model.run.name, "MB": size_of(model.run) / 1e6} for model in models]
    for model, row in zip(models, rows, strict=True):
        row["perplexity"] = perplexity(model, corpus, samples)
    for name, decoding in searches.items():
        batch = encode(models[0], corpus, samples)
        replies = [model.chatbot.search(decoding)(*batch) for model in models]
        for row, found in zip(rows, replies, strict=True):
            equal = (found.words == replies[0].words).all(axis=(1, 2))
            row[f"{name} equal %"] = 100 * float(equal.mean())
            differences = np.abs(found.scores - replies[0].scores)[equal]
            row["score ±"] = max(row.get("score ±", 0.0), float(np.max(differences, initial=0)))
        for row, seconds in zip(rows, time_replies(models, decoding, batch, calls), strict=True):
            row[f"{name} ms"] = 1e3 * median(seconds)
    print_table(rows, COLUMNS)
    if json_file:
        write_json(json_file, {"samples": len(samples), "beam_width": beam_width, "models": rows})


def size_of(run: Run) -> int:
    """Bytes of an exported model, or of the newest weights of a run."""
    files = run.path.glob("*.onnx") if run.is_exported else run.weight_files()[:1]
    return sum(file.stat().st_size for file in files)


def encode(model: LoadedRun, corpus: Dataset, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sources of samples as the encoder reads them."""
    config = model.config
    steps, reverse = config.model.encoder_steps, config.data.reverse_input
    batch = corpus.batch(samples, size=len(samples), source_steps=steps, target_steps=1, reverse=reverse)
    return batch.source, batch.source_length


def perplexity(model: LoadedRun, corpus: Dataset, samples: np.ndarray) -> float:
    """The perplexity of the targets of samples."""
    config = model.config
    buckets = [(config.model.encoder_steps, config.model.decoder_steps)]
    scores = model.scorer(MAX_ROWS).score_samples(corpus, buckets, config.data.reverse_input, samples)
    return float(np.exp(scores.nats.sum() / scores.tokens.sum()))


def time_replies(
    models: Sequence[LoadedRun], decoding: Decoding, batch: tuple[np.ndarray, np.ndarray], calls: int
) -> list[list[float]]:
    """Seconds of replies to single sources by each model, in turns."""
    seconds: list[list[float]] = [[] for _ in models]
    for call in range(calls + 1):
        row = slice(call % len(batch[0]), call % len(batch[0]) + 1)
        for model, times in zip(models, seconds, strict=True):
            start = time.perf_counter()
            _: Hypotheses = model.chatbot.search(decoding)(batch[0][row], batch[1][row])
            times.append(time.perf_counter() - start)
    return [times[1:] for times in seconds]


if __name__ == "__main__":
    run_command(main)
