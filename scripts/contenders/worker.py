"""Run a contender in a subprocess that executes one call per line of input, so that several can be timed in turns."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent


class Contender(NamedTuple):
    """A class in a module of this package, and its arguments besides the workload."""

    label: str
    module: str
    arguments: dict[str, Any]


class Worker:
    """A contender in a subprocess, as a context manager.

    Args:
        contender: The contender to run.
        kind: Name of its class: "TrainingStep" or "Search".
        folder: Folder of the workload.
    """

    def __init__(self, contender: Contender, kind: str, folder: Path) -> None:
        self.contender = contender
        paths = [str(HERE.parent), str(HERE.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "TF_CPP_MIN_LOG_LEVEL": "3"}
        command = [sys.executable, "-m", "contenders.worker", contender.module, kind, json.dumps(contender.arguments)]
        self._start = time.perf_counter()
        self._process = subprocess.Popen(
            [*command, str(folder)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()

    def seconds_since_start(self) -> float:
        """Seconds since the start of the process."""
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
        result: dict[str, Any] = json.loads(answer)
        return result


def serve(module: str, kind: str, arguments: str, folder: str) -> None:
    """Create the contender and execute a call, [method, *arguments], for each line of standard input."""
    import importlib

    from contenders.workload import read_workload

    output = os.fdopen(os.dup(1), "w")  # so that libraries that print do not interfere
    os.dup2(2, 1)
    contender = getattr(importlib.import_module(f"contenders.{module}"), kind)(
        read_workload(Path(folder)), **json.loads(arguments)
    )
    for line in sys.stdin:
        request = json.loads(line)
        start = time.perf_counter()
        result = getattr(contender, request[0])(*request[1:]) if request else None
        seconds = time.perf_counter() - start
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"result": result, "seconds": seconds, "memory": memory}), file=output, flush=True)


if __name__ == "__main__":
    serve(*sys.argv[1:])
