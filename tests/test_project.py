"""The files around the package agree with each other, and run.sh tells what is missing."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
SHELL_FILES = ["run.sh", "test.sh", "scripts/environment.sh", ".ci/run"]


def _setup_arguments() -> dict[str, object]:
    """The literal arguments of setup() in setup.py."""
    tree = ast.parse((REPOSITORY / "setup.py").read_text(encoding="utf-8"))
    call = next(node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "setup")
    arguments: dict[str, object] = {}
    for keyword in call.keywords:
        if keyword.arg in {"install_requires", "extras_require", "entry_points", "python_requires"}:
            arguments[keyword.arg] = ast.literal_eval(keyword.value)
    return arguments


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _pins() -> dict[str, str]:
    lines = (REPOSITORY / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+]+", pin) for pin in pins)
    names = [_normal(pin.split("==")[0]) for pin in pins]
    assert names == sorted(set(names))
    return dict(zip(names, (pin.split("==")[1] for pin in pins), strict=True))


def test_every_requirement_is_pinned() -> None:
    arguments, pins = _setup_arguments(), _pins()
    extras = arguments["extras_require"]
    assert isinstance(extras, dict)
    assert {"dev", "dynamic"} <= set(extras)
    for group in (arguments["install_requires"], *extras.values()):
        for requirement in group:
            match = re.fullmatch(r"([A-Za-z0-9_-]+)(?:\[[a-z,-]+\])?(?:==(.+)|[<>=].*)?", requirement)
            assert match, requirement
            assert _normal(match[1]) in pins, requirement
            assert match[2] in (None, pins[_normal(match[1])]), requirement


def test_python_and_tensorflow_are_those_the_program_asks_for() -> None:
    from seq2seq_chat.environment import PYTHON, TENSORFLOW

    assert _setup_arguments()["python_requires"] == ">=3.10,<3.12"
    assert PYTHON == ((3, 10), (3, 11))
    assert _pins()["tensorflow"].startswith(TENSORFLOW + ".")
    assert "in ((3, 10), (3, 11))" in (REPOSITORY / "scripts" / "environment.sh").read_text(encoding="utf-8")


def test_console_script_is_the_command_line() -> None:
    from seq2seq_chat import cli

    assert _setup_arguments()["entry_points"] == {"console_scripts": ["seq2seq-chat = seq2seq_chat.cli:main"]}
    assert callable(cli.main)


@pytest.mark.slow
def test_wheel_has_package_and_sample_and_nothing_else(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(REPOSITORY / "seq2seq_chat", source / "seq2seq_chat")
    for name in ("setup.py", "pyproject.toml"):
        shutil.copy(REPOSITORY / name, source)
    command = ["-m", "pip", "wheel", "-q", "--no-deps", "--no-index", "--no-build-isolation", "-w", ".", "./source"]
    subprocess.run([sys.executable, *command], cwd=tmp_path, check=True, timeout=400)
    (wheel,) = tmp_path.glob("seq2seq_chat-*.whl")
    names = [name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name]
    expected = sorted(path.relative_to(REPOSITORY).as_posix() for path in (REPOSITORY / "seq2seq_chat").rglob("*.py"))
    assert sorted(name for name in names if name.endswith(".py")) == expected
    sample = {f"seq2seq_chat/corpus/sample/{name}.txt" for name in ("conversations", "validation")}
    template = {"seq2seq_chat/analysis/templates/report.html"}
    assert {name for name in names if not name.endswith(".py")} == sample | template


def test_help_does_not_import_tensorflow() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "seq2seq_chat", "--help"]
    run = subprocess.run(command, cwd=REPOSITORY, check=False, capture_output=True, text=True, timeout=240)
    assert run.returncode == 0
    assert "train" in run.stdout
    assert "click" in run.stderr  # the names of what was imported
    assert "tensorflow" not in run.stderr


@pytest.mark.parametrize("name", SHELL_FILES)
def test_shell_files_are_well_formed(name: str) -> None:
    subprocess.run(["bash", "-n", REPOSITORY / name], check=True, timeout=90)


@pytest.mark.parametrize("name", ["run.sh", "test.sh", ".ci/run"])
def test_shell_files_can_be_called(name: str) -> None:
    assert os.access(REPOSITORY / name, os.X_OK)
    assert (REPOSITORY / name).read_text(encoding="utf-8").startswith("#!/usr/bin/env bash\n")


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, Path]:
    """A copy of what run.sh reads, and a folder for PATH with the usual tools but no Python."""
    folders = {name: tmp_path / name for name in ("repository", "bin", "home")}
    for folder in folders.values():
        folder.mkdir()
    (folders["repository"] / "scripts").mkdir()
    for name in ("run.sh", "setup.py", "constraints.txt", "scripts/environment.sh"):
        shutil.copy(REPOSITORY / name, folders["repository"] / name)
    for tool in ("bash", "cat", "cksum", "dirname", "env", "flock", "mkdir", "rm"):
        if path := shutil.which(tool):
            (folders["bin"] / tool).symlink_to(path)
    return folders


def _run(bare: dict[str, Path], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [bare["repository"] / "run.sh", *arguments],
        check=False,
        env={"PATH": str(bare["bin"]), "HOME": str(bare["home"])},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
    )


def _script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/usr/bin/env bash\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


# A stand-in for Python that is of the right version, makes environments and notes what pip is asked to do.
FAKE_PYTHON = """
echo "$*" >>"$HOME/calls"
case "$*" in
    "-m venv "*) mkdir -p "$3/bin" && cat "$0" >"$3/bin/python" && chmod +x "$3/bin/python" ;;
    "-m pip install "*)
        [[ -e $HOME/fail ]] && exit 1
        here="${0%/*}"
        printf '#!/usr/bin/env bash\\necho "seq2seq-chat $* in $PWD"\\n' >"$here/seq2seq-chat"
        chmod +x "$here/seq2seq-chat"
        ;;
