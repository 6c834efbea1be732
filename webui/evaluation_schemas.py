"""The JSON bodies of requests and responses about blind evaluations, as pydantic models."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field, StringConstraints, field_validator

from seq2seq_chat.config import RUN_NAME
from seq2seq_chat.report.votes.evaluation import Choice, Vote
from webui.schemas import MAX_NAME_LENGTH, Count, InvalidRequest, Prompt, RequestBody, RunName, SnapshotName

MAX_COLUMNS = 12
MAX_PROMPTS = 1000
PROMPTS = 50  # taken from a test corpus by default

JudgeName = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=60),
    Field(description="name of the person who votes"),
]
EvaluationName = Annotated[str, Field(max_length=MAX_NAME_LENGTH, description="name of an evaluation")]
Interval = Annotated[list[float], Field(min_length=2, max_length=2, description="95 % interval")]
ItemIndex = Annotated[int, Field(ge=0, description="index of a prompt and two columns")]


class ColumnRequest(RequestBody):
    """A run, a snapshot and decoding settings that take part in an evaluation."""

    run: RunName
    snapshot: SnapshotName = None
    decoding: dict[str, Any] = Field({}, description="decoding settings that differ from those of the run")


class EvaluationRequest(RequestBody):
    """A new evaluation."""

    name: str = Field("evaluation", pattern=RUN_NAME, max_length=100, description="end of the name of its folder")
    columns: list[ColumnRequest] = Field(min_length=2, max_length=MAX_COLUMNS)
    prompts: list[Prompt] = Field(min_length=1, max_length=MAX_PROMPTS, description="what all columns reply to")

    @field_validator("prompts")
    @classmethod
    def _check_prompts(cls, prompts: list[str]) -> list[str]:
        if not all(map(str.strip, prompts)):
            raise InvalidRequest("prompts: an empty prompt has no reply; leave it out.")
        return prompts


class PairRequest(RequestBody):
    """A request for the next pair of replies."""

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


class EvaluationCounts(BaseModel):
    """The size of an evaluation, and how far it is."""

    name: str
    prompts: Count
    items: Count = Field(description="pairs of replies")
    votes: Count
    judges: Count


class EvaluationSummary(EvaluationCounts):
    """An evaluation in the list of evaluations."""

    columns: Count


class EvaluationList(BaseModel):
    """All evaluations."""

    evaluations: list[EvaluationSummary]


class EvaluatedColumn(BaseModel):
    """A system that takes part in an evaluation."""

    run: str
    snapshot: str | None
    decoding: str


class Share(BaseModel):
    """A share of votes."""

    share: float
    interval: Interval
    p_value: float


class PairStatistics(BaseModel):
    """The votes on a pair of systems."""

    first: HiddenSystem
    second: HiddenSystem
    wins: Count
    losses: Count
    both_good: Count
    both_bad: Count
    win_rate: Share | None
    missing_votes: Count | None = Field(description="0: settled; null: no difference so far")


class SystemStrength(BaseModel):
    """The strength of a system."""

    system: HiddenSystem
    value: float
    interval: Interval


class JudgeAgreement(BaseModel):
    """The agreement of judges, by Krippendorff's alpha."""

    items: Count
    alpha: float | None


class EvaluationStatistics(BaseModel):
    """The statistics of votes."""

    votes: Count
    judges: dict[str, Count]
    pairs: list[PairStatistics]
    strengths: list[SystemStrength]
    left: Share | None = Field(description="share of the left side")
    agreement: JudgeAgreement


class EvaluationResults(EvaluationCounts):
    """The columns of an evaluation and the statistics of its votes."""

    columns: list[EvaluatedColumn]
    statistics: EvaluationStatistics


class PromptsQuery(BaseModel):
    """How many prompts to take."""

    count: int = Field(PROMPTS, ge=1, le=MAX_PROMPTS)


class PromptList(BaseModel):
    """Sources of a corpus."""

    prompts: list[str]


def revealed(vote: Vote) -> dict[str, Any]:
    """The JSON of :class:`Revealed`."""
    return {"choice": vote.choice, "left": vote.left._asdict(), "right": vote.right._asdict()}
