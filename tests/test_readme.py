"""The commands, options, settings and links of the README and of docs/ are valid, and every command works.

Quick tests parse every command. The slow test runs them in a prepared folder with small corpora of every kind. A
stand-in for ``seq2seq-chat`` and ``python`` reduces sizes (configurations, ``--set training.steps=3000``,
``--limit 5000``).
"""

import faulthandler
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
from contenders.generated_corpora import generate_opensubtitles, generate_reddit

from tests.conftest import shipped_configs

REPOSITORY = Path(__file__).resolve().parent.parent
README, DOCS = REPOSITORY / "README.md", REPOSITORY / "docs"
PAGES = [README, *sorted(DOCS.glob("*.md"))]
TEXTS = [*PAGES, *sorted(DOCS.glob("tutorial/*.md")), *sorted(REPOSITORY.glob("[!R]*.md"))]
SERVER = "127.0.0.1:9001"


class Command(NamedTuple):
    """A command that a page tells the reader to type."""

    page: str
    line: int
    text: str  # input for bash, possibly several lines
    is_example: bool = False  # is not run, as it needs other data or takes too long

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"


def commands_of(page: Path) -> Iterator[Command]:
    """Commands in ``console`` blocks (after ``$``, with the indented lines below), ``sh`` and ``python`` blocks."""
    name, block, start, lines = page.relative_to(REPOSITORY).as_posix(), "", 0, list[str]()
    for number, line in enumerate([*page.read_text(encoding="utf-8").splitlines(), ""], start=1):
        if start and not (not line.startswith("```") if block == "python" else line.startswith("  ")):
            yield Command(name, start, "\n".join(lines) + ("\nEND" if block == "python" else ""), block == "sh")
            start = 0
        if line.startswith("```"):
            block = "" if block else line.removeprefix("```")
            if block == "python":
                start, lines = number, ["python - <<'END'"]
        elif start:
            lines.append(line)
        elif line and (block == "sh" or (block == "console" and line.startswith("$ "))):
            start, lines = number, [line.removeprefix("$ ")]


COMMANDS = {page: list(commands_of(page)) for page in PAGES}


# Quick: everything that is named exists.


def check_verb(words: list[str]) -> None:
    """Parse arguments of ``seq2seq-chat``; raises click.ClickException if it would refuse them."""
    from seq2seq_chat.cli import commands

    verb: click.Command = commands
    while isinstance(verb, click.Group):
        name, *words = words
        assert name in verb.commands, f"no such verb: {name}"
        verb = verb.commands[name]
    verb.make_context(str(verb.name), list(words))


def check_shell_script(words: list[str]) -> None:
    assert os.access(REPOSITORY / words[0], os.X_OK)
    if words[0] == "./run.sh" and len(words) > 1:
        check_verb(words[1:])


def check_python(words: list[str]) -> None:
    """``python scripts/…`` has the options; ``python -`` reads a program, which the slow test runs."""
    if words[1] != "-":
        check_script_options(words[1], words[2:])


def check_script_options(script: str, words: list[str]) -> None:
    shared = ["scripts/contenders/__init__.py", "scripts/corpus_script.py"]
    source = "".join((REPOSITORY / name).read_text(encoding="utf-8") for name in [script, *shared])
    missing = [word for word in words if word.startswith("--") and f'"{word}' not in source]
    assert not missing, f"{script} has no {missing[0]}"


def check_docker(words: list[str]) -> None:
    """Files exist, our part of the command line is valid, and Docker, where installed, has the options."""
    for word in words:
        assert not word.startswith(("docker/", "configs/")) or (REPOSITORY / word).is_file(), word
    words = words[words.index("docker") + 1 :]
    if words[0] == "compose":
        words = words[words.index("run" if "run" in words else "up") :]
        ours = [word for word in words[1:] if word != "--rm"] if words[0] == "run" else []
        options, verb = [word for word in words if word not in ours], ["compose", words[0]]
    else:
        image = words.index("seq2seq-chat") if words[0] == "run" else len(words)
        options, ours, verb = words[:image], words[image + 1 :], words[:1]
    if ours:
        check_verb(ours)
    if shutil.which("docker"):
        run = subprocess.run(["docker", *verb, "--help"], capture_output=True, text=True, check=False, timeout=240)
        if run.returncode == 0 and " ".join(verb) in run.stdout:  # not every docker has compose
            for option in (word.split("=")[0] for word in options if word.startswith("--")):
                assert option in run.stdout, f"docker {' '.join(verb)} has no {option}"


