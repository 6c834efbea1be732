"""A run of version 0.1, before settings were renamed: it chats and evaluates as it did then, and resumes.

data/old_run/ has the run at step 6 of 12, its corpora, the checkpoint of step 12 of the uninterrupted training, and the
output of version 0.1.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.hardware import processor_flags

DATA = Path(__file__).with_name("data") / "old_run"
EXPECTED = json.loads((DATA / "expected.json").read_text(encoding="utf-8"))
Cli = Callable[..., Any]


@pytest.fixture
def old_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(DATA, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")  # its corpora are relative to the working directory
    return Path("run")


def test_it_loads_silently_under_the_new_names(old_run: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = Run(old_run).config
    assert (config.data.max_buckets, config.training.micro_batches) == (2, 2)
    assert (config.training.scheduled_sampling_probability, config.training.scheduled_sampling_steps) == (0.5, 8)
    assert caplog.messages == []


def test_it_chats_and_evaluates_as_before(cli: Cli, old_run: Path) -> None:
    result = cli("chat", old_run, "--tokens", "--n-best", 3, stdin=EXPECTED["chat_input"].encode())
    assert (result.status, result.err) == (0, "")
    lines, expected_lines = result.out.splitlines(), EXPECTED["chat_output"].splitlines()
    assert [line.partition("\t")[2] for line in lines] == [line.partition("\t")[2] for line in expected_lines]
    scores, expected_scores = ([float(line.split("\t")[0] or 0) for line in some] for some in (lines, expected_lines))
    assert scores == pytest.approx(expected_scores, abs=1e-3)
    result = cli("evaluate", old_run, "--json", "figures.json")
    assert (result.status, result.err) == (0, "")
    figures = json.loads(Path("figures.json").read_text(encoding="utf-8"))
    for name, value in EXPECTED["evaluation"].items():
        assert figures[name] == pytest.approx(value, rel=1e-5), name


@pytest.mark.slow
def test_it_resumes_with_the_same_weights_up_to_rounding(cli: Cli, old_run: Path) -> None:
    result = cli("train", "--resume", old_run)
    assert (result.status, result.err) == (0, "")
    metrics = [json.loads(line) for line in (old_run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(line["kind"], line["step"]) for line in metrics] == [
        (line["kind"], line["step"]) for line in EXPECTED["metrics"]
    ]
    # version 0.1 added gradients in another order; another processor's vector instructions round differently, too
    same_processor = sorted(processor_flags() & set(EXPECTED["vector_extensions"])) == EXPECTED["vector_extensions"]
    tolerance = 1e-5 if same_processor else 1e-2
    with np.load(Run(old_run).checkpoint_path(12)) as actual, np.load("final.npz") as expected:
        names = {name for name in expected.files if name != "metadata.json"}
        assert {name for name in actual.files if name != "metadata.json"} == names
        for name in names:
            largest = max(float(np.abs(expected[name]).max()), 1e-2)
            np.testing.assert_allclose(actual[name], expected[name], atol=tolerance * largest, err_msg=name)
    written = json.loads((old_run / "config.json").read_text(encoding="utf-8"))
    assert "micro_batches" in written["training"]
    assert "batch_parts" not in written["training"]
