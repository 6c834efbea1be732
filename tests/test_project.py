"""Packaging files are consistent, public names exist, and run.sh installs the environment or says what is missing."""

import ast
import faulthandler
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
import warnings
import zipfile
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest

import seq2seq_chat
from seq2seq_chat.runs.run import Run, RunError
from tests.conftest import SHIPPED, shipped_configs

REPOSITORY = Path(__file__).resolve().parent.parent
SPLITS = ("train", "validation", "test")
SHORT_TRAINING = {"steps": 20, "log_every": 10, "validate_every": 20, "checkpoint_every": 20, "snapshot_every": 20}
SHELL_FILES = ["run.sh", "test.sh", "scripts/environment.sh", "scripts/verify_gpu.sh", ".ci/run"]


def _setup_arguments() -> dict[str, object]:
    """Literal arguments of setup() in setup.py."""
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
    assert "dev" in extras
    assert isinstance(arguments["install_requires"], list)
    assert any(requirement.startswith("tensorflow-addons==") for requirement in arguments["install_requires"])
    for group in (arguments["install_requires"], *extras.values()):
        for requirement in group:
            match = re.fullmatch(r"([A-Za-z0-9_-]+)(?:\[[a-z,-]+\])?(?:==(.+)|[<>=].*)?", requirement)
            assert match, requirement
            assert _normal(match[1]) in pins, requirement
            assert match[2] in (None, pins[_normal(match[1])]), requirement


def test_cuda_is_pinned_in_the_versions_that_tensorflow_requires() -> None:
    required = [re.match(r"(nvidia-[\w-]+)[ (]*==([\w.]+).*and-cuda", line) for line in requires("tensorflow") or []]
    versions = {match[1]: match[2] for match in required if match}
    assert {"nvidia-cudnn-cu12", "nvidia-cublas-cu12", "nvidia-cuda-nvcc-cu12"} < set(versions)
    assert {name: version for name, version in _pins().items() if name.startswith("nvidia-")} == versions


def test_setup_is_consistent() -> None:
    from seq2seq_chat.system.versions import PYTHON_VERSIONS, TENSORFLOW

    assert _setup_arguments()["python_requires"] == ">=3.10,<3.12"
    assert PYTHON_VERSIONS == ((3, 10), (3, 11))
    assert _pins()["tensorflow"].startswith(TENSORFLOW + ".")
    assert "in ((3, 10), (3, 11))" in (REPOSITORY / "scripts" / "environment.sh").read_text(encoding="utf-8")
    from seq2seq_chat import cli

    assert _setup_arguments()["entry_points"] == {"console_scripts": ["seq2seq-chat = seq2seq_chat.cli:main"]}
    assert callable(cli.main)


def test_settings_page_is_up_to_date() -> None:
    from seq2seq_chat.config import settings_reference

    page = (REPOSITORY / "docs" / "settings.md").read_text(encoding="utf-8")
    command = "seq2seq-chat schema --format markdown --output docs/settings.md"
    assert page == settings_reference(), f"docs/settings.md is stale; run: {command}"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a copy of this repository that also has an experiment and a cache of its user."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("seq2seq_chat", "webui", "configs"):
        shutil.copytree(REPOSITORY / name, folder / "source" / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "source" / "configs" / "mine.json").write_text("{}", encoding="utf-8")
    (folder / "source" / "configs" / "sample" / "a.txt.cache").mkdir()
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "LICENSE-THIRD-PARTY.md"):
        shutil.copy(REPOSITORY / name, folder / "source")
    command = ["-m", "pip", "wheel", "-q", "--no-deps", "--no-index", "--no-build-isolation", "-w", ".", "./source"]
    subprocess.run([sys.executable, *command], cwd=folder, check=True, timeout=400)
    (wheel,) = folder.glob("seq2seq_chat-*.whl")
    return wheel


