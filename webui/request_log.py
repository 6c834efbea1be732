"""A file with a JSON object for each request, without what was sent or answered."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from logging.handlers import WatchedFileHandler
from pathlib import Path

from flask import Flask, Response, g, request

from seq2seq_chat.system.errors import UserError

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def log_requests(app: Flask, file: Path) -> Iterator[None]:
    """Append a line to a file for each request; the file may be moved away meanwhile, as logrotate does.

    ``seconds`` end when the response begins, also that of a stream.

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
