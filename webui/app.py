"""The Flask application, its HTML pages, and the files of reports.

Pages contain no data; their scripts fetch it from the HTTP API.
"""

from __future__ import annotations

import functools
from pathlib import Path

from flask import Blueprint, Flask, Response, render_template, request
from flask_bootstrap import Bootstrap5
from flask_compress import Compress
from werkzeug.exceptions import HTTPException

from seq2seq_chat.config import LABELS
from seq2seq_chat.data.corpus_file import bundled_questions
from seq2seq_chat.system.hardware import AUTO, EngineOptions
from webui.api import api, handle_error
from webui.app_state import EXTENSION, AppState, get_state
from webui.evaluation_api import evaluations
from webui.limits import Limits
from webui.model_pool import ModelPool
from webui.openai_api import openai
from webui.run_details import MEDIA_TYPES, report_files, run_summary
from webui.run_registry import NotFoundError, RunRegistry, RunWatch
from webui.search_api import searches
from webui.security import REPORT_POLICY, STATIC_ENDPOINTS, secure
from webui.workbench_api import workbench

PAGES = {
    "chat": ("/", "/chat/<id>"),
    "translate": ("/translate", "/translate/<id>"),
    "write": ("/write", "/write/<id>"),
    "compare": ("/compare", "/compare/<id>"),
    "judge": ("/judge",),
    "evaluation": ("/judge/<name>",),
    "search": ("/search",),
    "talk": ("/talk", "/talk/<id>"),
    "runs": ("/runs",),
    "run": ("/runs/<name>",),
}
"""The addresses of pages. What an id names is kept in the browser, see ``static/js/kept.js``."""

MAX_BYTES = 64 * 2**20  # of a file of a report

pages = Blueprint("pages", __name__)
files = Blueprint("files", __name__)


def render_page(template: str, **context: object) -> str:
    """Render a template that extends ``base.html``."""
    state = get_state()
    labels = {task: names._asdict() for task, names in LABELS.items()}
    needs_token = state.token is not None
    return render_template(template, limits=state.limits, needs_token=needs_token, labels=labels, **context)


for page, paths in PAGES.items():
    view = functools.partial(render_page, f"{page}.html", questions="\n".join(bundled_questions()))
    for path in paths:
        pages.add_url_rule(path, page, view)


@files.route("/files/<run>/<file>", methods=["GET", "POST"])
def report_file(run: str, file: str) -> Response:
    """Serve one file of a run's report. Its name is looked up in a listing and never becomes a path."""
    path = report_files(get_state().registry.find(run)).get(file)
    try:
        if path is None or path.stat().st_size > MAX_BYTES:
            raise NotFoundError("The file does not exist.")
        content = path.read_bytes()
    except OSError as error:
        raise NotFoundError(f"The file could not be read: {error.strerror}.") from error
    response = Response(content, mimetype=MEDIA_TYPES[path.suffix])
    response.headers["Content-Security-Policy"] = REPORT_POLICY
    return response


def create_app(
    results: str | Path,
    limits: Limits | None = None,
    token: str | None = None,
    local: bool = True,
    engine: EngineOptions = AUTO,
) -> Flask:
    """Create an application over a results folder. Call :func:`close_app` to release its models.

    Args:
        results: Folder of the runs; may be empty, or created later.
        limits: Resource limits; None for the defaults.
        token: Bearer token that requests for data must carry; None for no authentication.
        local: Whether only this machine can reach the server, which then rejects all other host names.
        engine: What computes the models.
    """
    limits = limits or Limits()
    app = Flask(__name__)
    app.config.update(BOOTSTRAP_SERVE_LOCAL=True, COMPRESS_STREAMS=False, MAX_CONTENT_LENGTH=limits.max_body_bytes)
    Bootstrap5(app)
    Compress(app)  # pages, files and JSON, but not what is sent part by part

    @app.after_request
    def read_file(response: Response) -> Response:  # else it would be sent uncompressed
        if request.endpoint in STATIC_ENDPOINTS:
            response.direct_passthrough = False
            response.make_sequence()
        return response

    registry = RunRegistry(results)
    watch = RunWatch(lambda: [run_summary(summary, registry.results) for summary in registry.summaries()])
    app.extensions[EXTENSION] = AppState(registry, ModelPool(limits, engine), limits, token, watch, local)
    for blueprint in (api, evaluations, files, openai, pages, searches, workbench):
        app.register_blueprint(blueprint)
    secure(app)
    app.after_request(get_state(app).pool.metrics.count_request)

    @app.errorhandler(Exception)
    def on_error(error: Exception) -> Response | tuple[str, int]:
        accepts_page = "text/html" in request.headers.get("Accept", "")
        is_api = not accepts_page or request.path.startswith(("/api/", "/v1/", "/healthz"))
        if isinstance(error, (HTTPException, NotFoundError)) and not is_api:
            status = error.code or 500 if isinstance(error, HTTPException) else 404
            return render_page("error.html", status=status), status
        return handle_error(error)

    return app


def close_app(app: Flask) -> None:
    """Answer all queued utterances, end all streams of events and release all models of an application."""
    get_state(app).watch.closed.set()
    get_state(app).pool.close()
