"""The recipes of CONTRIBUTING.md, followed to the letter in a copy of the package, give something that works."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
RECIPES = re.findall(
    r"^```diff\n(.*?)^```", (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
)


GROUND = {"atomic", "direct", "environment", "errors", "termination"}  # what every room stands on


def rooms() -> list[list[str]]:
    """The rows of the house, top to bottom: the names of packages and modules."""
    text = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]*`) \|", text.partition("\n## A cell")[0], re.MULTILINE)
    return [[Path(name).stem for name in re.findall(r"`([^`]+)`", row)] for row in rows]


def imported(file: Path) -> set[str]:
    """Rooms that a file imports anything of."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    names = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    parts = [name.split(".") for name in names]
    return {
        name[0] if name[0] == "webui" else name[1]
        for name in parts
        if name[0] == "webui" or (name[1:] and name[0] == "seq2seq_chat")
    }


def test_a_room_knows_those_above_it_only() -> None:
    known, seen = set(GROUND), 0
    for row in rooms():
        for name in row:
            folder = REPOSITORY / name if name in ("webui", "scripts") else REPOSITORY / "seq2seq_chat" / name
            files = list(folder.rglob("*.py")) or [folder.with_suffix(".py")]
            for file in files:
                assert imported(file) <= known | set(row), file
                seen += 1
        known |= set(row)
    inside = {path.stem for path in (REPOSITORY / "seq2seq_chat").glob("[!_]*") if not path.name.startswith(".")}
    assert inside <= known, "the house has a room that the list lacks"
    assert seen > 100


def follow(recipe: str, folder: Path) -> None:
    """Each run of lines with ``-`` stands once in its file, and gives way to the lines with ``+`` that follow it."""
    for name, changes in re.findall(r"^--- (.*)\n((?:[-+].*\n)+?)(?=--- |\Z)", recipe, re.MULTILINE):
        text = (folder / name).read_text(encoding="utf-8")
        for old, new in re.findall(r"((?:^-.*\n)+)((?:^\+.*\n)+)", changes, re.MULTILINE):
            was, becomes = (re.sub(r"^[-+]", "", part, flags=re.MULTILINE).removesuffix("\n") for part in (old, new))
            assert text.count(was) == 1, f"{name} has {text.count(was)} times: {was}"
            text = text.replace(was, becomes)
        (folder / name).write_text(text, encoding="utf-8")


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """A copy of the package to which all recipes were applied."""
    for name in ("seq2seq_chat", "webui"):
        shutil.copytree(REPOSITORY / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    assert len(RECIPES) == 4
    for recipe in RECIPES:
        follow(recipe, tmp_path)
    return tmp_path


def typed(folder: Path, *words: str, said: str = "") -> str:
    """What the copy prints; `python -m` imports from the folder it is called in."""
    done = subprocess.run(
        [sys.executable, "-m", "seq2seq_chat", *words],
        cwd=folder,
        input=said,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_new_cell_score_reader_and_option_work_together(changed: Path) -> None:
    rows = [f"do you see tree{n % 7} ?\tyes , i see the tree !" for n in range(60)]
    (changed / "pairs.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    typed(changed, "prepare", "columns", "pairs.tsv", "--output", "data", "--split", "80,10,10")
    first = (changed / "data" / "train.txt").read_text(encoding="utf-8").splitlines()[:3]
    assert first[0].startswith("do you see tree")
    assert first[1:] == ["yes , i see the tree !", "<<<<<END-CONV>>>>>"]
    settings = {
        "name": "new",
        "data": {"train": "data/train.txt", "vocabulary_size": 30, "pairing": "alternating"},
        "model": {
            **{"cell": "mgu", "attention": "scaled", "hidden_size": 16, "embedding_size": 8, "projection_size": 8},
            **{"encoder_steps": 6, "decoder_steps": 8},
        },
        "training": {"batch_size": 8, "steps": 100, "optimizer": "adam", "learning_rate": 0.02},
        "decoding": {"maximum_length": 3},
    }
    (changed / "new.json").write_text(json.dumps(settings), encoding="utf-8")
    typed(changed, "train", "new.json")
    assert typed(changed, "chat", "latest", said="do you see tree3 ?\n") == "yes , i\n"
    typed(changed, "check", "new.json", "--only", "gradients")
    program = """
import numpy as np, tensorflow as tf
from seq2seq_chat.model.attention import ATTENTIONS
from seq2seq_chat.model.cells import CELLS
sigma = lambda x: 1 / (1 + np.exp(-x))
draw = np.random.default_rng(1).standard_normal
cell, x, h = CELLS["mgu"]("cell", 2, 0, 3, seed=1), draw([1, 2]).astype("f"), draw([1, 3]).astype("f")
w, u, v = cell.input.matrix.numpy(), cell.recurrent.matrix.numpy(), cell.candidate.matrix.numpy()
f = sigma(x @ w[:, :3] + h @ u)
new = (1 - f) * h + f * np.tanh(x @ w[:, 3:] + (f * h) @ v)
np.testing.assert_allclose(cell(cell.prepare(tf.constant(x)), None, cell.STATE(tf.constant(h))).output, new, rtol=1e-5)
score = ATTENTIONS["scaled"]("attention", hidden=3, values=4, seed=1)
d, s = draw([1, 3]).astype("f"), draw([1, 5, 4]).astype("f")
expected = (s[0] @ score.key.matrix.numpy() @ d[0]) / 3**0.5
np.testing.assert_allclose(score.scores(score.keys(tf.constant(s)), tf.constant(d))[0], expected, rtol=1e-5)
"""
    subprocess.run([sys.executable, "-c", program], cwd=changed, check=True, timeout=400)
