"""The part of the OpenAPI document on blind evaluations."""

from __future__ import annotations

from typing import Any

from webui.evaluation_schemas import (
    MAX_PROMPTS,
    PROMPTS,
    EvaluationRequest,
    HiddenSystem,
    Pair,
    PairRequest,
    Revealed,
    VoteRequest,
)
from webui.openapi_parts import (
    COUNT,
    OPTIONAL_COUNT,
    OPTIONAL_STRING,
    RUN_NAME,
    STRING,
    content,
    list_schema,
    object_schema,
    responses,
)

EVALUATION_BODIES = (EvaluationRequest, PairRequest, Pair, VoteRequest, Revealed)

NUMBER = {"type": "number"}
INTERVAL = list_schema(NUMBER) | {"minItems": 2, "maxItems": 2, "description": "95 % interval"}
SUMMARY = {
    "name": STRING,
    "columns": COUNT,
    "prompts": COUNT,
    "items": COUNT | {"description": "pairs of replies"},
    "votes": COUNT,
    "judges": COUNT,
}


def evaluation_paths() -> dict[str, Any]:
    """The requests about evaluations."""
    name = RUN_NAME | {"description": "name of an evaluation"}
    count = {
        "name": "count",
        "in": "query",
        "required": False,
        "schema": {"type": "integer", "minimum": 1, "maximum": MAX_PROMPTS, "default": PROMPTS},
    }
    summary = object_schema(**SUMMARY)
    listing = {
        "operationId": "listEvaluations",
        "summary": "List all blind evaluations, newest first",
        "responses": responses("The evaluations", object_schema(evaluations=list_schema(summary)), 401, 403),
    }
    create = {
        "operationId": "createEvaluation",
        "summary": "Start a blind evaluation",
        "requestBody": {"required": True, "content": content("EvaluationRequest")},
        "responses": responses("The new evaluation", summary, 400, 401, 403, 404, 413, 503),
    }
    results = {
        "operationId": "getEvaluation",
        "summary": "The columns of an evaluation and the statistics of its votes",
        "parameters": [name],
        "responses": responses("The results", _results(), 400, 401, 403, 404, 503),
    }
    pair = {
        "operationId": "nextPair",
        "summary": "The next pair of replies for a judge; pairs of equal replies are left out",
        "parameters": [name],
        "requestBody": {"required": True, "content": content("PairRequest")},
        "responses": responses("Two replies", "Pair", 400, 401, 403, 404, 413, 503),
    }
    vote = {
        "operationId": "vote",
        "summary": "Vote on a pair of replies, which reveals their systems",
        "parameters": [name],
        "requestBody": {"required": True, "content": content("VoteRequest")},
        "responses": responses("The systems", "Revealed", 400, 401, 403, 404, 409, 413),
    }
    prompts = {
        "operationId": "getPrompts",
        "summary": "Sources of a run's test corpus, or else of its validation corpus",
        "parameters": [RUN_NAME, count],
        "responses": responses("The sources", object_schema(prompts=list_schema(STRING)), 400, 401, 403, 404, 503),
    }
    return {
        "/api/evaluations": {"get": listing, "post": create},
        "/api/evaluations/{name}": {"get": results},
        "/api/evaluations/{name}/pair": {"post": pair},
        "/api/evaluations/{name}/votes": {"post": vote},
        "/api/runs/{name}/prompts": {"get": prompts},
    }


def _results() -> dict[str, Any]:
    system = HiddenSystem.model_json_schema()
    share = object_schema(share=NUMBER, interval=INTERVAL, p_value=NUMBER) | {"type": ["object", "null"]}
    pair = object_schema(
        first=system,
        second=system,
        wins=COUNT,
        losses=COUNT,
        both_good=COUNT,
        both_bad=COUNT,
        win_rate=share,
        missing_votes=OPTIONAL_COUNT | {"description": "0: settled; null: no difference so far"},
    )
    statistics = object_schema(
        votes=COUNT,
        judges={"type": "object", "additionalProperties": COUNT},
        pairs=list_schema(pair),
        strengths=list_schema(object_schema(system=system, value=NUMBER, interval=INTERVAL)),
        left=share,
        agreement=object_schema(items=COUNT, alpha={"type": ["number", "null"]}),
    )
    column = object_schema(run=STRING, snapshot=OPTIONAL_STRING, decoding=STRING)
    return object_schema(**{**SUMMARY, "columns": list_schema(column)}, statistics=statistics)
