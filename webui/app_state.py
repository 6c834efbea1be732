"""What all request handlers of an application share: its limits and its services."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from flask import Flask, current_app

if TYPE_CHECKING:
    from webui.limits import Limits
    from webui.model_pool import ModelPool
    from webui.run_registry import RunRegistry, RunWatch

EXTENSION = "seq2seq_chat"  # key in Flask.extensions


class AppState(NamedTuple):
    """The services and settings of one application."""

    registry: RunRegistry
    pool: ModelPool
    limits: Limits
    token: str | None  # bearer token that requests must carry; None for no authentication
    watch: RunWatch  # notices changes of runs for the pages that follow them
    local_only: bool  # whether the server is reachable from this machine only


def get_state(app: Flask | None = None) -> AppState:
    """The state of an application, by default of the one that answers the current request."""
    state: AppState = (app or current_app).extensions[EXTENSION]
    return state
