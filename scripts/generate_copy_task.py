"""Write the corpus of the copy task: sequences of numbers that are to be repeated.

python scripts/generate_copy_task.py --output data/copy_task
seq2seq-chat train configs/copy_task.json
"""

from __future__ import annotations

from pathlib import Path

import click

from seq2seq_chat.corpus.copy_task import LONGEST, SEQUENCES, copy_corpus, copy_vocabulary
from seq2seq_chat.corpus.files import write_conversations


@click.command()
@click.option("--output", default="data/copy_task", show_default=True, metavar="DIR")
@click.option("--longest", default=LONGEST, show_default=True, type=click.IntRange(3), help="Symbols of a sequence.")
@click.option("--seed", default=1, show_default=True)
def main(output: str, longest: int, seed: int) -> None:
    """Write train.txt, validation.txt and test.txt (half of the held-out sequences each), and vocabulary.txt."""
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    sequences, held_out = copy_corpus(longest, seed)
    half = len(held_out) // 2
    for name, part in (("train", sequences), ("validation", held_out[:half]), ("test", held_out[half:])):
        write_conversations(folder / f"{name}.txt", ((sequence, sequence) for sequence in part))
    copy_vocabulary().save(folder / "vocabulary.txt")
    click.echo(f"{SEQUENCES:,} sequences to learn, {len(held_out)} held out, in {folder}")


if __name__ == "__main__":
    main()
