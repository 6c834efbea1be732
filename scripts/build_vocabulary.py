"""Write vocabularies of the most frequent words of a prepared corpus, in several sizes.

python scripts/build_vocabulary.py data/reddit --size 25000 --size 50000 --size 100000
"""

from __future__ import annotations

from pathlib import Path

import click
from corpus_script import CorpusOptions, corpus_options, open_utterances, print_table

from seq2seq_chat.cli.options import run_command
from seq2seq_chat.prepare.queries import sum_counts, vocabulary_words, word_counts
from seq2seq_chat.report.figures.style import label_axes, new_figure, save
from seq2seq_chat.system.files import as_user_error, write_json
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, Vocabulary


@click.command()
@click.argument("corpus")
@click.option("--size", "sizes", multiple=True, type=click.IntRange(5), default=(25_000, 50_000, 100_000))
@click.option("--output", metavar="DIR", help="Folder to write to.  [default: the folder of the corpus]")
@corpus_options
def main(corpus: str, sizes: tuple[int, ...], output: str | None, options: CorpusOptions) -> None:
    """Write vocabulary_SIZE.txt for each size, word_frequencies.json and .png of CORPUS, a prepared folder or file.

    With --side target the vocabularies are named target_vocabulary_SIZE.txt.

    Words of equal frequency are sorted by code points. Use --split train for the vocabulary of a model that is
    evaluated on validation or test.
    """
    folder = Path(output or (corpus if Path(corpus).is_dir() else "."))
    with open_utterances(corpus, options) as utterances:
        counts = sum_counts(word_counts(utterances.table), "word")
        counts = utterances.engine.materialize(counts, "counts")
        total, distinct = (utterances.rows(counts.agg(n=counts["count"].sum(), words=counts.count()))[0]).values()
        ranked = utterances.rows(vocabulary_words(counts, max(sizes)))
    with as_user_error(folder):
        folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for size in sorted(set(sizes)):
        chosen = ranked[: size - len(SPECIAL_WORDS)]
        path = folder / f"{options.vocabulary_prefix}vocabulary_{size}.txt"
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
    write_json(folder / "word_frequencies.json", rows)
    draw([row["count"] for row in ranked], sorted(set(sizes)), folder / "word_frequencies.png")


def draw(counts: list[int], sizes: list[int], path: Path) -> None:
    """Draw frequency over rank on logarithmic scales, with a vertical line for each size."""
    figure = new_figure(8, 4.5)
    axes = figure.subplots()
    axes.loglog(range(1, len(counts) + 1), counts, linewidth=1.5)
    for number, size in enumerate(sizes):
        if size <= len(counts) * 1.5:
            axes.axvline(size, color=f"C{number + 1}", linestyle="--", linewidth=1, label=f"{size:,} words")
    if axes.get_legend_handles_labels()[0]:
        axes.legend()
    label_axes(axes, xlabel="rank of a word", ylabel="occurrences", title="Word frequencies")
    save(figure, path)


if __name__ == "__main__":
    run_command(main)
