"""One contender in a process of its own, which does what it is told line by line: so are several timed in turns."""

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
    """A class of a module of this package, and what it is made with besides the workload."""

    label: str
    module: str
    arguments: dict[str, Any]


class Worker:
    """A running contender. Use it as a context.

    Args:
        contender: what to run.
        kind: name of the class to make: "TrainingStep" or "Search".
        folder: where the workload was written.
    """

    def __init__(self, contender: Contender, kind: str, folder: Path) -> None:
        self.contender = contender
        paths = [str(HERE.parent), str(HERE.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "TF_CPP_MIN_LOG_LEVEL": "3"}
        command = [sys.executable, "-m", "contenders.worker", contender.module, kind, json.dumps(contender.arguments)]
        self._begun = time.perf_counter()
        self._process = subprocess.Popen(
            [*command, str(folder)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()

    def age(self) -> float:
        """Seconds since the process was started."""
        return time.perf_counter() - self._begun

    def do(self, method: str, *arguments: Any) -> Any:
        """Call the contender; what it returns has to be JSON, and so have the arguments."""
        return self._ask([method, *arguments])["result"]

    def time(self, method: str, *arguments: Any) -> float:
        """Seconds a call takes, measured where it is made."""
        return float(self._ask([method, *arguments])["seconds"])

    def peak_memory(self) -> int:
        """Bytes of resident memory that the process had at most."""
        return int(self._ask([])["memory"])

    def _ask(self, request: list[Any]) -> dict[str, Any]:
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
    """Make the contender and call it for each line of standard input: a list of a method's name and arguments."""
    import importlib

    from contenders.workload import read_workload

    answers = os.fdopen(os.dup(1), "w")  # what libraries print must not be taken for an answer
    os.dup2(2, 1)
    contender = getattr(importlib.import_module(f"contenders.{module}"), kind)(
        read_workload(Path(folder)), **json.loads(arguments)
    )
    for line in sys.stdin:
        request = json.loads(line)
        begun = time.perf_counter()
        result = getattr(contender, request[0])(*request[1:]) if request else None
        seconds = time.perf_counter() - begun
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"result": result, "seconds": seconds, "memory": memory}), file=answers, flush=True)


if __name__ == "__main__":
    serve(*sys.argv[1:])
