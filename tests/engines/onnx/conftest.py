"""Exported models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import CommandResult


@pytest.fixture(scope="session")
def exported(tiny_run: Path, cli: Callable[..., CommandResult], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny run as ONNX graphs. Read-only."""
    folder = tmp_path_factory.mktemp("exported") / "model"
    result = cli("export", tiny_run, "--format", "onnx", "--output", folder)
    assert result.status == 0, result
    assert "seq2seq-chat chat" in result.out
    return folder