def check_nothing(words: list[str]) -> None:
    """For standard tools."""


CHECKS: dict[str, Callable[[list[str]], None]] = {
    "seq2seq-chat": lambda words: check_verb(words[1:]),
    "python": check_python,
    "./run.sh": check_shell_script,
    "scripts/verify_gpu.sh": check_shell_script,
    "./test.sh": check_shell_script,
    "docker": check_docker,
} | dict.fromkeys(["cd", "cp", "curl", "cut", "echo", "git", "mkdir", "sacrebleu"], check_nothing)
"""First word of a command → how to check its arguments."""

NOT_RUN = {
    r"(git clone|cd) ": "the tests have a folder of their own",
    r"\./(run|test)\.sh\b": "installs from the network; test_project.py runs both with stand-ins",
    r"scripts/verify_gpu\.sh": "needs a GPU, or minutes; tests/scripts/test_verify_gpu.py does its dry run",
    r"docker ": "needs an engine and an image; tests/docker/ runs others like them",
    r".*--trusted-proxy\b": "needs a proxy; tests/webui/test_proxy.py runs nginx",
    r".*--workers\b": "needs several machines; see the tests of distribution",
}


def simple_commands(text: str) -> Iterator[list[str]]:
    """The words of each command in a line of bash, without redirections."""
    for line in re.split(r"^\s*for .*? do$|^\s*done$", text.replace("\\\n", " "), flags=re.MULTILINE):
        for part in re.split(r"\s\|\s", line.partition("<<")[0]):
            words = shlex.split(re.sub(r"\s[<>]\s.*", "", part), comments=True)
            if words:
                yield words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(REPOSITORY).as_posix())
