#!/usr/bin/env python3
"""Time replies over HTTP: one person alone, 50 people at once, and 500 requests in one instant.

A server is started on 127.0.0.1 with the runs of a folder, and stopped at the end. One person first asks every
utterance alone; these replies are what the others must get for the same words. Run nothing else meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple, Optional

import click
from tqdm import tqdm

from seq2seq_chat.corpus.text import tokenize
from seq2seq_chat.errors import UserError
from seq2seq_chat.runs import Run, find_run

HOST = "127.0.0.1"  # and never another one
PATIENCE = 300.0  # seconds until the whole is given up
COLUMNS = ["who", "utterances", "replies", "503", "errors", "mixed up", "median ms", "95 % ms", "replies/s"]


class Told(NamedTuple):
    """What was answered to one request."""

    text: str  # what was said
    status: int  # 0: the connection broke
    body: dict[str, Any]
    seconds: float


@click.command(help=__doc__)
@click.argument("run_name", metavar="RUN")
@click.option("--results", default="results", show_default=True, help="where runs are")
@click.option("--people", type=click.IntRange(1, 500), default=50, show_default=True)
@click.option("--utterances", type=click.IntRange(50, 20_000), default=2000, show_default=True)
@click.option("--crowd", type=click.IntRange(1, 2000), default=500, show_default=True, help="requests in one instant")
@click.option("--alone", type=click.IntRange(20, 5000), default=400, show_default=True, help="different utterances")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="where to write the figures")
def main(
    run_name: str, results: str, people: int, utterances: int, crowd: int, alone: int, json_file: Optional[Path]
) -> None:
    """Start a server, ask, print what was measured."""
    try:
        run = find_run(run_name, results)
    except UserError as error:
        raise click.UsageError(str(error)) from error
    texts = sentences(alone)
    with server(run) as port:
        rows = asyncio.run(asyncio.wait_for(measure(port, run, texts, people, utterances, crowd), PATIENCE))
    print("| " + " | ".join(COLUMNS) + " |")
    print("|---|" + "---:|" * (len(COLUMNS) - 1))
    for row in rows:
        print("| " + " | ".join(_shown(row[column]) for column in COLUMNS) + " |")
    one, many = rows[0], rows[1]
    print(f"\n95 % of {people} people's replies come within {many['95 % ms'] / one['median ms']:.1f} times what one")
    print(
        f"person alone waits (median); they get {many['replies/s'] / one['replies/s']:.1f} times as many in a second."
    )
    if json_file:
        json_file.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


async def measure(
    port: int, run: Run, texts: list[str], people: int, utterances: int, crowd: int
) -> list[dict[str, Any]]:
    """A row for each way of asking."""
    name = run.path.resolve().name
    draw = random.Random(1)
    with tqdm(total=len(texts) + utterances + crowd, unit="reply", disable=None) as bar:
        await ask_in_turn(port, name, texts[:20], None)  # the model is loaded, its graph is traced
        begun = time.perf_counter()
        alone = await ask_in_turn(port, name, texts, bar)
        rows = [_row("one alone", alone, time.perf_counter() - begun, {})]
        expected = {told.text: told.body["reply"] for told in alone if told.status == 200}

        shuffled = [texts[number % len(texts)] for number in range(utterances)]
        draw.shuffle(shuffled)
        begun = time.perf_counter()
        together = await asyncio.gather(
            *(ask_in_turn(port, name, shuffled[person::people], bar) for person in range(people))
        )
        seconds = time.perf_counter() - begun
        rows.append(_row(f"{people} at once", [told for one in together for told in one], seconds, expected))

        begun = time.perf_counter()
        at_once = await asyncio.gather(
            *(ask_in_turn(port, name, [texts[number % len(texts)]], bar) for number in range(crowd))
        )
        seconds = time.perf_counter() - begun
        rows.append(_row(f"{crowd} in one instant", [told for one in at_once for told in one], seconds, expected))
    return rows


async def ask_in_turn(port: int, run: str, texts: list[str], bar: Any) -> list[Told]:
    """One person, who waits for each reply before asking on, over one connection."""
    found: list[Told] = []
    writer: Optional[asyncio.StreamWriter] = None
    for text in texts:
        begun = time.perf_counter()
        try:
            if writer is None:
                reader, writer = await asyncio.open_connection(HOST, port)
            status, body = await _exchange(reader, writer, {"run": run, "text": text})
        except (OSError, asyncio.IncompleteReadError, ValueError) as error:
            status, body, writer = 0, {"error": repr(error)}, None
        found.append(Told(text, status, body, time.perf_counter() - begun))
        if bar is not None:
            bar.update()
    if writer is not None:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    return found


async def _exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: dict[str, Any]
) -> tuple[int, dict[str, Any]]:
    content = json.dumps(body).encode()
    head = f"POST /api/chat HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
    writer.write(head.encode() + f"Content-Length: {len(content)}\r\n\r\n".encode() + content)
    answer = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    length = re.search(r"(?i)^content-length: *(\d+)", answer, re.MULTILINE)
    if length is None:
        raise ValueError("an answer without a length")
    return int(answer.split(" ", 2)[1]), json.loads(await reader.readexactly(int(length[1])))


@contextlib.contextmanager
def server(run: Run) -> Iterator[int]:
    """A server over the folder a run lies in, in a process of its own; its port."""
    command = [sys.executable, "-m", "seq2seq_chat", "serve", "--host", HOST, "--port", "0"]
    command += ["--results", str(run.path.resolve().parent)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.match(rf"http://{re.escape(HOST)}:(\d+)/", line)
        if found is None:
            raise click.ClickException("the server did not start")
        yield int(found[1])
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


def sentences(count: int) -> list[str]:
    """Different utterances of the bundled corpus, and of its words in another order where there are too few."""
    corpus = resources.files("seq2seq_chat.corpus") / "sample" / "conversations.txt"
    found = dict.fromkeys(line for line in corpus.read_text(encoding="utf-8").splitlines() if "<" not in line and line)
    draw, known = random.Random(1), list(found)
    while len(found) < count:
        words = draw.choice(known).split()
        draw.shuffle(words)
        found[" ".join(words)] = None
    return list(found)[:count]


def _row(who: str, told: list[Told], seconds: float, expected: dict[str, str]) -> dict[str, Any]:
    replies = [one for one in told if one.status == 200]
    times = [one.seconds * 1e3 for one in replies] or [0.0, 0.0]
    return {
        "who": who,
        "utterances": len(told),
        "replies": len(replies),
        "503": sum(one.status == 503 for one in told),
        "errors": sum(one.status not in (200, 503) for one in told),
        "mixed up": sum(_is_mixed_up(one, expected) for one in replies),
        "median ms": median(times),
        "95 % ms": quantiles(times, n=20)[-1],
        "replies/s": len(replies) / seconds,
    }


def _is_mixed_up(told: Told, expected: dict[str, str]) -> bool:
    """Whether a reply is to other words than were said, or another one than these words get alone."""
    words = tokenize(told.text, "word")
    read = told.body["source_words"]
    return read != words[-len(read) :] or told.body["reply"] != expected.get(told.text, told.body["reply"])


def _shown(value: Any) -> str:
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    main()
