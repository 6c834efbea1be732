"""Projections, clusters and neighbors of vectors."""

import math
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.report.figures import vectors
from seq2seq_chat.report.figures.vectors import Vectors
from seq2seq_chat.report.loaded_run import LoadedRun
from seq2seq_chat.system.errors import UserError

QUESTION = "you see the tree1 ?"


@pytest.fixture(scope="module")
def points() -> Vectors:
    """Three groups of ten points in six dimensions."""
    rng = np.random.default_rng(1)
    centers = np.eye(3, 6) * 10
    values = np.concatenate([center + rng.normal(size=(10, 6)) for center in centers]).astype(np.float32)
    return Vectors([f"{group}{n}" for group in "abc" for n in range(10)], values)


def test_pca(points: Vectors) -> None:
    projected, shares = vectors.principal_components(points.values)
    centered = points.values - points.values.mean(axis=0)
    singular = np.linalg.svd(centered, compute_uv=False)
    np.testing.assert_allclose(shares, (singular**2 / np.sum(singular**2))[:2], rtol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(projected, axis=0), singular[:2], rtol=1e-4)


def test_clusters_and_neighbors_are_the_groups(points: Vectors) -> None:
    cluster_index, clusters = vectors.cluster_vectors(points, 3)
    assert sorted(cluster.size for cluster in clusters) == [10, 10, 10]
    for group in range(3):
        assert len(set(cluster_index[10 * group : 10 * group + 10])) == 1
    assert {label[0] for label, _ in vectors.nearest_neighbors(points, "b3", 9)} == {"b"}


def test_neighbors_are_ranked_by_their_angle() -> None:
    """(1, 1) is nearer to (2, 1) than to (9, 0), whatever their lengths."""
    points = Vectors(["one", "far", "near"], np.array([[1, 1], [9, 0], [2, 1]], np.float32))
    (first, cosine), (second, other) = vectors.nearest_neighbors(points, "one")
    assert (first, second) == ("near", "far")
    assert (cosine, other) == (pytest.approx(3 / math.sqrt(10)), pytest.approx(1 / math.sqrt(2)))


def test_tsne(points: Vectors) -> None:
    projected = vectors.tsne(points.values)
    centers = projected.reshape(3, 10, 2).mean(axis=1)
    within = np.linalg.norm(projected.reshape(3, 10, 2) - centers[:, np.newaxis], axis=2).max()
    between = min(np.linalg.norm(centers[a] - centers[b]) for a, b in ((0, 1), (0, 2), (1, 2)))
    assert between > within
    with pytest.raises(UserError, match="5 points"):
        vectors.tsne(points.values[:4])


def test_projector_files(points: Vectors, tmp_path: Path) -> None:
    vectors.export_projector(points, tmp_path)
    assert (tmp_path / "metadata.tsv").read_text().splitlines() == points.labels
    np.testing.assert_allclose(np.loadtxt(tmp_path / "vectors.tsv", delimiter="\t"), points.values, rtol=1e-4)
    from google.protobuf import text_format
    from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

    config = text_format.Parse((tmp_path / "projector_config.pbtxt").read_text(), ProjectorConfig())
    assert config.embeddings[0].tensor_path == "vectors.tsv"


def test_thought_vectors_are_encoder_states(loaded: LoadedRun) -> None:
    points = vectors.thought_vectors(loaded, [QUESTION, "  ", "We know it", "we know it!", "we know it"])
    assert points.labels == ["you see the tree1?", "we know it", "we know it!"]
    ids = loaded.codecs.source.vocabulary.ids(["we", "know", "it"])
    states = loaded.model.encode(tf.constant([[*ids, 0, 0, 0, 0, 0]]), tf.constant([3])).states
    np.testing.assert_allclose(points.values[1], np.concatenate([states[0].output[0], states[0].memory[0]]), atol=1e-6)
