"""The OpenAPI document of the HTTP API, from the routes and the models that an :class:`Operation` adds to them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, get_type_hints

from flask import Flask
from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import models_json_schema
from werkzeug.routing import Rule

from seq2seq_chat import __version__
from webui.decoding_options import decoding_schema
from webui.limits import Limits
from webui.schemas import ErrorResponse

TEMPLATE = "#/components/schemas/{model}"
JSON, LINES, EVENTS = "application/json", "application/x-ndjson", "text/event-stream"
ERRORS = {
    400: "The request is invalid.",
    401: "The token is missing or wrong.",
    403: "The request comes from another site.",
    404: "The run or snapshot does not exist.",
    409: "The judge has already cast another vote.",
    413: "The request is too large.",
    503: "The server is busy, a model cannot be loaded, or a package is missing. Retry-After: when to try again.",
    507: "The server's disk is full; nothing was stored.",
}
INFO = {
    "title": "seq2seq-chat",
    "version": __version__,
    "description": "Chat and write with trained models, and follow their training.",
}

View = TypeVar("View", bound=Callable[..., Any])
Model = type[BaseModel]


@dataclass(frozen=True)
class Operation:
    """What the document says about a route; a decorator of its view, whose docstring begins with the summary."""

    name: str  # of the function in generated clients
    response: str
    models: Sequence[Model]  # of the response; of a stream: of its lines or events
    media_type: str = JSON  # or LINES or EVENTS
    body: Model | None = None  # of the request
    query: Model | None = None
    error: Model = ErrorResponse
    errors: Sequence[int] = ()  # statuses that do not follow from the other fields
    is_public: bool = False  # whether it needs no token

    def __call__(self, view: View) -> View:
        """Describe a view."""
        _operations[view] = self
        return view


_operations: dict[Callable[..., Any], Operation] = {}


def openapi_document(app: Flask, limits: Limits, needs_token: bool) -> dict[str, Any]:
    """The OpenAPI 3.1 document of a server."""
    paths: dict[str, dict[str, Any]] = {}
    models: set[Model] = {ErrorResponse}
    for rule in app.url_map.iter_rules():
        view = app.view_functions[rule.endpoint]
        if operation := _operations.get(view):
            (method,) = (rule.methods or set()) - {"HEAD", "OPTIONS"}
            address = re.sub(r"<(\w+)>", r"{\1}", rule.rule)
            paths.setdefault(address, {})[method.lower()] = _describe(rule, view, operation, needs_token)
            models |= {*operation.models, operation.error, *filter(None, [operation.body])}
    schemas = _schemas(sorted(models, key=lambda model: model.__name__), limits)
    document: dict[str, Any] = {"openapi": "3.1.0", "info": INFO, "paths": paths, "components": {"schemas": schemas}}
    if needs_token:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
    return document


def _schemas(models: Sequence[Model], limits: Limits) -> dict[str, Any]:
    """The schemas of models by name, with the limits of the server and the decoding settings that it accepts."""
    _, definitions = models_json_schema([(model, "validation") for model in models], ref_template=TEMPLATE)
    schemas: dict[str, Any] = definitions["$defs"]
    decoding = decoding_schema(limits)
    schemas |= decoding.pop("$defs", {})
    for name in ("ChatRequest", "SearchRequest", "ColumnRequest"):
        schemas[name]["properties"]["decoding"] = decoding
    for name, text in (("ChatRequest", "text"), ("SearchRequest", "text"), ("GenerateRequest", "prompt")):
        field = schemas[name]["properties"][text]
        field.get("oneOf", [field])[0]["maxLength"] = limits.max_text_length
    schemas["GenerateRequest"]["properties"]["length"]["maximum"] = limits.max_generated
    return schemas


def _describe(rule: Rule, view: Callable[..., Any], operation: Operation, needs_token: bool) -> dict[str, Any]:
    """The description of a route."""
    parameters = list(_parameters(rule, view, operation.query))
    errors = {*operation.errors, *(() if operation.is_public else (401, 403))}
    errors |= {400, 404, 413} if operation.body else {400, 404} if parameters else set()
    responses = {str(status): _error(status, operation.error) for status in sorted(errors)}
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": (inspect.getdoc(view) or "").partition("\n")[0].rstrip("."),
        "responses": {"200": _response(operation), **responses},
    }
    if parameters:
        described["parameters"] = parameters
    if operation.body:
        described["requestBody"] = {"required": True, "content": _content(_reference(operation.body))}
    if operation.is_public and needs_token:
        described["security"] = []
    return described


def _parameters(rule: Rule, view: Callable[..., Any], query: Model | None) -> Iterator[dict[str, Any]]:
    """What varies in an address, from the annotations of the view's arguments, and in the query, from its model."""
    types, queried = get_type_hints(view, include_extras=True), query.model_json_schema() if query else {}
    for name in sorted(rule.arguments):
        schema = TypeAdapter(types[name]).json_schema() | {"minLength": 1}
        yield {"name": name, "in": "path", "required": True, "description": schema.pop("description"), "schema": schema}
    for name, schema in queried.get("properties", {}).items():
        yield {"name": name, "in": "query", "required": name in queried.get("required", ()), "schema": schema}


def _response(operation: Operation) -> dict[str, Any]:
    """The response with status 200."""
    description = operation.response
    schema: dict[str, Any] = {"type": "string"}
    if operation.media_type == JSON:
        references = [*map(_reference, operation.models)] or [{"type": "object"}]
        schema = {"anyOf": references} if len(references) > 1 else references[0]
        if operation.body and "stream" in operation.body.model_fields:
            return {"description": description, "content": _content(schema) | _content({"type": "string"}, EVENTS)}
    elif operation.media_type == LINES:
        description = f"One JSON object a line: {description}. Closing the connection stops the computation."
        schema = {"anyOf": [*map(_reference, operation.models), _reference(ErrorResponse)]}
    return {"description": description, "content": _content(schema, operation.media_type)}


def _error(status: int, model: Model) -> dict[str, Any]:
    headers = {"headers": {"Retry-After": {"schema": {"type": "integer"}}}} if status == 503 else {}
    return {"description": ERRORS[status], "content": _content(_reference(model)), **headers}


def _content(schema: dict[str, Any], media_type: str = JSON) -> dict[str, Any]:
    return {media_type: {"schema": schema}}


def _reference(model: Model) -> dict[str, Any]:
    return {"$ref": TEMPLATE.format(model=model.__name__)}
