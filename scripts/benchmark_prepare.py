"""Compare the speed of `prepare` to a straightforward implementation, on generated dumps.

python scripts/benchmark_prepare.py --folder /tmp/dumps --reddit-mb 2200 --opensubtitles-mb 550

The straightforward implementation reads line by line with `json` and keeps the comments in a `shelve`, as the thesis
did, and subtitles with `xml.etree`; it cleans text in the same way, writes one corpus file and counts the words. It
does nothing else that `prepare` does: splits, the table, statistics, times and silences, duplicate films, damaged
input. Because it is slow, it only reads the beginning of the same dump. The two run alternately, with their input in
the page cache; the results are medians.

python scripts/benchmark_prepare.py --folder /tmp/dumps --tokenizers [--text data/dailydialog/train.txt]

compares the tokenizers instead, on the tree of subtitles or on a text with one utterance per line: alone, and in
`prepare --jobs 1`, without the time that training subwords takes, which does not grow with large corpora. All times are
processor times of one core; `MB/s` are those of the text, and of the files that `prepare` reads.
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
from contenders.table import json_option
from contenders.tokenizers import CONTENDERS, PrepareSeconds, time_prepare_on_one_core, time_tokenizers

from seq2seq_chat.cli.running import run_command
from seq2seq_chat.data.corpus_file import read_utterances
from seq2seq_chat.data.tokenizers.english import clean
from seq2seq_chat.system.files import write_json
from seq2seq_chat.system.tables import format_table

SUBREDDITS = ("movies", "television", "films")
SELECTED_SHARE = 0.035  # of the comments; the thesis had 39 million pairs of 1,650 million comments, which is 2.4 %
THESIS_GB = {"reddit": 885, "opensubtitles": 93}


class Words:
    """Sentences of about ten words, drawn from 200,000 made-up words by Zipf's law."""

    def __init__(self) -> None:
        self._rng = random.Random(1)
        spelling_rng = random.Random(1)
        syllables = ["".join(pair) for pair in itertools.product("bcdfghjklmnprstvwz", "aeiou")]
        words = ["the", "i", "you", "it", "to", "a", "and", "of"]
        words += [
            "".join(spelling_rng.choice(syllables) for _ in range(spelling_rng.randrange(2, 6))) for _ in range(200_000)
        ]
        weights = itertools.accumulate(1 / rank for rank in range(1, len(words) + 1))
        # For speed, draw a long sequence once and read it from random positions.
        self._sequence = self._rng.choices(words, cum_weights=list(weights), k=3_000_000)

    def sentence(self) -> list[str]:
        """A capitalized sentence with a final punctuation mark."""
        length = 1 + int(self._rng.expovariate(1 / 9))
        start = self._rng.randrange(len(self._sequence) - length)
        words = self._sequence[start : start + length]
        words[0] = words[0].capitalize()
        words[-1] += self._rng.choice(".....,!??")
        return words


