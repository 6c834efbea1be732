"""Who trains together: addresses, TF_CONFIG, and how the workers meet."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from seq2seq_chat.errors import UserError
from seq2seq_chat.training import cluster
from seq2seq_chat.training.cluster import (
    Cluster,
    assemble,
    cluster_of_environment,
    cluster_of_options,
    loopback_addresses,
)

Cli = Callable[..., Any]


def test_options() -> None:
    assert cluster_of_options(None, None) is None
    found = cluster_of_options("a:1,[::1]:65535,c.example:3", 2)
    assert found == Cluster(("a:1", "[::1]:65535", "c.example:3"), 2)
    assert not found.leads
    assert found.arguments == "--workers a:1,[::1]:65535,c.example:3 --index 0"


def test_tensorflows_environment_variable() -> None:
    def found(**settings: Any) -> Cluster | None:
        return cluster_of_environment({"TF_CONFIG": json.dumps(settings)})

    assert cluster_of_environment({}) is None
    workers = {"worker": ["a:1", "b:2"]}
    assert found(cluster=workers, task={"type": "worker", "index": 1}) == Cluster(("a:1", "b:2"), 1)
    led = {"chief": ["c:3"], **workers}
    assert found(cluster=led, task={"type": "chief", "index": 0}) == Cluster(("c:3", "a:1", "b:2"), 0)
    assert found(cluster=led, task={"type": "worker", "index": 1}) == Cluster(("c:3", "a:1", "b:2"), 2)
    for task in ({"type": "ps", "index": 0}, {"type": "worker"}, 3):
        with pytest.raises(UserError, match="TF_CONFIG does not describe workers"):
            found(cluster=workers, task=task)


@pytest.mark.parametrize(
    ("workers", "index", "told"),
    [
        ("a:1,b:2", "2", "there are 2 workers, so their indices are 0 to 1"),
        ("a:1,b", "0", "'b' is no address"),
        ("a:1,b:70000", "0", "'b:70000' is no address"),
        ("a:1,a:1", "0", "an address stands there twice"),
        ("a:1,b:2", None, "belong together"),
        (None, "1", "belong together"),
    ],
)
def test_what_does_not_fit_is_refused(
    cli: Cli, tiny_config: Any, workers: str | None, index: str | None, told: str
) -> None:
    options = [*(["--workers", workers] if workers else []), *(["--index", index] if index else [])]
    assert told in cli("train", tiny_config, *options).complaint


def test_several_machines_that_nobody_named(
    cli: Cli, tiny_config: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["train", tiny_config, "--results", tmp_path, "--set", "training.strategy=multi_worker"]
    assert (
        "add --workers HOST:PORT,… --index N, set TF_CONFIG, or train on this machine alone"
        in cli(*arguments).complaint
    )
    monkeypatch.setenv("TF_CONFIG", "{}")
    assert "TF_CONFIG does not describe workers" in cli(*arguments).complaint
    assert not list(tmp_path.iterdir())


def meet(workers: list[tuple[list[str], int]]) -> list[str]:
    """What becomes of workers that all look for each other: "" or a complaint."""
    ends = [""] * len(workers)

    def attend(place: int, addresses: list[str], number: int) -> None:
        try:
            assemble(Cluster(tuple(addresses), number), lambda text: None)
        except UserError as error:
            ends[place] = str(error)

    threads = [
        threading.Thread(target=attend, args=(place, *worker), daemon=True) for place, worker in enumerate(workers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)
    return ends


def test_workers_meet_in_any_order_and_leave_the_port_free() -> None:
    addresses = loopback_addresses(3)
    for order in ([0, 1, 2], [2, 1, 0]):
        assert meet([(addresses, number) for number in order]) == [""] * 3
    socket.create_server(("127.0.0.1", int(addresses[0].split(":")[1]))).close()


def test_who_is_alone_is_told_who_did_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", 0.2)
    addresses = loopback_addresses(2)
    assert f"worker 1 ({addresses[1]}) did not come" in meet([(addresses, 0)])[0]
    assert f"worker 0 ({addresses[0]}) does not answer" in meet([(addresses, 1)])[0]


def test_workers_of_another_training_and_strangers_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", 3.0)
    first, second, stranger = loopback_addresses(3)
    ends = meet([([first, second], 0), ([first, stranger], 1), ([first, second], 1)])
    assert ends[0] == ends[2] == ""
    # it was refused while the others still waited, or came when the door was shut
    assert f"has other workers: {first},{second}; name them alike" in ends[1] or "does not answer" in ends[1]


def test_a_port_in_use() -> None:
    with socket.create_server(("", 0)) as used:
        here = f"127.0.0.1:{used.getsockname()[1]}"
        assert "cannot listen" in meet([([here, *loopback_addresses(1)], 0)])[0]
