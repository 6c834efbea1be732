"""Scatter plots of vectors: PCA and t-SNE side by side."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from seq2seq_chat.report.figures.style import COLORS, MARKERS, new_figure, plot_label
from seq2seq_chat.report.loaded_run import LoadedRun
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import as_user_error, atomic_write, write_atomically
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, fit_source

MAX_TRIES = 12  # candidates per label to place


def draw_projections(
    vectors: Vectors,
    title: str,
    clusters: np.ndarray | None = None,
    max_labels: int = 60,
    *,
    neighborhoods: Future[np.ndarray],
) -> Figure:
    """Draw vectors by PCA, and normalized vectors by t-SNE.

    Args:
        clusters: cluster index of each point, shown by color and marker: [n].
        max_labels: labels to draw, as far as they do not overlap.
        neighborhoods: by :func:`tsne`.

    Raises:
        UserError: There are fewer than two dimensions.
    """
    points, shares = principal_components(vectors.values)
    if points.shape[1] < 2:
        raise UserError("there are too few points to draw")
    figure = new_figure(15, 7)
    pca_axes, tsne_axes = figure.subplots(1, 2)
    _scatter(pca_axes, points, vectors.labels, clusters, max_labels)
    pca_axes.set(
        title=f"{title}: PCA",
        xlabel=f"first component, {shares[0]:.0%} of the variance",
        ylabel=f"second component, {shares[1]:.0%}",
    )
    try:
        projected = neighborhoods.result()
    except UserError as error:
        tsne_axes.text(0.5, 0.5, str(error), ha="center", wrap=True)
        tsne_axes.axis("off")
        return figure
    _scatter(tsne_axes, projected, vectors.labels, clusters, max_labels)
    tsne_axes.set(title=f"{title}: t-SNE (only neighborhoods are meaningful)", xticks=[], yticks=[])
    return figure


def _scatter(
    axes: Axes, points: np.ndarray, labels: Sequence[str], clusters: np.ndarray | None, max_labels: int
) -> None:
    groups = np.zeros(len(points), np.int64) if clusters is None else clusters
    for number in np.unique(groups):
        color, marker = COLORS[number % len(COLORS)], MARKERS[number % len(MARKERS)]
        x, y = points[groups == number].T
        axes.scatter(x, y, s=14, alpha=0.6, linewidths=0, color=color, marker=marker)
    axes.margins(0.06)
    _label_points(axes, points, labels, max_labels)


def _label_points(axes: Axes, points: np.ndarray, labels: Sequence[str], max_labels: int) -> None:
    """Label the first points whose labels overlap neither another label nor the right edge."""
    figure: Any = axes.figure
    figure.draw_without_rendering()  # text has no size before
    halo = [withStroke(linewidth=2.5, foreground="white")]
    frame = axes.get_window_extent()
    placed: list[Any] = []
    for index in range(min(len(labels), MAX_TRIES * max_labels)):
        if len(placed) == max_labels:
            break
        text = axes.annotate(
            plot_label(labels[index], 32),
            points[index],
            xytext=(3, 2),
            textcoords="offset points",
            fontsize=7.5,
            path_effects=halo,
        )
        box = text.get_window_extent().padded(1)
        if box.x1 > frame.x1 or any(box.overlaps(other) for other in placed):
            text.remove()
        else:
            placed.append(box)


BATCH_SIZE = 256
CLUSTERS = 7  # the number of colors
CLUSTER_EXAMPLES = 6  # labels listed for a cluster
SEED = 1


class Vectors(NamedTuple):
    """Labeled points."""

    labels: list[str]
    values: np.ndarray  # float32 [n, units]

    @property
    def normalized(self) -> np.ndarray:
        """The values scaled to unit length: [n, units]."""
        norms = np.linalg.norm(self.values, axis=1, keepdims=True)
        return self.values / np.maximum(norms, 1e-12)


class VectorCluster(NamedTuple):
    size: int
    nearest: list[str]  # labels of the points nearest to its center


def thought_vectors(loaded: LoadedRun, texts: Sequence[str]) -> Vectors:
    """The final encoder states of utterances, all cells concatenated; duplicates and empty utterances are dropped.

    The labels are the utterances as the model reads them.
    """
    model, data, source = loaded.config.model, loaded.config.data, loaded.codecs.source
    tokens = {source.text(words): words for words in map(source.tokenizer.encode, texts)}
    fitted = {
        label: fit_source(source.vocabulary.ids(words), model.encoder_steps, data.reverse_input)
        for label, words in tokens.items()
        if words
    }
    if not fitted:
        raise UserError("no utterance has words")
    signature = [tf.TensorSpec([None, model.encoder_steps], tf.int32), tf.TensorSpec([None], tf.int32)]

    @tf.function(autograph=False, input_signature=signature)
    def encode(source: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        return tf.concat(tf.nest.flatten(loaded.model.encode(source, lengths).states), axis=1)

    sources, lengths = (np.array(part, np.int32) for part in zip(*fitted.values(), strict=True))
    batches = [slice(start, start + BATCH_SIZE) for start in range(0, len(fitted), BATCH_SIZE)]
    states = [encode(tf.constant(sources[batch]), tf.constant(lengths[batch])) for batch in batches]
    return Vectors(list(fitted), np.concatenate(states))


def word_vectors(loaded: LoadedRun, count: int = 1000) -> Vectors:
    """The encoder's embeddings of the most frequent words. Raises UserError if there are fewer than three."""
    words = loaded.codecs.source.vocabulary.words[len(SPECIAL_WORDS) :][:count]
    if len(words) < 3:
        raise UserError(f"a comparison needs at least 3 words, but the vocabulary has {len(words)}")
    table = loaded.model.source_embedding.table.numpy()
    return Vectors(words, table[len(SPECIAL_WORDS) :][:count])


