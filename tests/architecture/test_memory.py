"""How much memory training needs, and the message if that is not available."""

from __future__ import annotations

from pathlib import Path

import pytest

from seq2seq_chat.architecture.variables import (
    InsufficientMemory,
    MemoryEstimate,
    ensure_memory,
    estimate_memory,
)
from seq2seq_chat.config import load_config, parse_config
from tests.conftest import shipped_configs

THESIS = [path for path in shipped_configs() if path.stem.startswith("thesis")]


def test_the_message_names_the_settings_to_lower() -> None:
    weights = MemoryEstimate(parameters=6e9, optimizer=6e9, gradients=1e9, activations=2e9, process=0.5e9)
    ensure_memory(weights, 15.5e9)
    with pytest.raises(
        InsufficientMemory, match=r"needs about 15\.5 GB, but only 15\.4 GB is available; lower data\.vocabulary_size"
    ):
        ensure_memory(weights, 15.4e9)
    with pytest.raises(InsufficientMemory, match=r"lower training\.batch_size"):
        ensure_memory(weights._replace(activations=13e9), 15e9)


@pytest.mark.parametrize("config_file", THESIS, ids=lambda path: path.stem)
def test_the_thesis_fits_its_gpu(config_file: Path) -> None:
    """One Titan X of 12 GB, a quarter of which is left to CUDA, its libraries and what the allocator cannot use.

    ``test_thesis_size.py`` compares the estimate with the memory of a training run on a processor.
    """
    config = load_config(config_file)
    estimate = estimate_memory(config, config.data.vocabulary_size)
    table = 4 * config.data.vocabulary_size * 1024  # bytes; two embeddings and the output's, each with AdaGrad's sums
    assert 6 * table < estimate.parameters + estimate.optimizer < estimate.total < 0.75 * 12e9


def test_devices_that_share_a_batch() -> None:
    settings = {"name": "m", "data": {"train": "x"}, "training": {"batch_size": 64}}
    config = parse_config(settings, where="test")
    alone, apart = (estimate_memory(config, 5000, devices=n) for n in (1, 4))
    assert apart.activations < alone.activations / 3
    assert apart.parameters == alone.parameters
    assert apart.process == alone.process
    together = estimate_memory(config, 5000, devices=4, replicas_in_memory=4)
    assert together.parameters == 4 * alone.parameters
    assert together.activations == 4 * apart.activations
