"""Run the application on waitress: one process, many threads."""

from __future__ import annotations

import contextlib
import json
import logging
import resource
import secrets
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from flask import Flask
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.server import TcpWSGIServer
from waitress.task import ErrorTask

from seq2seq_chat.config import ConfigError
from seq2seq_chat.engines.onnx.engine import limit_threads
from seq2seq_chat.runs.find import list_runs
from seq2seq_chat.runs.run import RunError
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.hardware import AUTO, EngineOptions, available_cores, free_memory
from seq2seq_chat.system.signals import handle_signals
from webui.app import close_app, create_app
from webui.app_state import get_state
from webui.limits import Limits
from webui.monitoring import log_requests
from webui.security import is_local

MIN_HIDDEN_SIZE_FOR_ALL_CORES = 1024
MIN_MODELS, MAX_MODELS = 4, 16
MEMORY_SHARE = 0.25  # of the free memory, for models
GRAPH_SIZE = 64 * 2**20  # bytes of a model in memory besides its weights
FORWARDED_HEADERS = {"x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"}
LOOPBACK_OF_WILDCARD = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # addresses that a browser can open
ANY_ROUTED_ADDRESS = {"0.0.0.0": "192.0.2.1", "::": "2001:db8::1"}  # for documentation (RFC 5737, RFC 3849)
MAX_CONNECTIONS = 2048
MAX_ACCEPTED = 16  # connections at once
MAX_PIPELINED = 2  # requests that a client may send before it has read the first response
SPARE_DESCRIPTORS = 128  # file descriptors that are not connections
MESSAGES = {413: "The request body is too large.", 431: "The request headers are larger than 64 KiB."}
MAX_DISCARDED_BYTES, MAX_DISCARDING_SECONDS = 64 * 2**20, 10.0


logger = logging.getLogger(__name__)


class Proxy(NamedTuple):
    """The reverse proxy in front of a server, if there is one."""

    root_path: str = ""  # what the addresses of its pages begin with, such as /chat
    address: str | None = None  # of the proxy, whose X-Forwarded headers are trusted


NO_PROXY = Proxy()


def serve(
    results: str | Path,
    host: str,
    port: int,
    token: str | None,
    limits: Limits,
    cores: int | None,
    echo: Callable[[str], object],
    proxy: Proxy = NO_PROXY,
    engine: EngineOptions = AUTO,
    log_file: Path | None = None,
) -> None:
    """Serve the web UI until SIGINT or SIGTERM.

    Args:
        results: Folder of the runs.
        host: Address to bind to. If other machines can reach it, directly or through a trusted proxy, a token is
            generated unless one is given.
        port: 0 for any free port.
        token: Bearer token that requests must carry.
        limits: Resource limits.
        cores: Processor cores for a batch; None to choose by the size of the models.
        echo: Called with each address of the server; if there are two, the one for other machines first.
        proxy: The reverse proxy.
        engine: What computes the models.
        log_file: Gets a line for each request, see :func:`log_requests`.

    Raises:
        UserError: The address is unavailable, or the file cannot be opened.
    """
    local = is_local(host) and proxy.address is None
    if not local:
        way = host if not is_local(host) else f"this server through the proxy {proxy.address}"
        encrypted = "" if is_local(host) else ", and traffic is unencrypted"
        logger.warning("other machines can reach %s; anyone with the token can use your models%s", way, encrypted)
        token = token or secrets.token_urlsafe(18)
    limit_cores(cores or default_cores(results))
    app = create_app(results, limits, token, local, engine)
    # Many threads compete for the interpreter lock; the one that feeds the model must not wait 5 ms each time.
    sys.setswitchinterval(5e-4)
    stop = threading.Event()
    log = contextlib.nullcontext() if log_file is None else log_requests(app, log_file)
    with log, running(app, host, port, limits, proxy) as server, handle_signals(lambda *_: stop.set()):
        path = f":{server.effective_port}{proxy.root_path}/{f'#token={token}' if token else ''}"
        address = outward_address(host) if host in LOOPBACK_OF_WILDCARD else host
        echo(f"http://{_url_host(address)}{path}   (press Ctrl-C to stop)")
        if host in LOOPBACK_OF_WILDCARD:
            echo(f"http://{_url_host(LOOPBACK_OF_WILDCARD[host])}{path}   (on this machine)")
        stop.wait()


def outward_address(wildcard: str) -> str:
    """The address of this machine for others, if it has a route to them, or else its name."""
    family = socket.AF_INET6 if ":" in wildcard else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((ANY_ROUTED_ADDRESS[wildcard], 9))  # sends nothing; it only chooses the route
        return str(probe.getsockname()[0])
    return socket.gethostname()


