"""Server-sent events, as pages read them (``fetchEvents`` in ``api.js``)."""

from __future__ import annotations

import json
from typing import Any

KEEP_ALIVE = ": keep-alive\n\n"
"""A comment; sending it shows whether the reader has left."""


def server_sent_event(name: str, data: dict[str, Any]) -> str:
    """The text of an event whose data are JSON."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
