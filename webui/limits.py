"""What one server takes on, so that nothing a visitor sends makes it grow."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds of a server; the defaults suit a laptop."""

    models: int = 4  # in memory at once; the least recently used goes
    waiting: int = 64  # utterances that wait for one model; further ones are answered with 503
    waiting_in_all: int = 160  # the same for all models together
    batch: int = 64  # utterances that are decoded together at most
    patience: float = 60.0  # seconds a request waits for its reply before it is answered with 503
    body: int = 256 * 1024  # bytes of a request
    text: int = 10_000  # characters of an utterance, and of each one in a history
    history: int = 100  # earlier utterances and replies that come with a request
    beam_width: int = 100  # and, with it, replies to one utterance

    @property
    def threads(self) -> int:
        """Threads that answer requests: enough that pages and refusals do not wait for replies."""
        return self.waiting_in_all + 16


DEFAULTS = Limits()
