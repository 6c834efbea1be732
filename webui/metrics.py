"""What a monitoring system watches: requests, queues, seconds to the first word, words, models in memory."""

from __future__ import annotations

from collections.abc import Callable

from flask import Response, request
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)  # upper ends of a histogram


class Metrics:
    """The metrics of one application.

    Args:
        queued: Returns the number of requests that wait for a model or its reply.
        models: Returns the number of models in memory.
    """

    def __init__(self, queued: Callable[[], float], models: Callable[[], float]) -> None:
        self.registry = registry = CollectorRegistry()
        labels = ["method", "route", "status"]
        self._requests = Counter("seq2seq_chat_requests", "Requests.", labels, registry=registry)
        self.first_word = Histogram(
            "seq2seq_chat_first_word_seconds",
            "Seconds from a request to the first word of its reply, or to the reply if it is not streamed.",
            buckets=SECONDS,
            registry=registry,
        )
        self.words = Counter("seq2seq_chat_words", "Tokens of replies.", registry=registry)
        under_way = Gauge("seq2seq_chat_queued", "Utterances, texts and searches under way.", registry=registry)
        under_way.set_function(queued)
        Gauge("seq2seq_chat_models", "Models in memory.", registry=registry).set_function(models)

    def count_request(self, response: Response) -> Response:
        """Count a request by its route, whose names in addresses are left out."""
        route = request.url_rule.rule if request.url_rule else "none"
        self._requests.labels(request.method, route, response.status_code).inc()
        return response
