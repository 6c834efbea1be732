"""Micro-batches give the results of the entire batch; calls with arrays outside graphs leak nothing."""

import gc
import sys
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.config import parse_config
from seq2seq_chat.model import execution
from seq2seq_chat.model.execution import Share, call_with_arrays, divide_rows, micro_batch_count, share_cores
from tests.training.test_step import configuration, make_step, random_batch


def without_dropout(**training: object) -> Any:
    config = configuration(**training)
    return config.model_copy(update={"model": config.model.model_copy(update={"dropout": 0.0})})


@pytest.mark.parametrize("sampled", [8, None])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_loss_and_gradients_equal_those_of_the_entire_batch(count: int, sampled: int | None) -> None:
    """Also if one of the rows is empty."""
    batch, step = random_batch(1), tf.constant(3, tf.int64)
    batch.source_length[3] = batch.target_length[3] = 0
    losses, gradients = [], []
    for number in (1, count):
        _, training_step = make_step(without_dropout(micro_batches=number, sampled_softmax=sampled))
        loss, results = training_step.gradients(batch, step)
        losses.append((float(loss.nats), float(loss.tokens)))
        gradients.append([tf.convert_to_tensor(gradient).numpy() for gradient in results])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-6)
    for expected, actual in zip(*gradients, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-7)


def test_micro_batches_share_one_graph_and_give_the_same_update() -> None:
    weights = []
    for number in (1, 3):
        model, step = make_step(without_dropout(micro_batches=number))
        for n in range(3):
            step(random_batch(n), n)
        assert step.traces == 1
        weights.append(np.concatenate([variable.numpy().ravel() for variable in model.trainable_variables]))
    np.testing.assert_allclose(weights[1], weights[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 12])
@pytest.mark.parametrize("devices", [1, 2, 3, 4, 6, 12])
def test_devices_divide_the_micro_batches_of_one_device(count: int, devices: int) -> None:
    rows = [(number, row) for number, members in enumerate(np.array_split(np.arange(12), count)) for row in members]
    computed = []
    for device in range(devices):
        share = list(divide_rows(12, count, Share(device, devices)))
        assert sum(micro_batch.size for micro_batch in share) == 12 // devices
        for micro_batch in share:
            members = [row for number, row in rows if number == micro_batch.number]
            if micro_batch.rows is not None:
                first, size, total = micro_batch.rows
                assert total == len(members) > micro_batch.size == size
                members = members[first : first + size]
            computed += [(micro_batch.number, row) for row in members]
    assert computed == rows


@pytest.mark.parametrize(
    ("cores", "gpu", "model", "training", "expected"),
    [
        (2, False, {"hidden_size": 512}, {}, 2),
        (2, False, {"hidden_size": 2048}, {}, 1),
        (2, True, {"hidden_size": 512}, {}, 1),
        (2, False, {"hidden_size": 2048}, {"micro_batches": 4}, 4),
        (32, False, {"hidden_size": 512}, {}, 4),
        (1, False, {"hidden_size": 512}, {}, 1),
        (8, False, {"hidden_size": 512}, {"batch_size": 3}, 1),
    ],
)
def test_default_number_of_micro_batches(
    monkeypatch: pytest.MonkeyPatch, cores: int, gpu: bool, model: Any, training: Any, expected: int
) -> None:
    monkeypatch.setattr(execution, "available_cores", lambda: cores)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda _: ["a GPU"] if gpu else [])
    config = parse_config({"name": "p", "data": {"train": "x"}, "model": model, "training": training}, where="test")
    assert micro_batch_count(config.model, config.training) == expected


def test_cores_are_shared_only_before_tensorflow_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, int]] = []
    threading = tf.config.threading
    monkeypatch.setattr(execution, "available_cores", lambda: 8)
    monkeypatch.setattr(threading, "set_intra_op_parallelism_threads", lambda n: calls.append(("intra", n)))
    monkeypatch.setattr(threading, "set_inter_op_parallelism_threads", lambda n: calls.append(("inter", n)))
    share_cores(1)
    assert not calls
    share_cores(2)
    assert calls == [("intra", 4), ("inter", 2)]

    error = Mock(side_effect=RuntimeError("cannot be modified after initialization"))
    monkeypatch.setattr(threading, "set_intra_op_parallelism_threads", error)
    share_cores(2)


def test_the_result_is_that_of_the_function() -> None:
    total, (difference,) = call_with_arrays(lambda a, b: (a + b, [a - b]), np.array([1, 2]), np.int64(3))
    assert (total.numpy().tolist(), difference.numpy().tolist()) == ([4, 5], [-2, -1])


def test_a_variable_keeps_its_attributes() -> None:
    variable = tf.Variable(1.0, name="rate")
    call_with_arrays(variable.assign, np.float32(2))
    assert (variable.name, variable.numpy()) == ("rate:0", 2)


def test_calls_leak_no_objects() -> None:
    graph = tf.function(lambda number, array: (number + 1, [array + 1]), autograph=False)

    def call(times: int) -> int:
        for number in range(times):
            call_with_arrays(graph, np.int64(number), np.ones(3, np.float32))
        gc.collect()
        return sys.getallocatedblocks()

    before = call(200)
    assert call(2000) - before < 200
