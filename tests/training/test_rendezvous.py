"""The workers that train together: their addresses, TF_CONFIG, and how they find each other."""

import json
import socket
import threading
from typing import Any

import pytest

from seq2seq_chat.system.errors import UserError
from seq2seq_chat.training import rendezvous
from seq2seq_chat.training.rendezvous import Cluster, cluster_from_environment, cluster_from_options, wait_for_workers
from tests.conftest import Cli, loopback_addresses


def test_cluster_from_options() -> None:
    assert cluster_from_options(None, None) is None
    cluster = cluster_from_options("a:1,[::1]:65535,c.example:3", 2)
    assert cluster == Cluster(("a:1", "[::1]:65535", "c.example:3"), 2)
    assert not cluster.is_chief


def test_cluster_from_tf_config() -> None:
    def parse(**settings: Any) -> Cluster | None:
        return cluster_from_environment({"TF_CONFIG": json.dumps(settings)})

    assert cluster_from_environment({}) is None
    workers = {"worker": ["a:1", "b:2"]}
    assert parse(cluster=workers, task={"type": "worker", "index": 1}) == Cluster(("a:1", "b:2"), 1)
    with_chief = {"chief": ["c:3"], **workers}
    assert parse(cluster=with_chief, task={"type": "chief", "index": 0}) == Cluster(("c:3", "a:1", "b:2"), 0)
    assert parse(cluster=with_chief, task={"type": "worker", "index": 1}) == Cluster(("c:3", "a:1", "b:2"), 2)
    for task in ({"type": "ps", "index": 0}, {"type": "worker"}, 3):
        with pytest.raises(UserError, match="TF_CONFIG does not describe workers"):
            parse(cluster=workers, task=task)


@pytest.mark.parametrize(
    ("workers", "index", "message"),
    [
        ("a:1,b:2", "2", "the index of a worker must be 0 to 1"),
        ("a:1,b", "0", "'b' is not an address"),
        ("a:1,b:70000", "0", "'b:70000' is not an address"),
        ("a:1,a:1", "0", "duplicate address"),
        ("a:1,b:2", None, "must be given together"),
        (None, "1", "must be given together"),
    ],
)
def test_invalid_options_are_rejected(
    cli: Cli, tiny_config: Any, workers: str | None, index: str | None, message: str
) -> None:
    options = [*(["--workers", workers] if workers else []), *(["--index", index] if index else [])]
    assert message in cli("train", tiny_config, *options).error_message


def test_multi_worker_without_workers_is_rejected(
    cli: Cli, tiny_config: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["train", tiny_config, "--results", tmp_path, "--set", "training.strategy=multi_worker"]
    remedy = "add --workers HOST:PORT,… --index N, set TF_CONFIG, or train on this machine alone"
    assert remedy in cli(*arguments).error_message
    monkeypatch.setenv("TF_CONFIG", "{}")
    assert "TF_CONFIG does not describe workers" in cli(*arguments).error_message
    assert not list(tmp_path.iterdir())


def wait_together(workers: list[tuple[list[str], int]]) -> list[str]:
    """Let workers wait for each other; returns an error message for each, or ""."""
    errors = [""] * len(workers)

    def wait(worker: int, addresses: list[str], task_index: int) -> None:
        try:
            wait_for_workers(Cluster(tuple(addresses), task_index), lambda text: None)
        except UserError as error:
            errors[worker] = str(error)

    numbered = enumerate(workers)
    threads = [threading.Thread(target=wait, args=(number, *worker), daemon=True) for number, worker in numbered]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)
    return errors


def test_workers_connect_in_any_order_and_leave_the_port_free() -> None:
    addresses = loopback_addresses(3)
    for order in ([0, 1, 2], [2, 1, 0]):
        assert wait_together([(addresses, number) for number in order]) == [""] * 3
    socket.create_server(("127.0.0.1", int(addresses[0].split(":")[1]))).close()


def test_missing_workers_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "WAIT_TIMEOUT", 0.2)
    addresses = loopback_addresses(2)
    assert f"worker 1 ({addresses[1]}) did not connect" in wait_together([(addresses, 0)])[0]
    assert f"worker 0 ({addresses[0]}) does not respond" in wait_together([(addresses, 1)])[0]


def test_workers_of_another_cluster_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "WAIT_TIMEOUT", 3.0)
    first, second, stranger = loopback_addresses(3)
    errors = wait_together([([first, second], 0), ([first, stranger], 1), ([first, second], 1)])
    assert errors[0] == errors[2] == ""
    # it was refused while the others waited, or connected after the server was closed
    assert (
        f"has other workers: {first},{second}; give all workers the same --workers" in errors[1]
        or "does not respond" in errors[1]
    )


def test_a_worker_that_ends_as_all_are_told_to_start_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(("127.0.0.1:1", "127.0.0.1:2"), 0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(rendezvous, "_listen", lambda cluster: server)
        with socket.create_connection(server.getsockname()) as worker:
            worker.sendall(cluster.handshake(1))
        # the worker has left, but that is not noticed before all are told to start: by more than the buffers hold
        monkeypatch.setattr(rendezvous.select, "select", lambda *_: ([], [], []))
        monkeypatch.setattr(rendezvous, "START", b"begin\n" * 10**7)
        with pytest.raises(UserError, match=r"worker 1 \(127.0.0.1:2\) has ended; start all workers again"):
            wait_for_workers(cluster, lambda text: None)


def test_a_port_in_use() -> None:
    with socket.create_server(("", 0)) as used:
        here = f"127.0.0.1:{used.getsockname()[1]}"
        assert "cannot listen" in wait_together([([here, *loopback_addresses(1)], 0)])[0]