def principal_components(values: np.ndarray, count: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """PCA: [n, units] → projections [n, count], and the share of the variance of each component."""
    from sklearn.decomposition import PCA

    pca = PCA(min(count, *values.shape), svd_solver="full")
    with np.errstate(invalid="ignore"):  # identical points have no variance
        points = pca.fit_transform(values)
        shares = np.nan_to_num(pca.explained_variance_ratio_)
    return points, shares


def tsne(values: np.ndarray) -> np.ndarray:
    """t-SNE after a PCA to 50 dimensions: [n, units] → [n, 2].

    It uses one core: each of the thousand iterations is so short that cores would mostly wait for each other.

    Raises:
        UserError: There are fewer than five points.
    """
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    if len(values) < 5:
        raise UserError(f"t-SNE needs at least 5 points, but there are {len(values)}")
    reduced, _ = principal_components(values, 50)
    model = TSNE(2, perplexity=min(30.0, (len(values) - 1) / 3), init="pca", random_state=SEED)
    with threadpool_limits(1, "openmp"):
        return model.fit_transform(reduced)


def cluster_vectors(vectors: Vectors, count: int = CLUSTERS) -> tuple[np.ndarray, list[VectorCluster]]:
    """Cluster normalized vectors by k-means: the cluster index of each point [n], and the clusters, largest first."""
    from sklearn.cluster import KMeans

    values = vectors.normalized
    count = min(count, len(np.unique(values, axis=0)))
    kmeans = KMeans(count, n_init=4, random_state=SEED).fit(values)
    distances = kmeans.transform(values)
    order = np.argsort(-np.bincount(kmeans.labels_, minlength=count), kind="stable")
    index = np.empty(count, np.int64)
    index[order] = np.arange(count)
    clusters = []
    for label in order:
        members = np.flatnonzero(kmeans.labels_ == label)
        nearest = members[np.argsort(distances[members, label], kind="stable")]
        clusters.append(VectorCluster(len(members), [vectors.labels[member] for member in nearest[:CLUSTER_EXAMPLES]]))
    return index[kmeans.labels_], clusters


def nearest_neighbors(vectors: Vectors, label: str, count: int = 6) -> list[tuple[str, float]]:
    """The points nearest to a labeled one and their cosine similarities, nearest first."""
    normalized, index = vectors.normalized, vectors.labels.index(label)
    similarities = normalized @ normalized[index]
    ranked = [int(other) for other in np.argsort(-similarities, kind="stable") if other != index]
    return [(vectors.labels[other], float(similarities[other])) for other in ranked[:count]]


def export_projector(vectors: Vectors, folder: Path) -> None:
    """Write the files of TensorBoard's projector, for ``tensorboard --logdir FOLDER``."""
    with as_user_error(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(folder / "vectors.tsv") as file:
        for row in vectors.values:
            file.write("\t".join(f"{value:.6g}" for value in row) + "\n")
    with atomic_write(folder / "metadata.tsv") as file:
        file.writelines(" ".join(label.split()) + "\n" for label in vectors.labels)
    config = 'embeddings {\n  tensor_path: "vectors.tsv"\n  metadata_path: "metadata.tsv"\n}\n'
    write_atomically(folder / "projector_config.pbtxt", config)
