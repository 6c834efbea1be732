"""How much memory there is, and what is said when it is not enough."""

from __future__ import annotations

from pathlib import Path

import pytest

from seq2seq_chat.config import parse_config
from seq2seq_chat.training import memory
from seq2seq_chat.training.memory import (
    DoesNotFit,
    MemoryEstimate,
    available_memory,
    ensure_memory,
    estimate_memory,
)


@pytest.fixture
def container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A container's figures, on a machine of 50 GB without a GPU."""
    monkeypatch.setattr(memory, "CONTAINER", ((tmp_path, "memory.max", "memory.current", "inactive_file"),))
    monkeypatch.setattr(memory, "_meminfo_available", lambda: 50e9)
    monkeypatch.setattr(memory.tf.config, "list_physical_devices", lambda kind: [])
    return tmp_path


def test_without_a_container(container: Path) -> None:
    assert available_memory() == 50e9


@pytest.mark.parametrize(
    ("limit", "statistics", "free"),
    [
        ("max\n", "inactive_file 5000000000\n", 50e9),
        ("10000000000\n", "", 4e9),
        ("10000000000\n", "anon 1000000000\ninactive_file 5000000000\nactive_file 1\n", 9e9),  # files that were read
        ("10000000000\n", "nonsense\n", 4e9),
        ("9223372036854771712\n", "inactive_file 5\n", 50e9),
    ],
)
def test_in_a_container(container: Path, limit: str, statistics: str, free: float) -> None:
    (container / "memory.max").write_text(limit, encoding="utf-8")
    (container / "memory.current").write_text("6000000000\n", encoding="utf-8")
    (container / "memory.stat").write_text(statistics, encoding="utf-8")
    assert available_memory() == free


def test_what_does_not_fit_is_told_with_what_makes_it_smaller() -> None:
    weights = MemoryEstimate(parameters=6e9, optimizer=6e9, gradients=1e9, activations=2e9, process=0.5e9)
    ensure_memory(weights, 15.5e9)
    with pytest.raises(DoesNotFit, match=r"needs about 15\.5 GB, and 15\.4 GB are free; lower data\.vocabulary_size"):
        ensure_memory(weights, 15.4e9)
    with pytest.raises(DoesNotFit, match=r"lower training\.batch_size"):
        ensure_memory(weights._replace(activations=13e9), 15e9)


def test_devices_that_share_a_batch() -> None:
    settings = {"name": "m", "data": {"train": "x"}, "training": {"batch_size": 64}}
    config = parse_config(settings, where="test")
    alone, apart = estimate_memory(config, 5000), estimate_memory(config, 5000, devices=4)
    assert apart.activations < alone.activations / 3
    assert apart.parameters == alone.parameters
    assert apart.process == alone.process
    together = estimate_memory(config, 5000, devices=4, together=4)
    assert together.parameters == 4 * alone.parameters
    assert together.activations == 4 * apart.activations
