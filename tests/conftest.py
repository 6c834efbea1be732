"""Fixtures for all tests: the command line as a function, a tiny corpus, and a tiny run trained on it."""

import contextlib
import copy
import fcntl
import gc
import io
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, settings

import seq2seq_chat  # noqa: F401  sets how TensorFlow computes, so before any test module imports TensorFlow

# Tests run in as many processes as there are cores, where threads of scikit-learn mostly wait for each other: t-SNE of
# 30 points takes a hundred times as long with two.
os.environ.setdefault("OMP_NUM_THREADS", "1")

REPOSITORY = Path(__file__).resolve().parent.parent
MARKER = "<<<<<END-CONV>>>>>"

TINY: dict[str, Any] = {
    "name": "tiny",
    "seed": 3,
    "data": {"vocabulary_size": 60, "pairing": "alternating"},
    "model": {
        **{"hidden_size": 16, "embedding_size": 8, "projection_size": 12, "encoder_steps": 8, "decoder_steps": 8},
        **{"dropout": 0.1},
    },
    "training": {
        **{"batch_size": 16, "steps": 20, "optimizer": "adam", "learning_rate": 0.05, "sampled_softmax": 32},
        **{"log_every": 5, "validate_every": 10, "sample_replies": 2, "checkpoint_every": 5, "snapshot_every": 10},
    },
    "decoding": {"beam_width": 5},
}

SHIPPED = (
    *("copy_task", "overfit", "quickstart"),
    *("recipes/characters", "recipes/conversation", "recipes/dates", "recipes/translation", "recipes/words"),
    *("rnnenc_30", "rnnenc_50", "rnnenc_small", "rnnsearch_30", "rnnsearch_50", "rnnsearch_small"),
    *("shakespeare", "shakespeare_quick", "thesis_opensubtitles", "thesis_opensubtitles_100k"),
    *("thesis_reddit", "thesis_reddit_25k", "thesis_to_the_letter"),
)
"""The experiments in configs/, which may also have files of its user."""


# A failing property test is reported with the first example that fails. Shrinking the example can take minutes; to do
# it anyway: pytest --hypothesis-profile=shrink
CI = settings.get_profile("ci")  # deterministic, and without a deadline, which a busy machine would miss
settings.register_profile("quick", CI, phases=[Phase.explicit, Phase.generate], report_multiple_bugs=False)
settings.register_profile("shrink", CI)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests in a browser as slow, but for one of each page; start the files with the longest tests first."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()) and not item.get_closest_marker("smoke"):
            item.add_marker(pytest.mark.slow)
    minutes: dict[Path, float] = dict.fromkeys((item.path for item in items), 0)
    for item in items:
        for marker in item.iter_markers("slow"):
            minutes[item.path] += marker.kwargs.get("minutes", 0)
    items.sort(key=lambda item: -minutes[item.path])


def pytest_collection_finish() -> None:
    """Keep the garbage collector from searching the modules of TensorFlow and others again and again, which is slow."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 10)


def pytest_configure() -> None:
    """Restore SIGINT, which a shell ignores in commands that a script starts with &: processes of tests inherit it."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def shipped_configs() -> list[Path]:
    """The files of the experiments in configs/."""
    return [REPOSITORY / "configs" / f"{name}.json" for name in SHIPPED]


class CommandResult(NamedTuple):
    """The exit status and output of a command."""

    status: int
    out: str
    err: str

    @property
    def error_message(self) -> str:
        """The one or two sentences on stderr with which the command rejected its input."""
        assert self.status == 2, self
        assert "Traceback" not in self.out + self.err
        *_, message = self.err.strip().splitlines()
        for prefix in ("seq2seq-chat: ", "Error: "):  # ours and click's
            if message.startswith(prefix):
                message = message.removeprefix(prefix)
                break
        else:
            pytest.fail(f"not a message of the program: {self.err!r}")
        sentences = re.split(r"(?<=[.?!])\s+(?=[A-Z])", message)
        assert 1 <= len(sentences) <= 2, message
        assert len(message) < 500, message
        return message


Cli = Callable[..., CommandResult]
"""The command line as a function, see :func:`cli`."""


def run_command(*arguments: object, stdin: bytes = b"") -> CommandResult:
    """Call the command line in this process, as the console script does."""
    from seq2seq_chat.cli import main

    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setattr(sys, "argv", ["seq2seq-chat", *map(str, arguments)])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        try:
            with pytest.raises(SystemExit) as stop:
                main()
        finally:
            _end_determinism()
    status = stop.value.code
    return CommandResult(status if isinstance(status, int) else 0, *(_text(stream) for stream in (out, err)))


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode("utf-8")


def _end_determinism() -> None:
    """Undo what a training run sets for the process, so that other tests do not depend on it."""
    if "tensorflow" in sys.modules:
        from tensorflow.python.framework import config

        config.disable_op_determinism()


