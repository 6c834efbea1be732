"""The HTML pages. They contain no data; their scripts fetch it from the HTTP API."""

from __future__ import annotations

import functools

from flask import Blueprint, render_template

from seq2seq_chat.analysis.replies import QUESTIONS
from seq2seq_chat.config import LABELS
from webui.app_state import get_state

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

pages = Blueprint("pages", __name__)


def render_page(template: str, **context: object) -> str:
    """Render a template that extends ``base.html``."""
    state = get_state()
    labels = {task: names._asdict() for task, names in LABELS.items()}
    needs_token = state.token is not None
    return render_template(template, limits=state.limits, needs_token=needs_token, labels=labels, **context)


for path, page in PAGES.items():
    view = functools.partial(render_page, f"{page}.html", questions="\n".join(QUESTIONS))
    pages.add_url_rule(path, page, view)
