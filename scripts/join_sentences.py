"""Join short pairs of sentences into longer ones, for corpora that lack long sentences.

python scripts/join_sentences.py data/fra/train.tsv data/fra_long/train.tsv --pairs 100000 --words 1 60

The lengths of the new sources are uniformly distributed. Each new pair joins pairs in random order; every pair is used
once before any is used again.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, count
from pathlib import Path

import click
import numpy as np
from tqdm import tqdm

from seq2seq_chat.cli.options import run_command
from seq2seq_chat.data.corpus_file import Pair, read_pairs
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import atomic_write
from seq2seq_chat.text.tokenizers import TokenizerSettings, create_tokenizer


@click.command()
@click.argument("pairs_file", metavar="INPUT")
@click.argument("output", metavar="OUTPUT")
@click.option("--pairs", default=100_000, show_default=True, type=click.IntRange(1), help="Pairs to write.")
@click.option(
    "--words", nargs=2, default=(1, 60), show_default=True, type=click.IntRange(1), help="Range of source lengths."
)
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0))
def main(pairs_file: str, output: str, pairs: int, words: tuple[int, int], seed: int) -> None:
    """Join the pairs of INPUT, a .tsv of two columns, into longer ones, and write them to OUTPUT.

    Words and punctuation marks are counted by the `unicode` tokenizer.
    """
    if words[0] > words[1]:
        raise click.UsageError(f"--words {words[0]} {words[1]}: the first must not exceed the second")
    sentences = list(read_pairs(pairs_file, progress=True))
    encode = create_tokenizer(TokenizerSettings("unicode")).encode
    lengths = [len(encode(pair.source)) for pair in sentences]
    if not any(0 < length <= words[1] for length in lengths):
        raise UserError(f"no source in {pairs_file} has 1 to {words[1]} words; raise --words")
    joined = join_sentences(sentences, lengths, words, np.random.default_rng(seed))
    path = Path(output)
    path.parent.mkdir(parents=True, exist_ok=True)
    total = 0
    with atomic_write(path) as file:
        for _ in tqdm(range(pairs), unit="pair", delay=2, disable=None, leave=False):
            pair, length = next(joined)
            total += length
            file.write(f"{pair.source}\t{pair.target}\n")
    click.echo(f"{path}: {pairs:,} pairs of {total / pairs:.1f} source words on average, from {len(sentences):,} pairs")


def join_sentences(
    sentences: list[Pair], lengths: list[int], words: tuple[int, int], random: np.random.Generator
) -> Iterator[tuple[Pair, int]]:
    """Yield joined pairs and the lengths of their sources, without end.

    For each, a length is drawn from ``words``; sentences are then added as long as they do not exceed it. A sentence
    that does not fit begins the next pair; those that fit nowhere are left out.

    Args:
        lengths: [sentences] Words of each source.
        words: Least and greatest length to draw, in words.
    """
    usable = [n for n, length in enumerate(lengths) if 0 < length <= words[1]]
    order = chain.from_iterable(random.permutation(usable).tolist() for _ in count())
    sentence = next(order)
    while True:
        limit = max(random.integers(words[0], words[1], endpoint=True), lengths[sentence])
        parts, length = [], 0
        while length + lengths[sentence] <= limit:
            parts.append(sentences[sentence])
            length += lengths[sentence]
            sentence = next(order)
        yield Pair(" ".join(part.source for part in parts), " ".join(part.target for part in parts)), length


if __name__ == "__main__":
    run_command(main)