def test_commands_are_valid(page: Path) -> None:
    for command in COMMANDS[page]:
        subprocess.run(["bash", "-n", "-c", command.text], check=True, timeout=90)
        for words in simple_commands(command.text):
            if words[0] in ("seq2seq-chat", "python") or not command.is_example:
                assert words[0] in CHECKS, f"{command}: add {words[0]} to CHECKS"
                CHECKS[words[0]](words)


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.relative_to(REPOSITORY).as_posix())
def test_names_and_links_in_the_text_exist(page: Path) -> None:
    """Verbs, scripts, their options and settings in `inline code`, and link targets."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for code in re.findall(r"`([^`]+)`", text):
        check_inline_code(code)
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)", text):
        linked = page.parent / target if target else page
        assert linked.exists(), f"broken link: {target}"
        if anchor:
            assert anchor in anchors(linked), f"broken link: {target}{anchor}"
    if page.is_relative_to(DOCS) and page != DOCS / "README.md":
        assert re.search(r"\]\((\.\./)?README\.md\)", text), "has no way back"


def check_inline_code(code: str) -> None:
    from seq2seq_chat.cli import commands
    from seq2seq_chat.config import Config
    from seq2seq_chat.config.legacy import RENAMED_KEYS

    words = re.sub(r"…|\{[^}]*\}", " ", code).split()
    if not words:
        return
    named = words[0] in ("seq2seq-chat", "./run.sh") and words[1:2] and words[1].islower()
    if named or words[0] in commands.commands:  # the verbs of a sentence are without the program
        name = words[1] if named else words[0]
        assert name in commands.commands, code
        verb = commands.commands[name]
        verbs = [verb, *(verb.commands.values() if isinstance(verb, click.Group) else [])]
        options = {option for one in verbs for parameter in one.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options, code
    setting = re.fullmatch(r"((data|model|training|decoding)\.(\w+))[:=]*(.*)", " ".join(words))
    if setting and setting[3] != "json":  # a file
        key, section, name, value = setting.groups()
        annotation = Config.model_fields[section].annotation
        assert key in RENAMED_KEYS or name in annotation.model_fields, code  # type: ignore[union-attr]
        check_value(key, value.strip())
    for file in re.findall(r"(?:^|\s)((?:seq2seq_chat|tests|scripts|docker)/[\w/]+\.\w+)", code):
        assert (REPOSITORY / file).exists(), code
    for script in re.findall(r"\b(scripts/\w+\.py)", code):
        check_script_options(script, words)


def check_value(key: str, value: str) -> None:
    """``section.key: value`` is a valid setting, alone or with the corpora that it needs."""
    from seq2seq_chat.config import parse_config

    if value:
        settings = {"name": "x", "data": {"train": "train.txt", "validation": "validation.txt"}}
        parse_config(settings, "x", [f"{key}={value}"], warn=False)


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {"#" + re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_jupytext_opens_the_notebooks() -> None:
    """It refuses a kernel without a name for people."""
    for notebook in DOCS.glob("tutorial/*.md"):
        assert "kernelspec:\n  display_name: " in notebook.read_text(encoding="utf-8"), notebook


def test_readme_is_short_and_the_index_has_every_page() -> None:
    readme, index = README.read_text(encoding="utf-8"), (DOCS / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 150
    assert "](docs/README.md)" in readme
    for page in DOCS.glob("*.md"):
        if page.name != "README.md":
            assert f"]({page.name})" in index, f"docs/README.md does not link {page.name}"
            is_generated = page.name == "settings.md"
            assert is_generated or "](README.md)" in page.read_text(encoding="utf-8"), f"{page.name}: no way back"
    texts = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    unused = [picture.name for picture in DOCS.glob("*.png") if picture.name not in texts]
    assert not unused


# Slow: every command works.

SMALL = {
    **{"data.buckets": None, "data.vocabulary_size": 300},
    **{"model.hidden_size": 12, "model.embedding_size": 8, "model.projection_size": 8},
    **{"model.encoder_steps": 6, "model.decoder_steps": 5},
    **{"training.batch_size": 8, "training.steps": 8, "training.sampled_softmax": None},
    **{"training.precision": "float32", "training.log_every": 4, "training.validate_every": 4},
    **{"training.validation_limit": 8, "training.sample_replies": 1},
    **{"training.checkpoint_every": 4, "training.snapshot_every": 8},
}
SMALL_OPTIONS = {"--limit": "12", "--port": "0", "--top": "5", "--hours": "0.003"}
ADDED_OPTIONS = {
    "check": [f"--only={name}" for name in ("memory", "initial-loss", "padding", "decoding")],
    "report": ["--limit", "12"],
    "evaluate": ["--limit", "12"],
    "serve": ["--port", "0"],
}

CLIENT = f"""#!{sys.executable} -IS
import os, sys
SMALL, SMALL_OPTIONS, ADDED_OPTIONS = {SMALL!r}, {SMALL_OPTIONS!r}, {ADDED_OPTIONS!r}
grids = []
def reduced(word, before):
    key = word.partition("=")[0]
    if before == "--grid":
        grids.append(word)
        return word if len(grids) == 1 else word.partition(",")[0]
    if before == "--set" and key in SMALL:
        value = SMALL[key]
        return key + "=" + ("null" if value is None else str(value))
    return SMALL_OPTIONS.get(before, word)
program, *words = os.path.basename(sys.argv[0]), *sys.argv[1:]
words = [reduced(word, before) for word, before in zip(words, ["", *words])]
if program == "seq2seq-chat":
    words += [word for word in ADDED_OPTIONS.get(words[0], []) if word not in words]