@pytest.mark.slow
def test_wheel_contents(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    ours = [path for folder in ("seq2seq_chat", "webui") for path in (REPOSITORY / folder).rglob("*.*")]
    files = {path.relative_to(REPOSITORY).as_posix() for path in ours if path.suffix != ".pyc"}
    texts = ("conversations", "validation", "openings", "questions", "dialogues", "dialogues_validation")
    sample = {f"sample/{name}.txt" for name in texts} | {f"sample/dates_{name}.tsv" for name in SPLITS}
    bundled = {f"seq2seq_chat/configs/{name}" for name in sample | {f"{name}.json" for name in SHIPPED}}
    assert names == files | bundled | {"webui/static/vendor/uplot/LICENSE"}


@pytest.mark.nightly
@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_the_wheel_alone_trains_chats_serves_and_exports(wheel: Path, tmp_path: Path, installer: str) -> None:
    """With the newest packages that setup.py allows, in an empty environment, and without a checkout."""
    if installer == "uv" and shutil.which("uv") is None:
        pytest.skip("uv is not installed")
    faulthandler.cancel_dump_traceback_later()  # all commands may take longer than a test; each has a limit of its own
    python, program = tmp_path / "venv" / "bin" / "python", tmp_path / "venv" / "bin" / "seq2seq-chat"
    venv, install = {
        "pip": ([sys.executable, "-m", "venv"], [python, "-m", "pip", "install"]),
        "uv": (["uv", "venv", "--python", sys.executable], ["uv", "pip", "install", "--python", python]),
    }[installer]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*words: object, stdin: str = "") -> str:
        options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 900}
        command = list(map(str, words))
        result = subprocess.run(command, check=False, cwd=tmp_path, env=environment, input=stdin, **options)
        if re.search("NewConnectionError|NameResolutionError|dns error", result.stderr):
            pytest.skip("there is no network")
        assert result.returncode == 0, result.stdout + result.stderr
        return str(result.stdout)

    run(*venv, tmp_path / "venv")
    run(*install, wheel)
    settings = [f"training.{key}={value}" for key, value in SHORT_TRAINING.items()]
    run(program, "train", "configs/quickstart.json", *(word for setting in settings for word in ("--set", setting)))
    assert len(run(program, "chat", "quickstart", stdin="hello\nhow are you?\n").splitlines()) == 2
    for kind in ("html", "onnx", "saved_model"):
        run(program, "export", "quickstart", "--format", kind, "--output", kind)
    served = subprocess.Popen(
        [program, "serve", "--port", "0"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    )
    assert served.stdout is not None
    with served:
        address = served.stdout.readline().split()[0]
        with urllib.request.urlopen(f"{address}healthz", timeout=90) as answer:
            assert json.load(answer)["version"] == wheel.name.split("-")[1]
        served.send_signal(signal.SIGINT)


def test_help_does_not_import_tensorflow() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "seq2seq_chat", "--help"]
    run = subprocess.run(command, cwd=REPOSITORY, check=False, capture_output=True, text=True, timeout=240)
    assert run.returncode == 0
    assert "train" in run.stdout
    assert "click" in run.stderr  # lists all imports
    assert "tensorflow" not in run.stderr


def test_names_are_imported_when_they_are_used() -> None:
    program = (
        "import sys, seq2seq_chat\n"
        "assert not {'numpy', 'pydantic', 'tensorflow'} & set(sys.modules)\n"
        "for name in seq2seq_chat.__all__: assert callable(getattr(seq2seq_chat, name)), name\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
    with pytest.raises(AttributeError, match="has no attribute 'translate'"):
        seq2seq_chat.translate  # noqa: B018


def test_a_conversation_does_not_translate(tiny_run: Path) -> None:
    with pytest.raises(RunError, match="is not a translation model: its task is conversation"):
        seq2seq_chat.Translator.load(Run(tiny_run))


@pytest.mark.parametrize("name", SHELL_FILES)
def test_shell_files_are_valid(name: str) -> None:
    subprocess.run(["bash", "-n", REPOSITORY / name], check=True, timeout=90)
    if name != "scripts/environment.sh":  # which the others read
        assert os.access(REPOSITORY / name, os.X_OK)
        assert (REPOSITORY / name).read_text(encoding="utf-8").startswith("#!/usr/bin/env bash\n")


@pytest.fixture
def sandbox(tmp_path: Path) -> dict[str, Path]:
    """A copy of the files that run.sh needs, and a folder for PATH with the usual tools but without Python."""
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


def _run(sandbox: dict[str, Path], *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sandbox["repository"] / "run.sh", *arguments],
        check=False,
        cwd=cwd,
        env={"PATH": str(sandbox["bin"]), "HOME": str(sandbox["home"])},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
    )


def _script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/usr/bin/env bash\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


# A fake Python of the right version that creates environments, logs calls of pip, and finds a finished run.
FAKE_PYTHON = """
echo "$*" >>"$HOME/calls"
case "$*" in
    "-m venv "*) mkdir -p "$3/bin" && cat "$0" >"$3/bin/python" && chmod +x "$3/bin/python" ;;
    "-m pip install "*)
        [[ -e $HOME/fail ]] && exit 1
        printf '%s\\n' "Collecting tensorflow==2.15.1 (from -c constraints.txt (line 9))" \
            "  Downloading tensorflow-2.15.1-cp310-cp310-manylinux_2_17_x86_64.whl.metadata (4.2 kB)" \
            "Downloading tensorflow-2.15.1-cp310-cp310-manylinux_2_17_x86_64.whl (475.2 MB)" \
            "  Downloading https://packages.example/two/click-8.1.7-py3-none-any.whl (1.1 MB)" \
            "  Downloading https://packages.example/two/pyarrow-21.0.0-cp310-manylinux_2_28_x86_64.whl (42.7 MB)" \
            "Installing collected packages: pyarrow, click, tensorflow"
        here="${0%/*}"
        printf '#!/usr/bin/env bash\\necho "seq2seq-chat $* in $PWD"; cat >/dev/null\\n' >"$here/seq2seq-chat"
        chmod +x "$here/seq2seq-chat"
        ;;
    "- "*) echo results/2026_quickstart ;;
esac
"""


