"""What the parts of a sample are called where people read them, which depends on the task."""

from __future__ import annotations

from typing import NamedTuple


class Labels(NamedTuple):
    """Names of the source, the output and the target of a model."""

    source: str
    sources: str
    output: str
    outputs: str
    reference: str  # the target that the output is compared with
    references: str
    you: str  # in front of what a person types
    model: str  # in front of what the model answers


LABELS = {
    "conversation": Labels(
        "utterance", "utterances", "reply", "replies", "expected reply", "expected replies", "you", "bot"
    ),
    "translation": Labels(
        "source", "sources", "translation", "translations", "reference", "references", "source", "translation"
    ),
    "language_model": Labels(
        "prompt", "prompts", "continuation", "continuations", "original", "originals", "prompt", "text"
    ),
}
