"""What waitress answers by itself: requests that are too large or no HTTP."""

from __future__ import annotations

import json
import socket
import time
from contextlib import suppress

from waitress.channel import HTTPChannel
from waitress.task import ErrorTask

MESSAGES = {413: "The request body is too large.", 431: "The request headers are larger than 64 KiB."}
MAX_DISCARDED_BYTES, MAX_DISCARDING_SECONDS = 64 * 2**20, 10.0


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


class Channel(HTTPChannel):
    """A connection that, after a rejected request, discards what the client still sends.

    Closing a connection with unread data resets it, and the client may lose the response.
    """

    error_task_class = JsonErrorTask
    close_when_flushed: bool
    is_rejected = False
    discarded: int | None = None  # bytes; None unless discarding
    deadline = 0.0

    def handle_write(self) -> None:
        """Send what is queued; end the output instead of the connection if the request was rejected."""
        if not (self.is_rejected and self.close_when_flushed):
            super().handle_write()
            return
        self._flush_exception(self._flush_some)
        if not self.total_outbufs_len:
            self.close_when_flushed, self.discarded = False, 0
            self.deadline = time.monotonic() + MAX_DISCARDING_SECONDS
            with suppress(OSError):
                self.socket.shutdown(socket.SHUT_WR)

    def readable(self) -> bool:
        """Whether to read from the connection."""
        return (self.discarded is not None and not self.will_close) or super().readable()

    def handle_read(self) -> None:
        """Read from the connection; waitress closes it when the client has, or when it is idle for long."""
        if self.discarded is None:
            super().handle_read()
            return
        with suppress(OSError):
            self.discarded += len(self.recv(1 << 16))
        if self.discarded > MAX_DISCARDED_BYTES or time.monotonic() > self.deadline:
            self.will_close = True
