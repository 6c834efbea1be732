"""One contender in a process of its own: does what it is told, and prints what it measured as a line of JSON."""

from __future__ import annotations

import importlib
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

from contenders.workload import read_workload


def measure_training(module: str, arguments: dict[str, Any], folder: Path, steps: int) -> dict[str, Any]:
    """Time some steps: {"losses": nats per token, "seconds": of each step, "first_step": seconds since the start, …}."""
    begun = time.time()
    step = importlib.import_module(f"contenders.{module}").TrainingStep(read_workload(folder), **arguments)
    losses, seconds = [], []
    for number in range(steps):
        before = time.perf_counter()
        losses.append(step(number))
        seconds.append(time.perf_counter() - before)
    return {"losses": losses, "seconds": seconds, "built": time.time() - begun - sum(seconds), "memory": peak_memory()}


def peak_memory() -> int:
    """Bytes of memory this process had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    module, arguments, folder, steps = sys.argv[1:]
    print(json.dumps(measure_training(module, json.loads(arguments), Path(folder), int(steps))))
