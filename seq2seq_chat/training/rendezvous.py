"""The workers that train together: their addresses, and how they connect.

TensorFlow waits for missing workers silently, without a timeout, and ignores signals meanwhile. So before it starts,
the workers connect to the chief's address, and once all are connected, the chief tells them to start.
"""

from __future__ import annotations

import json
import os
import re
import select
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

from seq2seq_chat.system.errors import UserError

ADDRESS = re.compile(r"^(\[[0-9A-Fa-f:.]+\]|[^\s:,\[\]]+):(\d{1,5})$")
CONNECT_TIMEOUT = 2.0  # seconds
WAIT_TIMEOUT = 600.0  # seconds that workers wait for each other
START = b"begin\n"


class Cluster(NamedTuple):
    """The workers that train one model. Worker 0 is the chief: it reads the configuration and writes the run."""

    workers: tuple[str, ...]  # HOST:PORT of each
    task_index: int  # of this process

    @property
    def is_chief(self) -> bool:
        """Whether this process is the chief."""
        return self.task_index == 0

    def handshake(self, index: int) -> bytes:
        """The message to the chief that tells a worker from workers of other clusters."""
        return f"{index} of {','.join(self.workers)}\n".encode()

    def unreachable(self) -> list[int]:
        """Indices of the other workers that do not accept connections."""
        others = [index for index in range(len(self.workers)) if index != self.task_index]
        return [index for index in others if not _is_reachable(self.workers[index])]

    def describe(self, *indices: int) -> str:
        """3 → "worker 3 (10.0.0.4:5000)"."""
        return " and ".join(f"worker {index} ({self.workers[index]})" for index in indices)


def cluster_from_options(workers: str | None, index: int | None) -> Cluster | None:
    """The cluster described by `--workers` and `--index`, or None if neither is given.

    Raises:
        UserError: one of them is missing or invalid.
    """
    if workers is None and index is None:
        return None
    if workers is None or index is None:
        raise UserError("--workers HOST:PORT,… and --index N must be given together")
    return _validated_cluster(workers.split(","), index, "--workers")


def cluster_from_environment(environment: Mapping[str, str] = os.environ) -> Cluster | None:
    """The cluster described by the environment variable TF_CONFIG, or None if it is not set.

    Raises:
        UserError: it is invalid.
    """
    text = environment.get("TF_CONFIG")
    if not text:
        return None
    try:
        settings = json.loads(text)
        jobs, task = settings["cluster"], settings["task"]
        chiefs = [*jobs.get("chief", [])]
        index = int(task["index"]) + {"chief": 0, "worker": len(chiefs)}[task["type"]]
        return _validated_cluster([*chiefs, *jobs.get("worker", [])], index, "TF_CONFIG")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(
            'TF_CONFIG does not describe workers; it looks like {"cluster": {"worker": ["HOST:PORT", …]}, '
            '"task": {"type": "worker", "index": 0}}'
        ) from None


def wait_for_workers(cluster: Cluster, on_progress: Callable[[str], object]) -> None:
    """Wait until all workers are connected.

    Raises:
        UserError: workers are missing, the port is in use, or the workers were started with different lists.
    """
    if cluster.is_chief:
        _accept_workers(cluster, on_progress)
    else:
        _connect_to_chief(cluster, on_progress)


def _accept_workers(cluster: Cluster, on_progress: Callable[[str], object]) -> None:
    expected = {cluster.handshake(index): index for index in range(1, len(cluster.workers))}
    deadline, reported = time.monotonic() + WAIT_TIMEOUT, False
    with ExitStack() as stack:
        server = stack.enter_context(_listen(cluster))
        server.settimeout(CONNECT_TIMEOUT / 4)
        connected: dict[int, socket.socket] = {}
        while len(connected) < len(expected):
            missing = cluster.describe(*sorted(set(expected.values()) - connected.keys()))
            if time.monotonic() > deadline:
                raise UserError(f"{missing} did not connect; start all workers within ten minutes")
            if not reported:
                on_progress(f"waiting for {missing}")
                reported = True
            with suppress(TimeoutError):
                connection = stack.enter_context(server.accept()[0])
                connection.settimeout(CONNECT_TIMEOUT)
                index = expected.get(_read_line(connection))
                if index is None:
                    with suppress(OSError):
                        connection.sendall(f"other workers: {','.join(cluster.workers)}\n".encode())
                    continue
                connected[index] = connection
            # workers send nothing while they wait, so only a closed connection is readable
            closed = select.select([*connected.values()], [], [], 0)[0]
            connected = {index: connection for index, connection in connected.items() if connection not in closed}
        for index, connection in connected.items():
            try:
                connection.sendall(START)
            except OSError as error:
                raise UserError(f"{cluster.describe(index)} has ended; start all workers again") from error
        for connection in connected.values():  # the workers close first, which leaves our port free for TensorFlow
            _read_line(connection)


def _connect_to_chief(cluster: Cluster, on_progress: Callable[[str], object]) -> None:
    deadline, reported, chief = time.monotonic() + WAIT_TIMEOUT, False, cluster.describe(0)
    while time.monotonic() < deadline:
        address = _split_address(cluster.workers[0])
        with suppress(OSError), socket.create_connection(address, timeout=CONNECT_TIMEOUT) as connection:
            if connection.getsockname() == connection.getpeername():  # without a server we may get its port as our own
                continue
            connection.sendall(cluster.handshake(cluster.task_index))
            connection.settimeout(max(CONNECT_TIMEOUT, deadline - time.monotonic()))
            response = _read_line(connection)
            if response == START:
                return
            if response:
                text = response.decode(errors="replace").strip()
                raise UserError(f"{chief} has {text}; give all workers the same --workers")
        if not reported:
            on_progress(f"waiting for {chief}")
            reported = True
        time.sleep(CONNECT_TIMEOUT / 8)
    raise UserError(f"{chief} does not respond; start it, and check that its port is reachable from here")


def _listen(cluster: Cluster) -> socket.socket:
    port = _split_address(cluster.workers[cluster.task_index])[1]
    dual_stack = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if dual_stack else socket.AF_INET
    try:
        return socket.create_server(("", port), family=family, dualstack_ipv6=dual_stack)
    except OSError as error:
        raise UserError(
            f"{cluster.describe(cluster.task_index)} cannot listen: {error.strerror}; choose another port"
        ) from None


def _read_line(connection: socket.socket) -> bytes:
    """Receive a line, or the beginning of one if the connection is closed or times out."""
    line = b""
    with suppress(OSError):
        while not line.endswith(b"\n") and len(line) < 10**5:
            received = connection.recv(4096)
            if not received:
                break
            line += received
    return line


def _split_address(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _validated_cluster(workers: list[Any], index: int, where: str) -> Cluster:
    for address in workers:
        match = ADDRESS.match(str(address))
        if match is None or not 0 < int(match[2]) < 2**16:
            raise UserError(f"{where}: {address!r} is not an address; write HOST:PORT,HOST:PORT,…")
    if len(set(workers)) < len(workers):
        raise UserError(f"{where}: duplicate address; every worker needs its own")
    if not 0 <= index < len(workers):
        raise UserError(f"{where}: the index of a worker must be 0 to {len(workers) - 1}")
    return Cluster(tuple(workers), index)


def _is_reachable(address: str) -> bool:
    try:
        with socket.create_connection(_split_address(address), timeout=CONNECT_TIMEOUT):
            return True
    except OSError:
        return False
