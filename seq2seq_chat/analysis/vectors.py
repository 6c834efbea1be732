"""Thought vectors and word embeddings on paper: projections, clusters, neighbours, and files for others' tools."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from seq2seq_chat.analysis.style import COLORS, MARKERS, new_figure, plain
from seq2seq_chat.analysis.subject import Subject
from seq2seq_chat.atomic import atomic_write, told_as_user_error
from seq2seq_chat.corpus.encoded import fit_source
from seq2seq_chat.corpus.text import tokenize
from seq2seq_chat.corpus.vocabulary import SPECIAL_WORDS
from seq2seq_chat.errors import UserError

MOST_POINTS = 3000  # that t-SNE is asked to place
ROWS_AT_ONCE = 256
CLUSTERS = 7  # as many as there are colours


class Vectors(NamedTuple):
    """Points in many dimensions, and what each is of."""

    labels: list[str]
    values: np.ndarray  # float32 [n, units]


class Cluster(NamedTuple):
    """Points that lie together."""

    size: int
    nearest: list[str]  # labels of those next to the centre, each once


def thought_vectors(subject: Subject, texts: Sequence[str]) -> Vectors:
    """What the encoder makes of utterances: its cells' states after the last word, side by side.

    Utterances without any word are left out, and so are those that were there already.
    """
    model, data = subject.config.model, subject.config.data
    distinct = {" ".join(tokenize(text, "word")): tokenize(text, data.level) for text in texts}
    readable = {label: words for label, words in distinct.items() if words}
    fitted = [
        fit_source(subject.vocabulary.ids(words), model.encoder_steps, data.reverse_input)
        for words in readable.values()
    ]
    encode = _encode_graph(subject)
    rows = [
        encode(
            tf.constant(np.stack([ids for ids, _ in fitted[start : start + ROWS_AT_ONCE]])),
            tf.constant([length for _, length in fitted[start : start + ROWS_AT_ONCE]], tf.int32),
        ).numpy()
        for start in range(0, len(fitted), ROWS_AT_ONCE)
    ]
    if not rows:
        raise UserError("there is no utterance with a word that the model can read")
    return Vectors(list(readable), np.concatenate(rows))


def _encode_graph(subject: Subject) -> tf.types.experimental.GenericFunction:
    steps = subject.config.model.encoder_steps

    @tf.function(
        autograph=False,
        input_signature=[tf.TensorSpec([None, steps], tf.int32), tf.TensorSpec([None], tf.int32)],
    )
    def encode(source: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        return tf.concat(tf.nest.flatten(subject.model.encode(source, lengths).states), axis=1)

    return encode


def word_vectors(subject: Subject, count: int = 1000) -> Vectors:
    """The encoder's vectors of the most frequent words. Raises UserError where there are too few to compare."""
    words = subject.vocabulary.words[len(SPECIAL_WORDS) :][:count]
    if len(words) < 3:
        raise UserError(f"the vocabulary has {len(words)} words beside the special ones, too few to be compared")
    table = subject.model.source_embedding.table.numpy()
    return Vectors(words, table[len(SPECIAL_WORDS) :][:count])


