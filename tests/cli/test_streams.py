"""Commands and scripts whose standard streams are closed or full, or whose output nobody reads (``… | head -1``)."""

import io
import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import IO
from unittest.mock import Mock

import click
import pytest

from seq2seq_chat.cli import commands, main
from tests.conftest import REPOSITORY, limited_file_size

SCRIPTS = sorted(path for path in (REPOSITORY / "scripts").glob("*.py") if "__main__" in path.read_text("utf-8"))
CLOSED = "seq2seq-chat: stdin is closed; connect it to a terminal, or to a file or pipe with one utterance per line\n"
FULL_DISK = "seq2seq-chat: could not write the output: No space left on device\n"


def paths(group: click.Group, *prefix: str) -> Iterator[list[str]]:
    """The words of every command below a group."""
    for name, command in group.commands.items():
        yield [*prefix, name]
        if isinstance(command, click.Group):
            yield from paths(command, *prefix, name)


def unread_pipe() -> IO[str]:
    """A pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    return open(writing, "w", encoding="utf-8")


def full_disk() -> IO[str]:
    """A file on a full disk."""
    return open("/dev/full", "w", encoding="utf-8")


Check = Callable[..., None]


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> Check:
    """Call a program in this process with an output that cannot be written: it ends with status 1 and one message."""

    def call(output: IO[str], message: str, program: Callable[[], object], *arguments: object) -> None:
        monkeypatch.setattr(sys, "argv", list(map(str, arguments)))
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"hello\n")))
        error = io.StringIO()
        with suppress(OSError), output, redirect_stdout(output), redirect_stderr(error):  # OSError of closing it
            with pytest.raises(SystemExit) as stop:
                program()
            try:
                sys.stdout.flush()  # as Python does when it exits
            except OSError:
                pytest.fail("the output is not discarded")
        assert (stop.value.code, error.getvalue()) == (1, message), arguments

    return call


def test_too_little_memory_is_named(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seq2seq_chat.runs.find.list_runs", Mock(side_effect=MemoryError))
    message = "seq2seq-chat: not enough memory; close other programs, or use a smaller model, batch or corpus\n"
    check(io.StringIO(), message, main, "seq2seq-chat", "experiments", "list")


@pytest.fixture
def check_script(check: Check) -> Check:
    def call(name: str, *arguments: object) -> None:
        path = str(REPOSITORY / "scripts" / f"{name}.py")
        check(unread_pipe(), "", lambda: runpy.run_path(path, run_name="__main__"), path, *arguments)

    return call


@pytest.mark.parametrize("words", list(paths(commands)), ids=" ".join)
def test_the_help_of_a_command(check: Check, words: list[str]) -> None:
    check(unread_pipe(), "", main, "seq2seq-chat", *words, "--help")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_help_of_a_script(check_script: Check, path: Path) -> None:
    check_script(path.stem, "--help")
    assert path.read_text(encoding="utf-8").endswith('if __name__ == "__main__":\n    run_command(main)\n')


@pytest.mark.slow
@pytest.mark.parametrize(("output", "message"), [(unread_pipe, ""), (full_disk, FULL_DISK)])
def test_commands(
    check: Check,
    run_copy: Path,
    corpora: Path,
    tiny_config: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    output: Callable[[], IO[str]],
    message: str,
) -> None:
    """A run is found and a model answers, but nobody can read it."""
    monkeypatch.chdir(tmp_path)
    for words in (
        ["--version"],
        ["schema"],
        ["experiments", "list"],
        ["experiments", "compare", "latest", "latest"],
        ["chat", "latest"],
        ["prepare", "lines", corpora / "train.txt", "--output", "prepared"],
        ["evaluate", "latest", "--limit", "1"],
        ["export", "latest", "--output", "exported"],
        *([["report", "latest"]] if output is unread_pipe else []),
        ["check", tiny_config, "--fast", "--only", "memory"],
    ):
        check(output(), message, main, "seq2seq-chat", *words)


def test_scripts_that_analyze_corpora(
    check_script: Check, corpora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check_script("build_vocabulary", corpora / "train.txt", "--size", 30, "--output", tmp_path)
    check_script("analyze_coverage", corpora / "train.txt", "--vocabulary", tmp_path / "vocabulary_30.txt")
    for name in ("analyze_ngrams", "corpus_statistics"):
        check_script(name, corpora / "train.txt")
    check_script("generate_copy_task")


def test_a_process_prints_nothing_when_it_exits(corpora: Path, tmp_path: Path) -> None:
    command = [sys.executable, REPOSITORY / "scripts" / "corpus_statistics.py", corpora / "train.txt"]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    with unread_pipe() as unread:
        process = subprocess.run(
            command, cwd=tmp_path, env=environment, stdout=unread, stderr=subprocess.PIPE, check=False, timeout=240
        )
    assert (process.returncode, process.stderr) == (1, b"")


def run_in_shell(redirection: str, *arguments: str) -> tuple[int, str, str]:
    """The exit status, stdout and stderr of a command with a redirection such as ``>&-``."""
    command = [sys.executable, "-m", "seq2seq_chat", *arguments]
    shell = ["bash", "-c", f'exec "$@" {redirection}', "bash", *command]
    result = subprocess.run(shell, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=240)
    return result.returncode, result.stdout, result.stderr


@pytest.mark.parametrize("buffering", ["", "1"], ids=["buffered", "unbuffered"])
def test_a_disk_that_is_full_at_once_or_later(buffering: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", buffering)
    assert run_in_shell(">/dev/full", "schema") == (1, "", FULL_DISK)
    with limited_file_size(1000):  # the schema is larger
        result = run_in_shell(f"> '{tmp_path}/schema.json'", "schema")
    assert result == (1, "", "seq2seq-chat: could not write the output: File too large\n")


@pytest.mark.parametrize(
    ("redirection", "arguments", "expected"),
    [
        ("2>/dev/full", "train none.json", (1, "", "")),
        (">&-", "schema", (0, "", "")),
        ("2>&-", "train none.json", (2, "", "")),
        ("<&-", "chat latest", (2, "", CLOSED)),
    ],
)
def test_streams_that_are_closed_or_full(redirection: str, arguments: str, expected: tuple[int, str, str]) -> None:
    assert run_in_shell(redirection, *arguments.split()) == expected
