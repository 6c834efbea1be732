"""Who trains together: the addresses of the workers, which of them this process is, and how they meet.

TensorFlow waits for absent workers without a word and without an end, and hears no signal meanwhile. So they meet
before it starts: the others call the first worker at its address, and when all have called it tells them to begin.
"""

from __future__ import annotations

import json
import os
import re
import select
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple, Optional

from seq2seq_chat.errors import UserError

ADDRESS = re.compile(r"^(\[[0-9A-Fa-f:.]+\]|[^\s:,\[\]]+):(\d{1,5})$")
ASKED = 2.0  # seconds that a worker has to answer when it is looked for
PATIENCE = 600.0  # seconds that workers wait for each other at the beginning
BEGIN = b"begin\n"


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
        return [other.number for other in self.others if not _answers(self.workers[other.number])]

    def named(self, *indices: int) -> str:
        """3 → "worker 3 (10.0.0.4:5000)"."""
        return " and ".join(f"worker {index} ({self.workers[index]})" for index in indices)

    @property
    def greeting(self) -> bytes:
        """By which the first worker knows that this one belongs to it."""
        return f"{self.number} of {','.join(self.workers)}\n".encode()

    @property
    def others(self) -> Iterable[Cluster]:
        """The same cluster as each of the other workers sees it."""
        return [self._replace(number=n) for n in range(len(self.workers)) if n != self.number]


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


def loopback_addresses(count: int) -> list[str]:
    """Addresses for workers that all run on this machine, at ports the system chose."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]


def assemble(cluster: Cluster, say: Callable[[str], object]) -> None:
    """Wait until all workers are there.

    Raises:
        UserError: some do not come, the address cannot be had, or they do not agree on who takes part.
    """
    if cluster.leads:
        _await_others(cluster, say)
    else:
        _call_first(cluster, say)


def _await_others(cluster: Cluster, say: Callable[[str], object]) -> None:
    expected = {other.greeting: other.number for other in cluster.others}
    end, told = time.monotonic() + PATIENCE, False
    with ExitStack() as stack:
        door = stack.enter_context(_listen(cluster))
        door.settimeout(ASKED / 4)
        present: dict[int, socket.socket] = {}
        while len(present) < len(expected):
            absent = sorted(set(expected.values()) - present.keys())
            if time.monotonic() > end:
                raise UserError(f"{cluster.named(*absent)} did not come; start every worker within ten minutes")
            if not told:
                say(f"waiting for {cluster.named(*absent)}")
                told = True
            with suppress(TimeoutError):
                caller = stack.enter_context(door.accept()[0])
                caller.settimeout(ASKED)
                number = expected.get(_line(caller))
                if number is None:
                    with suppress(OSError):
                        caller.sendall(f"other workers: {','.join(cluster.workers)}\n".encode())
                    continue
                present[number] = caller
            present = {number: caller for number, caller in present.items() if _waits(caller)}
        for caller in present.values():
            caller.sendall(BEGIN)
        for caller in present.values():  # who closes a connection last can use its port again at once
            _line(caller)


def _call_first(cluster: Cluster, say: Callable[[str], object]) -> None:
    end, told = time.monotonic() + PATIENCE, False
    while time.monotonic() < end:
        with suppress(OSError), socket.create_connection(_place(cluster.workers[0]), timeout=ASKED) as line:
            if line.getsockname() == line.getpeername():  # nobody listens, and the system took this very port to ask
                continue
            line.sendall(cluster.greeting)
            line.settimeout(max(ASKED, end - time.monotonic()))
            answer = _line(line)
            if answer == BEGIN:
                return
            if answer:
                raise UserError(f"{cluster.named(0)} has {answer.decode(errors='replace').strip()}; name them alike")
        if not told:
            say(f"waiting for {cluster.named(0)}")
            told = True
        time.sleep(ASKED / 8)
    raise UserError(f"{cluster.named(0)} does not answer; start it, and see that its port can be reached from here")


def _listen(cluster: Cluster) -> socket.socket:
    port = _place(cluster.workers[cluster.number])[1]
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    try:
        return socket.create_server(("", port), family=family, dualstack_ipv6=both)
    except OSError as error:
        raise UserError(
            f"{cluster.named(cluster.number)} cannot listen: {error.strerror}; choose another port"
        ) from None


def _waits(caller: socket.socket) -> bool:
    """Whether the other end is still there: it says nothing while it waits, and only its end can be heard."""
    return not select.select([caller], [], [], 0)[0]


def _line(end: socket.socket) -> bytes:
    """What the other end says up to the end of a line; nothing where it goes away or is silent."""
    said = b""
    with suppress(OSError):
        while not said.endswith(b"\n") and len(said) < 10**5:
            more = end.recv(4096)
            if not more:
                break
            said += more
    return said


def _place(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


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
    try:
        with socket.create_connection(_place(address), timeout=ASKED):
            return True
    except OSError:
        return False
