"""Checkpoint files: intact, damaged, of another model or of other settings; and averages of weights."""

import errno
import json
import re
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.checkpoint.arrays import (
    METADATA,
    DamagedCheckpoint,
    MismatchError,
    read_arrays,
    read_weights,
    steps_to_average,
    write_arrays,
)
from seq2seq_chat.model.variables import load_variables, save_variables
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import file_checksum
from seq2seq_chat.text.codec import Codecs
from tests.conftest import Cli, edit_checkpoints, edit_config
from tests.random_runs import make_codec, random_run, small_config


@pytest.fixture
def variables() -> list[tf.Variable]:
    rng = np.random.default_rng(0)
    return [
        tf.Variable(rng.standard_normal([7, 5]).astype(np.float32), name="encoder/input"),
        tf.Variable(3, dtype=tf.int64, name="iter"),
    ]


def zeros_like(variables: list[tf.Variable]) -> list[tf.Variable]:
    return [tf.Variable(tf.zeros_like(v), name=v.name.split(":")[0]) for v in variables]


def test_variables_and_metadata_are_restored(tmp_path: Path, variables: list[tf.Variable]) -> None:
    file = tmp_path / "checkpoints" / "one.npz"
    save_variables(file, variables, {"step": 12, "best_loss": 1.5})
    loaded = zeros_like(variables)
    assert load_variables(file, loaded) == {"step": 12, "best_loss": 1.5}
    for saved, restored in zip(variables, loaded, strict=True):
        np.testing.assert_array_equal(saved.numpy(), restored.numpy())
    assert [entry.name for entry in file.parent.iterdir()] == ["one.npz"]
    np.testing.assert_array_equal(np.load(file)["encoder/input"], variables[0].numpy())


def test_weights_of_another_model_are_rejected(tmp_path: Path, variables: list[tf.Variable]) -> None:
    file = tmp_path / "one.npz"
    save_variables(file, variables, {"step": 1})
    with pytest.raises(MismatchError, match="encoder/input is 7 × 5 but the model's is 9 × 5"):
        load_variables(file, [tf.Variable(tf.zeros([9, 5]), name="encoder/input")])
    with pytest.raises(MismatchError, match="has no variable encoder/output"):
        load_variables(file, [tf.Variable(0.0, name="encoder/output")])


