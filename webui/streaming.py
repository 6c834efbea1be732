"""Responses that are sent while they are computed: one JSON object a line, or server-sent events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

from flask import Response

from seq2seq_chat.runs.run import Run, RunError
from seq2seq_chat.system.errors import UserError
from webui.app_state import get_state
from webui.model_stream import Block, ModelStream, Part, Stream
from webui.model_worker import STREAM_FAILED, TOO_SLOW, ModelUnavailable, ServerBusy
from webui.run_registry import NotFoundError


def stream_response(
    run: Run,
    snapshot: str | None,
    stream: ModelStream[Block],
    to_json: Callable[[Block], dict[str, Any]],
    end: Callable[[], dict[str, Any]] | None = None,
) -> Response:
    """Compute a stream with a run's model, and send its blocks as lines; an error that occurs later is the last line.

    Closing the connection stops the stream.

    Args:
        run: The run.
        snapshot: Name of the weights; None for the newest.
        stream: What to compute.
        to_json: The line of a block.
        end: The line after the last block.

    Raises:
        NotFoundError: The run has no such weights.
        ServerBusy: Too much is queued for the model, or it takes too long.
        ModelUnavailable: The model could not be loaded or failed.
    """
    state = get_state()
    timeout = state.limits.timeout
    try:
        state.pool.compute(run, snapshot, stream)
    except RunError as error:
        raise NotFoundError(str(error)) from error
    first = read_first(stream, timeout)

    def lines(block: Block | None) -> Iterator[dict[str, Any]]:
        while block is not None:
            yield to_json(block)
            try:
                block = stream.read(timeout)
            except FutureTimeout:
                yield {"error": TOO_SLOW}
                return
            except UserError:
                yield {"error": STREAM_FAILED}
                return
        if end is not None:
            yield end()

    return send_parts((json.dumps(line) + "\n" for line in lines(first)), "application/x-ndjson", stream.stop)


def read_first(stream: Stream[Part], timeout: float) -> Part | None:
    """The first part of a stream, so that an error before it has a status of its own.

    Raises:
        NotFoundError: The weights that were loaded are not those of the requested step.
        ServerBusy: It takes too long.
        ModelUnavailable: The model could not be loaded or failed.
    """
    try:
        return stream.read(timeout)
    except FutureTimeout:
        stream.stop()
        raise ServerBusy("The model took too long to start. Please try again.", retry_after=10) from None
    except NotFoundError:
        raise
    except UserError as error:
        raise ModelUnavailable(str(error)) from error


def send_parts(parts: Iterator[str], mimetype: str, on_close: Callable[[], None]) -> Response:
    """A response that is sent part by part; ``on_close`` is called at the end, or when the connection is closed."""
    response = Response(parts, mimetype=mimetype, headers={"X-Accel-Buffering": "no"})  # nginx sends each part at once
    response.call_on_close(on_close)
    return response
