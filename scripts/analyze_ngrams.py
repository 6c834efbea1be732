"""The most frequent uni-, bi- and trigrams of a corpus as table and bar chart.

python scripts/analyze_ngrams.py data/reddit --top 40 --output ngrams
"""

from __future__ import annotations

from typing import Any

import click
import ibis
import ibis.expr.types as ir
from corpus_script import CorpusOptions, corpus_options, open_utterances, print_table, write_rows

from seq2seq_chat.cli.options import run_command
from seq2seq_chat.prepare.queries import most_frequent, token_lists
from seq2seq_chat.report.figures.style import label_axes, new_figure, save

NAMES = {1: "unigrams", 2: "bigrams", 3: "trigrams"}


@click.command()
@click.argument("corpus")
@click.option("--top", default=30, show_default=True, type=click.IntRange(1, 1000), help="N-grams of each size.")
@click.option("--no-marks", is_flag=True, help="Skip n-grams with . , ! or ?")
@click.option(
    "--output", default="ngrams", show_default=True, metavar="NAME", help="Write NAME.json, .csv, NAME_bars.png."
)
@corpus_options
def main(corpus: str, top: int, no_marks: bool, output: str, options: CorpusOptions) -> None:
    """Write the most frequent n-grams within the utterances of CORPUS, a prepared folder or a corpus file."""
    rows: list[dict[str, Any]] = []
    with open_utterances(corpus, options) as utterances:
        for size, name in NAMES.items():
            counts = utterances.engine.materialize(ngram_counts(utterances.table, size), name)
            total = int(utterances.rows(counts.agg(n=counts["count"].sum()))[0]["n"] or 0)
            if no_marks:
                counts = counts.filter(~counts.ngram.re_search("(^| )[.,!?]( |$)"))
            for rank, row in enumerate(utterances.rows(most_frequent(counts, top, "ngram")), 1):
                share = round(100 * row["count"] / total, 3)
                rows.append({"n": size, "rank": rank, "ngram": row["ngram"], "count": row["count"], "percent": share})
    for size, name in NAMES.items():
        click.echo(f"{name}:")
        print_table(
            [{"ngram": row["ngram"], "count": row["count"], "%": row["percent"]} for row in rows if row["n"] == size]
        )
    write_rows(output, rows)
    draw_bars(rows, min(top, 30), f"{output}_bars.png")
    click.echo(f"written: {output}.json, {output}.csv, {output}_bars.png")


def ngram_counts(utterances: ir.Table, size: int) -> ir.Table:
    """The number of occurrences (``count``) of each ``ngram`` of ``size`` words within utterances."""
    long_enough = utterances.filter(utterances.words >= size)
    words = token_lists(long_enough)
    if size == 1:
        ngrams = long_enough.select(ngram=words.unnest())
    else:
        starts = ibis.range(0, words.length() - size + 1)
        ngrams = long_enough.select(ngram=starts.map(lambda start: words[start : start + size].join(" ")).unnest())
    return ngrams.group_by("ngram").agg(count=ngrams.count())


def draw_bars(rows: list[dict[str, Any]], top: int, path: str) -> None:
    """Draw three bar charts side by side."""
    figure = new_figure(13, 1.6 + 0.24 * top)
    charts = figure.subplots(1, 3)
    for axes, (size, name) in zip(charts, NAMES.items(), strict=True):
        chosen = [row for row in rows if row["n"] == size][:top][::-1]
        axes.barh(range(len(chosen)), [row["count"] for row in chosen], color=f"C{size - 1}")
        axes.set_yticks(range(len(chosen)), [row["ngram"] for row in chosen])
        label_axes(axes, grid="x", title=name, xlabel="occurrences", ylim=(-0.6, max(len(chosen), 1) - 0.4))
    save(figure, path)


if __name__ == "__main__":
    run_command(main)
