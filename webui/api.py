"""The HTTP API: JSON requests and responses; every error is ``{"error": message}``."""

from __future__ import annotations

import json
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from typing import Any, TypeVar

from flask import Blueprint, Response, current_app, request
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from werkzeug.exceptions import HTTPException

from seq2seq_chat import __version__
from seq2seq_chat.chat.generator import GeneratedToken, Generator
from seq2seq_chat.config import override_decoding
from seq2seq_chat.search.batches import random_seed
from seq2seq_chat.system.errors import MissingPackage, UserError
from seq2seq_chat.system.files import is_disk_full
from seq2seq_chat.text.vocabulary import VocabularyError
from webui.app_state import get_state
from webui.chat_answers import ChatQuestion, find_run, read_first, reply_events, send_parts, stream_response
from webui.model_stream import ModelStream
from webui.model_worker import Answer, ModelUnavailable, ServerBusy
from webui.openapi import EVENTS, LINES, Operation, openapi_document
from webui.run_details import RunList, RunPage, run_details, run_summary
from webui.run_registry import NotFoundError, check_step, strip_paths
from webui.schemas import (
    ChatReplies,
    ChatReply,
    ChatRequest,
    GenerateRequest,
    Health,
    InvalidRequest,
    ReplyText,
    Request,
    RequestTooLarge,
    RunName,
    TextBlock,
    TextEnd,
    check_length,
    text_block,
    validate_request,
)

Key = TypeVar("Key")

api = Blueprint("api", __name__)


@api.post("/api/chat")
@Operation(
    "chat", "The reply, or those to several utterances", [ChatReply, ChatReplies], body=ChatRequest, errors=[503]
)
def chat() -> Response:
    """Reply to an utterance, or to several at once."""
    state, body = get_state(), read_body(ChatRequest)
    if isinstance(body.text, str):
        question = ChatQuestion(body)
        return json_response(question.reply(wait_for_answer(question.send(state.pool.submit))))
    questions = [ChatQuestion(body.model_copy(update={"text": text})) for text in body.text]
    replies = []
    for question, future in queue_all(questions, _send):
        try:
            replies.append(question.reply(wait_for_answer(future)))
        except UserError as error:
            replies.append({"error": question.public(str(error))})
    return json_response({"replies": replies})


def _send(question: ChatQuestion) -> Future[Answer]:
    """Queue one of several utterances; if it is too long, its future fails."""
    try:
        check_length(question.text, get_state().limits)
    except RequestTooLarge as error:
        failed: Future[Answer] = Future()
        failed.set_exception(UserError(str(error)))
        return failed
    return question.send(get_state().pool.submit)


def wait_for_answer(future: Future[Answer]) -> Answer:
    """The answer to a queued utterance.

    Raises:
        ServerBusy: It takes too long, and is cancelled.
        ModelUnavailable: The model could not be loaded or failed.
    """
    try:
        return future.result(timeout=get_state().limits.timeout)
    except FutureTimeout:
        future.cancel()
        raise ServerBusy("The model took too long to reply. Please try again.", retry_after=10) from None
    except UserError as error:
        raise ModelUnavailable(str(error)) from error


def queue_all(keys: Iterable[Key], submit: Callable[[Key], Future[Answer]]) -> Iterator[tuple[Key, Future[Answer]]]:
    """Queue utterances, as many at a time as there is room for, and yield them with their futures, in order.

    Args:
        keys: What identifies each utterance.
        submit: Queues an utterance.

    Raises:
        ServerBusy: There is room for none.
    """
    waiting, queued = deque(keys), deque[tuple[Key, Future[Answer]]]()
    try:
        while waiting or queued:
            try:
                while waiting:
                    queued.append((waiting[0], submit(waiting[0])))
                    waiting.popleft()
            except ServerBusy:
                if not queued:
                    raise
            yield queued.popleft()
    finally:
        for _, future in queued:  # after an error, nobody waits for them
            future.cancel()


@api.post("/api/chat/stream")
@Operation(
    "chatStream",
    "Server-sent events: `loading` if the model is not in memory, `text` with a ReplyText whenever the reply changes, "
    "then `reply` with a ChatReply or `error` with an ErrorResponse. Closing the connection stops the search.",
    [ReplyText, ChatReply],
    media_type=EVENTS,
    body=ChatRequest,
    errors=[503],
)
def chat_stream() -> Response:
    """Reply to an utterance, word by word."""
    state, body = get_state(), read_body(ChatRequest)
    if not isinstance(body.text, str):
        raise InvalidRequest("text: only one text can be streamed; use /api/chat for several.")
    question = ChatQuestion(body)
    stream = question.send(state.pool.stream)
    stream.has_left = request.environ.get("waitress.client_disconnected", stream.has_left)
    first = "" if stream.is_loading else read_first(stream, state.limits.timeout)
    return send_parts(reply_events(question, stream, first, state.limits.timeout), EVENTS, stream.stop)