esac
"""


@pytest.fixture
def fake_python(bare: dict[str, Path]) -> Path:
    """The stand-in, in PATH; returns the file of its calls."""
    _script(bare["bin"] / "python3.10", FAKE_PYTHON)
    (bare["bin"] / "chmod").symlink_to(shutil.which("chmod") or "/bin/chmod")
    return bare["home"] / "calls"


def _installs(calls: Path) -> int:
    return sum(line.startswith("-m pip install") for line in calls.read_text(encoding="utf-8").splitlines())


def test_run_without_python_says_in_two_lines_how_to_get_one(bare: dict[str, Path]) -> None:
    _script(bare["bin"] / "python3.11", "exit 127")  # there, but does not run: a shim without its Python
    run = _run(bare, "--version")
    assert (run.returncode, run.stdout) == (2, "")
    first, second = run.stderr.splitlines()
    assert "3.10 or 3.11" in first
    assert "install" in second
    assert not (bare["repository"] / ".venv").exists()


def test_run_installs_once_and_passes_the_verb_on(bare: dict[str, Path], fake_python: Path) -> None:
    first = _run(bare, "chat", "a b")
    assert (first.returncode, first.stdout) == (0, f"seq2seq-chat chat a b in {Path.cwd()}\n")
    assert "installing" in first.stderr
    second = _run(bare, "chat", "a b")
    assert (second.returncode, second.stdout, second.stderr) == (0, first.stdout, "")
    assert _installs(fake_python) == 1


def test_run_installs_again_when_the_pins_change(bare: dict[str, Path], fake_python: Path) -> None:
    _run(bare, "--version")
    with open(bare["repository"] / "constraints.txt", "a", encoding="utf-8") as file:
        file.write("# changed\n")
    assert _run(bare, "--version").returncode == 0
    assert _installs(fake_python) == 2
    assert fake_python.read_text(encoding="utf-8").count("-m venv ") == 1


def test_run_begins_a_failed_installation_anew(bare: dict[str, Path], fake_python: Path) -> None:
    fail = bare["home"] / "fail"
    fail.touch()
    run = _run(bare, "--version")
    assert run.returncode == 1
    assert "installation failed" in run.stderr
    fail.unlink()
    assert _run(bare, "--version").returncode == 0
    assert fake_python.read_text(encoding="utf-8").count("-m venv ") == 2


def test_run_finds_the_pythons_of_pyenv(bare: dict[str, Path], fake_python: Path) -> None:
    target = bare["home"] / ".pyenv" / "versions" / "3.11.7" / "bin" / "python"
    target.parent.mkdir(parents=True)
    (bare["bin"] / "python3.10").rename(target)
    assert _run(bare, "--version").returncode == 0
    assert _installs(fake_python) == 1


def test_run_falls_back_on_uv(bare: dict[str, Path], fake_python: Path) -> None:
    python = (bare["bin"] / "python3.10").rename(bare["home"] / "fetched")
    _script(bare["bin"] / "uv", f'[[ "$1" == venv ]] && exec {python} -m venv "${{@: -1}}"')
    assert _run(bare, "--version").returncode == 0
    assert _installs(fake_python) == 1


def test_two_runs_at_once_install_once(bare: dict[str, Path], fake_python: Path) -> None:
    if shutil.which("flock") is None:
        pytest.skip("there is no flock")
    environment = {"PATH": str(bare["bin"]), "HOME": str(bare["home"])}
    command = [str(bare["repository"] / "run.sh"), "--version"]
    runs = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) for _ in "abc"]
    answers = {run.communicate(timeout=240)[0].decode() for run in runs}
    assert answers == {f"seq2seq-chat --version in {Path.cwd()}\n"}
    assert _installs(fake_python) == 1


def _text_files() -> list[Path]:
    """The files Git knows or would take; without Git, those of the folders that have ours."""
    try:
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        listed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=True, timeout=90).stdout.decode()
        paths = [REPOSITORY / name for name in listed.split("\0") if name]
    except (OSError, subprocess.SubprocessError):
        folders = ("seq2seq_chat", "webui", "scripts", "configs", "docker", "tests", ".ci")
        paths = [path for folder in folders for path in (REPOSITORY / folder).rglob("*")]
        paths += REPOSITORY.iterdir()
        paths = [path for path in paths if not {"__pycache__", ".venv"} & set(path.parts)]
    return [path for path in paths if path.is_file() and b"\0" not in path.read_bytes()]


def test_nothing_speaks_of_one_machine() -> None:
    # Spelt in pieces, so that this file does not match. Containers have absolute paths of their own.
    hosts = ["py" + "pi.org", "python" + "hosted", "index" + "-url"]
    folders = ["/ro" + "ot/", "/ho" + "me/", "/wo" + "rk/", "/op" + "t/"]
    found = []
    for path in _text_files():
        name = path.relative_to(REPOSITORY)
        words = hosts if name.parts[0] == "docker" else hosts + folders
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            found += [f"{name}:{number}: {word}" for word in words if word in line.lower()]
    assert not found, "\n".join(found)
