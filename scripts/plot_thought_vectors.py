"""Draw the thought vectors of utterances by PCA and t-SNE, and print clusters of similar ones.

python scripts/plot_thought_vectors.py latest --data data/dailydialog/test.txt --output thoughts/
python scripts/plot_thought_vectors.py latest --data my_sentences.txt --output thoughts.svg
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
    "--data",
    metavar="FILE",
    help="Corpus file, or any text file with one utterance per line.  [default: the test corpus]",
)
@click.option(
    "--limit",
    default=2000,
    show_default=True,
    type=click.IntRange(5, 3000),
    help="Number of utterances, evenly spaced.",
)
@click.option("--clusters", default=7, show_default=True, type=click.IntRange(1, 50))
@snapshot_option
@results_option
@picture_options
def main(
    run: str,
    data: str | None,
    limit: int,
    clusters: int,
    snapshot: str | None,
    results: str,
    pictures: Pictures,
) -> None:
    """Draw the thought vectors of RUN for the utterances of a file."""
    trained_run = find_run(run, results)
    load_tensorflow()
    from seq2seq_chat.analysis.evaluate import evaluation_corpus
    from seq2seq_chat.analysis.figures.vectors import draw_projections
    from seq2seq_chat.analysis.loaded_run import LoadedRun
    from seq2seq_chat.analysis.model_view import vectors
    from seq2seq_chat.data.batches import evenly_spaced
    from seq2seq_chat.data.samples import read_samples

    corpus, settings, codecs = evaluation_corpus(trained_run, data), trained_run.config.data, trained_run.codecs
    samples = read_samples(corpus, settings, codecs.tokenizers, progress=True)
    texts = list(dict.fromkeys(sample.source for sample in samples))
    loaded = LoadedRun(trained_run, snapshot)
    points = vectors.thought_vectors(loaded, [texts[index] for index in evenly_spaced(len(texts), limit)])
    cluster_index, groups = vectors.cluster_vectors(points, clusters)
    for number, group in enumerate(groups, start=1):
        click.echo(f"{number}. {group.size:,} utterances: {' | '.join(group.nearest)}")
    pictures.write(draw_projections(points, "Thought vectors", cluster_index), "thought_vectors", main=True)
    vectors.export_projector(points, pictures.folder() / "projector")
    click.echo(f"for TensorBoard: tensorboard --logdir {pictures.folder() / 'projector'}")


if __name__ == "__main__":
    run_command(main)
