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

import os
import shutil
import statistics
import time
from pathlib import Path
from typing import Any

import click
import zstandard
from contenders.generated_corpora import SUBREDDITS, generate_opensubtitles, generate_reddit
from contenders.prepare_command import size_of, time_prepare, warm_cache
from contenders.straightforward_prepare import plain_opensubtitles, plain_reddit
from contenders.table import json_option
from contenders.tokenizers import CONTENDERS, PrepareSeconds, time_prepare_on_one_core, time_tokenizers

from seq2seq_chat.cli.running import run_command
from seq2seq_chat.data.corpus_file import read_utterances
from seq2seq_chat.system.files import write_json
from seq2seq_chat.system.tables import format_table

THESIS_GB = {"reddit": 885, "opensubtitles": 93}


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
    help="Text on which tokenizers are compared.  [default: the tree of subtitles]",
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
