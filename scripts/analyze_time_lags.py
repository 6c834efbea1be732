"""Histogram of the seconds between consecutive utterances of a film, or between a comment and a reply.

python scripts/analyze_time_lags.py data/opensubtitles --output time_lags
"""

from __future__ import annotations

from typing import Any

import click
import ibis
import ibis.expr.types as ir
from corpus_script import CorpusOptions, corpus_options, open_utterances, print_table, write_rows

from seq2seq_chat.cli.options import run_command
from seq2seq_chat.report.figures.style import new_figure, save
from seq2seq_chat.system.errors import UserError

CLOSE = 5  # seconds


@click.command()
@click.argument("corpus")
@click.option(
    "--between",
    type=click.Choice(["starts", "silence"]),
    default="starts",
    show_default=True,
    help="From the start of an utterance to the start of the next one, or the silence between them.",
)
@click.option(
    "--max-seconds", default=30, show_default=True, type=click.IntRange(1), help="Longer lags share the last bar."
)
@click.option("--output", default="time_lags", show_default=True, metavar="NAME", help="Write NAME.json, .csv, .png.")
@corpus_options
def main(corpus: str, between: str, max_seconds: int, output: str, options: CorpusOptions) -> None:
    """Write a histogram of the seconds between consecutive utterances of CORPUS, a prepared folder with times.

    The silences at which `prepare` cut a film are included; a clock that jumps back counts as less than 0 seconds.
    """
    with open_utterances(corpus, options) as utterances:
        lags = utterances.rows(time_lags(utterances.table, between))
    unknown = sum(row["pairs"] for row in lags if row["seconds"] is None)
    known = [(row["seconds"], row["pairs"]) for row in lags if row["seconds"] is not None]
    total = sum(pairs for _, pairs in known)
    if not total:
        raise UserError(f"{corpus} has no times; prepare opensubtitles or reddit")
    rows = histogram(known, max_seconds)
    close = 100 * sum(pairs for seconds, pairs in known if 0 <= seconds <= CLOSE) / total
    print_table(rows)
    click.echo(f"{close:.1f} % within {CLOSE} seconds; {total:,} pairs, and {unknown:,} with unknown times")
    write_rows(f"{output}.csv", rows)
    write_rows(f"{output}.json", [{"within_5_seconds_percent": close, "unknown": unknown, "histogram": rows}])
    draw(rows, between, close, f"{output}.png")
    click.echo(f"written: {output}.json, {output}.csv, {output}.png")


def time_lags(utterances: ir.Table, between: str) -> ir.Table:
    """The number of ``pairs`` of consecutive utterances for each time lag, rounded to ``seconds``; null if unknown.

    The utterances of a film are consecutive whether or not a silence between them starts a new conversation.

    Args:
        between: ``starts`` of both utterances, or ``silence`` from the end of the first to the start of the second.
    """
    order = ibis.window(group_by="thread", order_by=["conversation", "position"])
    first = utterances.start if between == "starts" else utterances.end
    # The other thread with several conversations is a submission: pairs of comments, whose ends are unknown.
    is_film = (utterances.end.notnull() | (utterances.position > 1)).any()
    lagged = utterances.mutate(
        is_film=is_film.over(ibis.window(group_by="thread")),
        is_later=utterances.conversation.lag().over(order).notnull(),
        previous=first.lag().over(order),
    )
    later = lagged.filter(lagged.is_later & (lagged.is_film | (lagged.position > 0)))
    later = later.mutate(seconds=(later.start - later.previous).round().cast("int64"))
    return later.group_by("seconds").agg(pairs=later.count()).order_by("seconds")


def histogram(known: list[tuple[int, int]], max_seconds: int) -> list[dict[str, Any]]:
    """Rows of seconds, pairs and percent: one for negative lags, one for each second, and one for longer lags."""
    total = sum(pairs for _, pairs in known)
    counted = dict(known)
    groups = [("<0", sum(pairs for seconds, pairs in known if seconds < 0))]
    groups += [(str(seconds), counted.get(seconds, 0)) for seconds in range(max_seconds)]
    groups += [(f"{max_seconds}+", sum(pairs for seconds, pairs in known if seconds >= max_seconds))]
    return [{"seconds": name, "pairs": pairs, "percent": round(100 * pairs / total, 2)} for name, pairs in groups]


def draw(rows: list[dict[str, Any]], between: str, close: float, path: str) -> None:
    """Draw a bar chart with the bars within five seconds in color."""
    figure = new_figure(9, 4.5)
    axes = figure.subplots()
    colors = ["C0" if row["seconds"].isdigit() and int(row["seconds"]) <= CLOSE else "0.7" for row in rows]
    axes.bar(range(len(rows)), [row["percent"] for row in rows], color=colors)
    step = 1 if len(rows) <= 35 else len(rows) // 20
    axes.set_xticks(range(0, len(rows), step), [row["seconds"] for row in rows][::step])
    label = "between the starts of two utterances" if between == "starts" else "of silence between two utterances"
    axes.set(xlabel=f"seconds {label}", ylabel="% of pairs", title=f"{close:.1f} % within {CLOSE} seconds")
    axes.tick_params(axis="x", labelsize="small")
    axes.grid(alpha=0.3, axis="y")
    save(figure, path)


if __name__ == "__main__":
    run_command(main)
