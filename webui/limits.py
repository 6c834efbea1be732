"""Resource limits of a server, so that no request can exhaust it."""

from __future__ import annotations

from dataclasses import dataclass

MAX_FOLLOWERS = 256  # open pages that follow the runs; each holds a thread of the server


@dataclass(frozen=True)
class Limits:
    """Resource limits of a server; the defaults suit a laptop."""

    max_models: int = 4  # in memory at once; the least recently used one is evicted
    max_queued: int = 256  # utterances, texts and searches queued for one model; more are rejected with 503
    max_queued_total: int = 512  # the same for all models
    max_batch_size: int = 64  # utterances decoded together
    timeout: float = 60.0  # seconds that a request waits for its reply, or for more of its text; then it fails with 503
    max_body_bytes: int = 4 * 2**20
    max_text_length: int = 10_000  # characters of a prompt or an utterance
    max_history: int = 100  # turns before the utterance that are used; older ones are left out
    max_history_length: int = 100_000  # characters of these turns
    max_generated: int = 5_000  # tokens of a text
    max_beam_width: int = 100  # also the maximum number of replies to one utterance

    @property
    def threads(self) -> int:
        """Threads that serve requests: enough for pages and errors to wait neither for replies nor for followers."""
        return self.max_queued_total + MAX_FOLLOWERS + 16
