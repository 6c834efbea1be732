"""Commands use exported models where only the packages that their folder requires can be imported."""

import functools
import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from seq2seq_chat.config import Config
from seq2seq_chat.export.onnx import EVALUATION_REQUIREMENTS, REQUIREMENTS, export_onnx, requirements
from seq2seq_chat.runs.run import Run
from tests.conftest import CommandResult
from tests.engines.onnx.conftest import TEXTS
from tests.random_runs import random_language_run, small_config

OLD_RUN = Path(__file__).parents[2] / "compatibility" / "data" / "0.1" / "conversation"


WITHOUT_OTHER_PACKAGES = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {modules!r}:
            raise ModuleNotFoundError(f"{{name}} is not installed", name=name)

sys.meta_path.insert(0, Missing())
from seq2seq_chat.cli import main
main()
"""


def installed(file: str, config: Config | None = None) -> set[str]:
    """The packages that `pip install` installs for a list of requirements."""
    lists = requirements(config or small_config())
    wanted = lists[REQUIREMENTS].splitlines() + (lists[file].splitlines()[1:] if file != REQUIREMENTS else [])
    names: set[str] = set()
    while wanted:
        requirement = Requirement(wanted.pop())
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        name = metadata.metadata(requirement.name)["Name"]
        if name not in names:
            names.add(name)
            wanted += metadata.requires(name) or []
    return names


@functools.cache
def modules() -> dict[str, list[str]]:
    """The packages that have each module."""
    return dict(metadata.packages_distributions())


def command(*arguments: object, file: str = REQUIREMENTS, config: Config | None = None) -> list[str]:
    """A command that can import only what a list requires."""
    packages = installed(file, config) | {"seq2seq-chat"}
    missing = {name for name, distributions in modules().items() if not packages & {*distributions}}
    assert {"tensorflow", "keras", "onnx", "pandas"} <= missing
    return [sys.executable, "-c", WITHOUT_OTHER_PACKAGES.format(modules=missing), *map(str, arguments)]


def run_alone(
    *arguments: object, stdin: str = "", file: str = REQUIREMENTS, config: Config | None = None
) -> subprocess.CompletedProcess[str]:
    line = command(*arguments, file=file, config=config)
    return subprocess.run(line, input=stdin, text=True, capture_output=True, check=False)


def test_a_run_needs_tensorflow(tiny_run: Path) -> None:
    result = run_alone("chat", tiny_run, stdin="hello\n")
    assert result.returncode == 2
    assert "could not import TensorFlow" in result.stderr


def test_prepare_names_a_missing_package(tmp_path: Path) -> None:
    result = run_alone("prepare", "pairs", "a.tsv", "--output", tmp_path / "out")
    assert result.returncode == 2
    assert re.fullmatch(r"seq2seq-chat: this needs the package \w+, which is not installed; .*-e \.\n", result.stderr)


def test_chat(tiny_run: Path, exported: Path, cli: Callable[..., CommandResult]) -> None:
    stdin = "i like the tree1 ?\nthey want the song3 ?\n...\n"
    found = run_alone("chat", exported, "--beam-width", 3, stdin=stdin)
    assert found.returncode == 0, found.stderr
    assert found.stdout == cli("chat", tiny_run, "--beam-width", 3, stdin=stdin.encode()).out


def test_evaluate(tmp_path: Path) -> None:
    """The exported model of an old run has the metrics that are stored with that run."""
    options = ["--data", OLD_RUN / "validation.txt", "--output", tmp_path, "--json", tmp_path / "metrics.json"]
    arguments = ["evaluate", OLD_RUN / "onnx", *options]
    refused = run_alone(*arguments)
    assert refused.returncode == 2
    assert re.fullmatch(
        r"seq2seq-chat: evaluate needs the package \w+, which is not installed; install all that it needs with: "
        r"pip install choix sacrebleu scipy\n",
        refused.stderr,
    )
    found = run_alone(*arguments, file=EVALUATION_REQUIREMENTS)
    assert found.returncode == 0, found.stderr
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    for name, value in json.loads((OLD_RUN / "expected.json").read_text())["evaluation"].items():
        assert metrics[name] == pytest.approx(value, rel=1e-5), name


def test_generate(cli: Callable[..., CommandResult], tmp_path: Path) -> None:
    trained = random_language_run(tmp_path / "results", "the cat sat on the mat.")
    export_onnx(trained, tmp_path / "exported")
    options = ["--prompt", "the cat", "--length", 30, "--seed", 3]
    found = run_alone("generate", tmp_path / "exported", *options)
    assert found.returncode == 0, found.stderr
    assert found.stdout == cli("generate", trained.path, *options).out


def test_serve(exported: Path, cli: Callable[..., CommandResult]) -> None:
    arguments = command("serve", "--results", exported.parent, "--port", 0)
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = re.match(r"http://127\.0\.0\.1:\d+/", line := server.stdout.readline())
            assert address, line or server.communicate()
            body = json.dumps({"run": exported.name, "snapshot": None, "text": "you see what ?"}).encode()
            request = urllib.request.Request(f"{address[0]}api/chat", body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=240) as response:
                reply = json.load(response)["reply"]
            server.send_signal(signal.SIGINT)
            assert server.communicate(timeout=240)[1] == ""
            assert server.returncode == 0
        finally:
            server.kill()
    assert f"{reply}\n" == cli("chat", exported, stdin=b"you see what ?\n").out


@pytest.mark.slow(minutes=1)
def test_commands_need_only_the_required_packages(
    german_run: Run, cli: Callable[..., CommandResult], tmp_path: Path
) -> None:
    exported, config = german_run.path / "exported", german_run.config
    stdin = "\n".join([*TEXTS, ""])
    found = run_alone("chat", exported, stdin=stdin, config=config)
    assert found.returncode == 0, found.stderr
    assert found.stdout == cli("chat", german_run.path, stdin=stdin.encode()).out
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(TEXTS * 2), encoding="utf-8")
    metrics = []
    for model in (exported, german_run.path):
        options = ["--data", corpus, "--output", tmp_path / model.name, "--json", tmp_path / f"{model.name}.json"]
        assert cli("evaluate", model, *options).status == 0
        contents = json.loads((tmp_path / f"{model.name}.json").read_text(encoding="utf-8"))
        metrics.append({name: value for name, value in contents.items() if isinstance(value, int | float)})
    assert metrics[0] == pytest.approx(metrics[1], rel=1e-4)
