"""The description of the HTTP interface, made from the types that check it."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from seq2seq_chat import __version__
from webui.limits import Limits
from webui.options import decoding_schema
from webui.protocol import NAME_LENGTH, ChatReply, ChatRequest, Fault

TEMPLATE = "#/components/schemas/{model}"
FAULTS = {
    400: "What was sent says nothing sensible.",
    401: "The token is missing or wrong.",
    403: "The request comes from another site.",
    404: "There is no such run or snapshot.",
    413: "What was sent is longer than the server reads.",
    503: "Too many are waiting, or the model cannot be loaded; ask again after the seconds in Retry-After.",
}


def openapi_document(limits: Limits, needs_token: bool) -> dict[str, Any]:
    """An OpenAPI 3.1 document."""
    models: list[Any] = [(model, "validation") for model in (ChatRequest, ChatReply, Fault)]
    _, definitions = models_json_schema(models, ref_template=TEMPLATE)
    schemas: dict[str, Any] = definitions["$defs"]
    decoding = decoding_schema(limits)
    schemas |= decoding.pop("$defs", {})
    asked = schemas["ChatRequest"]["properties"]
    asked["decoding"] = decoding
    asked["text"]["maxLength"] = asked["history"]["items"]["maxLength"] = limits.text
    asked["history"]["maxItems"] = limits.history
    schemas["ChatReply"]["required"] = sorted(schemas["ChatReply"]["properties"])
    schemas["Run"] = _run_line()
    schemas["RunPage"] = _run_page()
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "seq2seq-chat",
            "version": __version__,
            "description": "Talk to trained conversational models, and see how their training stands.",
        },
        "paths": {
            "/api/chat": {
                "post": {
                    "operationId": "chat",
                    "summary": "A model's reply to an utterance",
                    "requestBody": {"required": True, "content": _content("ChatRequest")},
                    "responses": _answers("The reply", "ChatReply", 400, 401, 403, 404, 413, 503),
                }
            },
            "/api/runs": {
                "get": {
                    "operationId": "listRuns",
                    "summary": "How all runs stand, newest first",
                    "responses": _answers("The runs", _object(runs=_list(_reference("Run"))), 401, 403),
                }
            },
            "/api/runs/{name}": {
                "get": {
                    "operationId": "getRun",
                    "summary": "One run: configuration, learning curves, replies while training, checks",
                    "parameters": [
                        {
                            "name": "name",
                            "in": "path",
                            "required": True,
                            "description": "name of a run, or `latest` for the newest",
                            "schema": {"type": "string", "minLength": 1, "maxLength": NAME_LENGTH},
                        }
                    ],
                    "responses": _answers("The run", "RunPage", 401, 403, 404),
                }
            },
            "/healthz": {
                "get": {
                    "operationId": "health",
                    "summary": "Whether the server answers",
                    "responses": _answers("It does", _object(status=TEXT, version=TEXT, models=COUNT)),
                }
            },
        },
        "components": {"schemas": schemas},
    }
    if needs_token:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
        document["paths"]["/healthz"]["get"]["security"] = []
    return document


TEXT: dict[str, Any] = {"type": "string"}
COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
MAYBE_TEXT = {"type": ["string", "null"]}
MAYBE_COUNT = {"type": ["integer", "null"], "minimum": 0}


def _run_line() -> dict[str, Any]:
    return _object(
        name=TEXT,
        state={"enum": ["training", "finished", "interrupted", "failed"]},
        step=COUNT | {"description": "of the last metrics"},
        steps=MAYBE_COUNT | {"description": "planned"},
        best_perplexity={"type": ["number", "null"], "description": "of all validations"},
        best_step=MAYBE_COUNT,
        changed={"type": "number", "description": "when something was last written, seconds since 1970"},
        reason=MAYBE_TEXT | {"description": "why it failed"},
    )


def _run_page() -> dict[str, Any]:
    point = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
    points = _list(point) | {"description": "[step, loss in nats per target token]"}
    line = _run_line()
    more = _object(
        snapshots=_list(TEXT),
        config={"type": ["object", "null"], "description": "the run's configuration; null: it cannot be read"},
        decoding=_object(options=_list({"type": "object"}), defaults={"type": "object"}, method=MAYBE_TEXT),
        context_turns=COUNT,
        curves=_object(train=points, validation=points),
        samples=_list(_object(step=COUNT, source=TEXT, reply=TEXT, target=TEXT)),
        checks={"type": ["object", "null"]},
        files=_list(TEXT) | {"description": "pictures and pages of a report"},
    )
    return _object(**line["properties"], **more["properties"])


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": sorted(properties)}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": TEMPLATE.format(model=name)}


def _content(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": _reference(schema) if isinstance(schema, str) else schema}}


def _answers(description: str, schema: Any, *faults: int) -> dict[str, Any]:
    found: dict[str, Any] = {"200": {"description": description, "content": _content(schema)}}
    for status in faults:
        found[str(status)] = {"description": FAULTS[status], "content": _content("Fault")}
        if status == 503:
            found["503"]["headers"] = {"Retry-After": {"schema": {"type": "integer"}}}
    return found
