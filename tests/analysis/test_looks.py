"""What is looked at inside a model, and the pictures of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from sklearn.decomposition import PCA

from seq2seq_chat.analysis import attention, beams, inside, style, vectors
from seq2seq_chat.analysis.curves import draw_curves, read_curves, smoothed
from seq2seq_chat.analysis.replies import read_questions, read_transcript
from seq2seq_chat.analysis.subject import Subject
from seq2seq_chat.analysis.vectors import Vectors
from seq2seq_chat.chatbot import Hypothesis
from seq2seq_chat.config import decoding_with
from seq2seq_chat.errors import UserError
from seq2seq_chat.model.cells import GRUCell, PlainState
from seq2seq_chat.runs import Run

QUESTION = "you see the tree1 ?"


@pytest.fixture(scope="module")
def subject(tiny_run: Path) -> Subject:
    return Subject(Run(tiny_run))


@pytest.fixture(scope="module")
def points() -> Vectors:
    """Three heaps of ten points in six dimensions."""
    rng = np.random.default_rng(1)
    centres = np.eye(3, 6) * 10
    values = np.concatenate([centre + rng.normal(size=(10, 6)) for centre in centres]).astype(np.float32)
    return Vectors([f"{heap}{n}" for heap in "abc" for n in range(10)], values)


def test_smoothing_by_hand() -> None:
    np.testing.assert_allclose(smoothed([0, 3, 6, 0, 9], 3), [0, 3, 3, 5, 9])
    np.testing.assert_allclose(smoothed([0, 10, 0, 0, 0, 5], 5), [0, 10 / 3, 2, 3, 5 / 3, 5])
    assert not len(smoothed([], 5))


def test_curves_show_what_was_measured(tiny_run: Path) -> None:
    curves = read_curves(Run(tiny_run))
    lines = [json.loads(line) for line in (tiny_run / "metrics.jsonl").read_text().splitlines()]
    assert list(curves.train.losses) == [line["loss"] for line in lines if line["kind"] == "train"]
    assert list(curves.validation.steps) == [10, 20]
    figure = draw_curves([curves, curves])
    raw, smooth, validation = figure.axes[0].lines[:3]
    assert list(raw.get_ydata()) == list(curves.train.losses)
    assert len(smooth.get_ydata()) == 4
    assert list(validation.get_ydata()) == list(curves.validation.losses)
    np.testing.assert_allclose(figure.axes[1].lines[0].get_ydata(), np.exp(curves.train.losses))
    assert figure.axes[0].lines[4].get_linestyle() != smooth.get_linestyle()  # the second run is told in grey as well


def test_pca_is_scikit_learns_and_numpys(points: Vectors) -> None:
    found, shares = vectors.principal_components(points.values)
    expected = PCA(2, svd_solver="full").fit(points.values)
    np.testing.assert_allclose(found, expected.transform(points.values), atol=1e-5)
    centred = points.values - points.values.mean(axis=0)
    singular = np.linalg.svd(centred, compute_uv=False)
    np.testing.assert_allclose(shares, (singular**2 / np.sum(singular**2))[:2], rtol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(found, axis=0), singular[:2], rtol=1e-4)


def test_clusters_and_neighbours_are_the_heaps(points: Vectors) -> None:
    cluster_of, clusters = vectors.clusters_of(points, 3)
    assert sorted(cluster.size for cluster in clusters) == [10, 10, 10]
    for heap in range(3):
        assert len(set(cluster_of[10 * heap : 10 * heap + 10])) == 1
    assert {label[0] for label, _ in vectors.neighbours(points, "b3", 9)} == {"b"}
    with pytest.raises(UserError, match="nobody"):
        vectors.neighbours(points, "nobody")


def test_neighbour_map_keeps_heaps_together(points: Vectors) -> None:
    mapped = vectors.neighbour_map(points.values)
    centres = mapped.reshape(3, 10, 2).mean(axis=1)
    own = np.linalg.norm(mapped.reshape(3, 10, 2) - centres[:, np.newaxis], axis=2).max()
    between = min(np.linalg.norm(centres[a] - centres[b]) for a, b in ((0, 1), (0, 2), (1, 2)))
    assert between > own
    with pytest.raises(UserError, match="5 points"):
        vectors.neighbour_map(points.values[:4])


def test_projector_files(points: Vectors, tmp_path: Path) -> None:
    vectors.export_projector(points, tmp_path)
    assert (tmp_path / "metadata.tsv").read_text().splitlines() == points.labels
    np.testing.assert_allclose(np.loadtxt(tmp_path / "vectors.tsv", delimiter="\t"), points.values, rtol=1e-4)
    from google.protobuf import text_format
    from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

    config = text_format.Parse((tmp_path / "projector_config.pbtxt").read_text(), ProjectorConfig())
    assert config.embeddings[0].tensor_path == "vectors.tsv"


def test_thought_vectors_are_the_encoders_states(subject: Subject) -> None:
    found = vectors.thought_vectors(subject, [QUESTION, "  ", "We know it", "we know it!", "we know it"])
    assert found.labels == [QUESTION, "we know it", "we know it !"]
    ids = subject.vocabulary.ids(["we", "know", "it"])
    states = subject.model.encode(tf.constant([[*ids, 0, 0, 0, 0, 0]]), tf.constant([3])).states
    np.testing.assert_allclose(found.values[1], np.concatenate([states[0].output[0], states[0].memory[0]]), atol=1e-6)


def test_gates_are_those_that_made_the_state(subject: Subject) -> None:
    """c = f ∘ c + i ∘ g and h = o ∘ tanh(c), with the gates shown and g worked out, give the encoder's own state."""
    found = inside.gates(subject, QUESTION)
    words = QUESTION.split()
    assert found["encoder"].words == words
    cell = subject.model.encoder.cells[0]
    prepared = cell.prepare(subject.model.source_embedding(tf.constant(subject.vocabulary.ids(words))))
    h, c = np.zeros(16), np.zeros(16)
    for t in range(len(words)):
        candidate = np.tanh((prepared[t] + h @ cell.recurrent.matrix.numpy())[48:])
        gates = [found["encoder"].values[name][t] for name in ("input gate", "forget gate", "output gate")]
        c = gates[1] * c + gates[0] * candidate
        h = gates[2] * np.tanh(c)
    ids = subject.vocabulary.ids(words)
    states = subject.model.encode(tf.constant([[*ids, 0, 0, 0]]), tf.constant([5])).states
    np.testing.assert_allclose(h, states[0].output[0], atol=1e-5)
    reply = subject.bot.reply(QUESTION)
    assert found["decoder"].words == [*reply.hypotheses[0].words, "(end)"][:8]
    assert all(0 <= gate.min() and gate.max() <= 1 for gate in found["decoder"].values.values())
    with pytest.raises(UserError, match="no word"):
        inside.gates(subject, "***")


