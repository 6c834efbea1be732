"""Write the vocabularies of the most frequent words of a prepared corpus, several sizes at once.

python scripts/build_vocabulary.py data/reddit --size 25000 --size 50000 --size 100000
"""

from __future__ import annotations

from pathlib import Path

import click
import matplotlib as mpl

from seq2seq_chat.corpus import SPECIAL_WORDS, Vocabulary
from seq2seq_chat.corpus.inspection import engine_options, open_utterances, print_table, write_figures
from seq2seq_chat.corpus.tables import most_frequent, summed, word_counts
from seq2seq_chat.errors import UserError

mpl.use("Agg")
from matplotlib import pyplot as plt


@click.command()
@click.argument("corpus")
@click.option("--size", "sizes", multiple=True, type=click.IntRange(5), default=(25_000, 50_000, 100_000))
@click.option("--level", type=click.Choice(["word", "character"]), default="word", show_default=True)
@click.option("--output", metavar="DIR", help="Where they go.  [default: the corpus's folder]")
@engine_options
def main(corpus: str, sizes: tuple[int, ...], level: str, output: str | None, split: str, **how: str) -> None:
    """Write vocabulary_SIZE.txt for each size, word_frequencies.json and .png of CORPUS, a prepared folder or file.

    Words of equal frequency are in the order of their characters. Count train alone (--split train) for a vocabulary
    that a model is judged with.
    """
    folder = Path(output or (corpus if Path(corpus).is_dir() else "."))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open_utterances(corpus, split, how) as utterances:
            counts = summed(word_counts(utterances.table, level), "word")
            counts = utterances.engine.store(counts, "counts")
            total, distinct = (utterances.rows(counts.agg(n=counts["count"].sum(), words=counts.count()))[0]).values()
            ranked = utterances.rows(most_frequent(counts, max(sizes)))
        rows = []
        for size in sorted(set(sizes)):
            chosen = ranked[: size - len(SPECIAL_WORDS)]
            path = folder / f"vocabulary_{size}.txt"
            Vocabulary([*SPECIAL_WORDS, *(row["word"] for row in chosen)]).save(path)
            known = sum(row["count"] for row in chosen)
            rows.append(
                {
                    "file": str(path),
                    "words": len(chosen),
                    "rarest occurs": chosen[-1]["count"] if chosen else 0,
                    "of distinct words %": 100 * len(chosen) / distinct if distinct else 0.0,
                    "of occurrences %": 100 * known / int(total) if total else 0.0,
                }
            )
        print_table(rows)
        write_figures(folder / "word_frequencies.json", rows)
        draw([row["count"] for row in ranked], sorted(set(sizes)), folder / "word_frequencies.png")
    except (UserError, OSError) as error:
        click.echo(f"Error: {error}", err=True)
        raise SystemExit(2) from error


def draw(counts: list[int], sizes: list[int], path: Path) -> None:
    """Frequency over rank, both logarithmic, with the sizes as lines."""
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    axes.loglog(range(1, len(counts) + 1), counts, linewidth=1.5)
    for number, size in enumerate(sizes):
        if size <= len(counts) * 1.5:
            axes.axvline(size, color=f"C{number + 1}", linestyle="--", linewidth=1, label=f"{size:,} words")
    if axes.get_legend_handles_labels()[0]:
        axes.legend()
    axes.set(xlabel="rank of a word", ylabel="occurrences", title="How often words occur")
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
