"""Commands and scripts whose output nobody reads (``… | head -1``) end quietly, with exit status 1."""

import io
import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path

import click
import pytest

from seq2seq_chat.cli import commands, main

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPTS = sorted(path for path in (REPOSITORY / "scripts").glob("*.py") if "__main__" in path.read_text("utf-8"))


def paths(group: click.Group, *prefix: str) -> Iterator[list[str]]:
    """The words of every command below a group."""
    for name, command in group.commands.items():
        yield [*prefix, name]
        if isinstance(command, click.Group):
            yield from paths(command, *prefix, name)


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Call a program in this process with a standard output that nobody reads."""

    def call(program: Callable[[], object], *arguments: object) -> None:
        reading, writing = os.pipe()
        os.close(reading)
        monkeypatch.setattr(sys, "argv", list(map(str, arguments)))
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"hello\n")))
        error = io.StringIO()
        with (
            suppress(BrokenPipeError),  # of closing it
            open(writing, "w", encoding="utf-8") as unread,
            redirect_stdout(unread),
            redirect_stderr(error),
        ):
            with pytest.raises(SystemExit) as stop:
                program()
            try:
                sys.stdout.flush()  # as Python does when it exits
            except BrokenPipeError:
                pytest.fail("the output is not discarded")
        assert (stop.value.code, error.getvalue()) == (1, ""), arguments

    return call


@pytest.fixture
def check_script(check: Callable[..., None]) -> Callable[..., None]:
    def call(name: str, *arguments: object) -> None:
        path = str(REPOSITORY / "scripts" / f"{name}.py")
        check(lambda: runpy.run_path(path, run_name="__main__"), path, *arguments)

    return call


@pytest.mark.parametrize("words", list(paths(commands)), ids=" ".join)
def test_the_help_of_a_command(check: Callable[..., None], words: list[str]) -> None:
    check(main, "seq2seq-chat", *words, "--help")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_help_of_a_script(check_script: Callable[..., None], path: Path) -> None:
    check_script(path.stem, "--help")
    assert path.read_text(encoding="utf-8").endswith('if __name__ == "__main__":\n    run_command(main)\n')


@pytest.mark.slow
def test_commands(check: Callable[..., None], run_copy: Path, corpora: Path, tiny_config: Path, tmp_path: Path) -> None:
    results = ["--results", run_copy.parent]
    for words in (
        ["--version"],
        ["schema"],
        ["experiments", "list", *results],
        ["experiments", "compare", "latest", "latest", *results],
        ["chat", "latest", *results],
        ["prepare", "lines", corpora / "train.txt", "--output", tmp_path / "prepared"],
        ["evaluate", "latest", "--limit", "1", *results],
        ["export", "latest", "--output", tmp_path / "exported", *results],
        ["report", "latest", *results],
        ["check", tiny_config, "--fast", "--only", "memory"],
    ):
        check(main, "seq2seq-chat", *words)


def test_scripts_that_analyze_corpora(
    check_script: Callable[..., None], corpora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check_script("build_vocabulary", corpora / "train.txt", "--size", 30, "--output", tmp_path)
    check_script("analyze_coverage", corpora / "train.txt", "--vocabulary", tmp_path / "vocabulary_30.txt")
    for name in ("analyze_ngrams", "corpus_statistics"):
        check_script(name, corpora / "train.txt")
    check_script("generate_copy_task")


def test_a_process_prints_nothing_when_it_exits(corpora: Path, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, REPOSITORY / "scripts" / "corpus_statistics.py", corpora / "train.txt"]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    with open(writing, "w") as unread:
        process = subprocess.run(
            command, cwd=tmp_path, env=environment, stdout=unread, stderr=subprocess.PIPE, check=False, timeout=240
        )
    assert (process.returncode, process.stderr) == (1, b"")
