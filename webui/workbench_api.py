"""The HTTP API of the workbench of runs: changes as they happen, comparisons, and notes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from flask import Blueprint, Response, request

from seq2seq_chat.config import Config, ConfigError, flat_settings
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.runs.json_lines import finite_or_null
from seq2seq_chat.runs.run import Run, snapshot_name
from seq2seq_chat.runs.summary import add_answer, compare, read_answers, unanswered_steps, write_notes
from seq2seq_chat.system.errors import UserError
from webui.api import json_response, queue_all, read_body, wait_for_answer
from webui.app_state import get_state
from webui.chat_answers import check_task, find_run, send_parts
from webui.decoding_options import single_reply
from webui.limits import MAX_FOLLOWERS
from webui.model_worker import ChatMessage, ServerBusy
from webui.openapi import EVENTS, Operation
from webui.run_details import (
    MAX_COMPARED,
    AllSettings,
    AnswersRequest,
    AnswerTable,
    ComparisonQuery,
    NotesRequest,
    PromptList,
    PromptsQuery,
    RunComparison,
    RunList,
    learning_curves,
)
from webui.run_registry import NotFoundError
from webui.schemas import InvalidRequest, RunName, validate_request

workbench = Blueprint("workbench", __name__)

_followers = threading.BoundedSemaphore(MAX_FOLLOWERS)


@workbench.get("/api/events")
@Operation(
    "followRuns",
    'Events "runs" whose data is {"runs": [Run…], "removed": [name…]}: all runs at first, and then those that have '
    "changed.",
    [RunList],
    media_type=EVENTS,
    errors=[503],
)
def events() -> Response:
    """Follow all runs by server-sent events."""
    if not _followers.acquire(blocking=False):
        raise ServerBusy("Too many pages follow the runs. Please close some.", retry_after=10)
    has_left = request.environ.get("waitress.client_disconnected", lambda: False)
    return send_parts(get_state().watch.events(has_left), EVENTS, _followers.release)


@workbench.get("/api/settings")
@Operation("listSettings", "The settings", [AllSettings])
def settings() -> Response:
    """The settings of all runs, to search in."""
    registry, found = get_state().registry, dict[str, dict[str, Any]]()
    for name, run in registry.runs().items():
        found[name] = {}
        with suppress(ConfigError):
            found[name] = flat_settings(registry.config(run))
    return json_response({"settings": found})


@workbench.get("/api/comparison")
@Operation("compareRuns", "The comparison", [RunComparison], query=ComparisonQuery)
def comparison() -> Response:
    """The settings in which runs differ, their results and learning curves."""
    names = request.args.getlist("run")
    if not 1 <= len(names) <= MAX_COMPARED:
        raise InvalidRequest(f"run: specify 1 to {MAX_COMPARED} runs, as in ?run=NAME&run=NAME.")
    registry = get_state().registry
    runs = [registry.find(name) for name in dict.fromkeys(names)]
    try:
        result = compare(runs).model_dump()
    except ConfigError as error:
        raise InvalidRequest(f"{error}; leave this run out.") from error
    names = [run.path.name for run in runs]
    curves = {run.path.name: learning_curves(run) for run in runs}
    return json_response(finite_or_null({**result, "runs": names, "curves": curves}))


@workbench.post("/api/runs/<name>/answers")
@Operation("answerQuestions", "The replies by step", [AnswerTable], body=AnswersRequest, errors=[503, 507])
def answers(name: RunName) -> Response:
    """The replies of all checkpoints to questions, which are stored in the run.

    Each is computed once, with the decoding settings of the run.
    """
    run, config = find_run(name)
    check_task(run, config)
    body = read_body(AnswersRequest, '{"step": 1000, "questions": ["How are you?"]}')
    if body.step is not None:
        _answer(run, config, body.step, body.questions)
    stored = read_answers(run)
    columns = [
        {"step": step, "replies": [replies.get(question) for question in body.questions]}
        for step, replies in sorted(stored.items())
        if not replies.keys().isdisjoint(body.questions)
    ]
    return json_response({"answers": columns, "unanswered": unanswered_steps(run, body.questions, stored)})


def _answer(run: Run, config: Config, step: int, questions: Sequence[str]) -> None:
    """Compute and store the replies of a checkpoint to those questions that it has not answered.

    Raises:
        NotFoundError: The run has no weights of this step, perhaps because training has just deleted them.
    """
    stored = read_answers(run).get(step, {})
    decoding = single_reply(config, {}, get_state().limits)
    try:
        pool, missing = get_state().pool, [one for one in dict.fromkeys(questions) if one not in stored]
        submitted = queue_all(missing, lambda one: pool.submit(run, snapshot_name(step), ChatMessage(one), decoding))
        for question, future in submitted:
            add_answer(run, step, question, wait_for_answer(future).reply.text)
    except UserError as error:
        if step in run.saved_steps():
            raise
        raise NotFoundError(f"run {run.name} has no weights of step {step:,} any more") from error


@workbench.get("/api/runs/<name>/prompts")
@Operation("getPrompts", "The sources", [PromptList], query=PromptsQuery, errors=[503])
def prompts(name: RunName) -> Response:
    """Sources of a run's test corpus, or else of its validation corpus, evenly spaced."""
    run, config = find_run(name)
    query = {key: values[0] if len(values) == 1 else values for key, values in request.args.lists()}
    count = validate_request(PromptsQuery, query, get_state().limits, "?count=50").count
    files = config.data.test or config.data.validation
    if files is None:
        raise NotFoundError(f"Run {run.name} has neither a test nor a validation corpus; write prompts instead.")
    corpus = Dataset.open(files, run.codecs, config.data)
    source_hashes, _ = corpus.hashes(slice(None))
    different = np.sort(np.unique(source_hashes, return_index=True)[1])
    step = max(1, len(different) // count)
    return json_response({"prompts": [corpus.text(index).source for index in different[::step][:count]]})


@workbench.put("/api/runs/<name>/notes")
@Operation("putNotes", "The notes", [NotesRequest], body=NotesRequest, errors=[507])
def notes(name: RunName) -> Response:
    """Replace the notes about a run."""
    run = get_state().registry.find(name)
    body = read_body(NotesRequest, '{"star": true, "hidden": false, "text": ""}')
    write_notes(run.path, body)
    return json_response(body.model_dump())
