"""Who trains together: the addresses of the workers, and which of them this process is."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Mapping
from typing import Any, NamedTuple, Optional

from seq2seq_chat.errors import UserError

ADDRESS = re.compile(r"^(\[[0-9A-Fa-f:.]+\]|[^\s:,\[\]]+):(\d{1,5})$")
ASKED = 2.0  # seconds that a worker has to answer when it is looked for


class Cluster(NamedTuple):
    """Workers that train one model. The first one leads: it reads the experiment, keeps the run, tells the others."""

    workers: tuple[str, ...]  # HOST:PORT of each
    number: int  # of this process, counted from 0

    @property
    def leads(self) -> bool:
        """Whether this process is the first worker."""
        return self.number == 0

    @property
    def arguments(self) -> str:
        """What is to be typed on the first worker."""
        return f"--workers {','.join(self.workers)} --index 0"

    def silent(self) -> list[int]:
        """Which of the other workers do not answer at their address."""
        return [n for n, address in enumerate(self.workers) if n != self.number and not _answers(address)]

    def named(self, index: int) -> str:
        """3 → "worker 3 (10.0.0.4:5000)"."""
        return f"worker {index} ({self.workers[index]})"


def cluster_of_options(workers: Optional[str], index: Optional[int]) -> Optional[Cluster]:
    """The cluster that `--workers` and `--index` describe, None where neither is given.

    Raises:
        UserError: one of them is missing, or they do not fit.
    """
    if workers is None and index is None:
        return None
    if workers is None or index is None:
        raise UserError("--workers HOST:PORT,… and --index N belong together: all workers, and which of them this is")
    return _cluster(workers.split(","), index, "--workers")


def cluster_of_environment(environment: Mapping[str, str] = os.environ) -> Optional[Cluster]:
    """The cluster that the environment variable TF_CONFIG describes, None where there is none.

    Raises:
        UserError: it does not describe workers.
    """
    text = environment.get("TF_CONFIG")
    if not text:
        return None
    try:
        settings = json.loads(text)
        jobs, task = settings["cluster"], settings["task"]
        leaders = [*jobs.get("chief", [])]
        index = int(task["index"]) + {"chief": 0, "worker": len(leaders)}[task["type"]]
        return _cluster([*leaders, *jobs.get("worker", [])], index, "TF_CONFIG")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(
            'TF_CONFIG does not describe workers; it looks like {"cluster": {"worker": ["HOST:PORT", …]}, '
            '"task": {"type": "worker", "index": 0}}'
        ) from None


def _cluster(workers: list[Any], index: int, where: str) -> Cluster:
    for address in workers:
        match = ADDRESS.match(str(address))
        if match is None or not 0 < int(match[2]) < 2**16:
            raise UserError(f"{where}: {address!r} is no address; write HOST:PORT for every worker, and commas between")
    if len(set(workers)) < len(workers):
        raise UserError(f"{where}: an address stands there twice; every worker needs its own")
    if not 0 <= index < len(workers):
        raise UserError(f"{where}: there are {len(workers)} workers, so their indices are 0 to {len(workers) - 1}")
    return Cluster(tuple(workers), index)


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=ASKED):
            return True
    except OSError:
        return False
