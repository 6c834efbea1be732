"""From requests to responses: the JSON of a reply, and responses that are sent while they are computed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from typing import Any, TypeVar

from flask import Response, request

from seq2seq_chat.chat.joint_replies import NEVER, StopRule
from seq2seq_chat.chat.replies import notes
from seq2seq_chat.config import Config, ConfigError, Decoding, unused_settings
from seq2seq_chat.runs.run import Run, RunError
from seq2seq_chat.search.batches import random_seed
from seq2seq_chat.system.errors import UserError
from webui.app_state import get_state
from webui.decoding_options import requested_decoding
from webui.model_stream import Block, ModelStream, Part, Stream, server_sent_event
from webui.model_worker import STREAM_FAILED, Answer, ChatMessage, ModelUnavailable, ReplyStream, ServerBusy
from webui.run_registry import NotFoundError, check_step, find_weights, strip_paths
from webui.schemas import ChatRequest, GenerateRequest, InvalidRequest, recent_turns

Result = TypeVar("Result")

SINGLE_TURN = "history: ignored, as this model reads a single turn (data.context_turns)"
"""Pages do not show it, as they send the whole conversation to every model."""


def find_run(name: str) -> tuple[Run, Config]:
    """A run and its configuration. Raises NotFoundError, RunError, and ModelUnavailable if it is invalid."""
    registry = get_state().registry
    run = registry.find(name)
    try:
        return run, registry.config(run)
    except ConfigError as error:
        raise ModelUnavailable(str(error)) from error


def check_task(run: Run, config: Config, history: Sequence[str] = ()) -> None:
    """Raise InvalidRequest if a run does not reply, or not with a history."""
    if config.task == "language_model":
        raise InvalidRequest(f"run {run.name} is a language model and does not reply; choose another or /api/generate.")
    if config.task == "translation" and history:
        raise InvalidRequest("history: a translation has no earlier turns; leave it out.")


class ChatQuestion:
    """A request for a reply, and the model that it is for.

    Args:
        is_certain, stop: Of a stream; see :class:`ChatMessage`.

    Raises:
        NotFoundError, RunError, ModelUnavailable: See :func:`find_run`.
        InvalidRequest: See :func:`check_task`.
        ConfigError: The decoding settings are invalid.
    """

    def __init__(self, body: ChatRequest, is_certain: bool = False, stop: StopRule = NEVER) -> None:
        self._started = time.perf_counter()
        self._body, self._registry, limits = body, get_state().registry, get_state().limits
        self._run, self._config = find_run(body.run)
        check_task(self._run, self._config, body.history)
        self._decoding = requested_decoding(self._config, body.decoding, limits)
        self._history = recent_turns(body.history, limits)
        self._seed = random_seed(self._decoding)
        self.text = str(body.text)
        prefix = body.prefix if isinstance(body.prefix, str) else tuple(body.prefix)
        self._message = ChatMessage(self.text, tuple(self._history), self._seed, prefix, is_certain, stop)

    def send(self, submit: Callable[[Run, str | None, ChatMessage, Decoding], Result]) -> Result:
        """Queue it for its model; ``submit`` is a :class:`ModelPool`'s ``submit`` or ``stream``.

        Raises:
            NotFoundError: The run has no such weights.
            ServerBusy: The queue is full.
        """
        # seeds belong to utterances, so that those with different ones can be decoded together
        decoding: Decoding = self._decoding.model_copy(update={"seed": None})
        try:
            snapshot = find_weights(self._run, self._body.snapshot, self._body.step)
            return submit(self._run, snapshot, self._message, decoding)
        except RunError as error:
            raise NotFoundError(str(error)) from error

    def reply(self, answer: Answer) -> dict[str, Any]:
        """The JSON of a :class:`ChatReply`.

        Raises:
            NotFoundError: The weights are of another step than was requested.
        """
        body, reply = self._body, answer.reply
        check_step(self._run, body.step, answer.step)
        warnings = [*answer.warnings, *self._newly_unused(), *notes(reply)]
        count = len(self._history)
        if count < min(len(body.history), self._config.data.context_turns - 1):
            warnings.append(f"the conversation is too long; only its last {count} turns were sent to the model")
        if body.history and self._config.data.context_turns == 1:
            warnings.append(SINGLE_TURN)
        best = reply.hypotheses[0] if reply.hypotheses else None
        return {
            "reply": reply.text,
            "alternatives": [{"text": h.text, "score": round(h.score, 4)} for h in reply.hypotheses],
            "unknown_words": reply.unknown_words,
            "attention": [[round(weight, 4) for weight in row] for row in best.attention] if best else [],
            "source_words": reply.source_words,
            "reply_words": best.words if best else [],
            "ended": best.ended if best else None,
            "seconds": round(time.perf_counter() - self._started - answer.loading, 4),
            "step": answer.step,
            "run": self._run.path.name,
            "seed": self._seed if self._decoding.method == "sample" else None,
            "warnings": [self.public(warning) for warning in warnings],
        }

    def _newly_unused(self) -> list[str]:
        """Warnings about settings of the request that have no effect."""
        if self._decoding == self._config.decoding:
            return []
        requested = self._config.model_copy(update={"decoding": self._decoding})
        return sorted(set(unused_settings(requested)) - set(unused_settings(self._config)))

    def public(self, message: str) -> str:
        """A message without paths of the server."""
        return strip_paths(message, self._registry.results, Path.cwd())


def reply_events(question: ChatQuestion, stream: ReplyStream, text: str | None, timeout: float) -> Iterator[str]:
    """Server-sent events: ``loading``, ``text`` for the reply so far, whenever it changes, then ``reply`` or ``error``.

    ``text`` is the first of the stream, "" if the model is loading; it fails after ``timeout`` seconds without another.
    """
    shown = ""
    try:
        if stream.is_loading:
            yield server_sent_event("loading", {})
        while text is not None:
            if text != shown:
                yield server_sent_event("text", {"text": text})
            shown, text = text, stream.read(timeout)
        yield server_sent_event("reply", question.reply(stream.future.result()))
    except (FutureTimeout, UserError) as error:
        yield server_sent_event("error", {"error": question.public(str(error))})


def stream_response(
    run: Run,
    body: ChatRequest | GenerateRequest,
    stream: ModelStream[Block],
    to_json: Callable[[Block], dict[str, Any]],
    end: Callable[[], dict[str, Any]] | None = None,
) -> Response:
    """Compute a stream with a run's model, and send its blocks as lines; an error that occurs later is the last line.

    Closing the connection stops the stream.

    Args:
        run: The run.
        body: The request, which names the weights.
        stream: What to compute.
        to_json: The line of a block.
        end: The line after the last block.

    Raises:
        NotFoundError: The run has no such weights.
        ServerBusy: Too much is queued for the model, or it takes too long.
        ModelUnavailable: The model could not be loaded or failed.
    """
    timeout = get_state().limits.timeout
    try:
        get_state().pool.queue(run, find_weights(run, body.snapshot, body.step), stream)
    except RunError as error:
        raise NotFoundError(str(error)) from error
    first = read_first(stream, timeout)

    def lines(block: Block | None) -> Iterator[dict[str, Any]]:
        while block is not None:
            yield to_json(block)
            try:
                block = stream.read(timeout)
            except (FutureTimeout, UserError) as error:
                yield {"error": str(error) if isinstance(error, FutureTimeout) else STREAM_FAILED}
                return
        if end is not None:
            yield end()

    return send_parts((json.dumps(line) + "\n" for line in lines(first)), "application/x-ndjson", stream.stop)


def read_first(stream: Stream[Part], timeout: float) -> Part | None:
    """The first part of a stream, so that an error before it has a status of its own.

    Raises:
        NotFoundError: The weights that were loaded are of another step than was requested.
        InvalidRequest: They cannot compute what is asked.
        ServerBusy: It takes too long.
        ModelUnavailable: The model could not be loaded or failed.
    """
    stream.has_left = request.environ.get("waitress.client_disconnected", stream.has_left)
    try:
        return stream.read(timeout)
    except FutureTimeout:
        stream.stop()
        raise ServerBusy("The model took too long to start. Please try again.", retry_after=10) from None
    except (NotFoundError, InvalidRequest):
        raise
    except UserError as error:
        raise ModelUnavailable(str(error)) from error


def send_parts(parts: Iterator[str], mimetype: str, on_close: Callable[[], None]) -> Response:
    """A response that is sent part by part; ``on_close`` is called at the end, or when the connection is closed."""
    response = Response(parts, mimetype=mimetype, headers={"X-Accel-Buffering": "no"})  # nginx sends each part at once
    response.call_on_close(on_close)
    return response
