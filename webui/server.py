"""The server: waitress, one process, many threads."""

from __future__ import annotations

import contextlib
import logging
import resource
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Optional, Union

import waitress.server
from flask import Flask

from seq2seq_chat.config import ConfigError
from seq2seq_chat.environment import available_cores
from seq2seq_chat.errors import UserError
from seq2seq_chat.runs import list_runs
from webui.app import close_app, create_app
from webui.limits import Limits
from webui.security import is_local

MANY_UNITS = 1024
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # all addresses of this machine, and one that a browser can open
FILES_TO_SPARE = 128  # descriptors for everything that is not a connection


def serve(
    results: Union[str, Path],
    host: str,
    port: int,
    token: Optional[str],
    limits: Limits,
    cores: Optional[int],
    say: Callable[[str], object],
    warn: Callable[[str], object],
) -> None:
    """Serve the page until a signal ends it.

    A server that others can reach is given a token where there is none. ``cores`` compute a batch; None: as suits the
    runs there are.

    Raises:
        UserError: the address cannot be used.
    """
    if not is_local(host):
        warn(f"{host} can be reached from other machines; whoever knows the token can talk to your models, unencrypted")
        token = token or secrets.token_urlsafe(18)
    compute_with(cores or suitable_cores(results))
    app = create_app(results, limits, token, local=is_local(host))
    # Many threads wait for the interpreter at once; the one that feeds the model must not wait 5 ms each time.
    sys.setswitchinterval(5e-4)
    with running(app, host, port, limits) as server, ended_by_signals() as ended:
        address = f"http://{_written(EVERYWHERE.get(host, host))}:{server.effective_port}/"
        say(f"{address}{f'#token={token}' if token else ''}   (Ctrl-C ends it)")
        ended.wait()


def suitable_cores(results: Union[str, Path]) -> int:
    """Cores that compute a batch: all for a model of many units, one where all are small.

    To share a small product among cores takes longer than to compute it, and all the more so while other threads answer
    requests: at 256 units one core replies sooner than two.
    """
    for run in list_runs(results):
        with contextlib.suppress(ConfigError):
            if run.config.model.hidden_size >= MANY_UNITS:
                return available_cores()
    return 1


def compute_with(cores: int) -> None:
    """Have TensorFlow compute with some cores. Once it has computed something it cannot be told, and stays as it is."""
    import tensorflow as tf

    with contextlib.suppress(RuntimeError):
        tf.config.threading.set_intra_op_parallelism_threads(cores)
        tf.config.threading.set_inter_op_parallelism_threads(1)  # a search is one thing after the other


@contextlib.contextmanager
def running(app: Flask, host: str, port: int, limits: Limits) -> Iterator[Any]:
    """A server in threads of its own, as waitress's server object; its ``effective_port`` tells the port behind 0.

    Raises:
        UserError: the address cannot be used.
    """
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # it warns of every request that waits for a thread
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        close_app(app)
        reason = error.strerror or str(error)
        raise UserError(
            f"{_written(host)}:{port} cannot be served: {reason}. Choose another --host or --port."
        ) from error
    sockets: dict[int, Any] = {}  # waitress's own, to be closed at the end
    server = waitress.server.create_server(
        app,
        map=sockets,
        sockets=[listener],
        threads=limits.threads,
        connection_limit=_connections(),
        backlog=2048,
        asyncore_use_poll=True,  # select() knows 1,024 files only
        max_request_body_size=max(16 * 2**20, limits.body),  # larger than ours, whose refusal is JSON
        max_request_header_size=64 * 1024,
        channel_timeout=120,
        ident=None,
        clear_untrusted_proxy_headers=True,
    )
    server.effective_port = listener.getsockname()[1]
    thread = threading.Thread(target=server.run, name="waitress", daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.task_dispatcher.shutdown()  # first, as its threads tell the server that they are done
        close_app(app)
        server.close()
        for one in list(sockets.values()):  # connections that are kept open; the thread ends when there are none left
            one.close()
        thread.join(5)


@contextlib.contextmanager
def ended_by_signals() -> Iterator[threading.Event]:
    """An event that is set by Ctrl-C or SIGTERM."""
    ended = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda *_: ended.set()) for number in numbers}
    try:
        yield ended
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _connections() -> int:
    """As many connections as the system lets this process have, within reason."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2048 + FILES_TO_SPARE
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            soft = most
    return 2048 if soft == resource.RLIM_INFINITY else max(64, min(2048, soft - FILES_TO_SPARE))


def _written(host: str) -> str:
    return f"[{host}]" if ":" in host else host
