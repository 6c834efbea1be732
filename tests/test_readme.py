"""Every command of the README and of the pages in docs/ is typed by this test, in the order in which they stand there.

It sits where a reader would: in a folder with ``configs/`` and ``scripts/``, and small corpora of every kind that is
named. What takes hours is made small in two ways: the configurations there have a few units and train for a few steps,
and what a command sets itself (``--set training.steps=3000``) or asks for (``--limit 5000``) is lowered on its way by a
stand-in for ``seq2seq-chat``. Everything else is as written, and must end with exit status 0.

What cannot run here is named in ``NOT_RUN`` with the reason, and its options are checked.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
SERVER = "127.0.0.1:9001"


class Command(NamedTuple):
    """What a reader is told to type, and where."""

    page: str
    line: int
    text: str  # as bash is given it; may have several lines

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"


def commands_of(page: Path) -> Iterator[Command]:
    """The commands in blocks of console: what follows ``$``, and the indented lines below it; and blocks of Python."""
    block, begun, lines = "", 0, list[str]()
    for number, line in enumerate([*page.read_text(encoding="utf-8").splitlines(), ""], start=1):
        if begun and not (line.startswith("  ") if block == "console" else not line.startswith("```")):
            yield Command(page.name, begun, "\n".join(lines) + ("" if block == "console" else "\nEND"))
            begun = 0
        if line.startswith("```"):
            block = "" if block else line.removeprefix("```")
            if block == "python":
                begun, lines = number, ["python - <<'END'"]
        elif block == "console" and line.startswith("$ "):
            begun, lines = number, [line[2:]]
        elif begun:
            lines.append(line)


COMMANDS = [command for page in PAGES for command in commands_of(page)]


# what is not run, and what is looked at instead


def verb_accepts(words: list[str]) -> None:
    """Raises where `seq2seq-chat` would refuse to be called like this."""
    from seq2seq_chat.cli import commands

    verb: click.Command = commands
    while isinstance(verb, click.Group):
        name, *words = words
        assert name in verb.commands, f"there is no verb {name}"
        verb = verb.commands[name]
    verb.make_context(str(verb.name), list(words))


def is_a_script_of_ours(words: list[str]) -> None:
    assert os.access(REPOSITORY / words[0], os.X_OK)
    if words[0] == "./run.sh" and len(words) > 1:
        verb_accepts(words[1:])


def docker_accepts(words: list[str]) -> None:
    """Every option is one of docker's, where docker is there, what our image is asked to do is a verb, files exist."""
    for word in words:
        assert not word.startswith(("docker/", "configs/")) or (REPOSITORY / word).is_file(), word
    words = words[words.index("docker") + 1 :]
    if words[0] == "compose":
        words = words[words.index("run" if "run" in words else "up") :]
        asked = [word for word in words[1:] if word != "--rm"] if words[0] == "run" else []
        own = [word for word in words if word not in asked]
        verb = ["compose", words[0]]
    else:
        image = words.index("seq2seq-chat") if words[0] == "run" else len(words)
        own, asked, verb = words[:image], words[image + 1 :], words[:1]
    if asked:
        verb_accepts(asked)
    if shutil.which("docker"):
        done = subprocess.run(["docker", *verb, "--help"], capture_output=True, text=True, check=False, timeout=240)
        if done.returncode == 0 and " ".join(verb) in done.stdout:  # not every docker has compose
            for option in (word.split("=")[0] for word in own if word.startswith("--")):
                assert option in done.stdout, f"docker {' '.join(verb)} has no {option}"


def ours_accepts(words: list[str]) -> None:
    while "=" in words[0]:  # variables for the command
        words = words[1:]
    assert words[0] == "seq2seq-chat"
    verb_accepts(words[1:])


NOT_RUN: list[tuple[str, str, Callable[[list[str]], None]]] = [
    (
        r"\./(run|test)\.sh\b",
        "they install from the network; test_project.py runs them with stand-ins",
        is_a_script_of_ours,
    ),
    (
        r"(sudo )?docker ",
        "needs an engine and an image; tests/docker/ has them, and types these commands",
        docker_accepts,
    ),
    (r".*--workers\b|TF_CONFIG=", "needs several machines; the tests of distribution have them", ours_accepts),
]
RUN = ("seq2seq-chat", "python", "echo", "for", "cp", "curl", "mkdir")
"""First words of what is run as it stands."""


def looked_at_instead(command: Command) -> Callable[[list[str]], None] | None:
    return next((look for pattern, _, look in NOT_RUN if re.match(pattern, command.text)), None)


def test_there_are_commands_and_each_is_known() -> None:
    assert len([command for command in COMMANDS if command.page == "README.md"]) > 20
    for command in COMMANDS:
        subprocess.run(["bash", "-n", "-c", command.text], check=True, timeout=90)
        if look := looked_at_instead(command):
            look(shlex.split(command.text, comments=True))
        else:
            assert command.text.split()[0] in RUN, f"{command}: add it to RUN or to NOT_RUN"


