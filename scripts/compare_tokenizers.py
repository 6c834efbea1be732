"""Show how each tokenizer splits a text, and how it decodes the tokens.

python scripts/compare_tokenizers.py --text "Où est l'hôtel ? Wo ist die große Straße?"
python scripts/compare_tokenizers.py data/mytext.txt --vocabulary-size 8000
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import get_args

import click

from seq2seq_chat.cli.running import run_command
from seq2seq_chat.data.lines import numbered_lines
from seq2seq_chat.data.tokenizers import (
    Tokenizer,
    TokenizerName,
    TokenizerSettings,
    create_tokenizer,
    train_tokenizer,
)
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.tables import format_table

NAMES = tuple(name for name in get_args(TokenizerName) if name != "english_character")
MAX_LINES = 100_000  # of a file, to compare


@click.command()
@click.argument("file", required=False)
@click.option("--text", help="Show this text rather than the first lines of FILE.")
@click.option("--lines", default=3, show_default=True, type=click.IntRange(0), help="Lines of FILE to show.")
@click.option("--tokenizer", "names", multiple=True, type=click.Choice(NAMES), help="Can be repeated.  [default: all]")
@click.option("--lowercase", is_flag=True, help="unicode: convert tokens to lower case.")
@click.option(
    "--vocabulary-size", default=8000, show_default=True, help="subword: size of the vocabulary, trained on FILE."
)
def main(
    file: str | None, text: str | None, lines: int, names: tuple[str, ...], lowercase: bool, vocabulary_size: int
) -> None:
    """Compare tokenizers on FILE, a text with one utterance per line, or on the text of --text.

    For a file, a table gives the tokens per line, the distinct tokens, and the share of the lines that
    decoding restores exactly.
    """
    if file is None and text is None:
        raise click.UsageError("specify FILE or --text")
    if file is None and "subword" in names:
        raise click.UsageError("--tokenizer subword requires FILE, the text to train it on")
    corpus = [line for _, line in islice(numbered_lines(file, UserError, progress=True), MAX_LINES)] if file else []
    if file and not any(corpus):
        raise UserError(f"{file} has no text")
    rows = [["tokenizer", "tokens per line", "distinct tokens", "exact lines"]]
    for name in names or NAMES:
        settings = TokenizerSettings(name, lowercase)  # type: ignore[arg-type]  # checked by click
        if name == "subword" and not corpus:
            continue  # there is nothing to train it on
        tokenizer = (
            train_tokenizer(settings, corpus, vocabulary_size, "--vocabulary-size")
            if name == "subword"
            else create_tokenizer(settings)
        )
        for shown in [text] if text is not None else corpus[:lines]:
            tokens = tokenizer.encode(shown)
            click.echo(f"{name}: {' | '.join(tokens)}")
            click.echo(f"  → {tokenizer.decode(tokens)}")
        if corpus:
            rows.append([name, *_figures(tokenizer, corpus)])
    if corpus:
        click.echo(f"\n{format_table(rows, 'lr', 'ruled')}")


def _figures(tokenizer: Tokenizer, corpus: Sequence[str]) -> list[str]:
    encoded = [line.split(" ") if line else [] for line in tokenizer.encode_lines(corpus)]
    exact = sum(tokenizer.decode(tokens) == line for tokens, line in zip(encoded, corpus, strict=True))
    distinct = {token for tokens in encoded for token in tokens}
    count = sum(map(len, encoded))
    return [f"{count / len(corpus):.1f}", f"{len(distinct):,}", f"{100 * exact / len(corpus):.1f} %"]


if __name__ == "__main__":
    run_command(main)
