"""Coverage of a corpus by vocabularies: words, occurrences, and utterances by their number of unknown words.

python scripts/analyze_coverage.py data/reddit --vocabulary data/reddit/vocabulary_25000.txt \\
    --vocabulary data/reddit/vocabulary_50000.txt --output coverage
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import ibis
import ibis.expr.types as ir
from corpus_script import CorpusOptions, Utterances, corpus_options, open_utterances, print_table, write_rows

from seq2seq_chat.cli.options import run_command
from seq2seq_chat.prepare.queries import sum_counts, token_lists, word_counts
from seq2seq_chat.prepare.statistics import percent, vocabulary_table
from seq2seq_chat.report.figures.style import label_axes, new_figure, save
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, Vocabulary

MAX_MISSING = 10  # in the figure; larger numbers share the last group


@click.command()
@click.argument("corpus")
@click.option("--vocabulary", "vocabularies", multiple=True, metavar="FILE", help="May be repeated.")
@click.option("--output", default="coverage", show_default=True, metavar="NAME", help="Write NAME.json, .csv, .png.")
@corpus_options
def main(corpus: str, vocabularies: tuple[str, ...], output: str, options: CorpusOptions) -> None:
    """Write the thesis's table and histogram of coverage for CORPUS, a prepared folder or a corpus file.

    "words %" is the thesis's "total amount words", "occurrences %" its "single coverage". The total coverage is the
    share of utterances with at most two missing words. Vocabularies of the same words are one row.

    Without --vocabulary, all vocabulary*.txt in the folder are used, and with --side target all target_vocabulary*.txt.
    """
    files = vocabularies or sorted(map(str, Path(corpus).glob(f"{options.vocabulary_prefix}vocabulary*.txt")))
    if not files:
        raise UserError(f"there is no vocabulary in {corpus}; name one with --vocabulary")
    with open_utterances(corpus, options) as utterances:
        counts = utterances.engine.materialize(sum_counts(word_counts(utterances.table), "word"), "counts")
        names: dict[frozenset[str], list[str]] = {}
        for file in files:
            names.setdefault(frozenset(Vocabulary.load(file).words), []).append(file)
        results = [
            (" = ".join(Path(file).name for file in same), *coverage(utterances, counts, Vocabulary.load(same[0])))
            for same in names.values()
        ]
    results.sort(key=lambda row: row[1]["size"])
    rows = [{"vocabulary": name, **row} for name, row, _ in results]
    print_table(rows)
    details = [row | {"missing": missing} for row, (_, _, missing) in zip(rows, results, strict=True)]
    write_rows(output, rows, details)
    draw([(name, missing) for name, _, missing in results], f"{output}.png")
    click.echo(f"written: {output}.json, {output}.csv, {output}.png")


def coverage(utterances: Utterances, counts: Any, vocabulary: Vocabulary) -> tuple[dict[str, Any], dict[int, int]]:
    """The row of the table, and the number of utterances by number of missing words."""
    words = vocabulary_table(utterances.engine, vocabulary, utterances.folder)
    known = counts.semi_join(words, "word")
    totals = [
        utterances.rows(table.agg(words=table.count(), occurrences=table["count"].sum()))[0]
        for table in (counts, known)
    ]
    total, known_total = ({name: int(value or 0) for name, value in row.items()} for row in totals)
    missing = {row["missing"]: row["utterances"] for row in utterances.rows(missing_words(utterances.table, words))}
    number = sum(missing.values())
    row = {
        "size": len(vocabulary) - len(SPECIAL_WORDS),
        "known words": known_total["words"],
        "unknown words": total["words"] - known_total["words"],
        "words %": percent(known_total["words"], total["words"]),
        "known occurrences": known_total["occurrences"],
        "unknown occurrences": total["occurrences"] - known_total["occurrences"],
        "occurrences %": percent(known_total["occurrences"], total["occurrences"]),
        **{f"{count} missing %": percent(missing.get(count, 0), number) for count in range(3)},
        "3+ missing %": percent(sum(n for count, n in missing.items() if count > 2), number),
        "total coverage %": percent(sum(n for count, n in missing.items() if count <= 2), number),
    }
    return row, missing


def missing_words(utterances: ir.Table, vocabulary: ir.Table) -> ir.Table:
    """The number of ``utterances`` that have 0, 1, 2, … words (``missing``) that are not in ``vocabulary.word``."""
    numbered = utterances.select("conversation", "position", word=token_lists(utterances).unnest())
    unknown = numbered.anti_join(vocabulary, "word")
    per_utterance = unknown.group_by(["conversation", "position"]).agg(missing=unknown.count())
    some = per_utterance.group_by("missing").agg(utterances=per_utterance.count())
    total = utterances.agg(total=utterances.count())
    incomplete = per_utterance.agg(incomplete=per_utterance.count())
    none = total.cross_join(incomplete)
    none = none.select(missing=ibis.literal(0, "int64"), utterances=none.total - none.incomplete)
    return some.union(none.filter(none.utterances > 0)).order_by("missing")


def draw(results: list[tuple[str, dict[int, int]]], path: str) -> None:
    """Draw a group of bars for each number of missing words, with one bar per vocabulary."""
    figure = new_figure(8, 4.5)
    axes = figure.subplots()
    width = 0.8 / len(results)
    for number, (name, missing) in enumerate(results):
        total = sum(missing.values()) or 1
        shares = [100 * missing.get(count, 0) / total for count in range(MAX_MISSING)]
        shares.append(100 * sum(n for count, n in missing.items() if count >= MAX_MISSING) / total)
        positions = [count + (number - (len(results) - 1) / 2) * width for count in range(MAX_MISSING + 1)]
        axes.bar(positions, shares, width, label=name)
    axes.set_xticks(range(MAX_MISSING + 1), [*map(str, range(MAX_MISSING)), f"{MAX_MISSING}+"])
    xlabel, title = "words of the utterance missing from the vocabulary", "Utterances by missing words"
    label_axes(axes, grid="y", xlabel=xlabel, ylabel="% of utterances", title=title)
    axes.legend()
    save(figure, path)


if __name__ == "__main__":
    run_command(main)
