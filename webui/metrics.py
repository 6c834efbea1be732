"""What a monitoring system watches: requests, queues, seconds to the first word, words, models in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flask import Response, request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from seq2seq_chat.chat.replies import Reply

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)  # upper ends of a histogram


class Metrics:
    """The metrics of one application.

    Args:
        queued: Returns the number of requests that wait for a model or its reply.
        models: Returns the number of models in memory.
    """

    def __init__(self, queued: Callable[[], float], models: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "seq2seq_chat_requests", "Requests.", ["method", "route", "status"], registry=self.registry
        )
        self._first_word = Histogram(
            "seq2seq_chat_first_word_seconds",
            "Seconds from a request to the first word of its reply, or to the reply if it is not streamed.",
            buckets=SECONDS,
            registry=self.registry,
        )
        self._words = Counter("seq2seq_chat_words", "Tokens of replies.", registry=self.registry)
        Gauge("seq2seq_chat_queued", "Utterances, texts and searches under way.", registry=self.registry).set_function(
            queued
        )
        Gauge("seq2seq_chat_models", "Models in memory.", registry=self.registry).set_function(models)

    def count_request(self, response: Response) -> Response:
        """Count a request by its route, whose names in addresses are left out."""
        route = request.url_rule.rule if request.url_rule else "none"
        self._requests.labels(request.method, route, response.status_code).inc()
        return response

    def first_word(self, seconds: float) -> None:
        """Add the seconds that someone waited."""
        self._first_word.observe(seconds)

    def count_words(self, reply: Reply) -> None:
        """Add the tokens of a reply."""
        self._words.inc(sum(len(hypothesis.words) for hypothesis in reply.hypotheses[:1]))

    def text(self) -> Response:
        """All metrics in the text format of Prometheus."""
        return Response(generate_latest(self.registry), content_type=CONTENT_TYPE_LATEST)
