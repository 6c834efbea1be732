"""The part of the OpenAPI document on the workbench of runs."""

from __future__ import annotations

from typing import Any

from webui.learning_curves import QUANTITIES
from webui.openapi_parts import COUNT, RUN_NAME, STRING, content, list_schema, object_schema, reference, responses
from webui.schemas import MAX_COMPARED


def curves_schema() -> dict[str, Any]:
    """The learning curves of a run."""
    values = list_schema({"type": ["number", "null"]}) | {"description": "null where it is missing"}
    curves = {
        kind: object_schema(step=list_schema(COUNT), **dict.fromkeys(names, values))
        for kind, names in QUANTITIES.items()
    }
    return object_schema(**curves) | {"description": "lists of equal length; losses in nats per target token"}


def workbench_paths() -> dict[str, Any]:
    """The requests of the workbench."""
    events = {
        "operationId": "followRuns",
        "summary": "Follow all runs by server-sent events",
        "responses": responses("", {}, 401, 403, 503) | {"200": _stream()},
    }
    names = {
        "name": "run",
        "in": "query",
        "required": True,
        "schema": list_schema({"type": "string", "minLength": 1}) | {"minItems": 1, "maxItems": MAX_COMPARED},
    }
    rows = {"type": "object", "additionalProperties": list_schema({})}
    result = object_schema(
        runs=list_schema(STRING),
        settings=rows | {"description": "values of the settings that differ, in the order of the runs"},
        figures=rows | {"description": "results of the runs"},
        curves={"type": "object", "additionalProperties": reference("Curves")},
    )
    comparison = {
        "operationId": "compareRuns",
        "summary": "The settings in which runs differ, their results and learning curves",
        "parameters": [names],
        "responses": responses("The comparison", result, 400, 401, 403, 404),
    }
    replies = list_schema({"type": ["string", "null"]}) | {"description": "in the order of the questions"}
    table = object_schema(
        answers=list_schema(object_schema(step=COUNT, replies=replies)),
        unanswered=list_schema(COUNT)
        | {"description": "steps of weights that have not replied to all, those that training deletes next first"},
    )
    answers = {
        "operationId": "answerQuestions",
        "summary": "The replies of all checkpoints to questions, which are stored in the run",
        "parameters": [RUN_NAME],
        "requestBody": {"required": True, "content": content("AnswersRequest")},
        "responses": responses("The replies by step", table, 400, 401, 403, 404, 413, 503),
    }
    notes = {
        "operationId": "putNotes",
        "summary": "Replace the notes about a run",
        "parameters": [RUN_NAME],
        "requestBody": {"required": True, "content": content("NotesRequest")},
        "responses": responses("The notes", "NotesRequest", 400, 401, 403, 404, 413),
    }
    return {
        "/api/events": {"get": events},
        "/api/comparison": {"get": comparison},
        "/api/runs/{name}/answers": {"post": answers},
        "/api/runs/{name}/notes": {"put": notes},
    }


def _stream() -> dict[str, Any]:
    description = (
        'Events "runs" whose data is {"runs": [Run…], "removed": [name…]}: all runs at first, and then those that have '
        "changed."
    )
    return {"description": description, "content": {"text/event-stream": {"schema": STRING}}}
