"""Histogram of the seconds between consecutive utterances of a film, or between a comment and a reply.

python scripts/analyze_time_lags.py data/opensubtitles --output time_lags
"""

from __future__ import annotations

import sys
from typing import Any

import click
import ibis
import ibis.expr.types as ir
from corpus_script import CorpusOptions, corpus_options, open_utterances, print_table, write_rows

from seq2seq_chat.cli.options import run_command
from seq2seq_chat.report.figures.style import label_axes, new_figure, save
from seq2seq_chat.system.errors import UserError

CLOSE = 5  # seconds
MOST_FREQUENT = 5  # time lags


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
@click.option(
    "--film-transitions", is_flag=True, help="Count the transition from each film to the next in the last bar, too."
)
@click.option(
    "--output",
    default="time_lags",
    show_default=True,
    metavar="NAME",
    help="Write NAME.json, .csv, .png in percent and NAME_absolute.png.",
)
@corpus_options
def main(
    corpus: str, between: str, max_seconds: int, film_transitions: bool, output: str, options: CorpusOptions
) -> None:
    """Write histograms of the seconds between consecutive utterances of CORPUS, a prepared folder with times.

    The silences at which `prepare` cut a film are included; a clock that jumps back counts as less than 0 seconds.
    """
    with open_utterances(corpus, options) as utterances:
        lags = utterances.rows(time_lags(utterances.table, between))
        films = utterances.rows(count_films(utterances.table))[0]["films"] if film_transitions else 0
    if film_transitions and not films:
        raise UserError(f"--film-transitions applies to films, of which {corpus} has none; remove it")
    if films > 1:
        lags.append({"seconds": sys.maxsize, "pairs": films - 1})
    unknown = sum(row["pairs"] for row in lags if row["seconds"] is None)
    known = [(row["seconds"], row["pairs"]) for row in lags if row["seconds"] is not None]
    total = sum(pairs for _, pairs in known)
    if not total:
        raise UserError(f"{corpus} has no times; prepare opensubtitles or reddit")
    rows = histogram(known, max_seconds)
    close = 100 * sum(pairs for seconds, pairs in known if 0 <= seconds <= CLOSE) / total
    top = sorted((row for row in rows if row["seconds"].isdigit() and row["pairs"]), key=lambda row: -row["pairs"])
    top = sorted(top[:MOST_FREQUENT], key=lambda row: int(row["seconds"]))
    sum_of_top = 100 * sum(row["pairs"] for row in top) / total
    print_table(rows)
    of_each = ", ".join(f"{row['seconds']} s {100 * row['pairs'] / total:.1f} %" for row in top)
    caption = f"the {len(top)} most frequent time lags: {of_each}; together {sum_of_top:.1f} %"
    click.echo(caption)
    click.echo(f"{close:.1f} % within {CLOSE} seconds; {total:,} pairs, and {unknown:,} with unknown times")
    if film_transitions:
        click.echo(f"transitions between films, in the class >{max_seconds}: {films - 1:,}")
    result = {
        "within_5_seconds_percent": close,
        "most_frequent": top,
        "most_frequent_percent": sum_of_top,
        "film_transitions": films - 1 if film_transitions else None,
        "unknown": unknown,
        "histogram": rows,
    }
    write_rows(output, rows, [result])
    colored = {row["seconds"] for row in top}
    draw(rows, between, "percent", "% of pairs", caption, colored, f"{output}.png")
    draw(rows, between, "pairs", "pairs", f"{total:,} pairs", colored, f"{output}_absolute.png")
    click.echo(f"written: {output}.json, {output}.csv, {output}.png, {output}_absolute.png")


def time_lags(utterances: ir.Table, between: str) -> ir.Table:
    """The number of ``pairs`` of consecutive utterances for each time lag, rounded to ``seconds``; null if unknown.

    The utterances of a film are consecutive whether or not a silence between them starts a new conversation.

    Args:
        between: ``starts`` of both utterances, or ``silence`` from the end of the first to the start of the second.
    """
    order = ibis.window(group_by="thread", order_by=["conversation", "position"])
    first = utterances.start if between == "starts" else utterances.end
    lagged = utterances.mutate(
        is_film=_is_film(utterances).over(ibis.window(group_by="thread")),
        is_later=utterances.conversation.lag().over(order).notnull(),
        previous=first.lag().over(order),
    )
    later = lagged.filter(lagged.is_later & (lagged.is_film | (lagged.position > 0)))
    later = later.mutate(seconds=(later.start - later.previous).round().cast("int64"))
    return later.group_by("seconds").agg(pairs=later.count()).order_by("seconds")


def count_films(utterances: ir.Table) -> ir.Table:
    """The number of ``films`` among the threads."""
    threads = utterances.group_by("thread").agg(is_film=_is_film(utterances))
    return threads.filter(threads.is_film).agg(films=threads.thread.count())


def _is_film(utterances: ir.Table) -> ir.BooleanScalar:
    """Whether a thread's utterances come from a film.

    The other thread with several conversations is a submission: pairs of comments, whose ends are unknown.
    """
    return (utterances.end.notnull() | (utterances.position > 1)).any()


def histogram(known: list[tuple[int, int]], max_seconds: int) -> list[dict[str, Any]]:
    """Rows of seconds, pairs and percent: one for negative lags, one for each second, and one for longer lags."""
    total = sum(pairs for _, pairs in known)
    counted = dict(known)
    groups = [("<0", sum(pairs for seconds, pairs in known if seconds < 0))]
    groups += [(str(seconds), counted.get(seconds, 0)) for seconds in range(max_seconds + 1)]
    groups += [(f">{max_seconds}", sum(pairs for seconds, pairs in known if seconds > max_seconds))]
    return [{"seconds": name, "pairs": pairs, "percent": round(100 * pairs / total, 2)} for name, pairs in groups]


def draw(
    rows: list[dict[str, Any]], between: str, column: str, ylabel: str, title: str, colored: set[str], path: str
) -> None:
    """Draw a bar chart of a column, with the bars of some ``seconds`` in color."""
    figure = new_figure(9, 4.5)
    axes = figure.subplots()
    colors = ["C0" if row["seconds"] in colored else "0.7" for row in rows]
    axes.bar(range(len(rows)), [row[column] for row in rows], color=colors)
    step = 1 if len(rows) <= 35 else len(rows) // 20
    axes.set_xticks(range(0, len(rows), step), [row["seconds"] for row in rows][::step])
    label = "between the starts of two utterances" if between == "starts" else "of silence between two utterances"
    label_axes(axes, grid="y", xlabel=f"seconds {label}", ylabel=ylabel, title=title[:1].upper() + title[1:])
    axes.tick_params(axis="x", labelsize="small")
    save(figure, path)


if __name__ == "__main__":
    run_command(main)
