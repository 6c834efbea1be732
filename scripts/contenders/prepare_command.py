"""Time `prepare` as a command, and measure the memory of all its processes."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def resident_bytes(process: int) -> int:
    """The memory of a process and its descendants in bytes; each counts its share of shared pages."""
    total = 0
    try:
        with open(f"/proc/{process}/smaps_rollup", encoding="ascii") as file:
            total += next(1024 * int(line.split()[1]) for line in file if line.startswith("Pss:"))
        for task in Path(f"/proc/{process}/task").iterdir():
            total += sum(resident_bytes(int(child)) for child in (task / "children").read_text().split())
    except (OSError, StopIteration):
        pass  # the process has just ended
    return total


def warm_cache(source: Path) -> None:
    """Load the input and the program into the page cache, so that the disk is not measured."""
    for file in files_of(source):
        with open(file, "rb", buffering=0) as stream:
            while stream.read(1 << 20):
                pass
    subprocess.run([sys.executable, "-c", "import ibis.backends.duckdb, seq2seq_chat.prepare.assembly"], check=True)


def time_prepare(corpus: str, source: Path, output: Path, options: Sequence[str]) -> dict[str, Any]:
    """Run the command; return its time and the peak memory of all its processes.

    The peak is that of two samples in a row: a process that Java has just forked shares Java's memory until it runs
    another program, a millisecond later, and would count twice.
    """
    shutil.rmtree(output, ignore_errors=True)
    command = [sys.executable, "-m", "seq2seq_chat", "prepare", corpus, str(source), "--output", str(output), *options]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    peak = 0
    ended = threading.Event()

    def watch() -> None:
        nonlocal peak
        before = 0
        while not ended.wait(0.25):
            now = resident_bytes(process.pid)
            peak, before = max(peak, min(before, now)), now

    watcher = threading.Thread(target=watch)
    watcher.start()
    process.communicate()
    seconds = time.perf_counter() - start
    ended.set()
    watcher.join()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    return {"seconds": seconds, "peak_gb": peak / 1e9}


def files_of(source: Path) -> list[Path]:
    """The files of a dump, or of a tree of films."""
    return [source] if source.is_file() else [path for path in source.rglob("*.*") if path.is_file()]


def size_of(source: Path) -> int:
    """The bytes of a dump, or of a tree of films."""
    return sum(file.stat().st_size for file in files_of(source))
