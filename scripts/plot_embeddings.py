"""Draw a model's word embeddings by PCA and t-SNE, and print the nearest neighbors of words.

python scripts/plot_embeddings.py latest --word coffee --word tuesday --output embeddings/
tensorboard --logdir embeddings/projector
"""

from __future__ import annotations

import click
from picture_script import Pictures, picture_options, results_option, snapshot_option

from seq2seq_chat.cli.running import run_command
from seq2seq_chat.runs.find import find_run
from seq2seq_chat.system.versions import load_tensorflow


@click.command(help=__doc__)
@click.argument("run")
@click.option(
    "--words",
    default=1000,
    show_default=True,
    type=click.IntRange(3, 3000),
    help="Number of words to draw, most frequent first.",
)
@click.option("--word", "selected", multiple=True, metavar="WORD", help="Print the neighbors of this word; repeatable.")
@snapshot_option
@results_option
@picture_options
def main(
    run: str, words: int, selected: tuple[str, ...], snapshot: str | None, results: str, pictures: Pictures
) -> None:
    """Draw the word embeddings of RUN's encoder, and write them for TensorBoard's projector."""
    trained_run = find_run(run, results)
    load_tensorflow()
    from seq2seq_chat.analysis.figures.vectors import draw_projections
    from seq2seq_chat.analysis.loaded_run import LoadedRun
    from seq2seq_chat.analysis.model_view import vectors

    loaded = LoadedRun(trained_run, snapshot)
    all_words = vectors.word_vectors(loaded, len(loaded.codecs.source.vocabulary))
    points = vectors.word_vectors(loaded, words)
    for word in selected or points.labels[20:120:10] or points.labels[:5]:
        neighbors = vectors.nearest_neighbors(all_words, word)
        click.echo(f"{word}: {', '.join(f'{other} ({similarity:.2f})' for other, similarity in neighbors)}")
    pictures.write(draw_projections(points, "Word embeddings", max_labels=110), "word_embeddings", main=True)
    vectors.export_projector(all_words, pictures.folder() / "projector")
    click.echo(f"for TensorBoard: tensorboard --logdir {pictures.folder() / 'projector'}")


if __name__ == "__main__":
    run_command(main)
