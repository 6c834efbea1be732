"""The HTML pages, and the files of reports.

Pages contain no data; their scripts fetch it from the HTTP API.
"""

from __future__ import annotations

import functools

from flask import Blueprint, Response, render_template

from seq2seq_chat.analysis.replies import QUESTIONS
from seq2seq_chat.config import LABELS
from webui.app_state import get_state
from webui.run_details import MEDIA_TYPES, report_files
from webui.run_registry import NotFoundError
from webui.security import REPORT_POLICY

PAGES = {
    "/": "chat",
    "/translate": "translate",
    "/write": "write",
    "/compare": "compare",
    "/judge": "judge",
    "/judge/<name>": "evaluation",
    "/search": "search",
    "/talk": "talk",
    "/runs": "runs",
    "/runs/<name>": "run",
}

MAX_BYTES = 64 * 2**20  # of a file of a report

pages = Blueprint("pages", __name__)
files = Blueprint("files", __name__)


def render_page(template: str, **context: object) -> str:
    """Render a template that extends ``base.html``."""
    state = get_state()
    labels = {task: names._asdict() for task, names in LABELS.items()}
    needs_token = state.token is not None
    return render_template(template, limits=state.limits, needs_token=needs_token, labels=labels, **context)


for path, page in PAGES.items():
    view = functools.partial(render_page, f"{page}.html", questions="\n".join(QUESTIONS))
    pages.add_url_rule(path, page, view)


@files.get("/files/<run>/<file>")
def report_file(run: str, file: str) -> Response:
    """Serve one file of a run's report. Its name is looked up in a listing and never becomes a path."""
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
