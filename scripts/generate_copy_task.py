"""Write the corpus of the copy task: repeat a sequence of numbers.

python scripts/generate_copy_task.py --output data/copy_task
seq2seq-chat train configs/copy_task.json
"""

from __future__ import annotations

from pathlib import Path

import click

from seq2seq_chat.checks.reply_tasks import MAX_LENGTH, copy_corpus, number_vocabulary
from seq2seq_chat.cli.options import run_command
from seq2seq_chat.data.corpus_file import write_conversations


@click.command()
@click.option("--output", default="data/copy_task", show_default=True, metavar="DIR")
@click.option("--max-length", default=MAX_LENGTH, show_default=True, type=click.IntRange(3), help="Longest sequence.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0))
def main(output: str, max_length: int, seed: int) -> None:
    """Write train.txt, vocabulary.txt, and validation.txt and test.txt with half of the held-out sequences each."""
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    training, held_out = copy_corpus(max_length, seed)
    half = len(held_out) // 2
    for name, sequences in (("train", training), ("validation", held_out[:half]), ("test", held_out[half:])):
        write_conversations(folder / f"{name}.txt", ((sequence, sequence) for sequence in sequences))
    number_vocabulary().save(folder / "vocabulary.txt")
    click.echo(f"{len(training):,} training sequences and {len(held_out)} held-out sequences in {folder}")


if __name__ == "__main__":
    run_command(main)
