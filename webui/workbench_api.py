"""The HTTP API of the workbench of runs: changes as they happen, comparisons, and notes."""

from __future__ import annotations

import threading

from flask import Blueprint, Response, request

from seq2seq_chat.config import ConfigError
from seq2seq_chat.runs.comparison import compare
from seq2seq_chat.runs.json_lines import append_durably, finite_or_null, read_json_lines
from seq2seq_chat.runs.notes import Notes, write_notes
from seq2seq_chat.runs.run import snapshot_step
from webui.api import find_run, json_response, request_json, wait_for_answer
from webui.app_state import get_state
from webui.decoding_options import single_reply
from webui.learning_curves import learning_curves
from webui.model_worker import ServerBusy, Utterance
from webui.run_registry import NotFoundError
from webui.schemas import MAX_COMPARED, AnswersRequest, InvalidRequest, NotesRequest, check_lengths, validate_request
from webui.server_sent_events import MIMETYPE
from webui.streaming import send_parts

workbench = Blueprint("workbench", __name__)

_readers = threading.BoundedSemaphore(256)  # each holds a thread of the server


@workbench.get("/api/events")
def events() -> Response:
    """Server-sent events: all runs, and then those that have changed."""
    if not _readers.acquire(blocking=False):
        raise ServerBusy("Too many pages follow the runs. Please close some.", retry_after=10)
    return send_parts(get_state().watch.events(), MIMETYPE, _readers.release)


@workbench.get("/api/comparison")
def comparison() -> Response:
    """The settings in which runs differ, their results and learning curves."""
    names = request.args.getlist("run")
    if not 1 <= len(names) <= MAX_COMPARED:
        raise InvalidRequest(f"run: specify 1 to {MAX_COMPARED} runs, as in ?run=NAME&run=NAME.")
    registry = get_state().registry
    runs = [registry.find(name) for name in dict.fromkeys(names)]
    try:
        result = compare(runs)._asdict()
    except ConfigError as error:
        raise InvalidRequest(f"{error}; leave this run out.") from error
    names = [run.path.name for run in runs]
    curves = {run.path.name: learning_curves(run) for run in runs}
    return json_response(finite_or_null({**result, "runs": names, "curves": curves}))


@workbench.post("/api/runs/<name>/answers")
def answers(name: str) -> Response:
    """The replies of a snapshot to questions, with the decoding settings of the run; each is computed once."""
    run, config = find_run(name)
    if config.task == "language_model":
        raise InvalidRequest(f"run {run.name} is a language model and does not reply; choose another.")
    body = validate_request(AnswersRequest, request_json(), '{"snapshot": "10", "questions": ["How are you?"]}')
    check_lengths(body.questions, get_state().limits)
    if body.snapshot not in run.snapshots():
        raise NotFoundError(f"run {run.name} has no snapshot {body.snapshot!r}")
    step = snapshot_step(body.snapshot)
    replies = {line["question"]: line["reply"] for line in read_json_lines(run.answers_file) if line["step"] == step}
    decoding = single_reply(config, {}, get_state().limits)
    futures = {
        question: get_state().pool.submit(run, body.snapshot, Utterance(question), decoding)
        for question in dict.fromkeys(body.questions)
        if question not in replies
    }
    for question, future in futures.items():
        replies[question] = wait_for_answer(future).reply.text
        append_durably(run.answers_file, {"step": step, "question": question, "reply": replies[question]})
    return json_response({"step": step, "replies": [replies[question] for question in body.questions]})


@workbench.put("/api/runs/<name>/notes")
def notes(name: str) -> Response:
    """Replace the notes about a run."""
    run = get_state().registry.find(name)
    body = validate_request(NotesRequest, request_json(), '{"star": true, "hidden": false, "text": ""}')
    written = Notes(body.star, body.hidden, body.text)
    write_notes(run.path, written)
    return json_response(written._asdict())
