"""The JSON bodies of requests and responses about runs, as pydantic models."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from seq2seq_chat.runs.summary import State
from webui.schemas import Count, Prompt, RequestBody, Text

MAX_NOTE_LENGTH = 10_000
MAX_QUESTIONS = 100
MAX_COMPARED = 20  # runs in a comparison

Values = Annotated[list[float | None], Field(description="null where it is missing")]


class NotesRequest(RequestBody):
    """Notes about a run."""

    star: bool = False
    hidden: bool = Field(False, description="whether lists leave the run out")
    text: Text = Field("", max_length=MAX_NOTE_LENGTH)


class Run(BaseModel):
    """The summary of a run."""

    name: str
    state: State
    step: Count = Field(description="step of the newest metrics")
    newest_step: Count | None = Field(description="training steps of the newest weights; null before the first")
    steps: Count | None = Field(description="planned number of steps")
    best_perplexity: float | None = Field(description="validation perplexity of the best weights")
    best_bleu: float | None = Field(description="validation BLEU of a translation")
    best_step: Count | None
    changed: float = Field(description="Unix time of the last write, in seconds")
    reason: str | None = Field(description="reason of the failure")
    task: Literal["conversation", "translation", "language_model", None]
    initialized_from: str | None = Field(description="run and step of the initial weights; null: random ones")
    notes: NotesRequest


class RunList(BaseModel):
    """All runs."""

    runs: list[Run]


class TrainingCurve(BaseModel):
    """What training reported."""

    step: list[Count]
    loss: Values
    learning_rate: Values
    gradient_norm: Values


class ValidationCurve(BaseModel):
    """What validation measured."""

    step: list[Count]
    loss: Values
    bleu: Values


class Curves(BaseModel):
    """The learning curves of a run: lists of equal length; losses in nats per target token."""

    train: TrainingCurve
    validation: ValidationCurve


class DecodingForm(BaseModel):
    """The form for decoding settings."""

    options: list[dict[str, Any]] = Field(description="its fields")
    defaults: dict[str, dict[str, Any]] = Field(description="what it shows at first, by method")
    method: str | None


class SampleReply(BaseModel):
    """A reply that was sampled during training."""

    step: Count
    source: str
    reply: str
    target: str


class RunPage(Run):
    """All details of a run."""

    snapshots: list[str]
    config: dict[str, Any] | None = Field(description="the run's configuration; null if it is invalid")
    decoding: DecodingForm
    context_turns: Count
    curves: Curves
    samples: list[SampleReply]
    checks: dict[str, Any] | None
    files: list[str] = Field(description="figures and pages of the report")


class ComparisonQuery(BaseModel):
    """The runs to compare."""

    run: list[Annotated[str, Field(min_length=1)]] = Field(min_length=1, max_length=MAX_COMPARED)


class RunComparison(BaseModel):
    """A table with a column for each run, and the learning curves."""

    runs: list[str]
    settings: dict[str, list[Any]] = Field(description="values of the settings that differ, in the order of the runs")
    figures: dict[str, list[Any]] = Field(description="results of the runs")
    curves: dict[str, Curves]


class AnswersRequest(RequestBody):
    """Questions for the checkpoints of a run."""

    step: int | None = Field(
        None, ge=0, description="training steps of the weights that reply now if they have not; null: none do"
    )
    questions: list[Prompt] = Field(min_length=1, max_length=MAX_QUESTIONS)


class CheckpointAnswers(BaseModel):
    """The replies of a checkpoint."""

    step: Count
    replies: list[str | None] = Field(description="in the order of the questions")


class AnswerTable(BaseModel):
    """The replies by step."""

    answers: list[CheckpointAnswers]
    unanswered: list[Count] = Field(
        description="steps of weights that have not replied to all, those that training deletes next first"
    )
