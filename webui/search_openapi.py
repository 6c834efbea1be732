"""The part of the OpenAPI document on searches that are watched."""

from __future__ import annotations

from typing import Any

from webui.openapi_parts import content, line_responses
from webui.search_schemas import SearchEnd, SearchRequest, SearchStart, SearchStepLine

SEARCH_BODIES = (SearchRequest, SearchStart, SearchStepLine, SearchEnd)


def search_paths() -> dict[str, Any]:
    """The requests about searches."""
    search = {
        "operationId": "search",
        "summary": "Watch the beam search for a reply",
        "requestBody": {"required": True, "content": content("SearchRequest")},
        "responses": line_responses(
            "SearchStart, then each step as it is made, and then SearchEnd, or an error",
            *("SearchStart", "SearchStepLine", "SearchEnd"),
        ),
    }
    return {"/api/search": {"post": search}}