@pytest.fixture
def fake_python(sandbox: dict[str, Path]) -> Path:
    """Puts the fake Python into PATH; returns the log of its calls."""
    _script(sandbox["bin"] / "python3.10", FAKE_PYTHON)
    (sandbox["bin"] / "chmod").symlink_to(shutil.which("chmod") or "/bin/chmod")
    return sandbox["home"] / "calls"


def _installs(calls: Path) -> int:
    return calls.read_text(encoding="utf-8").count("-m pip install")


def test_run_without_python_explains_how_to_install_one(sandbox: dict[str, Path]) -> None:
    _script(sandbox["bin"] / "python3.11", "exit 127")  # a shim without its Python
    run = _run(sandbox, "--version")
    assert (run.returncode, run.stdout) == (2, "")
    first, second = run.stderr.splitlines()
    assert "3.10 or 3.11" in first
    assert "install" in second
    assert not (sandbox["repository"] / ".venv").exists()


def test_run_installs_once_and_forwards_the_verb(sandbox: dict[str, Path], fake_python: Path) -> None:
    first = _run(sandbox, "chat", "a b")
    assert (first.returncode, first.stdout) == (0, f"seq2seq-chat chat a b in {Path.cwd()}\n")
    assert [line.split(" in ")[0] for line in first.stderr.splitlines()[1:]] == [
        "run.sh: downloading tensorflow, 475.2 MB",
        "run.sh: downloading pyarrow, 42.7 MB",
        "run.sh: unpacking the packages",
        "run.sh: installed",
    ]
    assert "installing" in first.stderr
    second = _run(sandbox, "chat", "a b")
    assert (second.returncode, second.stdout, second.stderr) == (0, first.stdout, "")
    assert _installs(fake_python) == 1
    with open(sandbox["repository"] / "constraints.txt", "a", encoding="utf-8") as file:
        file.write("# changed\n")
    assert _run(sandbox, "--version").returncode == 0
    assert _installs(fake_python) == 2
    assert fake_python.read_text(encoding="utf-8").count("-m venv ") == 1


def test_run_retries_a_failed_installation(sandbox: dict[str, Path], fake_python: Path) -> None:
    (sandbox["home"] / "fail").touch()
    run = _run(sandbox, "--version")
    assert run.returncode == 1 and "installation failed" in run.stderr
    (sandbox["home"] / "fail").unlink()
    assert _run(sandbox, "--version").returncode == 0
    assert fake_python.read_text(encoding="utf-8").count("-m venv ") == 2


@pytest.mark.parametrize("source", ["pyenv", "uv"])
def test_run_finds_other_pythons(sandbox: dict[str, Path], fake_python: Path, source: str) -> None:
    python = sandbox["home"] / ".pyenv" / "versions" / "3.11.7" / "bin" / "python"
    if source == "uv":
        python = sandbox["home"] / "fetched"
        _script(sandbox["bin"] / "uv", f'[[ "$1" == venv ]] && exec {python} -m venv "${{@: -1}}"')
    python.parent.mkdir(parents=True, exist_ok=True)
    (sandbox["bin"] / "python3.10").rename(python)
    assert _run(sandbox, "--version").returncode == 0
    assert _installs(fake_python) == 1


def test_packages_of_tests_are_installed_when_they_are_needed(sandbox: dict[str, Path], fake_python: Path) -> None:
    """The headers of TensorFlow are not kept."""
    assert "installing TensorFlow and other packages" in _prepare_environment(sandbox, "dev")
    tensorflow = sandbox["repository"] / ".venv" / "lib" / "python3.10" / "site-packages" / "tensorflow"
    for name in ("include", "python"):
        (tensorflow / name).mkdir(parents=True)
    first, *_ = _prepare_environment(sandbox, "dev,slow").splitlines()
    assert first == "test.sh: installing what the tests need into .venv (once)"
    assert [path.name for path in tensorflow.iterdir()] == ["python"]
    for extras in ("dev,slow", "dev", ""):
        assert _prepare_environment(sandbox, extras) == ""
    calls = fake_python.read_text(encoding="utf-8").splitlines()
    assert [line.split("[")[1] for line in calls if line.startswith("-m pip")] == ["dev]", "dev,slow]"]


