#!/usr/bin/env python3
"""Time replies: greedy and beam search, of one utterance and of 32 at once, ours and the addons', on the same weights.

The contenders take turns, call by call. A single reply's latency is what a person waits for; replies per second of a
batch are what an evaluation waits for. Untrained weights never end a reply, so that all replies are as long as can be;
with --run the utterances of a run's validation corpus are answered by ours alone. Run nothing else meanwhile.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Optional

import click
from contenders.table import print_table, write_json
from contenders.worker import Contender, Worker
from contenders.workload import SIZES, make_workload, write_run
from tqdm import tqdm

from seq2seq_chat.chatbot import Chatbot
from seq2seq_chat.config import decoding_with
from seq2seq_chat.corpus.samples import iterate_samples, read_tokens
from seq2seq_chat.corpus.text import detokenize
from seq2seq_chat.errors import UserError
from seq2seq_chat.runs import Run, find_run

CONTENDERS = [
    Contender("ours", "ours", {}),
    Contender("ours, the best reply only", "ours", {"n_best": 1}),
    Contender("addons", "keras_addons", {}),
]
KINDS = [(1, 1), (1, 10), (32, 1), (32, 10)]  # utterances at once, width
TOLERANCE = 1e-3  # of the best score
COLUMNS = ["search", "at once", "contender", "median ms", "95 % ms", "replies/s", "GB", "ours is"]


@click.command(help=__doc__)
@click.option("--size", type=click.Choice(list(SIZES)), default="medium", show_default=True)
@click.option("--calls", type=click.IntRange(3), default=12, show_default=True, help="calls that are timed")
@click.option("--run", "run_name", help="a trained run instead of untrained weights")
@click.option("--results", default="results", show_default=True, help="where runs are")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="where to write the figures")
def main(size: str, calls: int, run_name: Optional[str], results: str, json_file: Optional[Path]) -> None:
    """Run the contenders and print what was measured."""
    with tempfile.TemporaryDirectory() as folder:
        if run_name:
            try:
                run = find_run(run_name, results)
                write_run(Path(folder), run)
            except UserError as error:
                raise click.UsageError(str(error)) from error
            rows = time_contenders(Path(folder), calls) + time_chatbot(run, calls)
        else:
            make_workload(Path(folder), size, 1 + 32 // SIZES[size].batch, forbid=50.0)
            rows = time_contenders(Path(folder), calls)
    print_table(rows, COLUMNS)
    if json_file:
        write_json(json_file, {"size": run_name or size, "calls": calls, "searches": rows})


def time_contenders(folder: Path, calls: int) -> list[dict[str, Any]]:
    """All contenders in turns; a row for each and each kind of search.

    Raises:
        ClickException: they do not find replies of the same score.
    """
    here = [c for c in CONTENDERS if c.module == "ours" or importlib.util.find_spec("tensorflow_addons")]
    rows: list[dict[str, Any]] = []
    with tqdm(total=len(KINDS) * len(here) * (calls + 1), unit="call", disable=None) as bar:
        for at_once, width in KINDS:
            with ExitStack() as stack:  # new processes for each kind, so that the memory is that of this kind
                workers = [stack.enter_context(Worker(contender, "Search", folder)) for contender in here]
                rows += time_kind(workers, at_once, width, calls, bar)
    return rows


def time_kind(workers: Sequence[Worker], at_once: int, width: int, calls: int, bar: Any) -> list[dict[str, Any]]:
    """One kind of search by all contenders in turns."""
    seconds: list[list[float]] = [[] for _ in workers]
    scores = []
    for worker in workers:
        bar.set_description(f"{worker.contender.label}: starting")
        scores.append(worker.do("search", 0, at_once, width))
        bar.update()
    pairs = [pair for other in scores for pair in zip(scores[0], other, strict=True)]
    if any(abs(one - other) > TOLERANCE * abs(one) for one, other in pairs):
        raise click.ClickException("the contenders do not find replies of the same score")
    for call in range(calls):
        for worker, times in zip(workers, seconds, strict=True):
            times.append(worker.time("search", call % 32 if at_once == 1 else 0, at_once, width))
            bar.update()
    return [
        _row(worker.contender.label, at_once, width, times)
        | {"GB": worker.peak_memory() / 1e9, "ours is": median(times) / median(seconds[0])}
        for worker, times in zip(workers, seconds, strict=True)
    ]


def time_chatbot(run: Run, calls: int) -> list[dict[str, Any]]:
    """The chat bot of a run, from the text of an utterance to that of its reply."""
    bot = Chatbot.load(run)
    data = bot.config.data
    samples = iterate_samples(read_tokens(data.validation or data.train, data.level), data.pairing)
    texts = [detokenize(source, data.level) for source, _ in islice(samples, 32)]
    rows = []
    for width in (1, 10):
        method = "beam" if width > 1 else "greedy"
        decoding = decoding_with(bot.config.decoding, method=method, beam_width=width, n_best=1)
        times = [bot.reply(texts[call % len(texts)], decoding).seconds for call in range(calls + 1)]
        rows.append(_row("ours, from text to text", 1, width, times[1:]))
    return rows


def _row(contender: str, at_once: int, width: int, seconds: list[float]) -> dict[str, Any]:
    return {
        "search": f"beam {width}" if width > 1 else "greedy",
        "at once": at_once,
        "contender": contender,
        "median ms": 1e3 * median(seconds),
        "95 % ms": 1e3 * quantiles(seconds, n=20)[-1],
        "replies/s": at_once / median(seconds),
        "seconds": seconds,
    }


if __name__ == "__main__":
    main()
