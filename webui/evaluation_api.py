"""The HTTP API of blind evaluations. Which system is on which side is revealed once the vote is on the disk."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from itertools import islice
from typing import Annotated, Any

from flask import Blueprint, Response
from pydantic import BaseModel, Field, StringConstraints, field_validator
from werkzeug.exceptions import Conflict

from seq2seq_chat.config import RUN_NAME, Decoding
from seq2seq_chat.report.votes.evaluation import (
    Choice,
    Column,
    Evaluation,
    Item,
    StoredReply,
    Vote,
    create_evaluation,
    list_evaluations,
)
from seq2seq_chat.report.votes.statistics import EvaluationStatistics, HiddenSystem, vote_statistics
from seq2seq_chat.system.errors import UserError, explain_missing_packages
from webui.api import json_response, queue_all, read_body, wait_for_answer
from webui.app_state import get_state
from webui.chat_answers import check_task, find_run
from webui.decoding_options import single_reply
from webui.model_worker import Answer, ChatMessage
from webui.openapi import Operation
from webui.run_details import MAX_PROMPTS
from webui.run_registry import NotFoundError, find_weights
from webui.schemas import MAX_NAME_LENGTH, Count, InvalidRequest, Prompt, RequestBody, RunName, SnapshotName

MAX_COLUMNS = 12

JudgeName = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=60),
    Field(description="name of the person who votes"),
]
EvaluationName = Annotated[str, Field(max_length=MAX_NAME_LENGTH, description="name of an evaluation")]
ItemIndex = Annotated[int, Field(ge=0, description="index of a prompt and two columns")]


class ColumnRequest(RequestBody):
    """A run, a snapshot and decoding settings that take part in an evaluation."""

    run: RunName
    snapshot: SnapshotName = None
    decoding: dict[str, Any] = Field({}, description="decoding settings that differ from the run's")


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
    skipped: list[ItemIndex] = Field([], description="pairs that are left out")


class UndoRequest(RequestBody):
    """The last vote of a judge, which was a mistake."""

    judge: JudgeName
    item: ItemIndex


class VoteRequest(UndoRequest):
    """A vote on a pair of replies."""

    choice: Choice


class Pair(BaseModel):
    """Two replies to a prompt, whose systems are hidden."""

    item: int | None = Field(description="what a vote refers to; null if nothing is left to vote on")
    prompt: str
    left: str
    right: str
    voted: int = Field(description="votes of this judge")
    last: int | None = Field(description="item of the last vote of this judge, which can be taken back")
    items: int = Field(description="pairs of replies in the evaluation, including those that are equal")


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
    damaged: list[str] = Field(description="names of evaluations that cannot be read")


class EvaluatedColumn(BaseModel):
    """A system that takes part in an evaluation."""

    run: str
    snapshot: str | None
    decoding: str


class EvaluationResults(EvaluationCounts):
    """The columns of an evaluation and the statistics of its votes."""

    columns: list[EvaluatedColumn]
    statistics: EvaluationStatistics


class VoteList(BaseModel):
    """All votes of an evaluation."""

    votes: list[dict[str, Any]] = Field(description="as stored, each with its prompt, both replies and their systems")


def revealed(vote: Vote) -> dict[str, Any]:
    """The JSON of :class:`Revealed`."""
    return {"choice": vote.choice, "left": vote.left._asdict(), "right": vote.right._asdict()}


evaluations = Blueprint("evaluations", __name__)

AHEAD = 8  # pairs whose replies are computed in one batch

_writing = threading.Lock()  # held while looking for a vote and writing it


@evaluations.get("/api/evaluations")
@Operation("listEvaluations", "The evaluations", [EvaluationList])
def list_all() -> Response:
    """List all blind evaluations, newest first."""
    summaries, damaged = [], []
    for evaluation in reversed(list_evaluations(get_state().registry.results)):
        try:
            summaries.append(_summary(evaluation))
        except UserError:
            damaged.append(evaluation.path.name)
    return json_response({"evaluations": summaries, "damaged": damaged})


@evaluations.post("/api/evaluations")
@Operation("createEvaluation", "The new evaluation", [EvaluationSummary], body=EvaluationRequest, errors=[503, 507])
def create() -> Response:
    """Start a blind evaluation."""
    state = get_state()
    example = '{"columns": [{"run": "latest"}, {"run": "latest", "snapshot": "best"}], "prompts": ["hello"]}'
    body = read_body(EvaluationRequest, example)
    columns = [_column(column) for column in body.columns]
    if len(tasks := {find_run(column.run)[1].task for column in columns}) > 1:
        raise InvalidRequest(
            f"columns: their tasks differ ({', '.join(sorted(tasks))}), so there is nothing to compare."
        )
    if len({column.model_dump_json() for column in columns}) < len(columns):
        raise InvalidRequest("columns: two are equal; choose another run, snapshot or decoding setting.")
    return json_response(_summary(create_evaluation(state.registry.results, body.name, columns, body.prompts)))


@evaluations.get("/api/evaluations/<name>")
@Operation("getEvaluation", "The results", [EvaluationResults], errors=[503])
def results(name: EvaluationName) -> Response:
    """The columns of an evaluation and the statistics of its votes."""
    evaluation = _find(name)
    with explain_missing_packages("The statistics of votes"):
        statistics = vote_statistics(evaluation.votes())
    systems = [
        {"run": column.run, "snapshot": column.snapshot, "decoding": evaluation.system(number, None).decoding}
        for number, column in enumerate(evaluation.settings.columns)
    ]
    return json_response({**_summary(evaluation), "columns": systems, "statistics": statistics.model_dump()})


@evaluations.delete("/api/evaluations/<name>")
@Operation("deleteEvaluation", "The remaining evaluations", [EvaluationList])
def delete(name: EvaluationName) -> Response:
    """Delete an evaluation with its replies and votes."""
    with _writing:
        _find(name).delete()
    return list_all()


@evaluations.get("/api/evaluations/<name>/votes")
@Operation("listVotes", "The votes", [VoteList])
def list_votes(name: EvaluationName) -> Response:
    """The votes of all judges, oldest first."""
    return json_response({"votes": [vote.model_dump() | revealed(vote) for vote in _find(name).votes()]})


@evaluations.post("/api/evaluations/<name>/pair")
@Operation("nextPair", "Two replies", [Pair], body=PairRequest, errors=[503, 507])
def next_pair(name: EvaluationName) -> Response:
    """The next pair of replies for a judge; pairs of equal replies are left out."""
    evaluation = _find(name)
    body = read_body(PairRequest, '{"judge": "anna"}')
    judge, voted = body.judge, evaluation.voted(body.judge)
    progress = {"voted": len(voted), "last": next(reversed(voted), None), "items": len(evaluation.items)}
    unvoted = (index for index in range(len(evaluation.items)) if index not in {*voted, *body.skipped})
    while block := list(islice(unvoted, AHEAD)):
        replies = _replies(evaluation, [evaluation.items[index] for index in block])
        for index in block:
            prompt = evaluation.items[index].prompt
            left, right = (replies[prompt, column].text for column in evaluation.sides(index, judge))
            if left.strip() != right.strip():
                text = evaluation.settings.prompts[prompt]
                return json_response({"item": index, "prompt": text, "left": left, "right": right, **progress})
    return json_response({"item": None, "prompt": "", "left": "", "right": "", **progress})


@evaluations.post("/api/evaluations/<name>/votes")
@Operation("vote", "The systems", [Revealed], body=VoteRequest, errors=[409, 507])
def vote(name: EvaluationName) -> Response:
    """Vote on a pair of replies, which reveals their systems.

    The same vote again is not recorded twice; another one is refused.
    """
    evaluation = _find(name)
    body = read_body(VoteRequest, '{"judge": "anna", "item": 0, "choice": "left"}')
    if body.item >= len(evaluation.items):
        raise InvalidRequest(f"item: must be less than {len(evaluation.items)}.")
    item = evaluation.items[body.item]
    with _writing:
        previous = evaluation.voted(body.judge).get(body.item)
        if previous is not None and previous.choice != body.choice:
            raise Conflict("You have already voted on these replies, and their systems were revealed.")
        if previous is None and not {(item.prompt, column) for column in item.columns} <= set(evaluation.replies()):
            raise InvalidRequest("item: its replies have not been shown; request a pair first.")
        return json_response(revealed(previous or evaluation.add_vote(body.judge, body.item, body.choice)))


@evaluations.post("/api/evaluations/<name>/undo")
@Operation("undoVote", "The evaluation without it", [EvaluationSummary], body=UndoRequest, errors=[409, 507])
def undo(name: EvaluationName) -> Response:
    """Take back the last vote of a judge, which can be cast again; a vote that was taken back already is no error."""
    evaluation = _find(name)
    body = read_body(UndoRequest, '{"judge": "anna", "item": 0}')
    with _writing:
        voted = [*evaluation.voted(body.judge)]
        if body.item in voted[:-1]:
            raise Conflict("You have voted on other replies since; only your last vote can be taken back.")
        if body.item in voted:
            evaluation.withdraw(body.judge, body.item)
    return json_response(_summary(evaluation))


def _find(name: str) -> Evaluation:
    """An evaluation by its name, which is looked up and never becomes a path. Raises NotFoundError."""
    for evaluation in list_evaluations(get_state().registry.results):
        if evaluation.path.name == name:
            return evaluation
    raise NotFoundError("There is no such evaluation. It may have been moved or deleted; choose another.")


def _summary(evaluation: Evaluation) -> dict[str, Any]:
    settings, votes = evaluation.settings, evaluation.votes()
    return {
        "name": evaluation.path.name,
        "columns": len(settings.columns),
        "prompts": len(settings.prompts),
        "items": len(evaluation.items),
        "votes": len(votes),
        "judges": len({vote.judge for vote in votes}),
    }


def _column(chosen: ColumnRequest) -> Column:
    """The column of a request, with its complete decoding settings.

    Raises:
        InvalidRequest: The run is a language model.
        RunError: The run has no such weights.
        ConfigError: The settings are invalid.
    """
    run, config = find_run(chosen.run)
    check_task(run, config)
    run.weight_files(chosen.snapshot)
    decoding = single_reply(config, chosen.decoding, get_state().limits)
    return Column(run=run.path.name, snapshot=chosen.snapshot, decoding=decoding.model_dump(mode="json"))


def _replies(evaluation: Evaluation, items: Sequence[Item]) -> dict[tuple[int, int], StoredReply]:
    """All replies of an evaluation, after those that some items lack were computed and stored."""
    stored = evaluation.replies()
    wanted = dict.fromkeys((item.prompt, column) for item in items for column in item.columns)
    missing = [key for key in wanted if key not in stored]
    for (prompt, column), future in queue_all(missing, lambda key: _submit(evaluation, *key)):
        answer = wait_for_answer(future)
        evaluation.add_reply(StoredReply(prompt=prompt, column=column, text=answer.reply.text, step=answer.step))
    return evaluation.replies() if missing else stored


def _submit(evaluation: Evaluation, prompt: int, column: int) -> Future[Answer]:
    chosen = evaluation.settings.columns[column]
    run, _ = find_run(chosen.run)
    snapshot = find_weights(run, chosen.snapshot)
    utterance = ChatMessage(evaluation.settings.prompts[prompt])
    return get_state().pool.submit(run, snapshot, utterance, Decoding.model_validate(chosen.decoding))
