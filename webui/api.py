"""The HTTP interface: JSON in, JSON out, and a sentence in `error` for everything that goes wrong."""

from __future__ import annotations

import time
from concurrent.futures import TimeoutError as NotInTime
from typing import Any, Optional

from flask import Blueprint, Response, current_app, json, request
from werkzeug.exceptions import HTTPException

from seq2seq_chat import __version__
from seq2seq_chat.config import ConfigError
from seq2seq_chat.corpus.vocabulary import VocabularyError
from seq2seq_chat.errors import UserError
from seq2seq_chat.runs import RunError
from webui.catalogue import NotThere, without_paths
from webui.models import Busy, CannotAnswer, Utterance
from webui.openapi import openapi_document
from webui.options import choose
from webui.protocol import BadRequest, ChatRequest, TooMuch, describe, parse_request
from webui.runs_view import line_of, page_of
from webui.state import State

api = Blueprint("api", __name__)


@api.post("/api/chat")
def chat() -> Response:
    """A model's reply."""
    begun = time.perf_counter()
    state = _state()
    asked = _body(state)
    run = state.catalogue.find(asked.run)
    try:
        config = state.catalogue.config(run)
    except ConfigError as error:
        raise CannotAnswer(str(error)) from error
    decoding = choose(config.decoding, asked.decoding, state.limits)
    snapshot = None if asked.snapshot == "latest" else asked.snapshot
    try:
        future = state.pool.ask(run, snapshot, Utterance(asked.text, tuple(asked.history)), decoding)
    except RunError as error:
        raise NotThere(str(error)) from error
    try:
        answer = future.result(timeout=state.limits.patience)
    except NotInTime:
        future.cancel()
        raise Busy("The model takes longer than expected. Please try again.", seconds=10) from None
    except UserError as error:
        raise CannotAnswer(str(error)) from error
    told = describe(answer, time.perf_counter() - begun)
    told["warnings"] = [_public(warning) for warning in answer.warnings]
    return _json(told)


@api.get("/api/runs")
def runs() -> Response:
    """How all runs stand, newest first."""
    state = _state()
    return _json({"runs": [line_of(summary, state.catalogue.results) for summary in state.catalogue.summaries()]})


@api.get("/api/runs/<name>")
def run(name: str) -> Response:
    """One run."""
    state = _state()
    found = state.catalogue.find(name)
    return _json(page_of(found, state.catalogue.summary(found), state.catalogue.results, state.limits))


@api.get("/api/openapi.json")
def openapi() -> Response:
    """The description of this interface, for programs."""
    state = _state()
    return _json(openapi_document(state.limits, needs_token=state.token is not None))


@api.get("/healthz")
def health() -> Response:
    """Whether the server answers; for whoever watches it."""
    return _json({"status": "ok", "version": __version__, "models": len(_state().pool.loaded())})


def fault(message: str, status: int, retry_after: Optional[int] = None) -> Response:
    """An error as JSON."""
    response = _json({"error": _public(message)})
    response.status_code = status
    if retry_after is not None:
        response.headers["Retry-After"] = str(retry_after)
    return response


def explain(error: Exception) -> Response:
    """The answer to a request that raised an error."""
    if isinstance(error, Busy):
        return fault(str(error), 503, error.seconds)
    for kind, status in _STATUS.items():
        if isinstance(error, kind):
            return fault(str(error), status, 10 if status == 503 else None)
    if isinstance(error, HTTPException):
        response = fault(_SENTENCES.get(error.code or 0, error.description or error.name), error.code or 500)
        if allowed := error.get_response().headers.get("Allow"):
            response.headers["Allow"] = allowed
        return response
    current_app.logger.error("an error that was not expected", exc_info=error)
    return fault("The server made a mistake; its log says more.", 500)


_STATUS: dict[type[Exception], int] = {  # the first that fits
    NotThere: 404,
    CannotAnswer: 503,
    VocabularyError: 503,
    TooMuch: 413,
    BadRequest: 400,
    UserError: 400,
}
_SENTENCES = {
    404: "There is nothing at this address.",
    405: "This address does not take such requests.",
    413: "This is more than the server reads at once.",
}


def _body(state: State) -> ChatRequest:
    if not request.is_json:
        raise BadRequest("Send JSON, with the header Content-Type: application/json.")
    try:
        body = json.loads(request.get_data(cache=False))
    except (ValueError, RecursionError):
        raise BadRequest("The body is not valid JSON.") from None
    asked = parse_request(body)
    limits = state.limits
    longest = max([asked.text, *asked.history], key=len)
    if len(longest) > limits.text:
        raise TooMuch(f"An utterance may have {limits.text:,} characters; this has {len(longest):,}.")
    if len(asked.history) > limits.history:
        raise TooMuch(f"A history may have {limits.history} utterances; this has {len(asked.history)}.")
    return asked


def _state() -> State:
    state: State = current_app.extensions["seq2seq_chat"]
    return state


def _public(message: str) -> str:
    return without_paths(message, _state().catalogue.results)


def _json(body: dict[str, Any]) -> Response:
    return Response(json.dumps(body, ensure_ascii=True), mimetype="application/json")
