"""The HTTP interface of a search that is watched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flask import Blueprint, Response

from seq2seq_chat.chat.chatbot import Chatbot
from webui.api import check_task, find_run, request_json
from webui.app_state import get_state
from webui.decoding_options import requested_decoding
from webui.model_stream import ModelStream
from webui.openapi import LINES, Operation
from webui.run_registry import check_step, find_weights, strip_paths
from webui.schemas import InvalidRequest, parse_chat_request, recent_turns
from webui.search_schemas import SearchEnd, SearchRequest, SearchStart, SearchStepLine, search_lines
from webui.streaming import stream_response

searches = Blueprint("searches", __name__)


@searches.post("/api/search")
@Operation(
    "search",
    "SearchStart, then each step as it is made, and then SearchEnd, or an error",
    [SearchStart, SearchStepLine, SearchEnd],
    media_type=LINES,
    body=SearchRequest,
    errors=[503],
)
def search() -> Response:
    """Watch the beam search for a reply."""
    state = get_state()
    body = parse_chat_request(request_json(), state.limits, SearchRequest)
    run, config = find_run(body.run)
    check_task(run, config, body)
    if body.decoding.get("method", "beam") != "beam":
        raise InvalidRequest("decoding: only beam search can be watched; leave method out.")
    decoding = requested_decoding(config, {**body.decoding, "method": "beam"}, state.limits)
    body = body.model_copy(update={"history": recent_turns(body.history, state.limits)})

    def lines(bot: Chatbot) -> Iterator[dict[str, Any]]:
        check_step(run, body.step, bot.step)
        return search_lines(bot, body, decoding)

    def without_paths(line: dict[str, Any]) -> dict[str, Any]:
        if "warnings" in line:
            line["warnings"] = [strip_paths(warning, state.registry.results) for warning in line["warnings"]]
        return line

    weights = find_weights(run, body.snapshot, body.step)
    return stream_response(run, weights, ModelStream(Chatbot, lines), without_paths)