def generate_reddit(path: Path, megabytes: float) -> None:
    """Write a month of comments, with reply trees, deleted comments and missing parents."""
    if path.exists() and path.stat().st_size >= megabytes * 1e6:
        return
    rng, words = random.Random(1), Words()
    others = [f"subreddit{number}" for number in range(3000)]
    threads: list[tuple[str, str, list[str]]] = []
    with open(path, "w", encoding="ascii") as file:
        written, number = 0, 0
        while written < megabytes * 1e6:
            number += 1
            if len(threads) < 5000 or rng.random() < 0.05:
                subreddit = rng.choice(SUBREDDITS) if rng.random() < SELECTED_SHARE else rng.choice(others)
                thread: tuple[str, str, list[str]] = (f"t3_{number:x}", subreddit, [])
                if len(threads) < 5000:
                    threads.append(thread)
                else:
                    threads[rng.randrange(len(threads))] = thread
            link, subreddit, names = rng.choice(threads)
            kind = rng.random()
            parent = link if not names or kind < 0.3 else "t1_gone" if kind < 0.33 else rng.choice(names[-20:])
            body = " ".join(itertools.chain(*(words.sentence() for _ in range(rng.randrange(1, 6)))))
            if kind > 0.95:
                body = "[deleted]"
            elif kind > 0.9:
                body += " &gt; it\u2019s caf\u00e9 \U0001f600\n\nyes"
            name = f"t1_c{number:x}"
            names.append(name)
            comment = {
                "gilded": 0, "author_flair_text": None, "author_flair_css_class": None, "retrieved_on": 1425846807,
                "ups": 3, "subreddit_id": f"t5_{len(subreddit)}", "edited": False, "controversiality": 0,
                "parent_id": parent, "subreddit": subreddit, "body": body, "created_utc": str(1420070400 + number // 9),
                "downs": 0, "score": rng.randrange(-5, 50), "author": f"user{number % 99991}", "archived": False,
                "distinguished": None, "id": name[3:], "score_hidden": False, "name": name, "link_id": link,
            }  # fmt: skip
            line = json.dumps(comment, separators=(",", ":")) + "\n"
            written += len(line)
            file.write(line)


def generate_opensubtitles(folder: Path, megabytes: float) -> None:
    """Write a tree of OPUS XML files of about 100 kB each; every fiftieth repeats the last with different times."""
    done = folder / "done"
    if done.exists() and float(done.read_text()) >= megabytes:
        return
    rng, words = random.Random(1), Words()
    total, film = 0, 0
    sentences: list[list[str]] = []
    while total < megabytes * 1e6:
        film += 1
        if film % 50:
            sentences = [words.sentence() for _ in range(rng.randrange(100, 500))]
        clock = 1000 * rng.randrange(90)
        lines = ['<?xml version="1.0" encoding="utf-8"?>', f'<document id="{film}">']
        for number, sentence in enumerate(sentences, 1):
            lines.append(f'  <s id="{number}">')
            clock += rng.choice([100, 700, 900, 2000, 15000])
            if rng.random() < 0.9:
                lines.append(f'    <time id="T{number}S" value="{stamp(clock)}" />')
            tokens = [*sentence[:-1], sentence[-1][:-1], sentence[-1][-1]]
            lines += [f'    <w id="{number}.{place}">{word}</w>' for place, word in enumerate(tokens, 1)]
            clock += 300 * len(tokens)
            if rng.random() < 0.9:
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
    """A time in the format of subtitles."""
    seconds = milliseconds // 1000
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02},{milliseconds % 1000:03}"


def plain_reddit(path: Path, max_bytes: int, output: Path, subreddits: tuple[str, ...]) -> int:
    """Run the straightforward implementation; return the number of bytes read."""
    read = 0
    with shelve.open(str(output / "tree"), "n") as tree, open(path, "rb") as file:
        order = []
        for line in file:
            read += len(line)
            comment = json.loads(line)
            if (not subreddits or comment["subreddit"] in subreddits) and comment["body"] not in (
                "[deleted]",
                "[removed]",
            ):
                text = clean(comment["body"])
                if text:
                    tree[comment["name"]] = (comment["parent_id"], text)
                    order.append(comment["name"])
            if read >= max_bytes:
                break
        pairs = ((tree[tree[name][0]][1], tree[name][1]) for name in order if tree[name][0] in tree)
        plain_output(pairs, output)
    return read


def plain_opensubtitles(folder: Path, max_bytes: int, output: Path, subreddits: tuple[str, ...]) -> int:
    """Run the straightforward implementation; return the number of bytes read."""
    read = 0

    def films() -> Iterator[list[str]]:
        nonlocal read
        for path in sorted((folder / "xml").rglob("*.xml")):
            read += path.stat().st_size
            document = ET.parse(path).getroot()
            texts = (clean(" ".join(word.text or "" for word in sentence.iter("w"))) for sentence in document.iter("s"))
            yield [text for text in texts if text]
            if read >= max_bytes:
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