@pytest.mark.parametrize(
    ("error", "cause"),
    [(MemoryError(), "not enough memory"), (OSError(errno.EMFILE, "Too many open files"), "Too many open files")],
    ids=repr,
)
def test_what_is_wrong_with_the_machine_is_not_called_damage(
    error: Exception, cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damage would let an older checkpoint take the place of this one."""
    write_arrays(tmp_path / "x.npz", {"w": np.zeros(3, np.float32)}, {})
    monkeypatch.setattr(np.lib.format, "read_array", MagicMock(side_effect=error))
    with pytest.raises(UserError, match=rf"x.npz could not be read: {cause}"):
        read_arrays(tmp_path / "x.npz", ["w"])


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"file/run/x\.npz could not be written: Not a directory"):
        write_arrays(tmp_path / "file" / "run" / "x.npz", {}, {})


def test_any_flipped_bit_is_detected_or_harmless(tmp_path: Path) -> None:
    """Every bit, including those of names, sizes, flags and headers, which make zipfile and NumPy fail in many ways."""
    path, damaged = tmp_path / "intact.npz", tmp_path / "damaged.npz"
    save_variables(path, [tf.Variable([1.5, -2.0], name="w")], {"step": 3})
    intact = path.read_bytes()
    expected_arrays, expected_metadata = read_arrays(path, ["w"])
    outcomes = {"damaged": 0, "mismatch": 0, "harmless": 0}
    for bit in range(8 * len(intact)):
        raw = bytearray(intact)
        raw[bit // 8] ^= 1 << bit % 8
        damaged.write_bytes(raw)
        try:
            arrays, metadata = read_arrays(damaged, ["w"])
        except DamagedCheckpoint:
            outcomes["damaged"] += 1
        except MismatchError:
            outcomes["mismatch"] += 1
        else:
            outcomes["harmless"] += 1  # dates, permissions and the like
            np.testing.assert_array_equal(arrays["w"], expected_arrays["w"], strict=True)
            assert metadata == expected_metadata
    assert outcomes["damaged"] > 0.5 * 8 * len(intact)
    assert outcomes["mismatch"] < 10  # a mismatch stops a training run that could resume from the previous checkpoint


# other settings


@pytest.mark.parametrize(
    ("section", "key", "value", "was"),
    [
        ("model", "decoder_steps", 9, "8"),
        ("model", "hidden_size", 10**6, "16"),  # a matrix of terabytes is never created
        ("data", "reverse_input", True, "false"),
        ("data", "pairing", "sliding", '"alternating"'),
        ("", "seed", 4, "3"),
    ],
)
def test_other_settings_of_the_model_are_refused(run_copy: Path, section: str, key: str, value: Any, was: str) -> None:
    edit_config(run_copy, section, **{key: value})
    path = f"{section}.{key}".strip(".")
    message = (
        "config.json differs from the settings that 0000000020.npz was trained with: "
        f"{path} ({was} → {json.dumps(value)});"
    )
    with pytest.raises(MismatchError, match=re.escape(message)):
        read_weights(Run(run_copy))
    edit_checkpoints(run_copy, lambda metadata: metadata.pop("settings"))  # as before version 0.2
    if key != "hidden_size":
        assert read_weights(Run(run_copy)).step == 20


def test_every_command_refuses_them(cli: Cli, run_copy: Path, tmp_path: Path) -> None:
    edit_config(run_copy, "model", decoder_steps=9)
    output = ("--output", tmp_path / "output")
    for command in (
        *(("chat", run_copy), ("chat", run_copy, "--engine", "tensorflow"), ("evaluate", run_copy)),
        *(("export", run_copy, *output, "--format", name) for name in ("saved_model", "onnx", "html")),
    ):
        message = "0000000020.npz was trained with: model.decoder_steps (8 → 9)"
        assert message in cli(*command).error_message, command
    assert not (tmp_path / "output").exists()


def test_other_defaults_of_decoding_are_used_and_reported(cli: Cli, run_copy: Path) -> None:
    edit_config(run_copy, "", name="another")
    edit_config(run_copy, "training", learning_rate=0.01)
    assert cli("chat", run_copy, stdin=b"you see the tree1 ?\n").err == ""
    edit_config(run_copy, "decoding", beam_width=4)
    result = cli("chat", run_copy, stdin=b"you see the tree1 ?\n")
    assert result.status == 0
    note = "has changed since 0000000020.npz was saved: decoding.beam_width (5 → 4)"
    assert result.err == f"{run_copy / 'config.json'} {note}\n"


def test_a_changed_lexicon_is_reported(run_copy: Path, caplog: pytest.LogCaptureFixture) -> None:
    lexicon = run_copy / "lexicon.tsv"
    lexicon.write_text("tree1\tBaum\n", encoding="utf-8")
    edit_checkpoints(run_copy, lambda metadata: metadata.update(lexicon=file_checksum(lexicon)))
    caplog.set_level("INFO")
    read_weights(Run(run_copy))
    assert caplog.messages == []
    lexicon.write_text("tree1\tRaum\n", encoding="utf-8")
    read_weights(Run(run_copy))
    assert caplog.messages == [f"{lexicon} has changed since 0000000020.npz was saved"]


# averages


LOSSES = {10: 3.0, 20: 1.0, 30: 2.0, 40: 2.5}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run with a snapshot at step 10 and checkpoints at steps 20, 30 and 40, all with other weights."""
    codecs = Codecs.shared(make_codec("english", [f"word{number}" for number in range(12)]))
    run = random_run(tmp_path, small_config(), codecs)
    random = np.random.default_rng(3)
    original = run.checkpoint_path(7)
    with np.load(original) as archive:
        names = [name for name in archive.files if name != METADATA]
    arrays, metadata = read_arrays(original, names)
    original.unlink()
    run.snapshot_path(10).parent.mkdir(parents=True)
    for step in LOSSES:
        path = run.snapshot_path(step) if step == 10 else run.checkpoint_path(step)
        noisy = {name: array + random.normal(size=array.shape).astype(np.float32) for name, array in arrays.items()}
        write_arrays(path, noisy, {**metadata, "step": step})
    lines = [json.dumps({"step": step, "kind": "validation", "loss": loss}) for step, loss in LOSSES.items()]
    run.metrics_file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return run


def test_which_weights_are_averaged(run: Run) -> None:
    """The newest ones, or those with the lowest losses, earliest first."""
    steps = sorted(LOSSES)
    for count in (2, 3, 4):
        assert steps_to_average(run, last=count) == steps[-count:]
        assert steps_to_average(run, best=count) == sorted(sorted(steps, key=lambda step: LOSSES[step])[:count])


@pytest.mark.parametrize(
    ("options", "steps"), [((), (10, 20, 30, 40)), (("--last", 2), (30, 40)), (("--best", 3), (20, 30, 40))]
)
def test_the_mean(run: Run, cli: Cli, options: tuple[object, ...], steps: tuple[int, ...]) -> None:
    result = cli("average", run.path, *options, "--output", "mean", "--results", run.results)
    assert result.status == 0, result
    averaged = Run(run.results / "mean")
    assert result.out.splitlines()[-1] == str(averaged.path)
    files = [run.snapshot_path(step) if step == 10 else run.checkpoint_path(step) for step in steps]
    with np.load(averaged.snapshot_path(steps[-1])) as mean:
        names = [name for name in mean.files if name != METADATA]
        for name in names:
            expected = np.mean([np.load(file)[name] for file in files], axis=0)
            np.testing.assert_allclose(mean[name], expected, rtol=1e-6, atol=1e-7)
    assert len(names) > 5
    assert Chatbot.load(averaged).reply("word1").hypotheses
    (listed,) = [row for row in cli("experiments", "list", "--results", run.results).out.splitlines() if "mean" in row]
    assert "finished" in listed


def test_what_cannot_be_averaged(run: Run, cli: Cli) -> None:
    command = ("average", run.path, "--results", run.results, "--output")
    assert "has fewer than 5 saved weights (steps: 10, 20, 30, 40)" in cli(*command, "x", "--last", "5").err
    run.metrics_file.unlink()
    assert "has fewer than 2 saved weights of a validation (steps: none)" in cli(*command, "x", "--best", "2").err
    assert "cannot be used together" in cli(*command, "x", "--best", "2", "--last", "2").err
    (run.results / "x").mkdir()
    assert "x already exists; choose another --output" in cli(*command, "x").err
    run.checkpoint_path(30).write_bytes(run.checkpoint_path(30).read_bytes()[:-99])
    damaged = cli(*command, "y")
    assert damaged.status == 2 and "0000000030.npz is damaged" in damaged.err
    assert not (run.results / "y").exists()