def default_models(results: str | Path) -> int:
    """The number of models kept in memory: the columns of a comparison, or fewer if the weights of the runs are large.

    Comparing more models than are in memory loads them again for every message.
    """
    sizes = [0]
    for run in list_runs(results):
        with contextlib.suppress(RunError, OSError):
            files = list(run.path.glob("*.onnx")) if run.is_exported else run.weight_files()[:1]
            sizes.append(sum(file.stat().st_size for file in files))
    fitting = free_memory() * MEMORY_SHARE / (max(sizes) + GRAPH_SIZE)
    return int(min(MAX_MODELS, max(MIN_MODELS, fitting)))


def default_cores(results: str | Path) -> int:
    """The number of cores for a batch: all if any model is large, otherwise one.

    Distributing a small matrix product over cores takes longer than computing it on one, all the more while other
    threads serve requests: with 256 units, one core is faster than two.
    """
    for run in list_runs(results):
        with contextlib.suppress(ConfigError):
            if run.config.model.hidden_size >= MIN_HIDDEN_SIZE_FOR_ALL_CORES:
                return available_cores()
    return 1


def limit_cores(cores: int) -> None:
    """Limit the cores that models use. Has no effect on TensorFlow after its first operation."""
    limit_threads(cores)
    if "tensorflow" not in sys.modules:
        return
    import tensorflow as tf

    with contextlib.suppress(RuntimeError):
        tf.config.threading.set_intra_op_parallelism_threads(cores)
        tf.config.threading.set_inter_op_parallelism_threads(1)  # the steps of a search are sequential


@contextlib.contextmanager
def running(app: Flask, host: str, port: int, limits: Limits, proxy: Proxy = NO_PROXY) -> Iterator[Any]:
    """Run the application in background threads.

    Yields:
        waitress's server; its ``effective_port`` is the port in use.

    Raises:
        UserError: The address is unavailable.
    """
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # it warns about every request that waits for a thread
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        close_app(app)
        reason = error.strerror or str(error)
        raise UserError(
            f"could not listen on {_url_host(host)}:{port}: {reason}. Choose another --host or --port."
        ) from error
    trust = {"trusted_proxy": proxy.address, "trusted_proxy_headers": FORWARDED_HEADERS} if proxy.address else {}
    sockets: dict[int, Any] = {}  # waitress's sockets, closed at the end
    server = Server(
        app,
        sockets,
        _sock=listener,
        sockinfo=(family, socket.SOCK_STREAM, 0, listener.getsockname()),
        bind_socket=False,
        threads=limits.threads,
        connection_limit=_max_connections(),
        backlog=2048,
        asyncore_use_poll=True,  # select() is limited to 1,024 descriptors
        max_request_body_size=max(16 * 2**20, limits.max_body_bytes),  # above our own limit, which gives a JSON error
        max_request_header_size=64 * 1024,
        channel_timeout=120,
        ident=None,
        clear_untrusted_proxy_headers=True,
        url_prefix=proxy.root_path,
        **trust,
    )
    server.effective_port = listener.getsockname()[1]
    thread = threading.Thread(target=server.run, name="waitress", daemon=True)
    thread.start()
    try:
        yield server
    finally:
        get_state(app).watch.closed.set()  # the threads of its readers end
        server.task_dispatcher.shutdown()  # first, because its threads notify the server when they end
        close_app(app)
        server.close()
        for channel in list(sockets.values()):  # keep-alive connections; the thread ends when none is left
            channel.close()
        thread.join(5)