def time_prepare(corpus: str, source: Path, output: Path, options: list[str]) -> dict[str, Any]:
    """Run the command; return its time and the peak memory of all its processes."""
    shutil.rmtree(output, ignore_errors=True)
    command = [sys.executable, "-m", "seq2seq_chat", "prepare", corpus, str(source), "--output", str(output), *options]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    peak = 0
    ended = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not ended.wait(0.25):
            peak = max(peak, resident_bytes(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    process.communicate()
    seconds = time.perf_counter() - start
    ended.set()
    watcher.join()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    return {"seconds": seconds, "peak_gb": peak / 1e9}


def time_straightforward(
    corpus: str, source: Path, max_bytes: int, output: Path, subreddits: tuple[str, ...]
) -> dict[str, Any]:
    """Run the straightforward implementation; return its bytes and seconds."""
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir()
    start = time.perf_counter()
    read = (plain_reddit if corpus == "reddit" else plain_opensubtitles)(source, max_bytes, output, subreddits)
    return {"bytes": read, "seconds": time.perf_counter() - start, "peak_gb": None}


def compress(dump: Path, folder: Path, count: int) -> None:
    """Split a dump into months, compressed with a long window like the originals."""
    if folder.exists():
        return
    folder.mkdir()
    with open(dump, "rb") as file:
        for month in range(1, count + 1):
            end = dump.stat().st_size * month // count
            with open(folder / f"RC_2015-{month:02}.zst", "wb") as compressed:
                parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=27)
                with zstandard.ZstdCompressor(compression_params=parameters).stream_writer(compressed) as writer:
                    while file.tell() < end:
                        writer.write(file.readline())


def files_of(source: Path) -> list[Path]:
    """The files of a dump, or of a tree of films."""
    return [source] if source.is_file() else [path for path in source.rglob("*.*") if path.is_file()]


def size_of(source: Path) -> int:
    """The bytes of a dump, or of a tree of films."""
    return sum(file.stat().st_size for file in files_of(source))


def measure(
    corpus: str, megabytes: float, plain_mb: float, folder: Path, subreddits: tuple[str, ...], packed: bool, rounds: int
) -> list[dict[str, Any]]:
    """Measure `prepare` on half a dump and on all of it, and the straightforward implementation on its beginning."""
    full = folder / f"{corpus}-{megabytes:g}"
    half = folder / f"{corpus}-{megabytes / 2:g}"
    label = corpus
    if corpus == "reddit":
        label = f"reddit, {f'{len(subreddits)} subreddits' if subreddits else 'all subreddits'}"
    options = ["--memory", "2GB", *(argument for name in subreddits for argument in ("--subreddit", name))]
    sources = {"ours": half, "ours, twice the size": full}
    if packed and corpus == "reddit":
        sources["ours, in 4 .zst"] = folder / f"{full.name}-packed"
        compress(full, sources["ours, in 4 .zst"], 4)
    sizes = {source: size_of(source) for source in (half, full)}
    runs: dict[str, list[dict[str, Any]]] = {contender: [] for contender in ("straightforward", *sources)}
    for _ in range(rounds):
        runs["straightforward"].append(
            time_straightforward(corpus, full, int(plain_mb * 1e6), folder / "plain", subreddits)
        )
        for contender, source in sources.items():
            size = sizes.get(source, sizes[full])  # compressed files count with their decompressed size
            warm_cache(source)
            runs[contender].append({"bytes": size, **time_prepare(corpus, source, folder / "ours", options)})
    shutil.rmtree(folder / "ours")
    shutil.rmtree(folder / "plain")
    rows: list[dict[str, Any]] = []
    for contender, repeated in runs.items():
        seconds = statistics.median(run["seconds"] for run in repeated)
        rate = repeated[0]["bytes"] / 1e6 / seconds
        peak = None if contender == "straightforward" else max(run["peak_gb"] for run in repeated)
        row = {"what": label, "contender": contender, "mb": repeated[0]["bytes"] / 1e6, "seconds": seconds}
        row |= {"mb_per_second": rate, "speedup": rate / (rows[0]["mb_per_second"] if rows else rate), "peak_gb": peak}
        rows.append(row)
    return rows


def measure_tokenizers(corpus: str, source: Path, folder: Path, rounds: int) -> list[dict[str, Any]]:
    """Measure each tokenizer alone on the training set of a corpus, and in `prepare`, both on one core."""
    output, megabytes = folder / "ours", size_of(source) / 1e6
    warm_cache(source)
    time_prepare(corpus, source, output, ["--tokenizer", "whitespace"])
    texts = [text for _, text in read_utterances(output / "train.txt")]
    alone = time_tokenizers(texts, rounds)
    text_megabytes = sum(len(text.encode()) for text in texts) / 1e6
    prepared: dict[str, list[PrepareSeconds]] = {name: [] for name in CONTENDERS}
    for _ in range(rounds):
        for name, settings in CONTENDERS.items():
            shutil.rmtree(output)
            arguments = [corpus, str(source), "--output", str(output)]
            prepared[name].append(time_prepare_on_one_core(arguments, settings))
    shutil.rmtree(output)
    rows: list[dict[str, Any]] = []
    for name in CONTENDERS:
        training = statistics.median(run.training for run in prepared[name])
        seconds = statistics.median(run.total - run.training for run in prepared[name])
        row: dict[str, Any] = {"tokenizer": name, "mb_per_second": text_megabytes / statistics.median(alone[name])}
        row |= {"training_seconds": training, "prepare_seconds": seconds}
        row |= {"prepare_mb_per_second": megabytes / seconds}
        first = rows[0] if rows else row
        row["of_english"] = row["mb_per_second"] / first["mb_per_second"]
        row["prepare_of_english"] = row["prepare_mb_per_second"] / first["prepare_mb_per_second"]
        rows.append(row)
    return rows


def print_tokenizers(rows: list[dict[str, Any]]) -> None:
    """Print the table of tokenizers."""
    cells = [["tokenizer", "MB/s", "of english", "prepare s", "MB/s", "of english", "training s"]]
    for row in rows:
        numbers = [f"{row['mb_per_second']:.1f}", f"{row['of_english']:.2f}", f"{row['prepare_seconds']:.1f}"]
        numbers += [f"{row['prepare_mb_per_second']:.1f}", f"{row['prepare_of_english']:.2f}"]
        cells.append([row["tokenizer"], *numbers, f"{row['training_seconds']:.1f}" if row["training_seconds"] else ""])
    click.echo(format_table(cells, "lr", "markdown"))


@click.command()
@click.option("--folder", default="benchmark_prepare", show_default=True, type=click.Path(path_type=Path))
@click.option("--reddit-mb", default=2200.0, show_default=True, help="Size of the dump; 0 for none.")
@click.option("--opensubtitles-mb", default=550.0, show_default=True, help="Size of the tree; 0 for none.")
@click.option(
    "--plain-mb",
    default=150.0,
    show_default=True,
    help="Size of the part that the straightforward implementation reads.",
)
@click.option("--all-subreddits", is_flag=True, help="Read all comments instead of three subreddits.")
@click.option("--packed", is_flag=True, help="Measure the compressed dump as well.")
@click.option("--rounds", default=5, show_default=True, help="Number of measurements.")
@click.option("--tokenizers", is_flag=True, help="Compare the tokenizers instead.")
@click.option(
    "--text",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Text to compare tokenizers on.  [default: the tree of subtitles]",
)
@click.option("--generate-only", is_flag=True)
@json_option
def main(
    folder: Path,
    reddit_mb: float,
    opensubtitles_mb: float,
    plain_mb: float,
    all_subreddits: bool,
    packed: bool,
    rounds: int,
    tokenizers: bool,
    text: Path | None,
    generate_only: bool,
    json_file: Path | None,
) -> None:
    """Print a table of speed and memory. The generated corpora are kept in the folder and reused."""
    folder.mkdir(parents=True, exist_ok=True)
    if tokenizers:
        tree = folder / f"opensubtitles-{opensubtitles_mb:g}"
        if text is None:
            generate_opensubtitles(tree, opensubtitles_mb)
        source = ("opensubtitles", tree) if text is None else ("lines", text)
        compared = measure_tokenizers(*source, folder, rounds)
        print_tokenizers(compared)
        if json_file:
            write_json(json_file, compared)
        return
    rows: list[dict[str, Any]] = []
    for corpus, size in (("reddit", reddit_mb), ("opensubtitles", opensubtitles_mb)):
        if not size:
            continue
        for megabytes in (size, size / 2):
            generate = generate_reddit if corpus == "reddit" else generate_opensubtitles
            generate(folder / f"{corpus}-{megabytes:g}", megabytes)
        if not generate_only:
            subreddits = SUBREDDITS if corpus == "reddit" and not all_subreddits else ()
            rows += measure(corpus, size, plain_mb, folder, subreddits, packed, rounds)
    if generate_only:
        return
    cells = [["corpus", "contender", "MB", "s", "MB/s", "speedup", "peak GB"]]
    for row in rows:
        peak = "" if row["peak_gb"] is None else f"{row['peak_gb']:.2f}"
        numbers = [f"{row['mb']:,.0f}", *(f"{row[key]:.1f}" for key in ("seconds", "mb_per_second", "speedup")), peak]
        cells.append([row["what"], row["contender"], *numbers])
    click.echo(format_table(cells, "llr", "markdown"))
    cores = os.cpu_count() or 1
    for corpus, gigabytes in THESIS_GB.items():
        rates = [
            row["mb_per_second"]
            for row in rows
            if row["what"].startswith(corpus) and row["contender"] == "ours, twice the size"
        ]
        if rates:
            hours = gigabytes * 1000 / rates[-1] / 3600
            click.echo(
                f"{gigabytes} GB of {corpus}, uncompressed: {hours:.1f} h on these {cores} cores, "
                f"{hours * cores / 32:.2f} h on 32, if reading and the engine scale linearly and the disk delivers "
                f"{rates[-1] * 32 / cores / 1000:.1f} GB/s"
            )
    if json_file:
        write_json(json_file, rows)


if __name__ == "__main__":
    run_command(main)
