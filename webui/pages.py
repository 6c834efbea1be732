"""The pages. They hold no data: what they show they ask the HTTP interface for, as any other program does."""

from __future__ import annotations

from flask import Blueprint, current_app, render_template

from webui.state import State

pages = Blueprint("pages", __name__)


@pages.get("/")
def chat() -> str:
    """Talk to a model."""
    return _page("chat.html")


@pages.get("/compare")
def compare() -> str:
    """Talk to several models at once."""
    return _page("compare.html")


@pages.get("/runs")
def runs() -> str:
    """All runs."""
    return _page("runs.html")


@pages.get("/runs/<name>")
def run(name: str) -> str:
    """One run; the page takes its name from its own address."""
    return _page("run.html")


def _page(template: str) -> str:
    state: State = current_app.extensions["seq2seq_chat"]
    return render_template(template, limits=state.limits, needs_token=state.token is not None)
