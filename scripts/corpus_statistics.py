"""Statistics of raw and of prepared corpora side by side, and the lengths of their utterances.

python scripts/corpus_statistics.py data/opensubtitles data/reddit --output corpora
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from corpus_script import CorpusOptions, corpus_options, open_utterances, print_table, write_rows

from seq2seq_chat.cli.options import run_command
from seq2seq_chat.data.corpus_file import STATISTICS_FILE
from seq2seq_chat.data.samples import Pairing
from seq2seq_chat.prepare.queries import split_statistics
from seq2seq_chat.prepare.split import SPLITS
from seq2seq_chat.report.figures.style import label_axes, new_figure, save

MAX_WORDS = 60  # in the figure
RAW = {
    "opensubtitles": ("XML", "OPUS, OpenSubtitles"),
    "reddit": ("JSON", "monthly dumps of Reddit comments"),
    "cornell": ("text", "Cornell Movie-Dialogs"),
    "dailydialog": ("text", "DailyDialog"),
}
"""The formats of raw corpora, and where they are from."""


@click.command()
@click.argument("corpora", nargs=-1, required=True, metavar="CORPUS...")
@click.option("--pairing", type=click.Choice(["sliding", "alternating"]), default="sliding", show_default=True)
@click.option(
    "--steps",
    default=30,
    show_default=True,
    type=click.IntRange(1),
    help="Encoder and decoder steps; samples with more words count as too long.",
)
@click.option(
    "--output",
    default="corpora",
    show_default=True,
    metavar="NAME",
    help="Write NAME.json, .csv, .png, and NAME_raw.json, .csv.",
)
@corpus_options
def main(corpora: tuple[str, ...], pairing: Pairing, steps: int, output: str, options: CorpusOptions) -> None:
    """Write the thesis's table of sets for each CORPUS, a prepared folder or a corpus file.

    Of prepared folders, its table of raw corpora is written, too: what `prepare` has read. Lines are comments of
    Reddit and sentences of subtitles, and gigabytes those of the decompressed files.
    """
    raw = [row for corpus in corpora if (row := raw_corpus(Path(corpus)))]
    rows: list[dict[str, Any]] = []
    lengths: dict[str, dict[int, int]] = {}
    for corpus in corpora:
        with open_utterances(corpus, options) as utterances:
            table = utterances.table
            splits = {row["split"]: row for row in utterances.rows(split_statistics(table, pairing, steps, steps))}
            by_length = utterances.rows(table.group_by("words").agg(utterances=table.count()))
        total = sum(row["utterances"] for row in splits.values())
        lengths[Path(corpus).name] = {row["words"]: row["utterances"] for row in by_length}
        for name in filter(splits.__contains__, SPLITS):
            row = splits[name]
            files = [path for path in (Path(corpus) / f"{name}.txt", Path(corpus) / f"{name}.tsv") if path.is_file()]
            rows.append(
                {
                    "corpus": Path(corpus).name,
                    "set": name,
                    "percent": round(100 * row["utterances"] / total, 2),
                    "MB": round(sum(path.stat().st_size for path in files) / 1e6, 2),
                    "conversations": row["conversations"],
                    "utterances": row["utterances"],
                    "samples": row["samples"],
                    "words": row["words"],
                    "words per utterance": round(row["words"] / row["utterances"], 2),
                    "too long %": round(100 * row["too_long"] / row["samples"], 2) if row["samples"] else 0.0,
                }
            )
    if raw:
        print_table(raw)
        click.echo()
        write_rows(f"{output}_raw", raw)
    print_table(rows)
    write_rows(output, rows)
    draw(lengths, steps, f"{output}.png")
    of_raw = f", {output}_raw.json, {output}_raw.csv" if raw else ""
    click.echo(f"written: {output}.json, {output}.csv, {output}.png{of_raw}")


def raw_corpus(folder: Path) -> dict[str, Any] | None:
    """The row of what a prepared folder was made of; None for a corpus file, or if an earlier version has read it."""
    try:
        reading = json.loads((folder / STATISTICS_FILE).read_text(encoding="utf-8"))["reading"]
        form, source = RAW.get(reading["corpus"], ("text", reading["corpus"]))
    except (OSError, ValueError, KeyError):
        return None
    return {
        "raw corpus": folder.name,
        "GB": reading.get("unpacked_bytes", reading["bytes"]) / 1e9,
        "GB on disk": reading["bytes"] / 1e9,
        "million lines": reading.get("lines", reading["records"]) / 1e6,
        "format": form,
        "source": source,
    }


def draw(lengths: dict[str, dict[int, int]], steps: int, path: str) -> None:
    """Draw the distribution of utterance lengths, with one line per corpus."""
    figure = new_figure(9, 4.5)
    axes = figure.subplots()
    for name, counts in lengths.items():
        total = sum(counts.values())
        shares = [100 * counts.get(words, 0) / total for words in range(1, MAX_WORDS + 1)]
        longer = 100 * sum(n for words, n in counts.items() if words > MAX_WORDS) / total
        axes.plot(range(1, MAX_WORDS + 1), shares, marker=".", label=f"{name} ({longer:.1f} % longer than {MAX_WORDS})")
    axes.axvline(steps, color="0.5", linestyle="--", linewidth=1, label=f"{steps} steps")
    xlim, title = (0, MAX_WORDS + 1), "Utterance lengths"
    label_axes(axes, xlabel="words per utterance", ylabel="% of utterances", title=title, xlim=xlim)
    axes.legend()
    save(figure, path)


if __name__ == "__main__":
    run_command(main)
