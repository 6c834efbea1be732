"""Memory does not grow for as long as a training runs or a model replies."""

import json
import multiprocessing
import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.memory_growth import chat_growth, page_growth, training_growth

CALLS = 6_000
MAX_GROWTH = 100.0  # bytes per step or reply: 300 MB in 3,000,000 steps
TRAINING = {
    **{"batch_size": 4, "steps": CALLS, "log_every": 50, "validate_every": 1500, "checkpoint_every": 1500},
    **{"snapshot_every": None, "source_noise": 0.1},
    **{"learning_rate_schedule": "exponential", "learning_rate_decay_steps": CALLS},
}


def in_own_process(measure: Callable[..., float], *arguments: Any) -> float:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        growth = process.submit(measure, *arguments).result()
    print(f"{growth:.0f} bytes")
    return growth


@pytest.mark.nightly
def test_training(tiny_settings: dict[str, Any], tmp_path: Path) -> None:
    tiny_settings["model"] |= {"encoder_steps": 3, "decoder_steps": 3}
    tiny_settings["training"] |= TRAINING
    config_file = tmp_path / "config.json"
    config_file.write_text(json.dumps(tiny_settings))
    assert in_own_process(training_growth, config_file, tmp_path / "results") < MAX_GROWTH


@pytest.mark.nightly
def test_chat(tiny_run: Path) -> None:
    assert in_own_process(chat_growth, tiny_run, {"method": "sample"}, CALLS) < MAX_GROWTH


@pytest.mark.nightly
def test_page(tiny_run: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_run, tmp_path / "results" / "tiny")
    assert in_own_process(page_growth, tmp_path / "results", {"method": "beam"}, CALLS) < MAX_GROWTH
