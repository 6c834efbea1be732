"""The Flask application."""

from __future__ import annotations

from pathlib import Path

from flask import Flask, Response, request
from flask_bootstrap import Bootstrap5
from flask_compress import Compress
from werkzeug.exceptions import HTTPException

from webui.api import api, handle_error
from webui.app_state import EXTENSION, AppState, get_state
from webui.evaluation_api import evaluations
from webui.limits import Limits
from webui.model_pool import ModelPool
from webui.pages import files, pages, render_page
from webui.run_details import run_summary
from webui.run_registry import NotFoundError, RunRegistry
from webui.run_watch import RunWatch
from webui.search_api import searches
from webui.security import STATIC_ENDPOINTS, secure
from webui.workbench_api import workbench


def create_app(
    results: str | Path, limits: Limits | None = None, token: str | None = None, local: bool = True
) -> Flask:
    """Create an application over a results folder. Call :func:`close_app` to release its models.

    Args:
        results: Folder of the runs; may be empty, or created later.
        limits: Resource limits; None for the defaults.
        token: Bearer token that requests for data must carry; None for no authentication.
        local: Whether only this machine can reach the server, which then rejects all other host names.
    """
    limits = limits or Limits()
    app = Flask(__name__)
    app.config.update(BOOTSTRAP_SERVE_LOCAL=True, COMPRESS_STREAMS=False, MAX_CONTENT_LENGTH=limits.max_body_bytes)
    Bootstrap5(app)
    _compress(app)
    registry = RunRegistry(results)
    watch = RunWatch(lambda: [run_summary(summary, registry.results) for summary in registry.summaries()])
    app.extensions[EXTENSION] = AppState(registry, ModelPool(limits), limits, token, watch, local)
    for blueprint in (api, evaluations, files, pages, searches, workbench):
        app.register_blueprint(blueprint)
    secure(app)

    @app.errorhandler(Exception)
    def on_error(error: Exception) -> Response | tuple[str, int]:
        is_api = request.path.startswith(("/api/", "/healthz")) or "text/html" not in request.headers.get("Accept", "")
        if isinstance(error, (HTTPException, NotFoundError)) and not is_api:
            status = error.code or 500 if isinstance(error, HTTPException) else 404
            return render_page("error.html", status=status), status
        return handle_error(error)

    return app


def _compress(app: Flask) -> None:
    """Compress pages, files and JSON, but not what is sent part by part."""
    Compress(app)

    @app.after_request
    def read_file(response: Response) -> Response:
        if request.endpoint in STATIC_ENDPOINTS:
            response.direct_passthrough = False
            response.make_sequence()
        return response


def close_app(app: Flask) -> None:
    """Answer all queued utterances, end all streams of events and release all models of an application."""
    get_state(app).watch.closed.set()
    get_state(app).pool.close()
