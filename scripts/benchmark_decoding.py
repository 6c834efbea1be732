#!/usr/bin/env python3
"""Time our greedy and beam search by TensorFlow and ONNX Runtime, and the addons', for one utterance and batches of 32.

All have the same weights; the int8 model rounds them to integers of 8 bits.

The contenders take turns, call by call. The limit is the time in which the machine reads the weights of every step, or
multiplies them, whichever takes longer; the bandwidth of its memory and its peak are measured in the same turns. Chat
depends on the latency of a single reply, evaluation on the replies per second of a batch. Untrained weights never end a
reply, so all replies have the maximum length. Run nothing else at the same time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import click
from contenders import PEAK_BYTES, PEAK_FLOP, Contender, Worker, json_option, print_table
from contenders.workload import SIZES, Size, write_workload_in_subprocess
from tqdm import tqdm

from seq2seq_chat.cli.options import run_command
from seq2seq_chat.system.files import write_json

CONTENDERS = [
    Contender("ours", "contenders.ours", {}),
    Contender("ours, the best reply only", "contenders.ours", {"n_best": 1}),
    Contender("ONNX", "contenders.onnx_runtime", {}),
    Contender("ONNX, int8", "contenders.onnx_runtime", {"quantize": "int8"}),
    Contender("addons", "contenders.keras_addons", {}),
]
BATCH_SIZES = (1, 32)
PEAK = Contender("peak", "contenders", {})
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
@json_option
def main(size: str, calls: int, widths: Sequence[int], json_file: Path | None) -> None:
    """Run the contenders and print the measurements."""
    kinds = [(batch_size, width) for batch_size in BATCH_SIZES for width in widths]
    with tempfile.TemporaryDirectory() as folder:
        write_workload_in_subprocess(Path(folder), size, 1 + 32 // SIZES[size].batch, forbid=50.0)
        rows = time_contenders(Path(folder), SIZES[size], kinds, calls)
    print_table(rows, COLUMNS)
    if json_file:
        write_json(json_file, {"size": size, "calls": calls, "searches": rows})


def time_contenders(folder: Path, size: Size, kinds: Sequence[tuple[int, int]], calls: int) -> list[dict[str, Any]]:
    """Time all contenders in turns: a row for each contender and kind of search, (batch size, beam width).

    Raises:
        ClickException: The scores of their replies differ.
    """
    rows: list[dict[str, Any]] = []
    with (
        tqdm(total=len(kinds) * len(CONTENDERS) * (calls + 1), unit="call", disable=None) as bar,
        Worker(PEAK, "Peak", None) as peak,
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
    peak.call("read")
    peak.call("step", 0)
    read_seconds, multiply_seconds = [], []
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
        read_seconds.append(peak.time_call("read"))
        multiply_seconds.append(peak.time_call("step", call))
    bandwidth, flop = PEAK_BYTES / median(read_seconds), PEAK_FLOP / median(multiply_seconds)
    limit = size.min_search_seconds(batch_size, width, bandwidth, flop)
    return [
        {
            "search": f"beam {width}" if width > 1 else "greedy",
            "batch": batch_size,
            "contender": worker.contender.label,
            "median ms": 1e3 * median(times),
            "95 % ms": 1e3 * quantiles(times, n=20)[-1],
            "replies/s": batch_size / median(times),
            "% of limit": 100 * limit / median(times),
            "GB": worker.peak_memory() / 1e9,
            "ours is": median(times) / median(seconds[0]),
            "peak GB/s": bandwidth / 1e9,
            "peak GFLOP/s": flop / 1e9,
            "seconds": times,
        }
        for worker, times in zip(workers, seconds, strict=True)
    ]


if __name__ == "__main__":
    run_command(main)
