"""What operators watch: requests, queues, seconds to the first word, words, models in memory; and a log of requests."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from logging.handlers import WatchedFileHandler
from pathlib import Path

from flask import Flask, Response, g, request
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from seq2seq_chat.system.errors import UserError

logger = logging.getLogger(__name__)

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)  # upper ends of a histogram


class Metrics:
    """The metrics of one application.

    Args:
        queued: Returns the number of utterances, texts and searches that wait for a model.
        running: Returns the number of those that are being computed.
        models: Returns the number of models in memory.
    """

    def __init__(self, queued: Callable[[], float], running: Callable[[], float], models: Callable[[], float]) -> None:
        self.registry = registry = CollectorRegistry()
        labels = ["method", "route", "status"]
        self._requests = Counter("seq2seq_chat_requests", "Requests.", labels, registry=registry)
        self.first_word = Histogram(
            "seq2seq_chat_first_word_seconds",
            "Seconds from a request to the first word of its reply, or to the reply if it is not streamed.",
            buckets=SECONDS,
            registry=registry,
        )
        self.words = Counter("seq2seq_chat_words", "Tokens of replies.", registry=registry)
        gauges = {
            "queued": ("Utterances, texts and searches that wait for a model.", queued),
            "running": ("Utterances, texts and searches that are being computed.", running),
            "models": ("Models in memory.", models),
        }
        for name, (description, value) in gauges.items():
            Gauge(f"seq2seq_chat_{name}", description, registry=registry).set_function(value)

    def count_request(self, response: Response) -> Response:
        """Count a request by its route, whose names in addresses are left out."""
        route = request.url_rule.rule if request.url_rule else "none"
        self._requests.labels(request.method, route, response.status_code).inc()
        return response


@contextlib.contextmanager
def log_requests(app: Flask, file: Path) -> Iterator[None]:
    """Append a JSON object to a file for each request, without what was sent or answered.

    The file may be moved away meanwhile, as logrotate does. ``seconds`` end when the response begins, even if it is a
    stream.

    Raises:
        UserError: The file cannot be opened.
    """
    try:
        handler = WatchedFileHandler(file, encoding="utf-8")
    except OSError as error:
        raise UserError(f"--log-file: {file}: {error.strerror}") from error
    handler.handleError = lambda record: logger.warning("%s: %s", file, sys.exc_info()[1])  # type: ignore[method-assign]

    @app.before_request
    def begin() -> None:
        g.began = time.perf_counter()

    @app.after_request
    def log(response: Response) -> Response:
        now = time.perf_counter()
        line = {
            "time": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
            "address": request.remote_addr,
            "method": request.method,
            "path": request.path,  # without a query
            "status": response.status_code,
            "seconds": round(now - g.get("began", now), 4),
        }
        handler.handle(logging.LogRecord(__name__, logging.INFO, __file__, 0, json.dumps(line), None, None))
        return response

    with contextlib.closing(handler):
        yield
