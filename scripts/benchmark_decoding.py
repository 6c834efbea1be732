#!/usr/bin/env python3
"""Time our greedy and beam search, exported models and the addons, for single utterances and batches of 32.

All have the same weights; the int8 model rounds them to integers of 8 bits.

The contenders take turns, call by call. The limit is the time in which the machine reads the weights of every step, or
multiplies them, whichever takes longer; the bandwidth of its memory and its peak are measured in the same turns. Chat
depends on the latency of a single reply, evaluation on the replies per second of a batch. Untrained weights never end a
reply, so all replies have the maximum length; with --run, our chatbot is also timed on the validation corpus of a run.
Run nothing else at the same time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import click
from contenders.table import json_option, print_table
from contenders.worker import Contender, Worker
from contenders.workload import (
    PEAK_BYTES,
    PEAK_FLOP,
    SIZES,
    Size,
    read_workload,
    write_run,
    write_workload_in_subprocess,
)
from tqdm import tqdm

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.cli.running import run_command
from seq2seq_chat.config import override_decoding
from seq2seq_chat.data.samples import read_samples
from seq2seq_chat.runs.find import find_run
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import write_json

CONTENDERS = [
    Contender("ours", "ours", {}),
    Contender("ours, the best reply only", "ours", {"n_best": 1}),
    Contender("exported", "exported", {}),
    Contender("exported, int8", "exported", {"quantize": "int8"}),
    Contender("addons", "keras_addons", {}),
]
BATCH_SIZES = (1, 32)
PEAK = Contender("peak", "peak", {})
TOLERANCE = 1e-3  # of the best score, without rounded weights
COLUMNS = ["search", "batch", "contender", "median ms", "95 % ms", "replies/s", "% of limit", "GB", "ours is"]


@click.command(help=__doc__)
@click.option("--size", type=click.Choice(list(SIZES)), default="medium", show_default=True)
@click.option("--calls", type=click.IntRange(3), default=12, show_default=True, help="calls that are timed")
@click.option(
    "--beam-width",
    "widths",
    multiple=True,
    type=click.IntRange(1),
    default=(1, 5, 10),
    show_default=True,
    help="1 for greedy search; repeatable",
)
@click.option("--run", "run_name", help="a trained run instead of untrained weights")
@click.option("--results", default="results", show_default=True, help="folder of the runs")
@json_option
def main(
    size: str, calls: int, widths: Sequence[int], run_name: str | None, results: str, json_file: Path | None
) -> None:
    """Run the contenders and print the measurements."""
    kinds = [(batch_size, width) for batch_size in BATCH_SIZES for width in widths]
    with tempfile.TemporaryDirectory() as folder:
        if run_name:
            try:
                run = find_run(run_name, results)
                write_run(Path(folder), run)
            except UserError as error:
                raise click.UsageError(str(error)) from error
            rows = time_contenders(Path(folder), read_workload(Path(folder)).size, kinds, calls) + time_chatbot(
                run, calls
            )
        else:
            write_workload_in_subprocess(Path(folder), size, 1 + 32 // SIZES[size].batch, forbid=50.0)
            rows = time_contenders(Path(folder), SIZES[size], kinds, calls)
    print_table(rows, COLUMNS)
    if json_file:
        write_json(json_file, {"size": run_name or size, "calls": calls, "searches": rows})


def time_contenders(folder: Path, size: Size, kinds: Sequence[tuple[int, int]], calls: int) -> list[dict[str, Any]]:
    """Time all contenders in turns: a row for each contender and kind of search, (batch size, beam width).

    Raises:
        ClickException: The scores of their replies differ.
    """
    rows: list[dict[str, Any]] = []
    with (
        tqdm(total=len(kinds) * len(CONTENDERS) * (calls + 1), unit="call", disable=None) as bar,
        Worker(PEAK, "Search", folder) as peak,
    ):
        for kind in kinds:
            with ExitStack() as stack:  # new processes for each kind, to measure its memory alone
                workers = [stack.enter_context(Worker(contender, "Search", folder)) for contender in CONTENDERS]
                rows += time_kind(workers, peak, size, kind, calls, bar)
    return rows


def time_kind(
    workers: Sequence[Worker], peak: Worker, size: Size, kind: tuple[int, int], calls: int, bar: Any
) -> list[dict[str, Any]]:
    """Time one kind of search, (batch size, beam width), by all contenders in turns."""
    batch_size, width = kind
    peak_seconds: dict[str, list[float]] = {"read": [], "multiply": []}
    for method in peak_seconds:
        peak.call(method)
    seconds: list[list[float]] = [[] for _ in workers]
    scores = []
    for worker in workers:
        bar.set_description(f"{worker.contender.label}: starting")
        scores.append(worker.call("search", 0, batch_size, width))
        bar.update()
    exact = [each for each, worker in zip(scores, workers, strict=True) if "quantize" not in worker.contender.arguments]
    pairs = [pair for other in exact for pair in zip(scores[0], other, strict=True)]
    if any(abs(one - other) > TOLERANCE * abs(one) for one, other in pairs):
        raise click.ClickException("the replies of the contenders have different scores")
    for call in range(calls):
        for worker, times in zip(workers, seconds, strict=True):
            times.append(worker.time_call("search", call % 32 if batch_size == 1 else 0, batch_size, width))
            bar.update()
        for method, times in peak_seconds.items():
            times.append(peak.time_call(method))
    bandwidth, flop = PEAK_BYTES / median(peak_seconds["read"]), PEAK_FLOP / median(peak_seconds["multiply"])
    limit = size.min_search_seconds(batch_size, width, bandwidth, flop)
    peaks = {"peak GB/s": bandwidth / 1e9, "peak GFLOP/s": flop / 1e9}
    return [
        _row(worker.contender.label, batch_size, width, times)
        | {"% of limit": 100 * limit / median(times), "GB": worker.peak_memory() / 1e9, **peaks}
        | {"ours is": median(times) / median(seconds[0])}
        for worker, times in zip(workers, seconds, strict=True)
    ]


def time_chatbot(run: Run, calls: int) -> list[dict[str, Any]]:
    """Time the chatbot of a run, from the text of an utterance to the text of its reply."""
    bot = Chatbot.load(run)
    data = bot.config.data
    samples = read_samples(data.validation or data.train, data, run.codecs.tokenizers)
    texts = [sample.source for sample in islice(samples, 32)]
    rows = []
    for width in (1, 10):
        method = "beam" if width > 1 else "greedy"
        decoding = override_decoding(bot.config.decoding, method=method, beam_width=width, n_best=1)
        times = [bot.reply(texts[call % len(texts)], decoding).seconds for call in range(calls + 1)]
        rows.append(_row("ours, from text to text", 1, width, times[1:]))
    return rows


def _row(contender: str, batch_size: int, width: int, seconds: list[float]) -> dict[str, Any]:
    return {
        "search": f"beam {width}" if width > 1 else "greedy",
        "batch": batch_size,
        "contender": contender,
        "median ms": 1e3 * median(seconds),
        "95 % ms": 1e3 * quantiles(seconds, n=20)[-1],
        "replies/s": batch_size / median(seconds),
        "seconds": seconds,
    }


if __name__ == "__main__":
    run_command(main)
