"""The HTTP API of the workbench of runs: changes as they happen, comparisons, and notes."""

from __future__ import annotations

import threading

from flask import Blueprint, Response, request

from seq2seq_chat.config import ConfigError
from seq2seq_chat.runs.comparison import compare
from seq2seq_chat.runs.json_lines import finite_or_null
from seq2seq_chat.runs.notes import Notes, write_notes
from webui.api import json_response, request_json
from webui.app_state import get_state
from webui.learning_curves import learning_curves
from webui.model_worker import ServerBusy
from webui.schemas import MAX_COMPARED, InvalidRequest, NotesRequest, validate_request

workbench = Blueprint("workbench", __name__)

_readers = threading.BoundedSemaphore(256)  # each holds a thread of the server


@workbench.get("/api/events")
def events() -> Response:
    """Server-sent events: all runs, and then those that have changed."""
    if not _readers.acquire(blocking=False):
        raise ServerBusy("Too many pages follow the runs. Please close some.", retry_after=10)
    response = Response(get_state().watch.events(), mimetype="text/event-stream")
    response.call_on_close(_readers.release)
    return response


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


@workbench.put("/api/runs/<name>/notes")
def notes(name: str) -> Response:
    """Replace the notes about a run."""
    run = get_state().registry.find(name)
    body = validate_request(NotesRequest, request_json(), '{"star": true, "hidden": false, "text": ""}')
    written = Notes(body.star, body.hidden, body.text)
    write_notes(run.path, written)
    return json_response(written._asdict())
