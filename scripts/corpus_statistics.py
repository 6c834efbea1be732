"""What prepared corpora hold, side by side, and how long their utterances are.

python scripts/corpus_statistics.py data/opensubtitles data/reddit --output corpora
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import matplotlib as mpl

from seq2seq_chat.corpus.inspection import engine_options, open_utterances, print_table, write_figures
from seq2seq_chat.corpus.split import SPLITS
from seq2seq_chat.corpus.tables import figures
from seq2seq_chat.errors import UserError

mpl.use("Agg")
from matplotlib import pyplot as plt

LONGEST = 60  # words, in the picture


@click.command()
@click.argument("corpora", nargs=-1, required=True, metavar="CORPUS...")
@click.option("--pairing", type=click.Choice(["sliding", "alternating"]), default="sliding", show_default=True)
@click.option("--steps", default=30, show_default=True, help="Of encoder and decoder: what counts as too long.")
@click.option("--output", default="corpora", show_default=True, metavar="NAME", help="Of NAME.json, .csv and .png.")
@engine_options
def main(corpora: tuple[str, ...], pairing: str, steps: int, output: str, split: str, **how: str) -> None:
    """The thesis's table of sets for each CORPUS, a prepared folder or a corpus file."""
    rows: list[dict[str, Any]] = []
    lengths: dict[str, dict[int, int]] = {}
    try:
        for corpus in corpora:
            with open_utterances(corpus, split, how) as utterances:
                found = {row["split"]: row for row in utterances.rows(figures(utterances.table, pairing, steps, steps))}
                table = utterances.table
                by_length = utterances.rows(table.group_by("words").agg(utterances=table.count()))
            whole = sum(row["utterances"] for row in found.values())
            lengths[Path(corpus).name] = {row["words"]: row["utterances"] for row in by_length}
            for name in filter(found.__contains__, SPLITS):
                row = found[name]
                path = Path(corpus) / f"{name}.txt"
                rows.append(
                    {
                        "corpus": Path(corpus).name,
                        "set": name,
                        "percent": round(100 * row["utterances"] / whole, 2),
                        "MB": round(path.stat().st_size / 1e6, 2) if path.is_file() else 0.0,
                        "conversations": row["conversations"],
                        "utterances": row["utterances"],
                        "samples": row["samples"],
                        "words": row["words"],
                        "words per utterance": round(row["words"] / row["utterances"], 2),
                        "too long %": round(100 * row["too_long"] / row["samples"], 2) if row["samples"] else 0.0,
                    }
                )
        print_table(rows)
        write_figures(f"{output}.csv", rows)
        write_figures(f"{output}.json", rows)
        draw(lengths, steps, f"{output}.png")
        click.echo(f"written: {output}.json, {output}.csv, {output}.png")
    except (UserError, OSError) as error:
        click.echo(f"Error: {error}", err=True)
        raise SystemExit(2) from error


def draw(lengths: dict[str, dict[int, int]], steps: int, path: str) -> None:
    """Shares of utterances by their number of words, a line for each corpus."""
    figure, axes = plt.subplots(figsize=(9, 4.5), layout="constrained")
    for name, counted in lengths.items():
        whole = sum(counted.values())
        shares = [100 * counted.get(words, 0) / whole for words in range(1, LONGEST + 1)]
        beyond = 100 * sum(n for words, n in counted.items() if words > LONGEST) / whole
        axes.plot(range(1, LONGEST + 1), shares, marker=".", label=f"{name} ({beyond:.1f} % longer than {LONGEST})")
    axes.axvline(steps, color="0.5", linestyle="--", linewidth=1, label=f"{steps} steps")
    axes.set(
        xlabel="words of an utterance", ylabel="% of utterances", title="How long utterances are", xlim=(0, LONGEST + 1)
    )
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