module = ["-m", "seq2seq_chat"] if program == "seq2seq-chat" else []
os.execv(sys.executable, [sys.executable, *module, *words])
"""
"""Stand-in for ``seq2seq-chat`` and ``python``: reduces the arguments."""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Environment variables for the commands; ``PWD`` is a folder with everything that the pages name."""
    home, folder = tmp_path / "home", tmp_path / "seq2seq-chat"
    (home / "bin").mkdir(parents=True)
    for name in ("seq2seq-chat", "python"):
        (home / "bin" / name).write_text(CLIENT, encoding="utf-8")
        (home / "bin" / name).chmod(0o755)
    (home / "bin" / "sacrebleu").symlink_to(Path(sys.executable).with_name("sacrebleu"))
    write_folder(folder)
    return os.environ | {
        "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "PWD": str(folder),
    }


def write_folder(folder: Path) -> None:
    """The repository as its reader sees it, with reduced configurations and small corpora."""
    (folder / "docs").mkdir(parents=True)
    for name in ("scripts", "seq2seq_chat"):
        (folder / name).symlink_to(REPOSITORY / name)
    (folder / "configs" / "recipes").mkdir(parents=True)
    for name in ("configs/sample", "docs/examples"):
        (folder / name).symlink_to(REPOSITORY / name)
    (block,) = re.findall(r"```json\n(.*?)```", (DOCS / "translation.md").read_text(encoding="utf-8"), re.DOTALL)
    (folder / "english_french.json").write_text(json.dumps(reduced_settings(json.loads(block))), encoding="utf-8")
    (folder / "sources.txt").write_text("i see the tree1 ?\n", encoding="utf-8")
    for name in ("neural_conversational_model.tsv", "cleverbot.tsv"):
        (folder / name).write_text("is this the text of the paper ?\tno\n", encoding="utf-8")
    for path in shipped_configs():
        settings = reduced_settings(json.loads(path.read_text(encoding="utf-8")))
        (folder / path.relative_to(REPOSITORY)).write_text(json.dumps(settings), encoding="utf-8")
    write_corpora(folder)