def principal_components(values: np.ndarray, count: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """PCA by scikit-learn: [n, units] → [n, count], and the share of the variance that each component has."""
    from sklearn.decomposition import PCA

    count = min(count, *values.shape)
    fitted = PCA(count, svd_solver="full")
    with np.errstate(invalid="ignore"):  # points that are all the same have no variance to share
        points = fitted.fit_transform(values)
        shares = np.nan_to_num(fitted.explained_variance_ratio_)
    return points, shares


def neighbour_map(values: np.ndarray, seed: int = 1) -> np.ndarray:
    """t-SNE by scikit-learn: [n, units] → [n, 2], where points that are near each other stay so.

    Raises:
        UserError: there are too few points for it.
    """
    from sklearn.manifold import TSNE

    if len(values) < 5:
        raise UserError(f"t-SNE needs 5 points at least, and there are {len(values)}")
    if len(values) > MOST_POINTS:
        raise ValueError(f"at most {MOST_POINTS} points")
    reduced, _ = principal_components(values, 50)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        mapped: np.ndarray = TSNE(
            2, perplexity=min(30.0, (len(values) - 1) / 3), init="pca", random_state=seed
        ).fit_transform(reduced)
    return mapped


def clusters_of(
    vectors: Vectors, count: int = CLUSTERS, seed: int = 1, shown: int = 6
) -> tuple[np.ndarray, list[Cluster]]:
    """k-means by scikit-learn on vectors of length one: each point's cluster [n], and the clusters, largest first."""
    from sklearn.cluster import KMeans

    lengths = np.linalg.norm(vectors.values, axis=1, keepdims=True)
    values = vectors.values / np.maximum(lengths, 1e-12)
    count = min(count, len(np.unique(values, axis=0)))
    fitted = KMeans(count, n_init=4, random_state=seed).fit(values)
    distances = fitted.transform(values)
    order = np.argsort(-np.bincount(fitted.labels_, minlength=count), kind="stable")
    number = np.empty(count, np.int64)
    number[order] = np.arange(count)
    found = []
    for cluster in order:
        inside = np.flatnonzero(fitted.labels_ == cluster)
        nearest = inside[np.argsort(distances[inside, cluster], kind="stable")]
        found.append(Cluster(len(inside), [vectors.labels[place] for place in nearest[:shown]]))
    return number[fitted.labels_], found


def neighbours(vectors: Vectors, label: str, count: int = 6) -> list[tuple[str, float]]:
    """The points nearest to one of them by cosine similarity, nearest first.

    Raises:
        UserError: there is none of this label.
    """
    if label not in vectors.labels:
        raise UserError(f"{label!r} is not among the {len(vectors.labels):,} that are compared")
    units = vectors.values / np.maximum(np.linalg.norm(vectors.values, axis=1, keepdims=True), 1e-12)
    place = vectors.labels.index(label)
    similarities = units @ units[place]
    ranked = [int(other) for other in np.argsort(-similarities, kind="stable") if other != place]
    return [(vectors.labels[other], float(similarities[other])) for other in ranked[:count]]


def export_projector(vectors: Vectors, folder: Path) -> None:
    """Write what TensorBoard's projector reads: ``tensorboard --logdir FOLDER``, or its page's Load button."""
    with told_as_user_error(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(folder / "vectors.tsv") as file:
        for row in vectors.values:
            file.write("\t".join(f"{value:.6g}" for value in row) + "\n")
    with atomic_write(folder / "metadata.tsv") as file:
        file.writelines(" ".join(label.split()) + "\n" for label in vectors.labels)
    with atomic_write(folder / "projector_config.pbtxt") as file:
        file.write('embeddings {\n  tensor_path: "vectors.tsv"\n  metadata_path: "metadata.tsv"\n}\n')


def draw_projections(
    vectors: Vectors, title: str, cluster_of: np.ndarray | None = None, labelled: int = 60, seed: int = 1
) -> Figure:
    """PCA, and t-SNE of vectors of length one; clusters differ in colour and marker; no labels overlap."""
    points, shares = principal_components(vectors.values)
    figure = new_figure(15, 7)
    panels = figure.subplots(1, 2)
    if points.shape[1] < 2:
        raise UserError("there are too few points for a picture of two dimensions")
    _scatter(panels[0], points, vectors.labels, cluster_of, labelled)
    panels[0].set(
        title=f"{title}: PCA",
        xlabel=f"first component, {shares[0]:.0%} of the variance",
        ylabel=f"second component, {shares[1]:.0%}",
    )
    try:
        lengths = np.linalg.norm(vectors.values, axis=1, keepdims=True)
        mapped = neighbour_map(vectors.values / np.maximum(lengths, 1e-12), seed)
    except UserError as fault:
        panels[1].text(0.5, 0.5, str(fault), ha="center", wrap=True)
        panels[1].axis("off")
        return figure
    _scatter(panels[1], mapped, vectors.labels, cluster_of, labelled)
    panels[1].set(title=f"{title}: t-SNE (only what is near means something)", xticks=[], yticks=[])
    return figure


def _scatter(
    axes: Any, points: np.ndarray, labels: Sequence[str], cluster_of: np.ndarray | None, labelled: int
) -> None:
    groups = np.zeros(len(points), np.int64) if cluster_of is None else cluster_of
    for number in np.unique(groups):
        here = groups == number
        axes.scatter(
            *points[here].T,
            s=14,
            alpha=0.6,
            linewidths=0,
            color=COLORS[number % len(COLORS)],
            marker=MARKERS[number % len(MARKERS)],
        )
    axes.margins(0.06)
    figure = axes.figure
    figure.draw_without_rendering()  # sizes of labels are known after this only
    renderer = figure.canvas.get_renderer() if hasattr(figure.canvas, "get_renderer") else None
    taken: list[Any] = []
    halo = [withStroke(linewidth=2.5, foreground="white")]
    frame = axes.get_window_extent(renderer)
    for place in range(min(len(labels), 12 * labelled)):
        if len(taken) == labelled:
            break
        text = axes.annotate(
            plain(labels[place], 32),
            points[place],
            xytext=(3, 2),
            textcoords="offset points",
            fontsize=7.5,
            path_effects=halo,
        )
        box = text.get_window_extent(renderer).padded(1)
        if box.x1 > frame.x1 or any(box.overlaps(other) for other in taken):
            text.remove()
        else:
            taken.append(box)
