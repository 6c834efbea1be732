"""The OpenAPI document of the HTTP API, derived from its schemas."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from seq2seq_chat import __version__
from seq2seq_chat.config import LABELS
from webui.decoding_options import decoding_schema
from webui.evaluation_openapi import EVALUATION_BODIES, evaluation_paths
from webui.limits import Limits
from webui.openapi_parts import (
    COUNT,
    OPTIONAL_COUNT,
    OPTIONAL_STRING,
    RUN_NAME,
    STRING,
    TEMPLATE,
    content,
    line_responses,
    list_schema,
    object_schema,
    reference,
    responses,
)
from webui.schemas import (
    AnswersRequest,
    ChatReply,
    ChatRequest,
    ErrorResponse,
    GenerateRequest,
    NotesRequest,
    ReplyText,
    TextBlock,
    TextEnd,
)
from webui.search_openapi import SEARCH_BODIES, search_paths
from webui.workbench_openapi import curves_schema, workbench_paths

BODIES = (
    *(ChatRequest, ChatReply, ReplyText, GenerateRequest, TextBlock, TextEnd, ErrorResponse),
    *(NotesRequest, AnswersRequest, *EVALUATION_BODIES, *SEARCH_BODIES),
)


def openapi_document(limits: Limits, needs_token: bool) -> dict[str, Any]:
    """The OpenAPI 3.1 document of a server."""
    models: list[Any] = [(model, "validation") for model in BODIES]
    _, definitions = models_json_schema(models, ref_template=TEMPLATE)
    schemas: dict[str, Any] = definitions["$defs"]
    decoding = decoding_schema(limits)
    schemas |= decoding.pop("$defs", {})
    schemas["ColumnRequest"]["properties"]["decoding"] = decoding
    for request in (schemas[name]["properties"] for name in ("ChatRequest", "SearchRequest")):
        request["decoding"] = decoding
        request["text"]["maxLength"] = limits.max_text_length
    schemas["GenerateRequest"]["properties"]["prompt"]["maxLength"] = limits.max_text_length
    schemas["GenerateRequest"]["properties"]["length"]["maximum"] = limits.max_generated
    schemas["ChatReply"]["required"] = sorted(schemas["ChatReply"]["properties"])
    schemas["Curves"] = curves_schema()
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


def _paths() -> dict[str, Any]:
    chat: dict[str, Any] = {
        "operationId": "chat",
        "summary": "Reply to an utterance",
        "requestBody": {"required": True, "content": content("ChatRequest")},
        "responses": responses("The reply", "ChatReply", 400, 401, 403, 404, 413, 503),
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
    generate = {
        "operationId": "generate",
        "summary": "Write a text with a language model",
        "requestBody": {"required": True, "content": content("GenerateRequest")},
        "responses": line_responses(
            "blocks of tokens as they are written, and then TextEnd, or an error", "TextBlock", "TextEnd"
        ),
    }
    runs = {
        "operationId": "listRuns",
        "summary": "List all runs, newest first",
        "responses": responses("The runs", object_schema(runs=list_schema(reference("Run"))), 401, 403),
    }
    run = {
        "operationId": "getRun",
        "summary": "Details of a run: configuration, learning curves, sample replies, checks",
        "parameters": [RUN_NAME],
        "responses": responses("The run", "RunPage", 400, 401, 403, 404),
    }
    health = {
        "operationId": "health",
        "summary": "Health check",
        "responses": responses("The server is up", object_schema(status=STRING, version=STRING, models=COUNT)),
    }
    return {
        "/api/chat": {"post": chat},
        "/api/chat/stream": {"post": chat_stream},
        "/api/generate": {"post": generate},
        "/api/runs": {"get": runs},
        "/api/runs/{name}": {"get": run},
        "/healthz": {"get": health},
        **evaluation_paths(),
        **search_paths(),
        **workbench_paths(),
    }


def _run_summary() -> dict[str, Any]:
    return object_schema(
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
        notes=reference("NotesRequest"),
    )


def _run_details() -> dict[str, Any]:
    details = object_schema(
        snapshots=list_schema(STRING),
        config={"type": ["object", "null"], "description": "the run's configuration; null if it is invalid"},
        decoding=object_schema(
            options=list_schema({"type": "object"}), defaults={"type": "object"}, method=OPTIONAL_STRING
        ),
        context_turns=COUNT,
        curves=reference("Curves"),
        samples=list_schema(object_schema(step=COUNT, source=STRING, reply=STRING, target=STRING)),
        checks={"type": ["object", "null"]},
        files=list_schema(STRING) | {"description": "figures and pages of the report"},
    )
    return object_schema(**_run_summary()["properties"], **details["properties"])
