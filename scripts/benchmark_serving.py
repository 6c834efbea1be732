#!/usr/bin/env python3
"""Time replies over HTTP: a single client, 50 concurrent clients, and a burst of 500 requests.

Starts a server on 127.0.0.1. A single client first sends every utterance; the other clients must get the same replies
to the same utterances. "server MB" is the memory of the server after each row. Run nothing else at the same time.
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
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from contenders import json_option, print_table
from tqdm import tqdm

from seq2seq_chat.cli.options import run_command
from seq2seq_chat.data.corpus_file import bundled_conversations
from seq2seq_chat.runs.find import find_run
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.files import write_json
from seq2seq_chat.text.tokenizers.english import EnglishTokenizer

HOST = "127.0.0.1"
TIMEOUT = 300.0  # seconds for all measurements
COLUMNS = ["clients", "utterances", "replies", "503", "errors", "wrong replies"]
COLUMNS += ["median ms", "95 % ms", "replies/s", "server MB"]
CHAT, STREAM = "/api/chat", "/api/chat/stream"


class Target(NamedTuple):
    """The server and what is requested from it."""

    pid: int
    port: int
    path: str
    run: str

    @property
    def memory(self) -> float:
        """MB in memory."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        return int(status.split("VmRSS:")[1].split()[0]) / 1e3


class Result(NamedTuple):
    """The response to one request."""

    text: str  # the utterance
    status: int  # 0: the connection broke
    body: dict[str, Any]
    seconds: float


@click.command(help=__doc__)
@click.argument("run_name", metavar="RUN")
@click.option("--results", default="results", show_default=True, help="folder of the runs")
@click.option("--clients", type=click.IntRange(1, 500), default=50, show_default=True)
@click.option("--utterances", type=click.IntRange(50, 20_000), default=2000, show_default=True)
@click.option("--burst", type=click.IntRange(1, 2000), default=500, show_default=True, help="requests in the burst")
@click.option("--distinct", type=click.IntRange(20, 5000), default=400, show_default=True, help="distinct utterances")
@click.option("--stream", is_flag=True, help="read replies as server-sent events, while they grow")
@json_option
def main(
    run_name: str,
    results: str,
    clients: int,
    utterances: int,
    burst: int,
    distinct: int,
    stream: bool,
    json_file: Path | None,
) -> None:
    """Start a server, send requests, print the results."""
    run = find_run(run_name, results)
    texts = utterances_to_send(distinct)
    with server(run) as (process, port):
        target = Target(process.pid, port, STREAM if stream else CHAT, run.path.resolve().name)
        rows = asyncio.run(asyncio.wait_for(measure(target, texts, clients, utterances, burst), TIMEOUT))
    print_table(rows, COLUMNS)
    one, many = rows[0], rows[1]
    latency, throughput = many["95 % ms"] / one["median ms"], many["replies/s"] / one["replies/s"]
    print(
        f"\n{clients} clients compared with one: 95 % latency {latency:.1f} × its median, {throughput:.1f} × replies/s"
    )
    if json_file:
        write_json(json_file, rows)


async def measure(target: Target, texts: list[str], clients: int, utterances: int, burst: int) -> list[dict[str, Any]]:
    """A row for the single client, the concurrent clients and the burst."""
    rng = random.Random(1)
    with tqdm(total=len(texts) + utterances + burst, unit="reply", disable=None) as bar:
        await send_in_sequence(target, texts[:20], None)  # loads the model, traces its graph
        start = time.perf_counter()
        sequential = await send_in_sequence(target, texts, bar)
        rows = [_row("one client", sequential, time.perf_counter() - start, {}, target)]
        expected = {result.text: result.body["reply"] for result in sequential if result.status == 200}

        shuffled = [texts[number % len(texts)] for number in range(utterances)]
        rng.shuffle(shuffled)
        parts = [shuffled[client::clients] for client in range(clients)]
        rows.append(await _measure_at_once(f"{clients} clients", target, parts, expected, bar))
        parts = [[texts[number % len(texts)]] for number in range(burst)]
        rows.append(await _measure_at_once(f"burst of {burst}", target, parts, expected, bar))
    return rows


