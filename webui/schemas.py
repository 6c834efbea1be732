"""What goes over the wire: the bodies of requests and answers, as types that check and describe themselves."""

from __future__ import annotations

from typing import Any, Optional

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from webui.models import Answer

NAME_LENGTH = 255


class BadRequest(Exception):
    """A request that says nothing sensible; the message says what is wrong with it."""


class TooMuch(Exception):
    """A request that is longer than the server reads."""


class ChatRequest(BaseModel):
    """An utterance for a model."""

    model_config = ConfigDict(extra="forbid", strict=True)

    run: str = Field(max_length=NAME_LENGTH, description="name of a run, or `latest` for the newest")
    text: str = Field(description="what you say to it")
    snapshot: Optional[str] = Field(
        None, max_length=NAME_LENGTH, description="name of a snapshot, `best` or `latest`; null: the newest weights"
    )
    history: list[str] = Field([], description="the conversation so far, oldest first: yours and the model's in turns")
    decoding: dict[str, Any] = Field({}, description="settings that differ from the run's own")


class Alternative(BaseModel):
    """One possible reply."""

    text: str
    score: float = Field(description="log-probability of its words and the end marker, in nats")


class ChatReply(BaseModel):
    """What the model says, and why."""

    reply: str = Field(description="empty where the utterance has nothing the model can read")
    alternatives: list[Alternative] = Field(description="all hypotheses, best first; the first is the reply")
    unknown_words: list[str] = Field(description="words of the utterance that are not in the vocabulary")
    attention: list[list[float]] = Field(
        description="a row for each word of the reply, a column for each word that was read; rows add up to 1"
    )
    source_words: list[str] = Field(description="what the model read")
    reply_words: list[str]
    seconds: float = Field(description="from the question to the reply, on the server")
    step: Optional[int] = Field(description="training steps behind the weights")
    warnings: list[str] = Field(description="what was wrong with the files of the model")


class Fault(BaseModel):
    """Why there is no answer."""

    error: str


def parse_request(body: object) -> ChatRequest:
    """A request for a reply. Raises BadRequest."""
    if not isinstance(body, dict):
        raise BadRequest('The body must be a JSON object such as {"run": "latest", "text": "hello"}.')
    try:
        return ChatRequest.model_validate(body)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        path = ".".join(str(part) for part in fault["loc"])
        raise BadRequest(f"{path}: {fault['msg'].replace('Input should be', 'must be')}."[:300]) from None


def describe(answer: Answer, seconds: float) -> dict[str, Any]:
    """The body of a :class:`ChatReply`; numbers are rounded to what can be seen."""
    reply = answer.reply
    best = reply.hypotheses[0] if reply.hypotheses else None
    return {
        "reply": reply.text,
        "alternatives": [{"text": h.text, "score": round(h.score, 4)} for h in reply.hypotheses],
        "unknown_words": reply.unknown_words,
        "attention": [[round(weight, 4) for weight in row] for row in best.attention] if best else [],
        "source_words": reply.source_words,
        "reply_words": best.words if best else [],
        "seconds": round(seconds, 4),
        "step": answer.step,
        "warnings": answer.warnings,
    }
