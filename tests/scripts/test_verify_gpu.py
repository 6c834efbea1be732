"""What can be tested without a GPU: the estimate, a dry run of the verification, and its refusal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from contenders.workload import SIZES
from estimate_gpu import GPUS, OPERATIONS, Work, estimate

from tests.test_gpu_placement import all_nodes, build_model, small_config, training

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "verify_gpu.sh"


def test_products_in_loops_and_outside_are_all_products() -> None:
    size = SIZES["thesis"]
    work = Work.of(size)
    assert work.flop + work.loop_flop == size.step_flop()
    weights = (2048 + 2 * 2048) * 4 * 2048 + 2 * 2048 * 2048  # recurrent weights, W2 and the half of W_c for the output
    assert work.loop_bytes == 4 * 2 * 30 * weights
    assert work.loop_flop == 2 * 2 * 64 * 30 * weights


def test_the_estimate_for_the_gpu_of_the_thesis_is_near_its_time() -> None:
    """500,000 batches in about two days are 0.35 s each."""
    (titan,) = (gpu for gpu in GPUS if gpu.name == "GTX TITAN X")
    assert estimate(titan, SIZES["thesis"])["ms"] == pytest.approx(2 * 86_400e3 / 500_000, rel=0.25)


@pytest.mark.slow
def test_the_estimate_counts_the_operations_of_the_graph() -> None:
    config = small_config(encoder_steps=30, decoder_steps=30)
    graph = training(config, build_model(config)).graph.as_graph_def()
    assert sum(1 for _ in all_nodes(graph)) == pytest.approx(OPERATIONS, rel=0.05)


@pytest.mark.exhaustive
def test_dry_run_without_a_gpu(tmp_path: Path) -> None:
    folder = tmp_path / "verified"
    command = [str(SCRIPT), "--folder", str(folder)]
    refused = run(command)
    assert refused.returncode == 1
    assert "no GPU found" in refused.stdout
    assert "there is no GPU to verify; --cpu does a dry run without one" in refused.stderr
    assert not folder.exists()

    verified = run([*command, "--cpu"])
    assert verified.returncode == 0, verified.stdout + verified.stderr
    rows = {row["what"]: row for row in json.loads((folder / "summary.json").read_text(encoding="utf-8"))}
    assert set(rows) == {"checks", "benchmark", "a batch", "loss after 200 steps", "peak memory", "two runs"}
    assert all(row["passed"] == "yes" for row in rows.values())
    assert rows["two runs"]["measured"] == "equal"


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command with the Python of these tests first on the path, and without a GPU, also where there is one."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=1500)
