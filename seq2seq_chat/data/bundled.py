"""Path of the bundled conversations: ``configs/sample/`` in a checkout, ``sample/`` in the installed package."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def bundled_conversations() -> Path:
    """The bundled training corpus."""
    installed = PACKAGE / "sample" / "conversations.txt"
    return installed if installed.is_file() else PACKAGE.parent / "configs" / "sample" / "conversations.txt"
