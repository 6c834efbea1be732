"""Count the files that a training batch, a chat message and a raw dump pass: ``python tests/journeys.py`` lists them.

A file counts if one of its functions is called: from the command to the first update of the weights, from the request
to the end of the streamed reply, from the raw dump to encoded samples. Code that runs on import does not count.
"""

import contextlib
import inspect
import io
import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
ROOMS = ("seq2seq_chat", "webui")
SETTINGS: dict[str, Any] = {
    "name": "journey",
    "data": {"train": "data/train.txt", "vocabulary_size": 30},
    "model": {
        **{"hidden_size": 8, "embedding_size": 8, "projection_size": 8, "attention": "additive", "dropout": 0.1},
        **{"encoder_steps": 5, "decoder_steps": 5},
    },
    "training": {"batch_size": 8, "steps": 1, "sampled_softmax": 8},
    "decoding": {"method": "beam", "beam_width": 3},
}


@contextlib.contextmanager
def called_files() -> Iterator[set[str]]:
    """Collect the files of package and page in which functions are called inside the ``with`` block."""
    codes: set[CodeType] = set()
    files: set[str] = set()

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            codes.add(frame.f_code)

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield files
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]  # typeshed forgets that None ends it
        for code in codes.copy():  # threads that were started inside still add some
            path = Path(code.co_filename)
            inside = path.is_relative_to(REPOSITORY) and path.relative_to(REPOSITORY).parts[0] in ROOMS
            if inside and code.co_flags & inspect.CO_OPTIMIZED:  # not the body of a module or class
                files.add(path.relative_to(REPOSITORY).as_posix())


def run_verb(*arguments: str) -> None:
    """Call the command line in this process.

    Raises:
        RuntimeError: The command failed.
    """
    from seq2seq_chat.cli import main

    sys.argv = ["seq2seq-chat", *arguments]
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            main()
    except SystemExit as stop:
        if stop.code:
            raise RuntimeError(output.getvalue()) from stop


def write_dump(path: Path) -> None:
    """Write a dump of Reddit with a chain of 200 comments in each of 10 submissions."""
    lines = []
    for number in range(2000):
        parent = f"t1_c{number - 10}" if number >= 10 else f"t3_s{number}"
        ids = {"id": f"c{number}", "link_id": f"t3_s{number % 10}", "parent_id": parent, "subreddit": "movies"}
        lines.append(json.dumps(ids | {"body": f"comment {number % 7}", "score": 1, "created_utc": number}))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def prepare() -> None:
    run_verb("prepare", "reddit", "RC_2017-01", "--output", "data")


def train() -> None:
    run_verb("train", "journey.json", "--results", "results")


def talk(client: Any) -> None:
    (run,) = Path("results").iterdir()
    response = client.post("/api/chat/stream", json={"run": run.name, "text": "comment 3"})
    if "event: reply" not in response.get_data(as_text=True):
        raise RuntimeError(response.get_data(as_text=True))


def count(folder: Path) -> dict[str, set[str]]:
    """Return the files that each journey passes. The working directory changes to a folder in this one.

    Each journey is made twice, and the second one counts: whatever a process does only once has been done before.
    """
    from webui.app import close_app, create_app

    journeys: dict[str, set[str]] = {}

    def travel(name: str, step: Callable[..., None], *arguments: Any) -> None:
        with called_files() as files:
            step(*arguments)
        journeys[name] = files

    for turn in ("first", "second"):
        home = folder / turn
        home.mkdir()
        write_dump(home / "RC_2017-01")
        (home / "journey.json").write_text(json.dumps(SETTINGS), encoding="utf-8")
        os.chdir(home)
        travel("dump", prepare)
        travel("batch", train)
        app = create_app(home / "results")
        try:
            travel("message", talk, app.test_client())
        finally:
            close_app(app)
    samples = {file for file in journeys["batch"] if file.split("/")[1] in ("data", "text")}
    return journeys | {"dump": journeys["dump"] | samples}


if __name__ == "__main__":
    sys.path.insert(0, str(REPOSITORY))
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with tempfile.TemporaryDirectory() as temporary:
        for journey, files in sorted(count(Path(temporary)).items()):
            print(f"{journey}: {len(files)} files", *sorted(files), sep="\n  ")