def test_what_is_named_in_the_text_exists() -> None:
    """Verbs, scripts and their options, and settings, in `inline code`, and files and chapters behind links."""
    from seq2seq_chat.cli import commands
    from seq2seq_chat.config import Config

    schema = Config.model_json_schema()["$defs"]
    settings = {f"{title.lower()}.{key}" for title, section in schema.items() for key in section["properties"]}
    for page in [*PAGES, REPOSITORY / "CONTRIBUTING.md"]:
        text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for code in re.findall(r"`([^`]+)`", text):
            words = re.sub(r"…|\{[^}]*\}", " ", code).split()
            if words and words[0] in ("seq2seq-chat", "./run.sh") and words[1:2] and words[1].islower():
                assert words[1] in commands.commands, f"{page.name}: `{code}`"
                options = {option for one in _all_options(commands.commands[words[1]]) for option in one.opts}
                assert {word for word in words if word.startswith("--")} <= options, f"{page.name}: `{code}`"
            if re.fullmatch(r"(data|model|training|decoding)\.\w+", words[0].rstrip(":=") if words else ""):
                assert words[0].rstrip(":=") in settings, f"{page.name}: `{code}`"
            for script in re.findall(r"\b(scripts/\w+\.py)", code):
                source = (REPOSITORY / script).read_text(encoding="utf-8")
                source += (REPOSITORY / "scripts" / "picture_script.py").read_text(encoding="utf-8")
                assert all(f'"{word}' in source for word in words if word.startswith("--")), f"{page.name}: `{code}`"
        for target, chapter in re.findall(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)", text):
            linked = page.parent / target if target else page
            assert linked.exists(), f"{page.name} links {target}"
            if chapter:
                titles = re.findall(r"^#+ (.*)$", linked.read_text(encoding="utf-8"), flags=re.MULTILINE)
                anchors = {"#" + re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
                assert chapter in anchors, f"{page.name} links {target}{chapter}"


def _all_options(verb: click.Command) -> list[click.Parameter]:
    verbs = [verb, *(verb.commands.values() if isinstance(verb, click.Group) else [])]
    return [parameter for one in verbs for parameter in one.params]


# the prepared folder

SMALL = {
    "data.buckets": None,
    "data.vocabulary_size": 300,
    "model.hidden_size": 12,
    "model.embedding_size": 8,
    "model.projection_size": 8,
    "model.encoder_steps": 8,
    "model.decoder_steps": 6,
    "training.batch_size": 8,
    "training.steps": 20,
    "training.sampled_softmax": None,
    "training.precision": "float32",
    "training.log_every": 10,
    "training.validate_every": 10,
    "training.validation_limit": 8,
    "training.sample_replies": 1,
    "training.checkpoint_every": 10,
    "training.snapshot_every": 20,
}
LOWER = {"--limit": "12", "--port": "0", "--top": "5"}
ADDED = {
    "check": [f"--only={name}" for name in ("memory", "initial-loss", "padding", "decoding")],
    "report": ["--limit", "12"],
    "evaluate": ["--limit", "12"],
    "serve": ["--port", "0"],
}

STAND_IN = f"""#!{sys.executable} -IS
import json, os, signal, socket, sys
SMALL, LOWER, ADDED = {SMALL!r}, {LOWER!r}, {ADDED!r}
grids = []
def lowered(word, before):
    key = word.partition("=")[0]
    if before == "--grid":
        grids.append(word)
        return word if len(grids) == 1 else word.partition(",")[0]
    if before == "--set" and key in SMALL:
        value = SMALL[key]
        return key + "=" + ("null" if value is None else str(value))
    return LOWER.get(before, word)
words = sys.argv[1:]
words = [lowered(word, before) for word, before in zip(words, ["", *words])]
words += [word for word in ADDED.get(words[0], []) if word not in words]
with socket.socket(socket.AF_UNIX) as server:
    server.connect(os.environ["PRELOADED"])
    socket.send_fds(server, [json.dumps([os.getcwd(), words]).encode()], [0, 1, 2])
    process = int.from_bytes(server.recv(8), "big")
    signal.signal(signal.SIGINT, lambda *_: os.kill(process, signal.SIGINT))
    status = server.recv(1)
sys.exit(status[0] if status else 1)
"""
"""``seq2seq-chat`` with everything lowered, done by a process that has TensorFlow already: that is most of the time."""

PRELOADED = """
import json, os, signal, socket, sys, traceback
import tensorflow, matplotlib.figure
from seq2seq_chat.cli import main
listener = socket.socket(socket.AF_UNIX)
listener.bind(os.environ["PRELOADED"])
listener.listen()
print("ready", flush=True)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    client, _ = listener.accept()
    message, streams, _, _ = socket.recv_fds(client, 1 << 16, 3)
    if os.fork() == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        sys.stdin, sys.stdout, sys.stderr = (open(number, "rww"[number], closefd=False) for number in range(3))
        client.send(os.getpid().to_bytes(8, "big"))
        folder, words = json.loads(message)
        os.chdir(folder)
        sys.argv = ["seq2seq-chat", *words]
        status = 1
        try:
            main()
        except SystemExit as stop:
            status = stop.code or 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        client.send(bytes([status]))
        os._exit(status)
    for stream in streams:
        os.close(stream)
    client.close()
"""


@pytest.fixture
def socket_folder() -> Iterator[Path]:
    """A folder of a short name, as a socket's must be."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture
def reader(tmp_path: Path, socket_folder: Path, script: Callable[[str], Any]) -> Iterator[dict[str, str]]:
    """The folder of a reader, filled; the environment of what is typed there, PWD among it."""
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    stand_in = home / "bin" / "seq2seq-chat"
    stand_in.write_text(STAND_IN, encoding="utf-8")
    stand_in.chmod(0o755)
    folder = tmp_path / "seq2seq-chat"
    (folder / "docs").mkdir(parents=True)
    for name in ("scripts", "seq2seq_chat"):
        (folder / name).symlink_to(REPOSITORY / name)
    (folder / "configs").mkdir()
    for path in (REPOSITORY / "configs").glob("*.json"):
        settings = json.loads(path.read_text(encoding="utf-8"))
        for key, value in SMALL.items():
            section, name = key.split(".")
            settings[section][name] = value
        settings.setdefault("decoding", {})["minimum_length"] = 2  # they have learned nothing, and yet say something
        (folder / "configs" / path.name).write_text(json.dumps(settings), encoding="utf-8")
    write_corpora(folder, script("benchmark_prepare"))
    environment = os.environ | {
        "PATH": f"{home / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "PWD": str(folder),
        "PRELOADED": str(socket_folder / "socket"),
    }
    server = subprocess.Popen([sys.executable, "-c", PRELOADED], env=environment, stdout=subprocess.PIPE, text=True)
    with server:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        yield environment
        server.terminate()


def write_corpora(folder: Path, generator: Any) -> None:
    """Small ones of every kind, by the names that the README has."""
    talk = [f"{who} {verb} the {thing} ?" for who in ("i", "you", "we") for verb in ("see", "like") for thing in WORDS]
    (folder / "my_chats.txt").write_text("\n".join(talk * 4) + "\n", encoding="utf-8")
    (folder / "twitter_en.txt").write_text("\n".join(talk * 2) + "\n", encoding="utf-8")
    (folder / "utterances.txt").write_text("hello !\nhow are you ?\n", encoding="utf-8")
    dialogues = "".join(" __eou__ ".join([*talk[n : n + 4], "\n"]) for n in range(0, len(talk) - 4, 2))
    for part in ("train", "validation", "test"):
        (folder / "DailyDialog" / part).mkdir(parents=True)
        (folder / "DailyDialog" / part / f"dialogues_{part}.txt").write_text(dialogues, encoding="utf-8")
        (folder / "DailyDialog" / f"dialogues_{part}.txt").write_text(dialogues, encoding="utf-8")
    (folder / "dumps").mkdir()
    generator.generate_reddit(folder / "dumps" / "RC_2015-01", 2)
    generator.generate_opensubtitles(folder / "OpenSubtitles", 0.6)
    (folder / "OpenSubtitles" / "xml" / "en").mkdir(parents=True, exist_ok=True)
    cornell = folder / "cornell_movie_dialogs"
    cornell.mkdir()
    between = " +++$+++ "
    lines = [between.join((f"L{n}", "u0", "m0", "BIANCA", text)) for n, text in enumerate(talk)]
    (cornell / "movie_lines.txt").write_text("\n".join(lines) + "\n", encoding="latin-1")
    said = [between.join(("u0", "u1", "m0", str([f"L{n + k}" for k in range(4)]))) for n in range(0, len(talk) - 4, 4)]
    (cornell / "movie_conversations.txt").write_text("\n".join(said) + "\n", encoding="latin-1")


WORDS = [f"{kind}{number}" for kind in ("tree", "house", "song", "book") for number in range(8)]


@pytest.mark.slow
def test_every_command_works(reader: dict[str, str]) -> None:
    servers: list[subprocess.Popen[str]] = []
    address = SERVER
    try:
        for command in COMMANDS:
            begun = time.monotonic()
            if looked_at_instead(command):
                continue
            text = command.text.replace(SERVER, address)
            if text.startswith("seq2seq-chat serve"):
                servers.append(start(text, reader))
                address = told_address(servers[-1])
                continue
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", text],
                cwd=reader["PWD"],
                env=reader,
                input="hello !\n",
                capture_output=True,
                text=True,
                timeout=900,
                check=False,
            )
            assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
            print(f"{time.monotonic() - begun:6.1f} s  {command}")
    finally:
        for server in servers:
            server.send_signal(signal.SIGINT)
            server.communicate(timeout=240)
            assert server.returncode == 0


def start(text: str, environment: dict[str, str]) -> subprocess.Popen[str]:
    words = shlex.split(text, comments=True)
    return subprocess.Popen(words, cwd=environment["PWD"], env=environment, stdout=subprocess.PIPE, text=True)


def told_address(server: subprocess.Popen[str]) -> str:
    assert server.stdout is not None
    match = re.search(r"http://([\w.]+:\d+)/", server.stdout.readline())
    assert match
    return match[1]