def test_gates_of_a_gru_are_those_that_made_the_state() -> None:
    """h' = (1 - z) ∘ h + z ∘ tanh(W x + U (r ∘ h) + b), with the gates shown."""
    cell = GRUCell("cell", 3, 0, 4, seed=1)
    state = PlainState(tf.constant([[0.5, -0.3, 0.8, 0.1]]))
    prepared = cell.prepare(tf.constant([[0.2, -1.0, 0.4]]))
    gates = inside.open_gates(cell, prepared, None, state)
    h, z, r = state.output[0].numpy(), gates["update gate"], gates["reset gate"]
    candidate = np.tanh(prepared[0, 8:].numpy() + (r * h) @ cell.candidate.matrix.numpy())
    np.testing.assert_allclose((1 - z) * h + z * candidate, cell(prepared, None, state).output[0], atol=1e-6)


def test_gradient_norms_are_those_of_a_plain_tape(subject: Subject, corpora: Path) -> None:
    found = inside.gradients(subject, corpora / "validation.txt")
    from seq2seq_chat.corpus import EncodedCorpus

    corpus = EncodedCorpus.open(corpora / "validation.txt", subject.vocabulary, pairing="alternating")
    batch = corpus.batch(np.arange(len(corpus)), size=len(corpus), source_steps=8, target_steps=8, reverse=False)
    with tf.GradientTape() as tape:
        loss = subject.model.loss(*(tf.constant(part) for part in batch))
        mean = loss.nats / loss.tokens
    expected = tape.gradient(mean, subject.model.trainable_variables)
    for row, variable, gradient in zip(found.variables, subject.model.trainable_variables, expected, strict=True):
        assert row.gradient_norm == pytest.approx(float(tf.norm(tf.convert_to_tensor(gradient))), rel=1e-4), row.name
        assert row.norm == pytest.approx(float(tf.norm(variable)), rel=1e-5)
        assert row.rms == pytest.approx(float(np.sqrt(np.mean(np.square(variable.numpy())))), rel=1e-5)
    assert {part: len(norms) for part, norms in found.by_step.items()} == {"encoder": 8, "decoder": 8}


