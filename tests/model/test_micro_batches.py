"""A batch in parts: the same loss and gradients as the whole, whatever the parts; each with its own dropout."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat import environment
from seq2seq_chat.config import ConfigError, parse_config
from seq2seq_chat.model.draws import SomeRows
from seq2seq_chat.model.dropout import Dropout
from seq2seq_chat.model.own_words import OwnWords, schedule
from seq2seq_chat.training import parts
from seq2seq_chat.training.parts import Share, batch_parts, loss_in_parts, pieces, share_cores
from tests.training.test_step import configuration, make_step, random_batch


def without_dropout(**training: object) -> Any:
    config = configuration(**training)
    return config.model_copy(update={"model": config.model.model_copy(update={"dropout": 0.0})})


@pytest.mark.parametrize("sampled", [8, None])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_parts_of_any_number_have_the_loss_and_the_gradients_of_the_whole(count: int, sampled: int | None) -> None:
    batch, step = random_batch(1), tf.constant(3, tf.int64)
    losses, gradients = [], []
    for number in (1, count):
        _, training_step = make_step(without_dropout(batch_parts=number, sampled_softmax=sampled))
        loss, found, _ = training_step.gradients(batch, step)
        losses.append((float(loss.nats), float(loss.tokens)))
        gradients.append([tf.convert_to_tensor(gradient).numpy() for gradient in found])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-6)
    for whole, divided in zip(*gradients, strict=True):
        np.testing.assert_allclose(divided, whole, rtol=1e-4, atol=1e-7)


def test_a_divided_step_is_one_graph_and_updates_the_same() -> None:
    after = []
    for number in (1, 3):
        model, step = make_step(without_dropout(batch_parts=number))
        for n in range(3):
            step(random_batch(n), n)
        assert step.traces == 1
        after.append(np.concatenate([variable.numpy().ravel() for variable in model.trainable_variables]))
    np.testing.assert_allclose(after[1], after[0], rtol=1e-4, atol=1e-6)


def test_parts_drop_other_units() -> None:
    dropout = Dropout(0.5, seed=1, step=tf.constant(0))
    ones = tf.ones([4, 50])
    first, second = (dropout.of_part(part)(ones, "place").numpy() for part in (0, 1))
    assert np.any(first != second)
    np.testing.assert_array_equal(first, dropout(ones, "place"))
    np.testing.assert_array_equal(second, dropout.of_part(1)(ones, "place"))


@pytest.mark.parametrize("shape", [[6, 5], [3, 6, 5]])
@pytest.mark.parametrize("time", [None, 2])
def test_some_rows_have_the_draws_they_have_among_all(shape: list[int], time: int | None) -> None:
    x, step = tf.random.stateless_normal(shape, [1, 2]), tf.constant(4)
    whole = Dropout(0.4, 1, step, part=2)(x, "place", time).numpy()
    own = OwnWords(schedule("constant", 0.5, 1), 7, step, part=2)
    chosen = own.choose(tf.constant(6), 9).numpy()
    for first, last in ((0, 2), (2, 3), (3, 6), (0, 6)):
        rows = SomeRows(first, last - first, 6)
        some = Dropout(0.4, 1, step).of_part(2, rows)(x[..., first:last, :], "place", time)
        np.testing.assert_array_equal(some, whole[..., first:last, :])
        np.testing.assert_array_equal(own.of_part(2, rows).choose(tf.constant(last - first), 9), chosen[:, first:last])


@pytest.mark.parametrize("parts", [1, 2, 3, 5, 12])
@pytest.mark.parametrize("devices", [1, 2, 3, 4, 6, 12])
def test_devices_compute_every_row_once_and_draw_as_one_would(parts: int, devices: int) -> None:
    rows = [(part, row) for part, members in enumerate(np.array_split(np.arange(12), parts)) for row in members]
    computed = []
    for device in range(devices):
        here = list(pieces(12, parts, Share(device, devices)))
        assert sum(piece.length for piece in here) == 12 // devices
        for piece in here:
            members = [row for part, row in rows if part == piece.part]
            if piece.rows is None:
                computed += [(piece.part, row) for row in members]
            else:
                assert piece.rows.of == len(members) > piece.length == piece.rows.length
                kept = members[piece.rows.first : piece.rows.first + piece.rows.length]
                computed += [(piece.part, row) for row in kept]
    assert computed == rows


def test_exact_loss_in_parts_with_empty_rows() -> None:
    model, _ = make_step(configuration())
    batch = random_batch(2)
    batch.target_length[3] = 0
    whole, divided = model.loss(*batch), loss_in_parts(model, batch, 4)
    np.testing.assert_allclose([float(x) for x in divided], [float(x) for x in whole], rtol=1e-6)


@pytest.mark.parametrize(
    ("cores", "gpu", "model", "training", "expected"),
    [
        (2, False, {"hidden_size": 512}, {}, 2),
        (2, False, {"hidden_size": 2048}, {}, 1),
        (2, True, {"hidden_size": 512}, {}, 1),
        (2, False, {"hidden_size": 2048}, {"batch_parts": 4}, 4),
        (32, False, {"hidden_size": 512}, {}, 4),
        (1, False, {"hidden_size": 512}, {}, 1),
        (8, False, {"hidden_size": 512}, {"batch_size": 3}, 1),
    ],
)
def test_how_many_parts_suit_a_machine(
    monkeypatch: pytest.MonkeyPatch, cores: int, gpu: bool, model: Any, training: Any, expected: int
) -> None:
    monkeypatch.setattr(parts, "available_cores", lambda: cores)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda _: ["a GPU"] if gpu else [])
    config = parse_config({"name": "p", "data": {"train": "x"}, "model": model, "training": training}, where="test")
    assert batch_parts(config) == expected


@pytest.mark.parametrize(
    ("new", "old", "cores"),
    [
        (None, None, 8),
        ("max 100000\n", None, 8),
        ("200000 100000\n", None, 2),
        ("150000 100000\n", None, 2),  # a core and a half
        ("1000 100000\n", None, 1),
        ("6400000 100000\n", None, 8),
        (None, ("-1\n", "100000\n"), 8),
        (None, ("300000\n", "100000\n"), 3),
        ("nonsense", None, 8),
    ],
)
def test_a_container_computes_with_as_many_cores_as_it_is_given_time_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new: str | None, old: tuple[str, str] | None, cores: int
) -> None:
    names = ("cpu.max", "quota", "period")
    for name, text in zip(names, (new, *(old or (None, None))), strict=True):
        if text is not None:
            (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(environment, "QUOTAS", ((tmp_path / "cpu.max",), (tmp_path / "quota", tmp_path / "period")))
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)))
    assert environment.available_cores() == cores


def test_threads_are_shared_before_tensorflow_starts_and_left_alone_after(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[str, int]] = []
    threading = tf.config.threading
    monkeypatch.setattr(parts, "available_cores", lambda: 8)
    monkeypatch.setattr(threading, "set_intra_op_parallelism_threads", lambda n: given.append(("intra", n)))
    monkeypatch.setattr(threading, "set_inter_op_parallelism_threads", lambda n: given.append(("inter", n)))
    share_cores(1)
    assert not given
    share_cores(2)
    assert given == [("intra", 4), ("inter", 2)]

    def too_late(number: int) -> None:
        raise RuntimeError("cannot be modified after initialization")

    monkeypatch.setattr(threading, "set_intra_op_parallelism_threads", too_late)
    share_cores(2)


def test_more_parts_than_samples_are_refused() -> None:
    settings = {"name": "p", "data": {"train": "x"}, "training": {"batch_size": 4, "batch_parts": 5}}
    with pytest.raises(ConfigError, match="batch_parts is 5, but a batch has 4 samples only"):
        parse_config(settings, where="test")