def test_the_demonstration_names_commands_that_work(sandbox: dict[str, Path], fake_python: Path) -> None:
    repository = sandbox["repository"]
    for folder, command in ((repository, "./run.sh"), (sandbox["home"], f"cd {repository} && ./run.sh")):
        run = _run(sandbox, cwd=folder)
        assert run.returncode == 0, run.stderr
        trained = "results/2026_quickstart is already trained; to train another one"
        assert f"{trained}: {command} train configs/quickstart.json\n" in run.stderr
        assert f"bot: seq2seq-chat chat results/2026_quickstart in {repository}\n" in run.stdout
        assert f"\nKeep talking: {command} chat results/2026_quickstart\n" in run.stdout
        assert run.stdout.endswith(f"All commands: {command} --help\n")


def _prepare_environment(sandbox: dict[str, Path], extras: str) -> str:
    """Install as test.sh does; returns the messages."""
    script = 'set -eo pipefail; repository="$1"; source "$1/scripts/environment.sh"; prepare_environment "$2"'
    command = ["bash", "-c", script, "test.sh", str(sandbox["repository"]), extras]
    environment = {"PATH": str(sandbox["bin"]), "HOME": str(sandbox["home"])}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=90).stderr


def test_concurrent_runs_install_once(sandbox: dict[str, Path], fake_python: Path) -> None:
    if shutil.which("flock") is None:
        pytest.skip("flock is not installed")
    environment = {"PATH": str(sandbox["bin"]), "HOME": str(sandbox["home"])}
    command = [str(sandbox["repository"] / "run.sh"), "--version"]
    runs = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) for _ in "abc"]
    outputs = {run.communicate(timeout=240)[0].decode() for run in runs}
    assert outputs == {f"seq2seq-chat --version in {Path.cwd()}\n"}
    assert _installs(fake_python) == 1


def _text_files() -> list[Path]:
    """Files that are tracked; without Git, all files of our folders."""
    try:
        command = ["git", "ls-files", "-z"]
        output = subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=True, timeout=90).stdout.decode()
        paths = [REPOSITORY / name for name in output.split("\0") if name]
    except (OSError, subprocess.SubprocessError):
        folders = ("seq2seq_chat", "webui", "scripts", "configs/sample", "docker", "tests", ".ci")
        paths = [path for folder in folders for path in (REPOSITORY / folder).rglob("*")]
        paths += [*REPOSITORY.iterdir(), *shipped_configs()]
        paths = [path for path in paths if not {"__pycache__", ".venv"} & set(path.parts)]
    return [path for path in paths if path.is_file() and b"\0" not in path.read_bytes()]


def _git(*arguments: str) -> list[str]:
    """The lines that a command of Git prints; skips the test outside a clone."""
    if shutil.which("git") is None:
        pytest.skip("Git is not installed")
    run = subprocess.run(["git", *arguments], cwd=REPOSITORY, check=False, capture_output=True, text=True, timeout=90)
    if run.returncode >= 128:
        pytest.skip(f"Git cannot be used here: {run.stderr}")
    return run.stdout.splitlines()


def test_tests_know_every_shipped_experiment() -> None:
    assert _git("ls-files", "configs/*.json") == [f"configs/{name}.json" for name in SHIPPED]


def test_what_scripts_write_by_default_is_ignored_by_git() -> None:
    written = [
        *("corpora.json", "corpora.csv", "corpora.png", "coverage.json", "time_lags.json", "ngrams.json"),
        *("ngrams_bars.png", "ngrams.csv", "word_frequencies.json"),
        *("vocabulary_25000.txt", "benchmark_prepare/RC_2015-01", "data/copy_task/train.txt"),
        *("configs/schema.json", "results/run/config.json", "configs/sample/conversations.txt.cache/0/tokens.npy"),
    ]
    assert _git("check-ignore", *written) == written


def test_warnings_of_joblib_fail_no_test() -> None:
    """It warns when it is imported on a machine without /dev/shm."""
    message = "[Errno 38] Function not implemented.  joblib will operate in serial mode"
    warnings.warn_explicit(message, UserWarning, "_multiprocessing_helpers.py", 44, "joblib._multiprocessing_helpers")


def test_no_file_depends_on_one_machine() -> None:
    # In pieces, so that this file does not match. Containers have absolute paths of their own.
    hosts = ["py" + "pi.org", "python" + "hosted", "index" + "-url"]
    folders = ["/ro" + "ot/", "/ho" + "me/", "/wo" + "rk/", "/op" + "t/"]
    matches = []
    for path in _text_files():
        name = path.relative_to(REPOSITORY)
        words = hosts if name.parts[0] == "docker" else hosts + folders
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            matches += [f"{name}:{number}: {word}" for word in words if word in line.lower()]
    assert not matches, "\n".join(matches)