def test_attention_is_drawn_as_it_is(subject: Subject) -> None:
    decoding = decoding_with(subject.config.decoding, method="beam", beam_width=4, n_best=3)
    reply = subject.bot.reply(QUESTION, decoding)
    figure = attention.draw_heat_maps(reply.source_words, reply.hypotheses)
    assert len(figure.axes) == 4  # and the scale
    for axes, hypothesis in zip(figure.axes, reply.hypotheses, strict=False):
        np.testing.assert_allclose(axes.images[0].get_array(), hypothesis.attention)
        assert [label.get_text() for label in axes.get_yticklabels()] == hypothesis.words
        assert [label.get_text() for label in axes.get_xticklabels()] == QUESTION.split()
    style.render(attention.draw_overlay(reply.source_words, reply.hypotheses[0]), "png")


@pytest.mark.parametrize(
    ("hypotheses", "reason"),
    [
        ([], "no word"),
        ([Hypothesis("", [], -1.0, True, [], -1.0)], "empty"),
        ([Hypothesis("yes", ["yes"], -1.0, True, [], -1.0)], "has no attention"),
    ],
)
def test_attention_that_is_not_there_is_told(subject: Subject, hypotheses: list[Hypothesis], reason: str) -> None:
    reply = subject.bot.reply(QUESTION)._replace(hypotheses=hypotheses)
    with pytest.raises(UserError, match=reason):
        attention.check_attention(reply)


def test_beams(subject: Subject) -> None:
    greedy, _ = subject.bot.replies([QUESTION, "we know it"])
    studies = beams.study_beams(subject, [QUESTION, "***"], [1, 3, 5])
    assert [found.width for found in studies[0].best] == [1, 3, 5]
    assert studies[0].best[0].text == greedy.text
    assert studies[0].best[-1].text == studies[0].widest[0][0]
    assert len(studies[0].widest) == 5
    assert studies[1].best == studies[1].widest == []
    beams.draw_beams(studies, [])


def test_ranks_by_hand() -> None:
    study = beams.Study("q", [beams.Found(3, "x", -1.0, 1)], [("x", -1.0), ("y", -2.0), ("z", -3.0)])
    assert beams.rank_liked([study], ["y"], None) == [beams.Rank("q", "y", "y", 2, 3)]
    assert beams.rank_liked([study, study], ["never said", ""], None) == []


def test_transcripts(tmp_path: Path) -> None:
    (tmp_path / "bot.txt").write_text("How are you?\tfine\nunasked ?\tno\n", encoding="utf-8")
    assert read_transcript(tmp_path / "bot.txt", ["hello !", "how are you ?"]) == ("bot", ["", "fine"])
    (tmp_path / "lines.txt").write_text("hi\n\nfine\n", encoding="utf-8")
    assert read_transcript(tmp_path / "lines.txt", ["hello !", "how are you ?"]).answers == ["hi", "fine"]
    for text, message in (("hi\n", "1 answers to 2"), ("x\ty\nz\n", "line 2"), ("x\ty\n", "none of the questions")):
        (tmp_path / "wrong.txt").write_text(text, encoding="utf-8")
        with pytest.raises(UserError, match=message):
            read_transcript(tmp_path / "wrong.txt", ["hello !", "how are you ?"])
    (tmp_path / "none.txt").write_text("\n \n", encoding="utf-8")
    with pytest.raises(UserError, match="no question"):
        read_questions(tmp_path / "none.txt")
