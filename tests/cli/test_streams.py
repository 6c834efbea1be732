"""Standard streams that are closed or full."""

import io
import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from seq2seq_chat.cli import main
from tests.conftest import limited_file_size

REPOSITORY = Path(__file__).resolve().parents[2]
FULL_DISK = "seq2seq-chat: could not write the output: No space left on device\n"


def run_in_shell(redirection: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command with a redirection such as ``>&-``."""
    command = [sys.executable, "-m", "seq2seq_chat", *arguments]
    shell = ["bash", "-c", f'exec "$@" {redirection}', "bash", *command]
    return subprocess.run(shell, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=240)


@pytest.mark.parametrize("buffering", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("arguments", [["schema"], ["--help"]], ids=" ".join)
def test_stdout_on_a_full_disk(arguments: list[str], buffering: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", buffering)
    result = run_in_shell(">/dev/full", *arguments)
    assert (result.returncode, result.stderr) == (1, FULL_DISK)


@pytest.mark.parametrize("buffering", ["", "1"], ids=["buffered", "unbuffered"])
def test_stdout_that_takes_only_a_part(buffering: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", buffering)
    with limited_file_size(1000):  # the schema is larger
        result = run_in_shell(f"> '{tmp_path}/schema.json'", "schema")
    assert (result.returncode, result.stderr) == (1, "seq2seq-chat: could not write the output: File too large\n")


@pytest.mark.slow
def test_replies_and_results_on_a_full_disk(run_copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is found and a model answers, but nobody can read it."""
    corpus = json.loads((run_copy / "config.json").read_text(encoding="utf-8"))["data"]["train"]
    commands = [
        *(["--version"], ["experiments", "list"], ["experiments", "compare", "latest", "latest"]),
        *(["chat", "latest"], ["evaluate", "latest", "--limit", "1"]),
        *(["export", "latest", "--output", "exported"], ["prepare", "lines", corpus, "--output", "prepared"]),
    ]
    monkeypatch.chdir(tmp_path)
    for command in commands:
        error = io.StringIO()
        with open("/dev/full", "w", encoding="utf-8") as full, redirect_stdout(full), redirect_stderr(error):
            monkeypatch.setattr(sys, "argv", ["seq2seq-chat", *command])
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"hello\n")))
            with pytest.raises(SystemExit) as stop:
                main()
        assert (stop.value.code, error.getvalue()) == (1, FULL_DISK), command


def test_closed_output_and_stderr_on_a_full_disk() -> None:
    result = run_in_shell("2>/dev/full", "train", "none.json")
    assert (result.returncode, result.stdout, result.stderr) == (1, "", "")
    result = run_in_shell(">&-", "schema")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    result = run_in_shell("2>&-", "train", "none.json")
    assert (result.returncode, result.stdout, result.stderr) == (2, "", "")


def test_chat_without_stdin() -> None:
    result = run_in_shell("<&-", "chat", "latest")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        "seq2seq-chat: stdin is closed; connect it to a terminal, or to a file or pipe with one utterance per line\n"
    )