def reduced_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a small model that is trained for a few steps."""
    for key, value in SMALL.items():
        section, name = key.split(".")
        settings[section][name] = value
    settings.setdefault("decoding", {})["min_length"] = 2  # untrained models would reply nothing
    return settings


def write_corpora(folder: Path) -> None:
    things = [f"{kind}{number}" for kind in ("tree", "house", "song", "book") for number in range(8)]
    talk = [f"{who} {verb} the {thing} ?" for who in ("i", "you", "we") for verb in ("see", "like") for thing in things]
    (folder / "my_chats.txt").write_text("\n".join(talk * 4) + "\n", encoding="utf-8")
    chat = [f"13.03.23, 09:{n % 60:02} - {('Ada', 'Ben')[n % 2]}: {line}\n" for n, line in enumerate(talk)]
    with zipfile.ZipFile(folder / "WhatsApp Chat with Ada.zip", "w") as archive:
        archive.writestr("WhatsApp Chat with Ada.txt", "".join(chat))
    message = {"type": "message", "date": "2023-03-13T09:05:00", "from": "Ben", "text": "Hello"}
    telegram = {"type": "personal_chat", "id": 1, "messages": [message | {"from": "Ada"}, message]}
    (folder / "result.json").write_text(json.dumps(telegram), encoding="utf-8")
    (folder / "twitter_en.txt").write_text("\n".join(talk * 2) + "\n", encoding="utf-8")
    (folder / "input.txt").write_text("\n".join(talk * 8) + "\n", encoding="utf-8")
    (folder / "utterances.txt").write_text("hello !\nhow are you ?\n", encoding="utf-8")
    dialogues = "".join(" __eou__ ".join([*talk[n : n + 4], "\n"]) for n in range(0, len(talk) - 4, 2))
    (folder / "fra-eng").mkdir()
    pairs = [f"{line}\tmais {line}\tCC-BY 2.0 (France)\n" for line in talk]
    (folder / "fra-eng" / "fra.txt").write_text("".join(pairs), encoding="utf-8")
    with zipfile.ZipFile(folder / "fra-eng.zip", "w") as archive:
        archive.write(folder / "fra-eng" / "fra.txt", "fra.txt")
    for language in ("en", "fr"):
        (folder / f"news.{language}").write_text("".join(f"{line} {language}\n" for line in talk), encoding="utf-8")
    (folder / "DailyDialog").mkdir()
    for part, more in (("train", dialogues.replace("you", "they")), ("validation", ""), ("test", "")):
        (folder / "DailyDialog" / f"dialogues_{part}.txt").write_text(dialogues + more, encoding="utf-8")
    (folder / "dumps").mkdir()
    generate_reddit(folder / "dumps" / "RC_2015-01", 2)
    generate_opensubtitles(folder / "OpenSubtitles", 0.6)
    (folder / "OpenSubtitles" / "xml" / "en").mkdir(parents=True, exist_ok=True)
    cornell = folder / "cornell_movie_dialogs"
    cornell.mkdir()
    separator = " +++$+++ "
    lines = [separator.join((f"L{n}", "u0", "m0", "BIANCA", text)) for n, text in enumerate(talk)]
    (cornell / "movie_lines.txt").write_text("\n".join(lines) + "\n", encoding="latin-1")
    conversations = [str([f"L{n + k}" for k in range(4)]) for n in range(0, len(talk) - 4, 4)]
    rows = [separator.join(("u0", "u1", "m0", conversation)) for conversation in conversations]
    (cornell / "movie_conversations.txt").write_text("\n".join(rows) + "\n", encoding="latin-1")


def commands_to_run() -> Iterator[Command]:
    """All commands in an order that works: corpora first, and last those after which the latest run does not chat.

    The examples of portable models need the tokenizer of the README's runs.

    A command that several pages have is run on the last of them.
    """
    yield Command("run.sh", 0, "seq2seq-chat train configs/quickstart.json")
    first, last = (DOCS / "corpora.md", README, DOCS / "portable.md"), DOCS / "language_models.md"
    pages = [*first, *(page for page in PAGES if page not in (*first, last)), last]
    commands = [command for page in pages for command in COMMANDS[page] if not command.is_example]
    for number, command in enumerate(commands):
        text = re.sub(r"\s+#.*", "", command.text)
        repeated = any(re.sub(r"\s+#.*", "", later.text) == text for later in commands[number + 1 :])
        if text == "seq2seq-chat serve":
            if text not in (earlier.text for earlier in commands[:number]):  # the first is the one that curl asks
                yield command
        elif not repeated and not any(re.match(pattern, command.text) for pattern in NOT_RUN):
            yield command


@pytest.mark.nightly
def test_every_command_works(environment: dict[str, str]) -> None:
    faulthandler.cancel_dump_traceback_later()  # all together take longer than a test may; each has a limit of its own
    servers: list[subprocess.Popen[str]] = []
    address, failures = SERVER, list[str]()
    try:
        for command in commands_to_run():
            start = time.monotonic()
            text = command.text.replace(SERVER, address)
            if text.startswith("seq2seq-chat serve"):
                servers.append(start_server(text, environment))
                address = printed_address(servers[-1])
                continue
            bash = ["bash", "-euo", "pipefail", "-c", text]
            options: dict[str, Any] = {"cwd": environment["PWD"], "env": environment, "input": "hello !\n"}
            run = subprocess.run(bash, **options, capture_output=True, text=True, timeout=900, check=False)
            if run.returncode:
                failures.append(f"{command}\n{run.stdout[-3000:]}\n{run.stderr[-3000:]}")
            print(f"{time.monotonic() - start:6.1f} s  {'FAILED ' * bool(run.returncode)}{command}")
    finally:
        for server in servers:
            server.send_signal(signal.SIGINT)
            server.communicate(timeout=240)
            assert server.returncode == 0
    assert not failures, "\n\n".join(failures)


def start_server(text: str, environment: dict[str, str]) -> subprocess.Popen[str]:
    words = shlex.split(text, comments=True)
    return subprocess.Popen(words, cwd=environment["PWD"], env=environment, stdout=subprocess.PIPE, text=True)


def printed_address(server: subprocess.Popen[str]) -> str:
    assert server.stdout is not None
    match = re.search(r"http://([\w.]+:\d+)/", server.stdout.readline())
    assert match
    return match[1]
