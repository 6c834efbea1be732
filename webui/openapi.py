"""The OpenAPI document of the HTTP API, derived from its schemas."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from seq2seq_chat import __version__
from seq2seq_chat.config import LABELS
from webui.decoding_options import decoding_schema
from webui.limits import Limits
from webui.schemas import (
    MAX_NAME_LENGTH,
    ChatReply,
    ChatRequest,
    ErrorResponse,
    GenerateRequest,
    ReplyText,
    TextBlock,
    TextEnd,
)

BODIES = (ChatRequest, ChatReply, ReplyText, GenerateRequest, TextBlock, TextEnd, ErrorResponse)
TEMPLATE = "#/components/schemas/{model}"
ERRORS = {
    400: "The request is invalid.",
    401: "The token is missing or wrong.",
    403: "The request comes from another site.",
    404: "The run or snapshot does not exist.",
    413: "The request is too large.",
    503: "The server is busy, or the model could not be loaded. Retry-After says when to try again.",
}


def openapi_document(limits: Limits, needs_token: bool) -> dict[str, Any]:
    """The OpenAPI 3.1 document of a server."""
    models: list[Any] = [(model, "validation") for model in BODIES]
    _, definitions = models_json_schema(models, ref_template=TEMPLATE)
    schemas: dict[str, Any] = definitions["$defs"]
    decoding = decoding_schema(limits)
    schemas |= decoding.pop("$defs", {})
    request = schemas["ChatRequest"]["properties"]
    request["decoding"] = decoding
    request["text"]["maxLength"] = limits.max_text_length
    schemas["GenerateRequest"]["properties"]["prompt"]["maxLength"] = limits.max_text_length
    schemas["GenerateRequest"]["properties"]["length"]["maximum"] = limits.max_generated
    schemas["ChatReply"]["required"] = sorted(schemas["ChatReply"]["properties"])
    schemas["Run"] = _run_summary()
    schemas["RunPage"] = _run_details()
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "seq2seq-chat",
            "version": __version__,
            "description": "Chat and write with trained models, and follow their training.",
        },
        "paths": _paths(),
        "components": {"schemas": schemas},
    }
    if needs_token:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
        document["paths"]["/healthz"]["get"]["security"] = []
    return document


STRING: dict[str, Any] = {"type": "string"}
COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
OPTIONAL_STRING = {"type": ["string", "null"]}
OPTIONAL_COUNT = {"type": ["integer", "null"], "minimum": 0}


def _paths() -> dict[str, Any]:
    name = {
        "name": "name",
        "in": "path",
        "required": True,
        "description": "name of a run or a unique prefix of it, or `latest` for the newest",
        "schema": {"type": "string", "minLength": 1, "maxLength": MAX_NAME_LENGTH},
    }
    chat: dict[str, Any] = {
        "operationId": "chat",
        "summary": "Reply to an utterance",
        "requestBody": {"required": True, "content": _content("ChatRequest")},
        "responses": _responses("The reply", "ChatReply", 400, 401, 403, 404, 413, 503),
    }
    events = {
        "description": "Server-sent events: `text` with a ReplyText whenever the reply changes, and then `reply` with "
        "a ChatReply or `error` with an ErrorResponse. Closing the connection stops the search.",
        "content": {"text/event-stream": {"schema": STRING}},
    }
    chat_stream = chat | {
        "operationId": "chatStream",
        "summary": "Reply to an utterance, word by word",
        "responses": chat["responses"] | {"200": events},
    }
    lines = {"anyOf": [_reference(name) for name in ("TextBlock", "TextEnd", "ErrorResponse")]}
    written = {
        "description": "One JSON object a line: blocks of tokens as they are written, and then TextEnd, or an error. "
        "Closing the connection stops the text.",
        "content": {"application/x-ndjson": {"schema": lines}},
    }
    generate = {
        "operationId": "generate",
        "summary": "Write a text with a language model",
        "requestBody": {"required": True, "content": _content("GenerateRequest")},
        "responses": _responses("", {}, 400, 401, 403, 404, 413, 503) | {"200": written},
    }
    runs = {
        "operationId": "listRuns",
        "summary": "List all runs, newest first",
        "responses": _responses("The runs", _object(runs=_list(_reference("Run"))), 401, 403),
    }
    run = {
        "operationId": "getRun",
        "summary": "Details of a run: configuration, learning curves, sample replies, checks",
        "parameters": [name],
        "responses": _responses("The run", "RunPage", 401, 403, 404),
    }
    health = {
        "operationId": "health",
        "summary": "Health check",
        "responses": _responses("The server is up", _object(status=STRING, version=STRING, models=COUNT)),
    }
    return {
        "/api/chat": {"post": chat},
        "/api/chat/stream": {"post": chat_stream},
        "/api/generate": {"post": generate},
        "/api/runs": {"get": runs},
        "/api/runs/{name}": {"get": run},
        "/healthz": {"get": health},
    }


def _run_summary() -> dict[str, Any]:
    return _object(
        name=STRING,
        state={"enum": ["training", "finished", "interrupted", "failed"]},
        step=COUNT | {"description": "step of the newest metrics"},
        newest_step=OPTIONAL_COUNT | {"description": "training steps of the newest weights; null before the first"},
        steps=OPTIONAL_COUNT | {"description": "planned number of steps"},
        best_perplexity={"type": ["number", "null"], "description": "validation perplexity of the best weights"},
        best_bleu={"type": ["number", "null"], "description": "validation BLEU of a translation"},
        best_step=OPTIONAL_COUNT,
        changed={"type": "number", "description": "Unix time of the last write, in seconds"},
        reason=OPTIONAL_STRING | {"description": "reason of the failure"},
        task={"enum": [*LABELS, None]},
        initialized_from=OPTIONAL_STRING | {"description": "run and step of the initial weights; null: random ones"},
    )


def _run_details() -> dict[str, Any]:
    point = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
    points = _list(point) | {"description": "[step, loss in nats per target token]"}
    details = _object(
        snapshots=_list(STRING),
        config={"type": ["object", "null"], "description": "the run's configuration; null if it is invalid"},
        decoding=_object(options=_list({"type": "object"}), defaults={"type": "object"}, method=OPTIONAL_STRING),
        context_turns=COUNT,
        curves=_object(train=points, validation=points),
        samples=_list(_object(step=COUNT, source=STRING, reply=STRING, target=STRING)),
        checks={"type": ["object", "null"]},
        files=_list(STRING) | {"description": "figures and pages of the report"},
    )
    return _object(**_run_summary()["properties"], **details["properties"])


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": sorted(properties)}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": TEMPLATE.format(model=name)}


def _content(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": _reference(schema) if isinstance(schema, str) else schema}}


def _responses(description: str, schema: Any, *errors: int) -> dict[str, Any]:
    responses: dict[str, Any] = {"200": {"description": description, "content": _content(schema)}}
    for status in errors:
        responses[str(status)] = {"description": ERRORS[status], "content": _content("ErrorResponse")}
        if status == 503:
            responses["503"]["headers"] = {"Retry-After": {"schema": {"type": "integer"}}}
    return responses
