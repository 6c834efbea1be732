"""The layout that CONTRIBUTING.md describes is the real one, and its recipes work."""

import ast
import json
import re
import shutil
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
TEXT = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
LAYERS = re.findall(r"^\| `(?:seq2seq_chat/)?(\w+)/` \|", TEXT, re.MULTILINE)
"""Packages, bottom to top, as the table of CONTRIBUTING.md lists them."""

WITHOUT_TENSORFLOW = [
    *("system", "config", "architecture", "text", "data", "prepare", "runs", "checkpoint", "metrics", "search")
]
MAX_SHARE = 0.2  # of the package's lines, for one of its packages
MAX_FILES = {"batch": 60, "dump": 45, "message": 44}  # that a journey passes
RECIPES = re.findall(r"^```diff\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)


def folder_of(layer: str) -> Path:
    return REPOSITORY / layer if layer in ("webui", "scripts") else REPOSITORY / "seq2seq_chat" / layer


def modules() -> dict[str, Path]:
    files = [file for name in ("seq2seq_chat", "webui") for file in (REPOSITORY / name).rglob("*.py")]
    names = [".".join(file.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__init__") for file in files]
    return dict(zip(names, files, strict=True))


def imports(file: Path, inside_functions: bool = True) -> set[str]:
    """Names that a file imports, with the names taken from a module appended to it."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    nodes = ast.walk(tree) if inside_functions else iter(tree.body)
    names = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def layer_of(name: str) -> str | None:
    """The layer of an imported name, if it is one of ours."""
    match = re.match(r"seq2seq_chat\.(\w+)|(webui|scripts)\b", name)
    return next((layer for layer in match.groups() if layer in LAYERS), None) if match else None


def test_all_packages_are_listed() -> None:
    packages = {path.parent.name for path in (REPOSITORY / "seq2seq_chat").glob("*/__init__.py")}
    assert set(LAYERS) == packages | {"webui", "scripts"}


@pytest.mark.parametrize("layer", LAYERS)
def test_packages_import_only_lower_ones(layer: str) -> None:
    allowed = LAYERS[: LAYERS.index(layer) + 1]
    for file in folder_of(layer).rglob("*.py"):
        higher = {name for name in imports(file) if (layer_of(name) or layer) not in allowed}
        assert not higher, f"{file} imports {higher}"


@pytest.mark.parametrize("layer", WITHOUT_TENSORFLOW)
def test_lower_packages_do_not_need_tensorflow(layer: str) -> None:
    for file in folder_of(layer).rglob("*.py"):
        # system/versions.py and hardware.py import TensorFlow inside functions
        names = imports(file, inside_functions=layer != "system")
        assert not {name for name in names if re.match(r"(tensorflow|keras)", name)}, file


def test_lower_packages_load_no_tensorflow() -> None:
    """Not even by what they import from others."""
    names = [
        name for name in modules() if name.startswith(tuple(f"seq2seq_chat.{layer}" for layer in WITHOUT_TENSORFLOW))
    ]
    program = f"import sys\nfor name in {names}: __import__(name)\nassert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, check=True, timeout=300)


def test_there_are_no_import_cycles() -> None:
    files = modules()
    del files["seq2seq_chat"]  # imports the public names when they are used
    graph = {}
    for name, file in files.items():
        taken = {one if one in files else one.rpartition(".")[0] for one in imports(file)}
        graph[name] = {one for one in taken if one in files and one != name}
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_no_package_is_too_large() -> None:
    lines = {
        layer: sum(len(file.read_text(encoding="utf-8").splitlines()) for file in folder_of(layer).rglob("*.py"))
        for layer in LAYERS
        if folder_of(layer).parent.name == "seq2seq_chat"
    }
    shares = {layer: count / sum(lines.values()) for layer, count in lines.items()}
    assert max(shares.values()) <= MAX_SHARE, shares


def defined_names(file: Path) -> set[str]:
    """Functions, classes and methods of a module: ``train_step``, ``Learner``, ``Learner.train_step``."""
    names = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{member.name}" for member in node.body if isinstance(member, ast.FunctionDef)}
    return names


def test_traced_functions_exist() -> None:
    traced = re.findall(r"^\d+\. `([\w/]+\.py)`: `([\w.]+)`", TEXT, re.MULTILINE)
    assert len(traced) == 27
    for file, name in traced:
        assert name in defined_names(REPOSITORY / file), f"{file} has no {name}"


def apply_recipe(recipe: str, folder: Path) -> None:
    """Replace lines with ``-``, which must be unique in their file, by the lines with ``+`` that follow them.

    A file that does not exist is made of its lines with ``+``.
    """
    for name, changes in re.findall(r"^--- (.*)\n((?:[-+].*\n)+?)(?=--- |\Z)", recipe, re.MULTILINE):
        if not (folder / name).exists():
            (folder / name).write_text(re.sub(r"^\+", "", changes, flags=re.MULTILINE), encoding="utf-8")
            continue
        text = (folder / name).read_text(encoding="utf-8")
        for old, new in re.findall(r"((?:^-.*\n)+)((?:^\+.*\n)+)", changes, re.MULTILINE):
            before, after = (re.sub(r"^[-+]", "", lines, flags=re.MULTILINE).removesuffix("\n") for lines in (old, new))
            assert text.count(before) == 1, f"{name} has {text.count(before)} times: {before}"
            text = text.replace(before, after)
        (folder / name).write_text(text, encoding="utf-8")


@pytest.fixture
def patched(tmp_path: Path) -> Path:
    """A copy of the package with all recipes applied."""
    for name in ("seq2seq_chat", "webui", "configs/sample"):
        shutil.copytree(REPOSITORY / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    assert len(RECIPES) == 4
    for recipe in RECIPES:
        apply_recipe(recipe, tmp_path)
    return tmp_path


def test_recipes_apply(patched: Path) -> None:
    for file in re.findall(r"^--- (.*)$", "".join(RECIPES), re.MULTILINE):
        ast.parse((patched / file).read_text(encoding="utf-8"))


PROGRAM = """
import contextlib, io, json, sys
from pathlib import Path
import numpy as np
from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.cli import main
from seq2seq_chat.config import Decoding
from seq2seq_chat.runs.find import find_run

def run(*words, stdin=""):
    sys.argv, sys.stdin, output = ["seq2seq-chat", *words], io.TextIOWrapper(io.BytesIO(stdin.encode())), io.StringIO()
    with contextlib.redirect_stdout(output):
        try:
            main()
        except SystemExit as stop:
            assert not stop.code, output.getvalue()
    return output.getvalue()

run("prepare", "columns", "pairs.tsv", "--output", "data", "--split", "80,10,10")
question, *answer = Path("data/train.txt").read_text().splitlines()[:3]
assert question.startswith("do you see tree"), question
assert answer == ["yes yes i see the tree !", "<<<<<END-CONV>>>>>"], answer
run("train", "new.json")
question = "do you see tree3 ?\\n"
assert run("chat", "latest", stdin=question).split().count("yes") == 1
bot = Chatbot.load(find_run("latest"))
assert bot.reply(question, Decoding()).hypotheses[0].words.count("yes") == 2
run("check", "new.json", "--only", "gradients")

import tensorflow as tf
from seq2seq_chat.model.attention import ATTENTIONS
from seq2seq_chat.model.cells import CELLS
sigmoid = lambda x: 1 / (1 + np.exp(-x))
normal = np.random.default_rng(1).standard_normal
cell, x, h = CELLS["mgu"]("cell", 2, 0, 3, seed=1), normal([1, 2]).astype("f"), normal([1, 3]).astype("f")
w, u, v = cell.input.matrix.numpy(), cell.recurrent.matrix.numpy(), cell.candidate.matrix.numpy()
f = sigmoid(x @ w[:, :3] + h @ u)
new = (1 - f) * h + f * np.tanh(x @ w[:, 3:] + (f * h) @ v)
state = cell(cell.project_inputs(tf.constant(x)), None, cell.STATE(tf.constant(h)))
np.testing.assert_allclose(state.output, new, rtol=1e-5)
score = ATTENTIONS["scaled"]("attention", query_size=3, value_size=4, seed=1)
d, s = normal([1, 3]).astype("f"), normal([1, 5, 4]).astype("f")
expected = (s[0] @ score.key.matrix.numpy() @ d[0]) / 3**0.5
np.testing.assert_allclose(score.scores(score.keys(tf.constant(s)), tf.constant(d))[0], expected, rtol=1e-5)
"""
"""Prepares, trains, chats and checks in a patched copy, in one process; then compares with numpy."""

SETTINGS = {
    "name": "new",
    "data": {"train": "data/train.txt", "vocabulary_size": 30, "pairing": "alternating"},
    "model": {
        **{"cell": "mgu", "attention": "scaled", "hidden_size": 16, "embedding_size": 8, "projection_size": 8},
        **{"encoder_steps": 6, "decoder_steps": 8},
    },
    "training": {"batch_size": 8, "steps": 100, "optimizer": "adam", "learning_rate": 0.02},
    "decoding": {"max_repetitions": 1},
}


@pytest.mark.slow
def test_new_cell_score_reader_and_option_work_together(patched: Path) -> None:
    rows = [f"do you see tree{n % 7} ?\tyes yes i see the tree !" for n in range(60)]
    (patched / "pairs.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (patched / "new.json").write_text(json.dumps(SETTINGS), encoding="utf-8")
    command = [sys.executable, "-c", PROGRAM]  # imports from the working directory
    result = subprocess.run(command, cwd=patched, capture_output=True, text=True, check=False, timeout=900)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.slow(minutes=0.5)
def test_journeys_pass_few_files(tmp_path: Path) -> None:
    command = [sys.executable, REPOSITORY / "tests" / "journeys.py"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600)
    assert result.returncode == 0, result.stderr
    counts = {name: int(number) for name, number in re.findall(r"^(\w+): (\d+) files$", result.stdout, re.MULTILINE)}
    assert counts.keys() == MAX_FILES.keys()
    for name, limit in MAX_FILES.items():
        assert 10 <= counts[name] <= limit, result.stdout
