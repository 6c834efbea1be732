"""TensorBoard shows what metrics.jsonl has."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from seq2seq_chat.runs.json_lines import read_json_lines


def test_tensorboard_has_the_metrics(tiny_run: Path) -> None:
    events = EventAccumulator(str(tiny_run / "tensorboard")).Reload()
    lines = list(read_json_lines(tiny_run / "metrics.jsonl"))
    for line in lines:
        line["target_tokens_per_second"] = line["tokens"] / line["seconds"]
    train = ("loss", "perplexity", "gradient_norm", "target_tokens_per_second")
    assert set(events.Tags()["tensors"]) == {
        *(f"train/{name}" for name in train),
        *("validation/loss", "validation/perplexity"),
    }
    for tag in events.Tags()["tensors"]:
        kind, name = tag.split("/")
        expected = [(line["step"], line[name]) for line in lines if line["kind"] == kind]
        written = [(event.step, float(tf.make_ndarray(event.tensor_proto))) for event in events.Tensors(tag)]
        assert [step for step, _ in written] == [step for step, _ in expected]
        values = [value for _, value in expected]
        assert [value for _, value in written] == pytest.approx(values, rel=2e-2 if "second" in name else 1e-5)
