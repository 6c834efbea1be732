"""Pictures and pages of a report, as files. They are found by name in a list of what is there."""

from __future__ import annotations

from flask import Blueprint, Response, current_app

from webui.catalogue import NotThere
from webui.runs_view import PAGES, PICTURES, report_files
from webui.security import REPORT_POLICY
from webui.state import State

files = Blueprint("files", __name__)
MOST_BYTES = 64 * 2**20


@files.get("/files/<run>/<file>")
def report_file(run: str, file: str) -> Response:
    """One file of a run's report."""
    state: State = current_app.extensions["seq2seq_chat"]
    path = report_files(state.catalogue.find(run)).get(file)
    try:
        if path is None or path.stat().st_size > MOST_BYTES:
            raise NotThere("There is no such picture.")
        content = path.read_bytes()
    except OSError:
        raise NotThere("This picture cannot be read.") from None
    response = Response(content, mimetype=(PICTURES | PAGES)[path.suffix])
    response.headers["Content-Security-Policy"] = REPORT_POLICY
    return response
