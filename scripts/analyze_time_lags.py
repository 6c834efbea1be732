"""How many seconds lie between one utterance and the next.

python scripts/analyze_time_lags.py data/opensubtitles --output time_lags
"""

from __future__ import annotations

from typing import Any

import click
import matplotlib as mpl

from seq2seq_chat.corpus.inspection import engine_options, open_utterances, print_table, write_figures
from seq2seq_chat.corpus.tables import time_lags
from seq2seq_chat.errors import UserError

mpl.use("Agg")
from matplotlib import pyplot as plt

CLOSE = 5  # seconds


@click.command()
@click.argument("corpus")
@click.option(
    "--between",
    type=click.Choice(["starts", "silence"]),
    default="starts",
    show_default=True,
    help="From the beginning of an utterance to that of the next, or the silence between the two.",
)
@click.option("--most", default=30, show_default=True, type=click.IntRange(1), help="Longer ones are put together.")
@click.option("--output", default="time_lags", show_default=True, metavar="NAME", help="Of NAME.json, .csv and .png.")
@engine_options
def main(corpus: str, between: str, most: int, output: str, split: str, **how: str) -> None:
    """Histogram of whole seconds (rounded) between neighbours of CORPUS, a prepared folder with times."""
    try:
        with open_utterances(corpus, split, how) as utterances:
            found = utterances.rows(time_lags(utterances.table, between))
        unknown = sum(row["pairs"] for row in found if row["seconds"] is None)
        known = [(row["seconds"], row["pairs"]) for row in found if row["seconds"] is not None]
        total = sum(pairs for _, pairs in known)
        if not total:
            raise UserError(f"{corpus} tells no times; those of opensubtitles and reddit do")
        rows = histogram(known, most)
        close = 100 * sum(pairs for seconds, pairs in known if 0 <= seconds <= CLOSE) / total
        print_table(rows)
        click.echo(
            f"{close:.1f} % within {CLOSE} seconds; {total:,} pairs, and {unknown:,} of which a time is not known"
        )
        write_figures(f"{output}.csv", rows)
        write_figures(f"{output}.json", [{"within_5_seconds_percent": close, "unknown": unknown, "histogram": rows}])
        draw(rows, between, close, f"{output}.png")
        click.echo(f"written: {output}.json, {output}.csv, {output}.png")
    except (UserError, OSError) as error:
        click.echo(f"Error: {error}", err=True)
        raise SystemExit(2) from error


def histogram(known: list[tuple[int, int]], most: int) -> list[dict[str, Any]]:
    """Rows of seconds, pairs and percent: below zero together, then second by second, then the rest together."""
    total = sum(pairs for _, pairs in known)
    counted = dict(known)
    groups = [("<0", sum(pairs for seconds, pairs in known if seconds < 0))]
    groups += [(str(seconds), counted.get(seconds, 0)) for seconds in range(most)]
    groups += [(f"{most}+", sum(pairs for seconds, pairs in known if seconds >= most))]
    return [{"seconds": name, "pairs": pairs, "percent": round(100 * pairs / total, 2)} for name, pairs in groups]


def draw(rows: list[dict[str, Any]], between: str, close: float, path: str) -> None:
    """Bars, those within five seconds in colour."""
    figure, axes = plt.subplots(figsize=(9, 4.5), layout="constrained")
    colors = ["C0" if row["seconds"].isdigit() and int(row["seconds"]) <= CLOSE else "0.7" for row in rows]
    axes.bar(range(len(rows)), [row["percent"] for row in rows], color=colors)
    step = 1 if len(rows) <= 35 else len(rows) // 20
    axes.set_xticks(range(0, len(rows), step), [row["seconds"] for row in rows][::step])
    what = "between the beginnings of two utterances" if between == "starts" else "of silence between two utterances"
    axes.set(xlabel=f"seconds {what}", ylabel="% of pairs", title=f"{close:.1f} % within {CLOSE} seconds")
    axes.tick_params(axis="x", labelsize="small")
    axes.grid(alpha=0.3, axis="y")
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