async def _measure_at_once(
    title: str, target: Target, parts: list[list[str]], expected: dict[str, str], bar: Any
) -> dict[str, Any]:
    """A row for clients that send their utterances at the same time."""
    start = time.perf_counter()
    results = await asyncio.gather(*(send_in_sequence(target, part, bar) for part in parts))
    seconds = time.perf_counter() - start
    return _row(title, [result for part in results for result in part], seconds, expected, target)


async def send_in_sequence(target: Target, texts: list[str], bar: Any) -> list[Result]:
    """Send utterances, each after the reply to the one before, over one connection if the server keeps it open."""
    results: list[Result] = []
    writer: asyncio.StreamWriter | None = None
    for text in texts:
        start = time.perf_counter()
        try:
            if writer is None:
                reader, writer = await asyncio.open_connection(HOST, target.port)
            status, body = await _post_chat(reader, writer, target.path, {"run": target.run, "text": text})
            if target.path == STREAM:  # ends with the connection
                await _close(writer)
                writer = None
        except (OSError, asyncio.IncompleteReadError, ValueError) as error:
            status, body, writer = 0, {"error": repr(error)}, None
        results.append(Result(text, status, body, time.perf_counter() - start))
        if bar is not None:
            bar.update()
    if writer is not None:
        await _close(writer)
    return results


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def _post_chat(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, body: dict[str, Any]
) -> tuple[int, dict[str, Any]]:
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
    writer.write(head.encode() + f"Content-Length: {len(content)}\r\n\r\n".encode() + content)
    answer = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    status = int(answer.split(" ", 2)[1])
    if length := re.search(r"(?i)^content-length: *(\d+)", answer, re.MULTILINE):
        return status, json.loads(await reader.readexactly(int(length[1])))
    return await _read_events(reader)


async def _read_events(reader: asyncio.StreamReader) -> tuple[int, dict[str, Any]]:
    """The status and data of the last event in a chunked body of server-sent events."""
    events = b""
    while size := int(await reader.readline(), 16):
        events += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    name, data = events.decode().rstrip().rsplit("event: ", 1)[1].split("\ndata: ", 1)
    return 200 if name == "reply" else 500, json.loads(data)


@contextlib.contextmanager
def server(run: Run) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run a server over the folder of a run in a subprocess; yields that and its port."""
    command = [sys.executable, "-m", "seq2seq_chat", "serve", "--host", HOST, "--port", "0"]
    command += ["--results", str(run.path.resolve().parent)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        match = re.match(rf"http://{re.escape(HOST)}:(\d+)/", line)
        if match is None:
            raise click.ClickException("the server did not start")
        yield process, int(match[1])
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


def utterances_to_send(count: int) -> list[str]:
    """Distinct utterances of the bundled corpus; if there are too few, also some with shuffled words."""
    lines = bundled_conversations().read_text(encoding="utf-8").splitlines()
    texts = dict.fromkeys(line for line in lines if "<" not in line and line)
    rng, originals = random.Random(1), list(texts)
    while len(texts) < count:
        words = rng.choice(originals).split()
        rng.shuffle(words)
        texts[" ".join(words)] = None
    return list(texts)[:count]


def _row(
    clients: str, results: list[Result], seconds: float, expected: dict[str, str], target: Target
) -> dict[str, Any]:
    replies = [result for result in results if result.status == 200]
    times = [result.seconds * 1e3 for result in replies] or [0.0]
    return {
        "clients": clients,
        "utterances": len(results),
        "replies": len(replies),
        "503": sum(result.status == 503 for result in results),
        "errors": sum(result.status not in (200, 503) for result in results),
        "wrong replies": sum(_is_wrong(result, expected) for result in replies),
        "median ms": float(np.median(times)),
        "95 % ms": float(np.quantile(times, 0.95)),
        "replies/s": len(replies) / seconds,
        "server MB": target.memory,
    }


def _is_wrong(result: Result, expected: dict[str, str]) -> bool:
    """Whether a reply belongs to another utterance, or differs from the reply to a single client."""
    words = EnglishTokenizer().encode(result.text)
    source = result.body["source_words"]
    return source != words[-len(source) :] or result.body["reply"] != expected.get(result.text, result.body["reply"])


if __name__ == "__main__":
    run_command(main)