@api.post("/api/generate")
@Operation(
    "generate",
    "blocks of tokens as they are written, and then TextEnd, or an error",
    [TextBlock, TextEnd],
    media_type=LINES,
    body=GenerateRequest,
    errors=[503],
)
def generate() -> Response:
    """Write a text with a language model."""
    start = 0.0
    body = read_body(GenerateRequest, '{"run": "latest", "prompt": "Once upon a time"}')
    run, config = find_run(body.run)
    if config.task != "language_model":
        raise InvalidRequest(f"run {run.name} is not a language model: its task is {config.task}; use /api/chat.")
    changes = body.model_dump(include={"temperature", "top_k", "top_p", "seed"}, exclude_none=True)
    decoding = override_decoding(config.decoding, **changes)
    seed = random_seed(decoding)
    end: dict[str, Any] = {"seed": seed}

    def blocks(generator: Generator) -> Iterator[list[GeneratedToken]]:
        nonlocal start
        start = time.perf_counter()  # the model is loaded
        check_step(run, body.step, generator.step)
        end.update(step=generator.step, warnings=generator.notes(body.prompt))
        return generator.explained_stream(body.prompt, body.length, decoding, seed)

    return stream_response(
        run,
        body,
        ModelStream(Generator, blocks),
        text_block,
        lambda: end | {"seconds": round(time.perf_counter() - start, 4)},
    )


@api.get("/api/runs")
@Operation("listRuns", "The runs", [RunList])
def runs() -> Response:
    """List all runs, newest first."""
    registry = get_state().registry
    return json_response({"runs": [run_summary(summary, registry.results) for summary in registry.summaries()]})


@api.get("/api/runs/<name>")
@Operation("getRun", "The run", [RunPage])
def run(name: RunName) -> Response:
    """Details of a run: configuration, learning curves, sample replies, checks."""
    state = get_state()
    run = state.registry.find(name)
    return json_response(run_details(run, state.registry.summary(run), state.registry.results, state.limits))


@api.get("/api/openapi.json")
def openapi() -> Response:
    """Return the OpenAPI document of this API."""
    state = get_state()
    return json_response(openapi_document(current_app, state.limits, needs_token=state.token is not None))


@api.get("/healthz")
@Operation("health", "The server is up", [Health], is_public=True)
def health() -> Response:
    """Health check."""
    return json_response({"status": "ok", "version": __version__, "models": len(get_state().pool.loaded())})


@api.get("/metrics")
@Operation("metrics", "The metrics in the text format of Prometheus", (), media_type="text/plain")
def metrics() -> Response:
    """Requests, queue, seconds to the first word, words and models, for monitoring."""
    return Response(generate_latest(get_state().pool.metrics.registry), content_type=CONTENT_TYPE_LATEST)


def error_response(error: Exception | str, status: int, retry_after: int | None = None) -> Response:
    """An error message as JSON, without paths of the server."""
    message = strip_paths(str(error), get_state().registry.results, Path.cwd())
    is_openai = request.path.startswith("/v1/")
    response = json_response({"error": error_object(message, status, error) if is_openai else message})
    response.status_code = status
    if retry_after is not None:
        response.headers["Retry-After"] = str(retry_after)
    return response


def error_object(message: str, status: int, cause: Exception | str = "") -> dict[str, Any]:
    """An error of OpenAI's protocol."""
    kind = {401: "authentication_error", 404: "not_found_error"}.get(status, "invalid_request_error")
    field = re.match(r"([\w.]+): ", message) if isinstance(cause, InvalidRequest) else None
    code = "model_not_found" if isinstance(cause, NotFoundError) else None
    kind = kind if status < 500 else "server_error"
    return {"message": message, "type": kind, "param": field and field[1], "code": code}


def handle_error(error: Exception) -> Response:
    """Turn an exception into a response."""
    if isinstance(error, ServerBusy):
        return error_response(error, 503, error.retry_after)
    if is_disk_full(error):
        current_app.logger.error("%s", error)
        return error_response("The server's disk is full, so nothing was stored; free some space and try again.", 507)
    for error_type, status in STATUS_OF_ERROR.items():
        if isinstance(error, error_type):
            return error_response(error, status, 10 if status == 503 else None)
    if isinstance(error, HTTPException):
        message = MESSAGE_OF_STATUS.get(error.code or 0, error.description or error.name)
        response = error_response(message, error.code or 500)
        if allowed := error.get_response().headers.get("Allow"):
            response.headers["Allow"] = allowed
        return response
    current_app.logger.error("internal error", exc_info=error)
    return error_response("Internal server error; see the server's log.", 500)


STATUS_OF_ERROR: dict[type[Exception], int] = {  # the first match wins
    NotFoundError: 404,
    MissingPackage: 503,
    ModelUnavailable: 503,
    VocabularyError: 503,
    RequestTooLarge: 413,
    UserError: 400,
}
MESSAGE_OF_STATUS = {
    404: "No such page or endpoint.",
    405: "Method not allowed.",
    413: "The request body is too large.",
}


def read_body(model: type[Request], example: str = '{"run": "latest", "text": "hello"}') -> Request:
    """The body of the current request; ``example`` is a valid one. Raises InvalidRequest and RequestTooLarge."""
    if not request.is_json:
        raise InvalidRequest("The request must be JSON, with the header Content-Type: application/json.")
    try:
        body = json.loads(request.get_data(cache=False))
    except (ValueError, RecursionError):
        raise InvalidRequest("The body is not valid JSON.") from None
    return validate_request(model, body, get_state().limits, example)


def json_response(body: dict[str, Any]) -> Response:
    return Response(json.dumps(body), mimetype="application/json")
