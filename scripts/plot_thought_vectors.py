"""Draw what the encoder makes of utterances by PCA and t-SNE, and print clusters of those it finds similar.

python scripts/plot_thought_vectors.py latest --data data/dailydialog/test.txt --output thoughts/
python scripts/plot_thought_vectors.py latest --data my_sentences.txt --output thoughts.svg
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
    "--data", metavar="FILE", help="Corpus file, or any text of an utterance a line.  [default: the test corpus]"
)
@click.option(
    "--limit", default=2000, show_default=True, type=click.IntRange(5, 3000), help="Utterances, evenly spread."
)
@click.option("--clusters", default=7, show_default=True, type=click.IntRange(1, 50))
@snapshot_option
@results_option
@picture_options
def main(
    run: str,
    data: Optional[str],
    limit: int,
    clusters: int,
    snapshot: Optional[str],
    results: str,
    pictures: Pictures,
) -> None:
    """Draw the thought vectors of RUN for the utterances of a file."""
    found = find_run(run, results)
    load_tensorflow()
    from seq2seq_chat.analysis import vectors
    from seq2seq_chat.analysis.evaluate import test_corpus
    from seq2seq_chat.analysis.subject import Subject
    from seq2seq_chat.corpus.files import read_utterances
    from seq2seq_chat.training.validation import spread

    texts = list(dict.fromkeys(text for _, text in read_utterances(test_corpus(found, data), progress=True)))
    subject = Subject(found, snapshot, warn)
    points = vectors.thought_vectors(subject, [texts[place] for place in spread(len(texts), limit)])
    cluster_of, groups = vectors.clusters_of(points, clusters)
    for number, group in enumerate(groups, start=1):
        click.echo(f"{number}. {group.size:,} utterances: {' | '.join(group.nearest)}")
    pictures.write(vectors.draw_projections(points, "Thought vectors", cluster_of), "thought_vectors", main=True)
    vectors.export_projector(points, pictures.folder() / "projector")
    click.echo(f"for TensorBoard: tensorboard --logdir {pictures.folder() / 'projector'}")


if __name__ == "__main__":
    main()