def write_conversations(path: Path, count: int, seed: int) -> None:
    """Write questions and answers of at most seven words; the first word of an answer depends on the question."""
    rng = random.Random(seed)
    subjects, verbs = ["i", "you", "we", "they"], ["see", "like", "know", "want", "have"]
    things = [f"{kind}{number}" for kind in ("tree", "house", "song", "book") for number in range(10)]
    lines = []
    for _ in range(count):
        for _ in range(2):
            subject, verb, thing = rng.choice(subjects), rng.choice(verbs), rng.choice(things)
            lines.append(f"{subject} {verb} the {thing} ?")
            lines.append(f"{'yes' if subject in ('i', 'we') else 'no'} , {subject} {verb} it !")
        lines.append(MARKER)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def unoptimized_graphs() -> Iterator[None]:
    """TensorFlow executes graphs as they are traced: optimizing takes longer than executing a small one once."""
    from tensorflow import config

    config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    yield
    config.optimizer.set_experimental_options({"disable_meta_optimizer": False})


@pytest.fixture(scope="session")
def cli() -> Cli:
    """The command line: ``cli("chat", run, stdin=b"hello\\n")``."""
    return run_command


@pytest.fixture
def corpus_file(tmp_path: Path) -> Callable[..., Path]:
    """Write a corpus file of conversations given as strings with `` / `` between utterances."""

    def write(*conversations: str, name: str = "corpus.txt") -> Path:
        lines = [line for conversation in conversations for line in (*conversation.split(" / "), MARKER)]
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def dailydialog() -> Path:
    """The folder of DailyDialog."""
    data = os.environ.get("SEQ2SEQ_CHAT_DATA")
    if not data:
        pytest.skip("SEQ2SEQ_CHAT_DATA does not name the folder with dailydialog/")
    folder = Path(data, "dailydialog")
    if not folder.is_dir():
        pytest.skip(f"{folder} does not exist")
    return folder


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], object]], Path]:
    """``shared_folder(name, fill)``: a read-only folder that one process fills for all processes of the tests."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "shared"

    def make(name: str, fill: Callable[[Path], object]) -> Path:
        folder = shared / name
        folder.mkdir(parents=True, exist_ok=True)
        with open(shared / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (shared / f"{name}.done").exists():
                fill(folder)
                (shared / f"{name}.done").touch()
        return folder

    return make


@pytest.fixture(scope="session")
def corpora(shared_folder: Callable[..., Path]) -> Path:
    """A folder with ``train.txt`` and ``validation.txt``."""

    def fill(folder: Path) -> None:
        write_conversations(folder / "train.txt", 80, seed=1)
        write_conversations(folder / "validation.txt", 5, seed=2)
        (folder / "tiny.json").write_text(json.dumps(_settings(folder)), encoding="utf-8")

    return shared_folder("corpora", fill)


@pytest.fixture
def tiny_settings(corpora: Path) -> dict[str, Any]:
    """A copy of the settings of the tiny run."""
    return _settings(corpora)


def _settings(corpora: Path) -> dict[str, Any]:
    settings = copy.deepcopy(TINY)
    settings["data"] |= {"train": str(corpora / "train.txt"), "validation": str(corpora / "validation.txt")}
    return settings


@pytest.fixture(scope="session")
def tiny_config(corpora: Path) -> Path:
    """The configuration file of the tiny run."""
    return corpora / "tiny.json"


@pytest.fixture(scope="session")
def trained(tiny_config: Path, shared_folder: Callable[..., Path]) -> tuple[Path, CommandResult]:
    """The folder of a tiny run that was trained without interruption, and the output of the command. Read-only."""

    def fill(folder: Path) -> None:
        result = run_command("train", tiny_config, "--results", folder / "results")
        assert result.status == 0, result
        (folder / "output.json").write_text(json.dumps(result), encoding="utf-8")

    folder = shared_folder("trained", fill)
    (run,) = (folder / "results").iterdir()
    return run, CommandResult(*json.loads((folder / "output.json").read_text(encoding="utf-8")))


@pytest.fixture(scope="session")
def tiny_run(trained: tuple[Path, CommandResult]) -> Path:
    """The folder of the tiny run. Read-only."""
    return trained[0]


@pytest.fixture
def run_copy(tiny_run: Path, tmp_path: Path) -> Path:
    """A copy of the tiny run that a test may modify; the only run in ``tmp_path / "results"``."""
    copied = tmp_path / "results" / tiny_run.name
    shutil.copytree(tiny_run, copied)
    return copied


def edit_config(run: Path, section: str, **changes: Any) -> None:
    """Change the stored settings of a run in one section, or at the top if it is empty."""
    file = run / "config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    (config[section] if section else config).update(changes)
    file.write_text(json.dumps(config), encoding="utf-8")


def edit_checkpoints(run: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Change the metadata in all weights of a run."""
    from seq2seq_chat.checkpoint.arrays import METADATA, read_arrays, write_arrays

    for path in run.rglob("*.npz"):
        with zipfile.ZipFile(path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist() if name != METADATA]
        arrays, metadata = read_arrays(path, names)
        edit(metadata)
        write_arrays(path, arrays, metadata)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """The system's Chromium, one process for all tests."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        pytest.skip("there is no Chromium; apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


def loopback_addresses(count: int) -> list[str]:
    """Addresses with free ports for workers on this machine."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [f"127.0.0.1:{server.getsockname()[1]}" for server in sockets]


@contextlib.contextmanager
def limited_file_size(size: int) -> Iterator[None]:
    """No file can become larger than so many bytes, as on a full disk. The block must end before pytest reports."""
    previous = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, previous[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, previous)
