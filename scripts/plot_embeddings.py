"""Draw a model's word embeddings by PCA and t-SNE, and print the nearest neighbours of words.

python scripts/plot_embeddings.py latest --word coffee --word tuesday --output embeddings/
tensorboard --logdir embeddings/projector
"""

from __future__ import annotations

from typing import Optional

import click
from picture_script import Pictures, picture_options, results_option, snapshot_option, warn

from seq2seq_chat.environment import load_tensorflow
from seq2seq_chat.runs import find_run


@click.command(help=__doc__)
@click.argument("run")
@click.option(
    "--words", default=1000, show_default=True, type=click.IntRange(3, 3000), help="Most frequent words to draw."
)
@click.option(
    "--word", "asked", multiple=True, metavar="WORD", help="Print its neighbours; may be given several times."
)
@snapshot_option
@results_option
@picture_options
def main(
    run: str, words: int, asked: tuple[str, ...], snapshot: Optional[str], results: str, pictures: Pictures
) -> None:
    """Draw the word embeddings of RUN's encoder, and write them for TensorBoard's projector."""
    found = find_run(run, results)
    load_tensorflow()
    from seq2seq_chat.analysis import vectors
    from seq2seq_chat.analysis.subject import Subject

    subject = Subject(found, snapshot, warn)
    everything = vectors.word_vectors(subject, len(subject.vocabulary))
    points = vectors.word_vectors(subject, words)
    for word in asked or points.labels[20:120:10] or points.labels[:5]:
        near = ", ".join(f"{other} ({similarity:.2f})" for other, similarity in vectors.neighbours(everything, word))
        click.echo(f"{word}: {near}")
    pictures.write(vectors.draw_projections(points, "Word embeddings", labelled=110), "word_embeddings", main=True)
    vectors.export_projector(everything, pictures.folder() / "projector")
    click.echo(f"for TensorBoard: tensorboard --logdir {pictures.folder() / 'projector'}")


if __name__ == "__main__":
    main()
