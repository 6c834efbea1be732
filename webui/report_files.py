"""Serve the figures and pages of a run's report. Names are looked up in a listing and never become paths."""

from __future__ import annotations

from flask import Blueprint, Response

from webui.app_state import get_state
from webui.run_details import MEDIA_TYPES, report_files
from webui.run_registry import NotFoundError
from webui.security import REPORT_POLICY

files = Blueprint("files", __name__)
MAX_BYTES = 64 * 2**20


@files.get("/files/<run>/<file>")
def report_file(run: str, file: str) -> Response:
    """Serve one file of a run's report."""
    path = report_files(get_state().registry.find(run)).get(file)
    try:
        if path is None or path.stat().st_size > MAX_BYTES:
            raise NotFoundError("The file does not exist.")
        content = path.read_bytes()
    except OSError:
        raise NotFoundError("Could not read the file.") from None
    response = Response(content, mimetype=MEDIA_TYPES[path.suffix])
    response.headers["Content-Security-Policy"] = REPORT_POLICY
    return response
