"""What the pages print is what the commands print, on models of full size.

Compared are the lines below a command of a ``console`` block, or of a ``text`` block that starts with ``$``. All other
``text`` blocks are below a comment: ``<!-- output of: COMMAND -->``, ``<!-- talks to: RUN -->`` for a conversation, or
``<!-- not compared: REASON -->``, which excludes a block. ``…`` stands for anything, and so does the end of a line;
times are not compared, and other numbers may differ as far as processors make them differ.
"""

import faulthandler
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.test_readme import PAGES, REPOSITORY, SERVER, printed_address, start_server

PREPARATION = (
    "seq2seq-chat train configs/quickstart.json",
    "seq2seq-chat train configs/recipes/dates.json",
    "python scripts/generate_copy_task.py",
    "seq2seq-chat train configs/copy_task.json",
)
TIMES = re.compile(r'[\d,]+ target tokens/s|\b\d+:\d\d\b|(?<="seconds": )[\d.]+')
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]\d+)?")
RELATIVE, LAST_DIGITS = 0.05, 5  # how much numbers may differ


class Output(NamedTuple):
    """A block that says what a command prints."""

    where: str
    command: str
    text: str
    excluded: str
    """the reason why it is not compared"""


def outputs_of(page: Path) -> Iterator[Output]:
    text = page.read_text(encoding="utf-8")
    pattern = r"(?:^<!-- (output of|talks to|not compared): (.*?) -->\n+)?^```([a-z]*)\n(.*?)^```"
    for match in re.finditer(pattern, text, re.MULTILINE | re.DOTALL):
        tag, value, kind, block = match.groups(default="")
        where = f"{page.name}:{text.count(chr(10), 0, match.start(3)) + 1}"
        if tag == "output of":
            yield Output(where, value, block, "")
        elif tag == "talks to":
            said, replies = (re.findall(rf"^{who}: (.*)$", block, re.MULTILINE) for who in ("you", "bot"))
            command = "\n".join([f"seq2seq-chat chat {value} <<'END'", *said, "END"])
            yield Output(where, command, "\n".join(replies), "")
        elif kind == "console" or block.startswith("$ "):
            for command, printed in re.findall(r"^\$ (.*\n(?:  .*\n)*)((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
                if printed.strip():
                    yield Output(where, command.strip(), printed, value)
        elif kind in ("text", ""):
            yield Output(where, "", block, value)


OUTPUTS = [output for page in PAGES for output in outputs_of(page)]


def missing_part(expected: str, printed: str) -> str | None:
    """The first part of a block that does not follow its earlier parts in what a command printed."""
    position = 0
    for part in re.split("[…\n]", TIMES.sub("…", expected)):
        numbers = NUMBER.findall(part)
        texts = [r"\s*".join(map(re.escape, text.split())) for text in NUMBER.split(part)]
        pattern = re.compile(rf"\s*({NUMBER.pattern})\s*".join(texts))
        for match in pattern.finditer(printed, position):
            if all(map(is_close, numbers, match.groups())):
                position = match.end()
                break
        else:
            return part
    return None


def is_close(expected: str, printed: str) -> bool:
    wanted, number = (float(text.replace(",", "")) for text in (expected, printed))
    last_digit = 10.0 ** -len(expected.partition("e")[0].partition(".")[2])
    return abs(wanted - number) <= max(RELATIVE * abs(wanted), LAST_DIGITS * last_digit)


def test_comparison() -> None:
    printed = "step 100: loss 4.462, 9,356 target tokens/s, 1:52 left\nvalidation: loss 2.252\n"
    same = ["step 100: loss 4.45, 1 target tokens/s, 0:01 left", "loss 2.252", "step 100: …\nvalidation: … 2.25\n"]
    assert [missing_part(text, printed) for text in same] == [None] * 3
    other = ["step 100: loss 3.462", "validation: loss 2.252\nstep 100", "… 2.552"]
    assert [missing_part(text, printed) for text in other] == ["step 100: loss 3.462", "step 100", " 2.552"]


def test_what_is_printed_is_compared_or_says_why_not() -> None:
    assert len(OUTPUTS) > 10
    assert not [output.where for output in OUTPUTS if not output.command and not output.excluded]
    assert not [output.where for output in OUTPUTS if output.excluded and len(output.excluded.split()) < 2]


@pytest.mark.nightly
def test_commands_print_what_the_pages_say(tmp_path: Path) -> None:
    faulthandler.cancel_dump_traceback_later()  # all together take longer than a test may; each has a limit of its own
    for name in ("configs", "scripts", "docs"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    (tmp_path / "bin").mkdir()
    for name, arguments in (("python", ""), ("seq2seq-chat", "-m seq2seq_chat ")):
        program = tmp_path / "bin" / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {arguments}"$@"\n', encoding="utf-8")
        program.chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(REPOSITORY), "PWD": str(tmp_path)}

    def output_of(command: str) -> str:
        bash = ["bash", "-c", f"exec 2>&1; {command}"]
        run = subprocess.run(bash, cwd=tmp_path, env=environment, capture_output=True, check=False, timeout=1800)
        return run.stdout.decode()

    printed = {command: output_of(command) for command in PREPARATION}
    server = start_server("seq2seq-chat serve --port 0", environment)
    address, differences = printed_address(server), []
    try:
        for output in OUTPUTS:
            if not output.excluded:
                command = output.command
                if command not in printed:
                    printed[command] = output_of(command.replace(SERVER, address))
                missing = missing_part(output.text, printed[command])
                if missing is not None:
                    differences.append(f"{output.where}: {command}\n{missing}\nis not in\n{printed[command][-3000:]}")
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=240)
    assert not differences, "\n\n".join(differences)
