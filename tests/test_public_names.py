"""The public names of the package, which programs import from it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import seq2seq_chat
from seq2seq_chat.runs.run import Run, RunError


def test_names_are_imported_when_they_are_used() -> None:
    program = (
        "import sys, seq2seq_chat\n"
        "assert not {'numpy', 'pydantic', 'tensorflow'} & set(sys.modules)\n"
        "for name in seq2seq_chat.__all__: assert callable(getattr(seq2seq_chat, name)), name\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
    with pytest.raises(AttributeError, match="has no attribute 'translate'"):
        seq2seq_chat.translate  # noqa: B018


def test_a_conversation_does_not_translate(tiny_run: Path) -> None:
    with pytest.raises(RunError, match="is no translation: its task is conversation"):
        seq2seq_chat.Translator.load(Run(tiny_run))
