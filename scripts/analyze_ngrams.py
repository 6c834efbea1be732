"""The most frequent uni-, bi- and trigrams of a corpus as table, bar chart, treemap and graph.

python scripts/analyze_ngrams.py data/reddit --top 40 --output ngrams
"""

from __future__ import annotations

from typing import Any

import click
import squarify
from corpus_script import CorpusOptions, corpus_options, open_utterances, print_table, write_rows
from matplotlib import colormaps
from matplotlib.patches import Rectangle

from seq2seq_chat.analysis.figures.style import new_figure, save
from seq2seq_chat.cli.running import run_command
from seq2seq_chat.prepare.queries import most_frequent, ngram_counts

NAMES = {1: "unigrams", 2: "bigrams", 3: "trigrams"}


@click.command()
@click.argument("corpus")
@click.option("--top", default=30, show_default=True, type=click.IntRange(1, 1000), help="N-grams of each size.")
@click.option("--no-marks", is_flag=True, help="Skip n-grams with . , ! or ?")
@click.option(
    "--output", default="ngrams", show_default=True, metavar="NAME", help="Write NAME.json, .csv, NAME_….png."
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
    write_rows(f"{output}.json", rows)
    write_rows(f"{output}.csv", rows)
    draw_bars(rows, min(top, 30), f"{output}_bars.png")
    draw_treemap(rows, min(top, 40), f"{output}_treemap.png")
    draw_graph([row for row in rows if row["n"] == 2][:40], f"{output}_graph.png")
    click.echo(f"written: {output}.json, {output}.csv, {output}_bars.png, {output}_treemap.png, {output}_graph.png")


def draw_bars(rows: list[dict[str, Any]], top: int, path: str) -> None:
    """Draw three bar charts side by side."""
    figure = new_figure(13, 1.6 + 0.24 * top)
    charts = figure.subplots(1, 3)
    for axes, (size, name) in zip(charts, NAMES.items(), strict=True):
        chosen = [row for row in rows if row["n"] == size][:top][::-1]
        axes.barh(range(len(chosen)), [row["count"] for row in chosen], color=f"C{size - 1}")
        axes.set_yticks(range(len(chosen)), [row["ngram"] for row in chosen])
        axes.set(title=name, xlabel="occurrences", ylim=(-0.6, max(len(chosen), 1) - 0.4))
        axes.grid(alpha=0.3, axis="x")
    save(figure, path)


def draw_treemap(rows: list[dict[str, Any]], top: int, path: str) -> None:
    """Draw three treemaps side by side."""
    figure = new_figure(16, 6)
    charts = figure.subplots(1, 3)
    for axes, (size, name) in zip(charts, NAMES.items(), strict=True):
        chosen = [row for row in rows if row["n"] == size][:top]
        axes.set_title(name)
        axes.axis("off")
        if not chosen:
            continue
        max_count = chosen[0]["count"]
        sizes = squarify.normalize_sizes([row["count"] for row in chosen], 100, 100)
        for row, box in zip(chosen, squarify.squarify(sizes, 0, 0, 100, 100), strict=True):
            color = colormaps["Blues"](0.15 + 0.6 * row["count"] / max_count)
            axes.add_patch(Rectangle((box["x"], box["y"]), box["dx"], box["dy"], facecolor=color, edgecolor="white"))
            # The largest font that fits: a letter is about 0.6 of its height wide, and 100 units are 340 points.
            font_size, lines = max(
                (min(3.4 * box["dx"] / (0.62 * max(map(len, lines))), 3.4 * box["dy"] / (1.3 * len(lines))), lines)
                for lines in ([row["ngram"]], row["ngram"].split())
            )
            if font_size >= 4.5:
                axes.text(
                    box["x"] + box["dx"] / 2,
                    box["y"] + box["dy"] / 2,
                    "\n".join(lines),
                    ha="center",
                    va="center",
                    fontsize=min(font_size, 18),
                    color="white" if row["count"] > 0.6 * max_count else "black",
                )
        axes.set(xlim=(0, 100), ylim=(0, 100))
    save(figure, path)


def draw_graph(bigrams: list[dict[str, Any]], path: str) -> None:
    """Draw first words on the left, second words on the right, and lines between them as wide as they are frequent."""
    edges = [(*row["ngram"].split(), row["count"]) for row in bigrams]
    weights: tuple[dict[str, int], dict[str, int]] = ({}, {})
    for first, second, count in edges:
        weights[0][first] = weights[0].get(first, 0) + count
        weights[1][second] = weights[1].get(second, 0) + count
    left = {word: rank for rank, word in enumerate(sorted(weights[0], key=lambda word: -weights[0][word]))}

    def mean_rank(second: str) -> float:
        """The mean rank of the first words, so that few lines cross."""
        partners = [(left[first], count) for first, other, count in edges if other == second]
        return sum(rank * count for rank, count in partners) / sum(count for _, count in partners)

    right = {word: rank for rank, word in enumerate(sorted(weights[1], key=mean_rank))}
    height = max(len(left), len(right), 1)
    figure = new_figure(8, 1.2 + 0.25 * height)
    axes = figure.subplots()
    axes.axis("off")
    axes.set_title(f"the {len(edges)} most frequent bigrams: first word → second word")
    max_count = max((count for *_, count in edges), default=1)
    positions = [
        {word: height * (rank + 0.5) / len(side) for word, rank in side.items()} for side in (left, right) if side
    ]
    for first, second, count in edges:
        color = f"C{left[first] % 10}"
        ends = [positions[0][first], positions[1][second]]
        axes.plot([0, 1], ends, color=color, linewidth=0.8 + 7 * count / max_count, alpha=0.5, solid_capstyle="butt")
    for side, x, align in zip(positions, (-0.02, 1.02), ("right", "left"), strict=False):
        for word, y in side.items():
            axes.text(x, y, word, ha=align, va="center", fontsize=11)
    axes.set(xlim=(-0.25, 1.25), ylim=(height, 0))
    save(figure, path)


if __name__ == "__main__":
    run_command(main)
