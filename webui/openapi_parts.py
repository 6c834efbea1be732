"""Parts of the OpenAPI document: schemas, parameters and responses."""

from __future__ import annotations

from typing import Any

from webui.schemas import MAX_NAME_LENGTH

TEMPLATE = "#/components/schemas/{model}"
ERRORS = {
    400: "The request is invalid.",
    401: "The token is missing or wrong.",
    403: "The request comes from another site.",
    404: "The run or snapshot does not exist.",
    409: "The judge has already cast another vote on these replies.",
    413: "The request is too large.",
    503: "The server is busy, a model cannot be loaded, or a package is missing. Retry-After: when to try again.",
}
STRING: dict[str, Any] = {"type": "string"}
COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
OPTIONAL_STRING = {"type": ["string", "null"]}
OPTIONAL_COUNT = {"type": ["integer", "null"], "minimum": 0}
RUN_NAME = {
    "name": "name",
    "in": "path",
    "required": True,
    "description": "name of a run or a unique prefix of it, or `latest` for the newest",
    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_NAME_LENGTH},
}


def object_schema(**properties: Any) -> dict[str, Any]:
    """An object with these properties, all of which are required."""
    return {"type": "object", "properties": properties, "required": sorted(properties)}


def list_schema(items: dict[str, Any]) -> dict[str, Any]:
    """A list of items."""
    return {"type": "array", "items": items}


def reference(name: str) -> dict[str, Any]:
    """A reference to a schema of the document."""
    return {"$ref": TEMPLATE.format(model=name)}


def content(schema: Any) -> dict[str, Any]:
    """A JSON body."""
    return {"application/json": {"schema": reference(schema) if isinstance(schema, str) else schema}}


def line_responses(description: str, *lines: str) -> dict[str, Any]:
    """The responses of a stream with one JSON object a line; ``lines`` are the names of their schemas."""
    schema = {"anyOf": [reference(name) for name in (*lines, "ErrorResponse")]}
    stream = {
        "description": f"One JSON object a line: {description}. Closing the connection stops the computation.",
        "content": {"application/x-ndjson": {"schema": schema}},
    }
    return responses("", {}, 400, 401, 403, 404, 413, 503) | {"200": stream}


def responses(description: str, schema: Any, *errors: int) -> dict[str, Any]:
    """The response with status 200, and those of errors; ``schema`` is a schema or the name of one."""
    result: dict[str, Any] = {"200": {"description": description, "content": content(schema)}}
    for status in errors:
        result[str(status)] = {"description": ERRORS[status], "content": content("ErrorResponse")}
        if status == 503:
            result["503"]["headers"] = {"Retry-After": {"schema": {"type": "integer"}}}
    return result
