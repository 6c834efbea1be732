"""Make a chat export from a corpus, to try what a model learns from few messages without anyone's private chats.

python scripts/make_chats.py data/dailydialog/train.txt chat.txt --messages 5000

Two people write the conversations in turn, in the format of WhatsApp on Android. With --secrets, some messages hold an
invented telephone number, each a different one, so that one can see which of them a model repeats.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import groupby, islice
from pathlib import Path

import click
import numpy as np

from seq2seq_chat.cli.options import run_command
from seq2seq_chat.data.corpus_file import read_utterances
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import atomic_write

NUMBERS = 10_000  # of four digits


@click.command()
@click.argument("corpus", metavar="INPUT")
@click.argument("output", metavar="OUTPUT")
@click.option("--messages", default=5_000, show_default=True, type=click.IntRange(2), help="Messages to write.")
@click.option("--names", nargs=2, default=("Ada", "Ben"), show_default=True, help="Who asks, and who replies.")
@click.option(
    "--secrets",
    default=0,
    show_default=True,
    type=click.IntRange(0, NUMBERS),
    help="Messages that hold a telephone number.",
)
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0))
def main(corpus: str, output: str, messages: int, names: tuple[str, str], secrets: int, seed: int) -> None:
    """Write the first conversations of INPUT, a corpus file, as the chat export OUTPUT."""
    chat = list(islice(make_chat(corpus, names, np.random.default_rng(seed)), messages))
    if len(chat) < max(messages, secrets):
        raise UserError(f"{corpus} has {len(chat):,} utterances; lower --messages or --secrets")
    random = np.random.default_rng([seed, 1])
    places, values = (random.choice(total, secrets, replace=False) for total in (len(chat), NUMBERS))
    numbers = dict(zip(places, values, strict=True))
    with atomic_write(Path(output)) as file:
        for index, (time, name, text) in enumerate(chat):
            secret = f" my number is 555 {numbers[index]:04}" if index in numbers else ""
            file.write(f"{time:%d.%m.%y, %H:%M} - {name}: {text}{secret}\n")
    click.echo(f"{output}: {len(chat):,} messages from {chat[0][0]:%d.%m.%Y} to {chat[-1][0]:%d.%m.%Y}")


def make_chat(corpus: str, names: tuple[str, str], random: np.random.Generator) -> Iterator[tuple[datetime, str, str]]:
    """Yield (time, name, text) of each message: the first of ``names`` begins every conversation, a day apart."""
    time = datetime(2020, 1, 1, 18)
    for _, conversation in groupby(read_utterances(corpus), key=lambda line: line[0]):
        for turn, (_, text) in enumerate(conversation):
            yield time, names[turn % 2], text
            time += timedelta(minutes=int(random.integers(1, 10)))
        time = (time + timedelta(days=1)).replace(hour=18, minute=0)


if __name__ == "__main__":
    run_command(main)
