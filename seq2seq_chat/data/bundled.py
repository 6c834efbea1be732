"""Paths of bundled files: in ``configs/sample/`` in a checkout, in ``sample/`` in the installed package."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def bundled_conversations() -> Path:
    """The bundled training corpus."""
    return _bundled("conversations.txt")


def bundled_questions() -> Path:
    """Questions that show how a model develops, one per line."""
    return _bundled("questions.txt")


def _bundled(name: str) -> Path:
    installed = PACKAGE / "sample" / name
    return installed if installed.is_file() else PACKAGE.parent / "configs" / "sample" / name