def _max_connections() -> int:
    """Raise the limit on file descriptors if possible, and return the number of connections that it allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = MAX_CONNECTIONS + SPARE_DESCRIPTORS
    if soft == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    if soft < needed:
        with contextlib.suppress(ValueError, OSError):
            raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
            soft = raised
    return max(64, min(MAX_CONNECTIONS, soft - SPARE_DESCRIPTORS))


def _url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


class JsonErrorTask(ErrorTask):
    """Answers a rejected request with the error object of the API."""

    def execute(self) -> None:
        error = self.request.error
        body = json.dumps({"error": MESSAGES.get(error.code, f"{error.reason}: {error.body}.")}).encode()
        self.status = f"{error.code} {error.reason}"
        self.response_headers.append(("Content-Type", "application/json"))
        self.set_close_on_finish()
        self.content_length = len(body)
        self.channel.is_rejected = True
        self.write(body)


class UnreadRequests(HTTPRequestParser):
    """The rest of what a client sends, in place of a request."""

    def received(self, data: bytes) -> int:
        """Take all data."""
        return len(data)


class Channel(HTTPChannel):
    """A connection that notices when the client leaves during a request, and limits pipelined requests.

    After a rejected request, or too many, it discards what the client still sends.
    Closing a connection with unread data resets it, and the client may lose the response.
    """

    error_task_class = JsonErrorTask
    close_when_flushed: bool
    is_rejected = False
    is_watched = has_left = False  # whether to notice that the client leaves, and whether it has left
    is_sending = False  # whether the thread of a request is sending
    discarded: int | None = None  # bytes; None unless discarding
    deadline = 0.0

    def handle_write(self) -> None:
        """Send what is queued; end the output instead of the connection if the request was rejected."""
        if not (self.is_rejected and self.close_when_flushed):
            super().handle_write()
            return
        self._flush_exception(self._flush_some)  # closes the connection if the client has left
        if self.socket is not None and not self.total_outbufs_len:
            self.close_when_flushed, self.discarded = False, 0
            self.deadline = time.monotonic() + MAX_DISCARDING_SECONDS
            with contextlib.suppress(OSError):
                self.socket.shutdown(socket.SHUT_WR)

    def write_soon(self, data: bytes) -> int:
        """Send data from the thread of a request; what the connection does not take now is sent by the server's."""
        self.is_sending = True
        try:
            return int(super().write_soon(data))
        finally:
            self.is_sending = False
            if self.total_outbufs_len:
                self.server.pull_trigger()

    def writable(self) -> bool:
        """Whether the server's thread is to send; while another does, it would try in vain, again and again."""
        is_blocked = self.will_close or self.total_outbufs_len > self.adj.outbuf_high_watermark
        return (is_blocked or not self.is_sending) and bool(super().writable())

    def readable(self) -> bool:
        """Whether to read from the connection."""
        if self.requests:
            return self.is_watched and not self.will_close
        self.is_watched = True
        return (self.discarded is not None and not self.will_close) or super().readable()

    def check_client_disconnected(self) -> bool:
        """Whether the client has left, or at least sends no more."""
        return self.has_left or not self.connected

    def parser_class(self, adjustments: Any) -> Any:
        """What parses the next request; it ends with too many, which are not worth the time."""
        if len(self.requests) < MAX_PIPELINED:
            return HTTPRequestParser(adjustments)
        self.requests[-1].headers["CONNECTION"] = "close"
        self.is_rejected = True
        return UnreadRequests(adjustments)

    def service(self) -> None:
        """Answer a request, unless the client has sent too many and left."""
        if self.is_rejected and self._is_closed_by_client():
            self.connected = False
        super().service()
        if not self.connected:
            self.server.pull_trigger()  # which closes the connection

    def _is_closed_by_client(self) -> bool:
        try:
            return not self.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except (OSError, AttributeError):  # reset, or closed by the other thread
            return True

    def handle_read(self) -> None:
        """Read from the connection; waitress closes it when the client has, or when it is idle for long."""
        if self.requests:  # what follows them is read when they are answered
            self.is_watched = False
            with contextlib.suppress(OSError):
                self.has_left = not self.socket.recv(1, socket.MSG_PEEK)
            return
        if self.discarded is None:
            super().handle_read()
            return
        with contextlib.suppress(OSError):
            self.discarded += len(self.recv(1 << 16))
        if self.discarded > MAX_DISCARDED_BYTES or time.monotonic() > self.deadline:
            self.will_close = True


class Server(TcpWSGIServer):
    """A server with room for new connections: it closes those that have been idle for longest."""

    channel_class = Channel

    def handle_accept(self) -> None:
        """Accept connections, and close idle ones if there are too many, or too many from one address."""
        for _ in range(MAX_ACCEPTED):
            count = len(self.active_channels)
            super().handle_accept()
            if len(self.active_channels) == count:
                break
        limit = self.adj.connection_limit - 2 * MAX_ACCEPTED  # those to be closed are still open in the next round
        channels = [channel for channel in self.active_channels.values() if not channel.will_close]
        if len(channels) <= limit // 2:
            return
        excess, of_address = len(channels) - limit, Counter(channel.addr[0] for channel in channels)
        of_address.pop(self.adj.trusted_proxy, None)
        for channel in sorted(channels, key=lambda channel: channel.last_activity):
            address = channel.addr[0]
            if not channel.requests and (excess > 0 or of_address[address] > self.adj.connection_limit // 2):
                channel.will_close = True
                excess, of_address[address] = excess - 1, of_address[address] - 1
