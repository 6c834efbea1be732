"""Measure the preparation of corpora on generated dumps, beside the straightforward way.

python scripts/benchmark_prepare.py --folder /tmp/dumps --reddit-mb 2200 --opensubtitles-mb 550

The straightforward way reads line by line with `json` and keeps the comments in a `shelve`, as the thesis did, and
subtitles with `xml.etree`; it uses the same cleaning, writes one corpus file and counts the words. It is spared what
`prepare` does besides: splits, the table, statistics, times and silences, copies of films, damage. It takes long, so
it gets the first megabytes of the same dump only. The two take turns, with their files in the system's cache, and
medians are told.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import shelve
import shutil
import statistics
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
import zstandard

from seq2seq_chat.corpus.text import clean

SUBREDDITS = ("movies", "television", "films")
WANTED_SHARE = 0.035  # of the comments; the thesis had 39 million pairs of 1,650 million comments, which is 2.4 %
THESIS_GB = {"reddit": 885, "opensubtitles": 93}


class Words:
    """Text of 200,000 made-up words, as frequent as words are (Zipf's law), in sentences of about ten."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        spell = random.Random(1)
        syllables = ["".join(pair) for pair in itertools.product("bcdfghjklmnprstvwz", "aeiou")]
        words = ["the", "i", "you", "it", "to", "a", "and", "of"]
        words += ["".join(spell.choice(syllables) for _ in range(spell.randrange(2, 6))) for _ in range(200_000)]
        weights = itertools.accumulate(1 / rank for rank in range(1, len(words) + 1))
        # A long stretch of words is drawn once and read from changing places, which is quick.
        self._stretch = self._draw.choices(words, cum_weights=list(weights), k=3_000_000)

    def sentence(self) -> list[str]:
        """Words with a capital and a mark."""
        length = 1 + int(self._draw.expovariate(1 / 9))
        start = self._draw.randrange(len(self._stretch) - length)
        words = self._stretch[start : start + length]
        words[0] = words[0].capitalize()
        words[-1] += self._draw.choice(".....,!??")
        return words


def generate_reddit(path: Path, megabytes: float, seed: int = 1) -> None:
    """A month of comments: trees that grow for a while, deleted ones, parents that are nowhere."""
    if path.exists() and path.stat().st_size >= megabytes * 1e6:
        return
    draw, words = random.Random(seed), Words(seed)
    others = [f"subreddit{number}" for number in range(3000)]
    threads: list[tuple[str, str, list[str]]] = []
    with open(path, "w", encoding="ascii") as file:
        written, number = 0, 0
        while written < megabytes * 1e6:
            number += 1
            if len(threads) < 5000 or draw.random() < 0.05:
                subreddit = draw.choice(SUBREDDITS) if draw.random() < WANTED_SHARE else draw.choice(others)
                thread: tuple[str, str, list[str]] = (f"t3_{number:x}", subreddit, [])
                if len(threads) < 5000:
                    threads.append(thread)
                else:
                    threads[draw.randrange(len(threads))] = thread
            link, subreddit, names = draw.choice(threads)
            chance = draw.random()
            parent = link if not names or chance < 0.3 else "t1_gone" if chance < 0.33 else draw.choice(names[-20:])
            body = " ".join(itertools.chain(*(words.sentence() for _ in range(draw.randrange(1, 6)))))
            if chance > 0.95:
                body = "[deleted]"
            elif chance > 0.9:
                body += " &gt; it\u2019s caf\u00e9 \U0001f600\n\nyes"
            name = f"t1_c{number:x}"
            names.append(name)
            comment = {
                "gilded": 0, "author_flair_text": None, "author_flair_css_class": None, "retrieved_on": 1425846807,
                "ups": 3, "subreddit_id": f"t5_{len(subreddit)}", "edited": False, "controversiality": 0,
                "parent_id": parent, "subreddit": subreddit, "body": body, "created_utc": str(1420070400 + number // 9),
                "downs": 0, "score": draw.randrange(-5, 50), "author": f"user{number % 99991}", "archived": False,
                "distinguished": None, "id": name[3:], "score_hidden": False, "name": name, "link_id": link,
            }  # fmt: skip
            line = json.dumps(comment, separators=(",", ":")) + "\n"
            written += len(line)
            file.write(line)


def generate_opensubtitles(folder: Path, megabytes: float, seed: int = 1) -> None:
    """A tree of films as OPUS has them, plain, of about 100 kB each; every fiftieth is a copy with other times."""
    done = folder / "done"
    if done.exists() and float(done.read_text()) >= megabytes:
        return
    draw, words = random.Random(seed), Words(seed)
    total, film = 0, 0
    kept: list[list[list[str]]] = []
    while total < megabytes * 1e6:
        film += 1
        sentences = kept[-1] if film % 50 == 0 else [words.sentence() for _ in range(draw.randrange(100, 500))]
        kept = [sentences]
        clock = 1000 * draw.randrange(90)
        lines = ['<?xml version="1.0" encoding="utf-8"?>', f'<document id="{film}">']
        for number, sentence in enumerate(sentences, 1):
            lines.append(f'  <s id="{number}">')
            clock += draw.choice([100, 700, 900, 2000, 15000])
            if draw.random() < 0.9:
                lines.append(f'    <time id="T{number}S" value="{stamp(clock)}" />')
            tokens = [*sentence[:-1], sentence[-1][:-1], sentence[-1][-1]]
            lines += [f'    <w id="{number}.{place}">{word}</w>' for place, word in enumerate(tokens, 1)]
            clock += 300 * len(tokens)
            if draw.random() < 0.9:
                lines.append(f'    <time id="T{number}E" value="{stamp(clock)}" />')
            lines.append("  </s>")
        lines += [
            "  <meta>",
            f"    <subtitle><blocks>{len(sentences)}</blocks></subtitle>",
            "  </meta>",
            "</document>",
            "",
        ]
        path = folder / "xml" / "en" / str(1990 + film % 25) / str(film) / f"{film}.xml"
        path.parent.mkdir(parents=True, exist_ok=True)
        total += path.write_text("\n".join(lines), encoding="ascii")
    done.write_text(str(megabytes))


def stamp(milliseconds: int) -> str:
    """A time as subtitles write it."""
    seconds = milliseconds // 1000
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02},{milliseconds % 1000:03}"


def plain_reddit(path: Path, most: int, output: Path, wanted: tuple[str, ...]) -> int:
    """The straightforward way; returns the bytes that were read."""
    read = 0
    with shelve.open(str(output / "tree"), "n") as tree, open(path, "rb") as file:
        order = []
        for line in file:
            read += len(line)
            comment = json.loads(line)
            if (not wanted or comment["subreddit"] in wanted) and comment["body"] not in ("[deleted]", "[removed]"):
                text = clean(comment["body"])
                if text:
                    tree[comment["name"]] = (comment["parent_id"], text)
                    order.append(comment["name"])
            if read >= most:
                break
        pairs = ((tree[tree[name][0]][1], tree[name][1]) for name in order if tree[name][0] in tree)
        plain_output(pairs, output)
    return read


def plain_opensubtitles(folder: Path, most: int, output: Path, wanted: tuple[str, ...]) -> int:
    """The straightforward way; returns the bytes that were read."""
    read = 0

    def films() -> Iterator[list[str]]:
        nonlocal read
        for path in sorted((folder / "xml").rglob("*.xml")):
            read += path.stat().st_size
            document = ET.parse(path).getroot()
            texts = (clean(" ".join(word.text or "" for word in sentence.iter("w"))) for sentence in document.iter("s"))
            yield [text for text in texts if text]
            if read >= most:
                break

    plain_output(films(), output)
    return read


def plain_output(conversations: Iterable[Iterable[str]], output: Path) -> None:
    """Write a corpus file and its vocabulary."""
    counts: Counter[str] = Counter()
    with open(output / "train.txt", "w", encoding="utf-8") as file:
        for conversation in conversations:
            for text in conversation:
                file.write(text + "\n")
                counts.update(text.split())
            file.write("<<<<<END-CONV>>>>>\n")
    with open(output / "vocabulary.txt", "w", encoding="utf-8") as file:
        file.writelines(f"{word}\n" for word, _ in counts.most_common(50_000))


def resident(process: int) -> int:
    """Bytes of memory that a process and all that it started hold; shared pages are counted once each."""
    total = 0
    try:
        with open(f"/proc/{process}/smaps_rollup", encoding="ascii") as file:
            total += next(1024 * int(line.split()[1]) for line in file if line.startswith("Pss:"))
        for task in Path(f"/proc/{process}/task").iterdir():
            total += sum(resident(int(child)) for child in (task / "children").read_text().split())
    except (OSError, StopIteration):
        pass  # it has just ended
    return total


def warm(source: Path) -> None:
    """Bring a dump, or the films of a tree, and the program into the system's cache: the disk is not measured."""
    for file in files_of(source):
        with open(file, "rb", buffering=0) as stream:
            while stream.read(1 << 20):
                pass
    subprocess.run([sys.executable, "-c", "import ibis.backends.duckdb, seq2seq_chat.corpus.assembly"], check=True)


def ours(corpus: str, source: Path, output: Path, options: list[str]) -> dict[str, Any]:
    """Run the command line as a user would: seconds, and the peak of memory of all its processes."""
    shutil.rmtree(output, ignore_errors=True)
    command = [sys.executable, "-m", "seq2seq_chat", "prepare", corpus, str(source), "--output", str(output), *options]
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    peak = 0
    ended = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not ended.wait(0.25):
            peak = max(peak, resident(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    process.communicate()
    seconds = time.perf_counter() - begin
    ended.set()
    watcher.join()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    return {"seconds": seconds, "peak_gb": peak / 1e9}


def plain(corpus: str, source: Path, most: int, output: Path, wanted: tuple[str, ...]) -> dict[str, Any]:
    """Run the straightforward way: bytes and seconds."""
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir()
    begin = time.perf_counter()
    read = (plain_reddit if corpus == "reddit" else plain_opensubtitles)(source, most, output, wanted)
    return {"bytes": read, "seconds": time.perf_counter() - begin, "peak_gb": None}


def pack(dump: Path, folder: Path, parts: int) -> None:
    """Cut a dump into months and pack them as they are distributed, with a long window."""
    if folder.exists():
        return
    folder.mkdir()
    with open(dump, "rb") as file:
        for part in range(parts):
            end = dump.stat().st_size * (part + 1) // parts
            with open(folder / f"RC_2015-{part + 1:02}.zst", "wb") as packed:
                parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=27)
                with zstandard.ZstdCompressor(compression_params=parameters).stream_writer(packed) as writer:
                    while file.tell() < end:
                        writer.write(file.readline())


def files_of(source: Path) -> list[Path]:
    """A dump, the months of one, or the films of a tree."""
    return [source] if source.is_file() else [path for path in source.rglob("*.*") if path.is_file()]


def size_of(source: Path) -> int:
    """Bytes of a dump, or of the films of a tree."""
    return sum(file.stat().st_size for file in files_of(source))


def measure(
    corpus: str, megabytes: float, plain_mb: float, folder: Path, wanted: tuple[str, ...], packed: bool, rounds: int
) -> list[dict[str, Any]]:
    """Half a dump and all of it with ours, its beginning the straightforward way; a row for each."""
    whole = folder / f"{corpus}-{megabytes:g}"
    half = folder / f"{corpus}-{megabytes / 2:g}"
    what = corpus
    if corpus == "reddit":
        what = f"reddit, {f'{len(wanted)} subreddits' if wanted else 'all subreddits'}"
    options = ["--memory", "2GB", *(part for name in wanted for part in ("--subreddit", name))]
    sources = {"ours": half, "ours, twice as much": whole}
    if packed and corpus == "reddit":
        sources["ours, in 4 .zst"] = folder / f"{whole.name}-packed"
        pack(whole, sources["ours, in 4 .zst"], 4)
    sizes = {source: size_of(source) for source in (half, whole)}
    runs: dict[str, list[dict[str, Any]]] = {"straightforward": []} | {way: [] for way in sources}
    for _ in range(rounds):
        runs["straightforward"].append(plain(corpus, whole, int(plain_mb * 1e6), folder / "plain", wanted))
        for way, source in sources.items():
            size = sizes.get(source, sizes[whole])  # a packed one counts with what it unpacks to
            warm(source)
            runs[way].append({"bytes": size, **ours(corpus, source, folder / "ours", options)})
    shutil.rmtree(folder / "ours")
    shutil.rmtree(folder / "plain")
    rows: list[dict[str, Any]] = []
    for way, repeated in runs.items():
        seconds = statistics.median(run["seconds"] for run in repeated)
        rate = repeated[0]["bytes"] / 1e6 / seconds
        peak = None if way == "straightforward" else max(run["peak_gb"] for run in repeated)
        row = {"what": what, "way": way, "mb": repeated[0]["bytes"] / 1e6, "seconds": seconds}
        row |= {"mb_per_second": rate, "times": rate / (rows[0]["mb_per_second"] if rows else rate), "peak_gb": peak}
        rows.append(row)
    return rows


@click.command()
@click.option("--folder", default="benchmark_prepare", show_default=True, type=click.Path(path_type=Path))
@click.option("--reddit-mb", default=2200.0, show_default=True, help="Size of the dump; 0 for none.")
@click.option("--opensubtitles-mb", default=550.0, show_default=True, help="Size of the tree; 0 for none.")
@click.option("--plain-mb", default=150.0, show_default=True, help="What the straightforward way gets of it.")
@click.option("--all-subreddits", is_flag=True, help="Take all comments, not those of three subreddits.")
@click.option("--packed", is_flag=True, help="Measure the dump of comments packed as well.")
@click.option("--rounds", default=5, show_default=True, help="How often everything is measured.")
@click.option("--generate-only", is_flag=True)
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path))
def main(
    folder: Path,
    reddit_mb: float,
    opensubtitles_mb: float,
    plain_mb: float,
    all_subreddits: bool,
    packed: bool,
    rounds: int,
    generate_only: bool,
    json_file: Path | None,
) -> None:
    """Print a table of rates and memory. What is generated stays in the folder, to be used again."""
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for corpus, size in (("reddit", reddit_mb), ("opensubtitles", opensubtitles_mb)):
        if not size:
            continue
        for part in (size, size / 2):
            (generate_reddit if corpus == "reddit" else generate_opensubtitles)(folder / f"{corpus}-{part:g}", part)
        if not generate_only:
            wanted = SUBREDDITS if corpus == "reddit" and not all_subreddits else ()
            rows += measure(corpus, size, plain_mb, folder, wanted, packed, rounds)
    if generate_only:
        return
    click.echo("| corpus | way | MB | s | MB/s | times | peak GB |\n|---|---|---:|---:|---:|---:|---:|")
    for row in rows:
        peak = "" if row["peak_gb"] is None else f"{row['peak_gb']:.2f}"
        cells = [row["what"], row["way"], f"{row['mb']:,.0f}", f"{row['seconds']:.1f}"]
        click.echo(f"| {' | '.join(cells)} | {row['mb_per_second']:.1f} | {row['times']:.1f} | {peak} |")
    processors = os.cpu_count() or 1
    for corpus, gigabytes in THESIS_GB.items():
        rates = [
            row["mb_per_second"]
            for row in rows
            if row["what"].startswith(corpus) and row["way"] == "ours, twice as much"
        ]
        if rates:
            hours = gigabytes * 1000 / rates[-1] / 3600
            click.echo(
                f"{gigabytes} GB of {corpus}, uncompressed: {hours:.1f} h on these {processors} processors, "
                f"{hours * processors / 32:.2f} h on 32 if reading and engine scale with them and the disk gives "
                f"{rates[-1] * 32 / processors / 1000:.1f} GB/s"
            )
    if json_file:
        json_file.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
