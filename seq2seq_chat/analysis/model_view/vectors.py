"""Thought vectors and word embeddings: projections, clusters, nearest neighbors, and files for the projector."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from seq2seq_chat.analysis.loaded_run import LoadedRun
from seq2seq_chat.data.dataset import fit_source
from seq2seq_chat.data.vocabulary import SPECIAL_WORDS
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import as_user_error, atomic_write, write_atomically

MAX_TSNE_POINTS = 3000
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
        scaled: np.ndarray = self.values / np.maximum(norms, 1e-12)
        return scaled


class Cluster(NamedTuple):
    """A cluster of points."""

    size: int
    nearest: list[str]  # labels of the points nearest to its center


def thought_vectors(loaded: LoadedRun, texts: Sequence[str]) -> Vectors:
    """The final encoder states of utterances, all cells concatenated; duplicates and empty utterances are dropped.

    The labels are the utterances as the model reads them.
    """
    model, data = loaded.config.model, loaded.config.data
    source = loaded.codecs.source
    tokens = {source.text(words): words for words in map(source.tokenizer.encode, texts)}
    fitted = {
        label: fit_source(source.vocabulary.ids(words), model.encoder_steps, data.reverse_input)
        for label, words in tokens.items()
        if words
    }
    if not fitted:
        raise UserError("no utterance has words")
    sources = np.stack([ids for ids, _ in fitted.values()])
    lengths = np.array([length for _, length in fitted.values()], np.int32)
    encode = _encode_graph(loaded)
    states = [
        encode(tf.constant(sources[start : start + BATCH_SIZE]), tf.constant(lengths[start : start + BATCH_SIZE]))
        for start in range(0, len(fitted), BATCH_SIZE)
    ]
    return Vectors(list(fitted), np.concatenate(states))


def _encode_graph(loaded: LoadedRun) -> tf.types.experimental.GenericFunction:
    steps = loaded.config.model.encoder_steps

    @tf.function(
        autograph=False,
        input_signature=[tf.TensorSpec([None, steps], tf.int32), tf.TensorSpec([None], tf.int32)],
    )
    def encode(source: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        return tf.concat(tf.nest.flatten(loaded.model.encode(source, lengths).states), axis=1)

    return encode


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


def start_tsne(vectors: Vectors) -> Future[np.ndarray]:
    """Compute :func:`tsne` of the normalized vectors in a thread, which ends with the program."""
    result: Future[np.ndarray] = Future()

    def compute() -> None:
        try:
            result.set_result(tsne(vectors.normalized))
        except Exception as error:  # raised where the result is used
            result.set_exception(error)

    threading.Thread(target=compute, daemon=True).start()
    return result


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
    if len(values) > MAX_TSNE_POINTS:
        raise ValueError(f"at most {MAX_TSNE_POINTS} points")
    reduced, _ = principal_components(values, 50)
    model = TSNE(2, perplexity=min(30.0, (len(values) - 1) / 3), init="pca", random_state=SEED)
    with threadpool_limits(1, "openmp"):
        projected: np.ndarray = model.fit_transform(reduced)
    return projected


def cluster_vectors(vectors: Vectors, count: int = CLUSTERS) -> tuple[np.ndarray, list[Cluster]]:
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
        clusters.append(Cluster(len(members), [vectors.labels[member] for member in nearest[:CLUSTER_EXAMPLES]]))
    return index[kmeans.labels_], clusters


def nearest_neighbors(vectors: Vectors, label: str, count: int = 6) -> list[tuple[str, float]]:
    """The points nearest to a labeled one and their cosine similarities, nearest first.

    Raises:
        UserError: No point has this label.
    """
    if label not in vectors.labels:
        raise UserError(f"{label!r} is not one of the {len(vectors.labels):,} labels")
    normalized = vectors.normalized
    index = vectors.labels.index(label)
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
