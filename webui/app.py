"""The Flask application."""

from __future__ import annotations

from pathlib import Path
from typing import Optional, Union

from flask import Flask, Response, render_template, request
from flask_bootstrap import Bootstrap5
from werkzeug.exceptions import HTTPException

from seq2seq_chat import __version__
from webui.api import api, explain
from webui.catalogue import Catalogue, NotThere
from webui.files import files
from webui.limits import DEFAULTS, Limits
from webui.models import Pool
from webui.pages import pages
from webui.security import guard
from webui.state import State


def create_app(
    results: Union[str, Path], limits: Limits = DEFAULTS, token: Optional[str] = None, local: bool = True
) -> Flask:
    """An application over the runs below a folder. Call :func:`close_app` when it is no longer needed.

    Args:
        results: the folder of the runs; it may be empty, or appear later.
        limits: what the server takes on.
        token: what requests for data must bring; None: nothing.
        local: whether the server can be reached from this machine only; then it answers to no other name.
    """
    app = Flask(__name__)
    app.config.update(
        BOOTSTRAP_SERVE_LOCAL=True,
        MAX_CONTENT_LENGTH=limits.body,
        TEMPLATES_AUTO_RELOAD=False,
    )
    Bootstrap5(app)
    app.json.sort_keys = False  # type: ignore[attr-defined]
    state = State(Catalogue(results), Pool(limits), limits, token, local)
    app.extensions["seq2seq_chat"] = state
    app.jinja_env.globals["version"] = __version__
    for blueprint in (api, files, pages):
        app.register_blueprint(blueprint)
    guard(app, state)

    @app.errorhandler(Exception)
    def answer(error: Exception) -> Union[Response, tuple[str, int]]:
        wants_page = isinstance(error, (HTTPException, NotThere)) and not request.path.startswith(("/api/", "/healthz"))
        if wants_page and "text/html" in request.headers.get("Accept", ""):
            status = error.code or 500 if isinstance(error, HTTPException) else 404
            return render_template("fault.html", status=status, needs_token=token is not None, limits=limits), status
        return explain(error)

    return app


def close_app(app: Flask) -> None:
    """Let all models of an application go, after they have answered what waits."""
    state: State = app.extensions["seq2seq_chat"]
    state.pool.close()
