"""The systems that benchmarks compare, a module each; how they run, in processes that take turns; and their tables."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any, NamedTuple

import click

from seq2seq_chat.system.tables import format_table

SCRIPTS = Path(__file__).resolve().parents[1]
PEAK_MATRIX_SIZE = 4096  # rows and columns of the matrix product that measures the peak speed
PEAK_FLOP = 2 * PEAK_MATRIX_SIZE**3
PEAK_BYTES = 2**28  # of the array that measures the memory bandwidth; more than any cache
WARM_UP = 2  # steps
TOLERANCE = {"float32": 2e-3, "bfloat16": 1e-2}  # relative, of losses; see the addons' contender
FORMATS = {"loss": "{:.4f}", "GB": "{:.2f}", "ours is": "{:.2f} ×", "replies/s": "{:.1f}", "first step s": "{:.1f}"}
FORMATS |= dict.fromkeys(("median ms", "95 % ms"), "{:.1f}")

json_option = click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="write the results to this file"
)


def environment() -> dict[str, str]:
    """The environment of processes that import the scripts and the package of this folder."""
    paths = [str(SCRIPTS), str(SCRIPTS.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "TF_CPP_MIN_LOG_LEVEL": "3"}


def print_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Print the given columns as a Markdown table."""
    cells = [[_text(row.get(column), column) for column in columns] for row in rows]
    print(format_table([columns, *cells], "lr", "markdown"))


def _text(value: Any, column: str) -> str:
    if value is None:
        return ""
    return FORMATS.get(column, "{:,.0f}").format(value) if isinstance(value, (int, float)) else str(value)


class Contender(NamedTuple):
    """A module with a class of each kind, and the arguments of the class besides the workload."""

    label: str
    module: str
    arguments: dict[str, Any]

    @property
    def precision(self) -> str:
        return str(self.arguments.get("precision", "float32"))

    def unavailable_reason(self) -> str | None:
        """Why it cannot run on this machine, or None."""
        if self.module == "contenders.pytorch" and importlib.util.find_spec("torch") is None:
            return "torch is not installed"
        from seq2seq_chat.training.optimizers import why_unavailable  # imports TensorFlow

        return why_unavailable(self.precision)


class Peak:
    """The peak speeds of the machine: of a large square matrix product, and of reading memory."""

    def __init__(self, precision: str = "float32") -> None:
        import tensorflow as tf

        first, second = (
            tf.cast(tf.random.normal([PEAK_MATRIX_SIZE, PEAK_MATRIX_SIZE], seed=n), precision) for n in range(2)
        )
        numbers = tf.ones([PEAK_BYTES // 4])
        self._product = tf.function(lambda: tf.matmul(first, second)[0, 0])
        self._sum = tf.function(lambda: tf.reduce_sum(numbers))

    def step(self, number: int) -> float:
        """Multiply in place of training step ``number``; returns 0 as the loss."""
        return float(self._product()) * 0.0

    def read(self) -> float:
        """Read every number of a large array once."""
        return float(self._sum())


class Worker:
    """A contender in a subprocess, as a context manager.

    Args:
        contender: The contender to run.
        kind: Name of its class, for example "TrainingStep".
        folder: Folder of the workload, or None for a class that needs none.
    """

    def __init__(self, contender: Contender, kind: str, folder: Path | None) -> None:
        self.contender = contender
        program = "import sys; from contenders import serve; serve(*sys.argv[1:])"
        command = [sys.executable, "-c", program, contender.module, kind, json.dumps(contender.arguments)]
        self._start = time.perf_counter()
        self._process = subprocess.Popen(
            [*command, str(folder or "")], env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()

    def seconds_since_start(self) -> float:
        return time.perf_counter() - self._start

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the contender; arguments and result must be JSON."""
        return self._request([method, *arguments])["result"]

    def time_call(self, method: str, *arguments: Any) -> float:
        """Seconds that a call takes, measured in the subprocess."""
        return float(self._request([method, *arguments])["seconds"])

    def peak_memory(self) -> int:
        """Peak resident memory of the process in bytes."""
        return int(self._request([])["memory"])

    def _request(self, request: list[Any]) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            print(json.dumps(request), file=self._process.stdin, flush=True)
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise RuntimeError(f"{self.contender.label}: the process ended with status {self._process.wait()}")
        return json.loads(answer)


def time_steps(
    group: Sequence[Contender], kind: str, folder: Path | None, tokens: int, flop: int, steps: int, bar: Any
) -> list[dict[str, Any]]:
    """Time the training steps of contenders in turns; one row each.

    Args:
        group: The contenders; the first of each precision is ours.
        kind: Name of their class.
        folder: Folder of the workload, or None.
        tokens: Target tokens of a step.
        flop: Floating-point operations of a step.
        steps: Number of steps to time, after ``WARM_UP``.
        bar: Progress bar, which advances with every step.
    """
    precisions = sorted({contender.precision for contender in group})
    peaks = [Contender(f"peak, {precision}", "contenders", {"precision": precision}) for precision in precisions]
    with ExitStack() as stack:
        workers, first_steps, losses = [], [], []
        for contender in [*peaks, *group]:
            bar.set_description(f"{contender.label}: starting")
            worker = stack.enter_context(Worker(contender, *(("Peak", None) if contender in peaks else (kind, folder))))
            losses.append([worker.call("step", 0)])
            first_steps.append(worker.seconds_since_start())
            losses[-1] += [worker.call("step", number) for number in range(1, WARM_UP)]
            workers.append(worker)
            bar.update(WARM_UP * (contender in group))
        seconds: list[list[float]] = [[] for _ in workers]
        for number in range(WARM_UP, steps + WARM_UP):
            for worker, times in zip(workers, seconds, strict=True):
                bar.set_description(worker.contender.label)
                times.append(worker.time_call("step", number))
                bar.update(worker.contender in group)
        memory = [worker.peak_memory() for worker in workers]
    medians = [median(times) for times in seconds]
    peak = {precision: PEAK_FLOP / time for precision, time in zip(precisions, medians, strict=False)}
    rows: list[dict[str, Any]] = []
    ours: dict[str, float] = {}
    for index in range(len(peaks), len(workers)):
        contender, duration = workers[index].contender, medians[index]
        row = {
            "contender": contender.label,
            "precision": contender.precision,
            "ms": 1e3 * duration,
            "tokens/s": tokens / duration,
            "GFLOP/s": flop / duration / 1e9,
            "% of peak": 100 * flop / duration / peak[contender.precision],
            "peak GFLOP/s": peak[contender.precision] / 1e9,
            "first step s": first_steps[index],
            "GB": memory[index] / 1e9,
            "loss": losses[index][0],
            "ours is": duration / ours.setdefault(contender.precision, duration),
            "first losses": losses[index],
            "seconds": seconds[index],
        }
        rows.append(row)
    return rows


def serve(module: str, kind: str, arguments: str, folder: str) -> None:
    """Create the contender and execute a call, [method, *arguments], for each line of standard input."""
    from contenders.workload import read_workload

    output = os.fdopen(os.dup(1), "w")  # so that libraries that print do not interfere
    os.dup2(2, 1)
    workload = [read_workload(Path(folder))] if folder else []
    contender = getattr(importlib.import_module(module), kind)(*workload, **json.loads(arguments))
    for line in sys.stdin:
        request = json.loads(line)
        start = time.perf_counter()
        result = getattr(contender, request[0])(*request[1:]) if request else None
        seconds = time.perf_counter() - start
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"result": result, "seconds": seconds, "memory": memory}), file=output, flush=True)
