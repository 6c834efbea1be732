"""What a vocabulary knows of a corpus: words, occurrences of words, and utterances by the words they miss.

python scripts/analyze_coverage.py data/reddit --vocabulary data/reddit/vocabulary_25000.txt \\
    --vocabulary data/reddit/vocabulary_50000.txt --output coverage
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import matplotlib as mpl

from seq2seq_chat.corpus import SPECIAL_WORDS, Vocabulary
from seq2seq_chat.corpus.figures import engine_words
from seq2seq_chat.corpus.inspection import Utterances, engine_options, open_utterances, print_table, write_figures
from seq2seq_chat.corpus.tables import missing_words, summed, word_counts
from seq2seq_chat.errors import UserError

mpl.use("Agg")
from matplotlib import pyplot as plt

MOST_MISSING = 10  # in the picture; beyond that all together


@click.command()
@click.argument("corpus")
@click.option("--vocabulary", "vocabularies", multiple=True, metavar="FILE", help="May be given several times.")
@click.option("--output", default="coverage", show_default=True, metavar="NAME", help="Of NAME.json, .csv and .png.")
@engine_options
def main(corpus: str, vocabularies: tuple[str, ...], output: str, split: str, **how: str) -> None:
    """The thesis's table and histogram of coverage for CORPUS, a prepared folder or a corpus file.

    Without --vocabulary: every vocabulary*.txt in the folder.
    """
    try:
        files = vocabularies or sorted(map(str, Path(corpus).glob("vocabulary*.txt")))
        if not files:
            raise UserError(f"there is no vocabulary beside {corpus}; name one with --vocabulary")
        with open_utterances(corpus, split, how) as utterances:
            counts = utterances.engine.store(summed(word_counts(utterances.table), "word"), "counts")
            found = [(Path(file).name, *coverage(utterances, counts, Vocabulary.load(file))) for file in files]
        found.sort(key=lambda row: row[1]["size"])
        rows = [{"vocabulary": name, **figures} for name, figures, _ in found]
        print_table(rows)
        write_figures(f"{output}.csv", rows)
        write_figures(
            f"{output}.json", [row | {"missing": missing} for row, (_, _, missing) in zip(rows, found, strict=True)]
        )
        draw([(name, missing) for name, _, missing in found], f"{output}.png")
        click.echo(f"written: {output}.json, {output}.csv, {output}.png")
    except (UserError, OSError) as error:
        click.echo(f"Error: {error}", err=True)
        raise SystemExit(2) from error


def coverage(utterances: Utterances, counts: Any, vocabulary: Vocabulary) -> tuple[dict[str, Any], dict[int, int]]:
    """The row of the table, and the number of utterances by missing words."""
    words = engine_words(utterances.engine, vocabulary, utterances.folder)
    known = counts.semi_join(words, "word")
    totals = [
        utterances.rows(table.agg(words=table.count(), occurrences=table["count"].sum()))[0]
        for table in (counts, known)
    ]
    every, seen = ({name: int(value or 0) for name, value in row.items()} for row in totals)
    missing = {row["missing"]: row["utterances"] for row in utterances.rows(missing_words(utterances.table, words))}
    number = sum(missing.values())
    figures = {
        "size": len(vocabulary) - len(SPECIAL_WORDS),
        "known words": seen["words"],
        "unknown words": every["words"] - seen["words"],
        "words %": percent(seen["words"], every["words"]),
        "known occurrences": seen["occurrences"],
        "unknown occurrences": every["occurrences"] - seen["occurrences"],
        "occurrences %": percent(seen["occurrences"], every["occurrences"]),
        **{f"{count} missing %": percent(missing.get(count, 0), number) for count in range(3)},
        "3+ missing %": percent(sum(n for count, n in missing.items() if count > 2), number),
    }
    return figures, missing


def percent(part: int, whole: int) -> float:
    """With two decimals; 0 of nothing."""
    return round(100 * part / whole, 2) if whole else 0.0


def draw(found: list[tuple[str, dict[int, int]]], path: str) -> None:
    """A group of bars for each number of missing words, a bar for each vocabulary."""
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    width = 0.8 / len(found)
    for number, (name, missing) in enumerate(found):
        whole = sum(missing.values()) or 1
        shares = [100 * missing.get(count, 0) / whole for count in range(MOST_MISSING)]
        shares.append(100 * sum(n for count, n in missing.items() if count >= MOST_MISSING) / whole)
        places = [count + (number - (len(found) - 1) / 2) * width for count in range(MOST_MISSING + 1)]
        axes.bar(places, shares, width, label=name)
    axes.set_xticks(range(MOST_MISSING + 1), [*map(str, range(MOST_MISSING)), f"{MOST_MISSING}+"])
    axes.set(
        xlabel="words of the utterance that the vocabulary does not know",
        ylabel="% of utterances",
        title="Utterances by missing words",
    )
    axes.grid(alpha=0.3, axis="y")
    axes.legend()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
