"""The HTTP interface of a search that is watched.

Its request, and a line for its start, each of its steps, and its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from flask import Blueprint, Response
from pydantic import BaseModel, Field

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.chat.watched_search import WatchedSearch
from seq2seq_chat.search.records import Expansion, Fate, Node
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.text.codec import replace_surrogates
from webui.api import read_body
from webui.app_state import get_state
from webui.chat_answers import check_task, find_run, stream_response
from webui.decoding_options import requested_decoding
from webui.model_stream import ModelStream
from webui.openapi import LINES, Operation
from webui.run_registry import check_step, strip_paths
from webui.schemas import ChatRequest, InvalidRequest, Prompt, recent_turns

DIGITS = 5  # of scores


class SearchRequest(ChatRequest):
    """An utterance, the search for whose reply is watched. The method is beam search, without reranking."""

    text: Prompt = Field(description="the utterance")


class SearchStart(BaseModel):
    """The first line of a search."""

    source_words: list[str] = Field(description="the tokens that the model read; none if it can read nothing")
    unknown_words: list[str] = Field(description="those that are not in the vocabulary of the source")
    beam_width: int
    n_best: int = Field(description="number of hypotheses that are searched for")
    length_penalty: float
    step: int | None = Field(description="training steps of the weights")
    warnings: list[str] = Field(description="about damaged files of the model")


class SearchCandidate(BaseModel):
    """A word that might continue a hypothesis."""

    word: str = Field(description="a token; the end marker is `<eos>`")
    probability: float = Field(description="of the word after the hypothesis")
    score: float = Field(description="log-probability of the hypothesis with this word, in nats")
    rank: float = Field(description="what hypotheses are sorted by: the score divided by the length divisor")
    fate: Fate = Field(
        description="kept; outranked by other hypotheses of the beam; forbidden by a setting; not_forced, as another "
        "word was"
    )
    setting: str | None = Field(description="the decoding setting that forbids it")
    node: int | None = Field(description="the number of the new hypothesis, if it was kept")


class SearchExpansion(BaseModel):
    """A hypothesis that was extended: its most probable next words, and all that were kept."""

    node: int = Field(description="the number of the hypothesis; 0 is the empty one")
    attention: list[float] = Field(description="to each source token, while choosing the word; empty without attention")
    candidates: list[SearchCandidate] = Field(description="most probable first")


class SearchStepLine(BaseModel):
    """One step: every hypothesis that had not ended was extended by a word, and the best were kept."""

    expansions: list[SearchExpansion]
    beam: list[int] = Field(description="the hypotheses that were kept, best first, including those that ended before")


class SearchHypothesis(BaseModel):
    """A hypothesis of the last beam."""

    node: int
    text: str = Field(description="as people write it")
    score: float = Field(description="log-probability in nats")
    divisor: float = Field(description="((5 + tokens) / 6)^length_penalty")
    rank: float
    ended: bool = Field(description="false: the search was finished, or the model's step limit reached, before its end")


class SearchEnd(BaseModel):
    """The last line of a search."""

    ranking: list[SearchHypothesis] = Field(description="best first; the first `n_best` are what a chat would return")


def search_lines(bot: Chatbot, body: SearchRequest, decoding: Any) -> Iterator[dict[str, Any]]:
    """The lines of a search, computed as they are read: :class:`SearchStart`, steps, :class:`SearchEnd`."""
    search = bot.watch(body.text, decoding, body.history, body.prefix)
    source = search.source.tokens
    unknown = [word for word in dict.fromkeys(source) if word not in bot.codecs.source.vocabulary]
    settings = decoding.model_dump(include={"beam_width", "n_best", "length_penalty"})
    yield {"source_words": source, "unknown_words": unknown, "step": bot.step, "warnings": bot.warnings, **settings}
    beam: Sequence[Node] = ()
    for step in search:
        beam = step.beam
        expansions = [_expansion(expansion, search) for expansion in step.expansions]
        yield {"expansions": expansions, "beam": [node.number for node in beam]}
    yield {
        "ranking": [
            {
                "node": node.number,
                "text": search.text(node),
                "score": round(node.score, DIGITS),
                "divisor": round(search.divisor(node), DIGITS),
                "rank": round(node.rank, DIGITS),
                "ended": node.ended,
            }
            for node in beam
        ]
    }


def _expansion(expansion: Expansion, search: WatchedSearch) -> dict[str, Any]:
    return {
        "node": expansion.node.number,
        "attention": [round(weight, 4) for weight in search.attention(expansion.attention)],
        "candidates": [
            {
                "word": replace_surrogates(search.token(one.word)),
                "probability": float(f"{np.exp(one.log_probability):.4g}"),
                "score": round(one.score, DIGITS),
                "rank": round(one.rank, DIGITS),
                "fate": one.fate,
                "setting": search.forbidding_setting(one, expansion.node),
                "node": one.node.number if one.node else None,
            }
            for one in expansion.candidates
            if np.isfinite(one.score)
        ],
    }


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
    body = read_body(SearchRequest)
    run, config = find_run(body.run)
    check_task(run, config, body.history)
    if body.decoding.get("method", "beam") != "beam":
        raise InvalidRequest("decoding: only beam search can be watched; leave method out.")
    decoding = requested_decoding(config, {**body.decoding, "method": "beam"}, state.limits)
    body = body.model_copy(update={"history": recent_turns(body.history, state.limits)})

    def lines(bot: Chatbot) -> Iterator[dict[str, Any]]:
        check_step(run, body.step, bot.step)
        try:
            bot.prefix_tokens(body.prefix)
        except UserError as error:
            raise InvalidRequest(str(error)) from error
        return search_lines(bot, body, decoding)

    def without_paths(line: dict[str, Any]) -> dict[str, Any]:
        if "warnings" in line:
            line["warnings"] = [strip_paths(warning, state.registry.results) for warning in line["warnings"]]
        return line

    return stream_response(run, body, ModelStream(Chatbot, lines), without_paths)
