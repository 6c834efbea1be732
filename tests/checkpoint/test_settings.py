"""A configuration that was changed after training: by hand, or by a bit."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from seq2seq_chat.checkpoint.arrays import MismatchError, read_weights
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.files import file_checksum
from tests.conftest import Cli, edit_checkpoints, edit_config


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
        f"config.json has other settings than 0000000020.npz was trained with: {path} ({was} → {json.dumps(value)});"
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
    note = "was changed since 0000000020.npz was saved: decoding.beam_width (5 → 4)"
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


def test_training_settings_edited_by_hand_are_recorded(cli: Cli, run_copy: Path) -> None:
    edit_config(run_copy, "training", learning_rate=0.01, steps=21, sample_replies=0)
    result = cli("train", "--resume", run_copy, "--set", "training.log_every=1")
    assert result.status == 0, result
    assert "changed: training.learning_rate from 0.05 to 0.01" in result.out
    *_, start = (run_copy / "history.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(start)["changes"] == {
        "training.learning_rate": [0.05, 0.01],
        "training.steps": [20, 21],
        "training.sample_replies": [2, 0],
        "training.log_every": [5, 1],
    }
