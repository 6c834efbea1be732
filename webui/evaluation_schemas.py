"""The JSON bodies of requests and responses about blind evaluations, as pydantic models."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from seq2seq_chat.analysis.votes.evaluation import Choice, Vote
from seq2seq_chat.config import RUN_NAME
from webui.limits import Limits
from webui.schemas import (
    InvalidRequest,
    RunName,
    SnapshotName,
    Text,
    check_lengths,
    validate_request,
)

MAX_COLUMNS = 12
MAX_PROMPTS = 1000
PROMPTS = 50  # taken from a test corpus by default

JudgeName = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=60),
    Field(description="name of the person who votes"),
]
ItemIndex = Annotated[int, Field(ge=0, description="index of a prompt and two columns")]


class ColumnRequest(BaseModel):
    """A run, a snapshot and decoding settings that take part in an evaluation."""

    model_config = ConfigDict(extra="forbid", strict=True)

    run: RunName
    snapshot: SnapshotName = None
    decoding: dict[str, Any] = Field({}, description="decoding settings that differ from those of the run")


class EvaluationRequest(BaseModel):
    """A new evaluation."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = Field("evaluation", pattern=RUN_NAME, max_length=100, description="end of the name of its folder")
    columns: list[ColumnRequest] = Field(min_length=2, max_length=MAX_COLUMNS)
    prompts: list[Text] = Field(min_length=1, max_length=MAX_PROMPTS, description="what all columns reply to")


class PairRequest(BaseModel):
    """A request for the next pair of replies."""

    model_config = ConfigDict(extra="forbid", strict=True)

    judge: JudgeName


class VoteRequest(PairRequest):
    """A vote on a pair of replies."""

    item: ItemIndex
    choice: Choice


class Pair(BaseModel):
    """Two replies to a prompt, whose systems are hidden."""

    item: int | None = Field(description="what a vote refers to; null if nothing is left to vote on")
    prompt: str
    left: str
    right: str
    voted: int = Field(description="votes of this judge")
    items: int = Field(description="pairs of replies in the evaluation, including those that are equal")


class HiddenSystem(BaseModel):
    """What has replied; revealed by a vote."""

    run: str
    step: int | None
    decoding: str


class Revealed(BaseModel):
    """The systems behind a vote."""

    choice: Choice
    left: HiddenSystem
    right: HiddenSystem


def parse_evaluation_request(body: object, limits: Limits) -> EvaluationRequest:
    """Validate the body of a request for an evaluation.

    Raises:
        InvalidRequest: The body is not valid, or a prompt is empty.
        RequestTooLarge: A prompt is too long.
    """
    example = '{"columns": [{"run": "latest"}, {"run": "latest", "snapshot": "best"}], "prompts": ["hello"]}'
    request = validate_request(EvaluationRequest, body, example)
    if not all(prompt.strip() for prompt in request.prompts):
        raise InvalidRequest("prompts: an empty prompt has no reply; leave it out.")
    check_lengths(request.prompts, limits)
    return request


def revealed(vote: Vote) -> dict[str, Any]:
    """The JSON of :class:`Revealed`."""
    return {"choice": vote.choice, "left": vote.left._asdict(), "right": vote.right._asdict()}
