"""Gates and gradient norms of a model, beam studies, and ranks of favorite replies."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.config import Model
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.model.cells import GRUCell, HiddenState
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.report.figures.model_internals import _decoder_gates, cell_gates, gate_activations, gradient_norms
from seq2seq_chat.report.figures.replies import BeamStudy, BestReply, Rank, draw_beams, rank_favorites, study_beams
from seq2seq_chat.report.loaded_run import LoadedRun
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.text.tokenizers.english import EnglishTokenizer
from seq2seq_chat.text.vocabulary import EOS, GO, SPECIAL_WORDS, Vocabulary
from tests.random_weights import randomize

QUESTION = "you see the tree1 ?"


def test_lstm_gates_reproduce_the_state(loaded: LoadedRun) -> None:
    """c = f ∘ c + i ∘ g and h = o ∘ tanh(c) with the returned gates give the state of the encoder."""
    activations = gate_activations(loaded, QUESTION, loaded.config.decoding)
    words = QUESTION.split()
    assert activations["encoder"].words == words
    cell = loaded.model.encoder.cells[0]
    inputs = cell.project_inputs(loaded.model.source_embedding(tf.constant(loaded.codecs.source.vocabulary.ids(words))))
    h, c = np.zeros(16), np.zeros(16)
    for t in range(len(words)):
        candidate = np.tanh((inputs[t] + h @ cell.recurrent.matrix.numpy())[48:])
        gates = [activations["encoder"].values[name][t] for name in ("input gate", "forget gate", "output gate")]
        c = gates[1] * c + gates[0] * candidate
        h = gates[2] * np.tanh(c)
    ids = loaded.codecs.source.vocabulary.ids(words)
    states = loaded.model.encode(tf.constant([[*ids, 0, 0, 0]]), tf.constant([5])).states
    np.testing.assert_allclose(h, states[0].output[0], atol=1e-5)
    reply = loaded.chatbot.reply(QUESTION)
    assert activations["decoder"].words == [*reply.hypotheses[0].words, "(end)"][:8]
    assert all(0 <= gate.min() and gate.max() <= 1 for gate in activations["decoder"].values.values())
    with pytest.raises(UserError, match="no words"):
        gate_activations(loaded, "***", loaded.config.decoding)


def test_gru_gates_reproduce_the_state() -> None:
    """h' = (1 - z) ∘ h + z ∘ tanh(W x + U (r ∘ h) + b) with the returned gates."""
    cell = GRUCell("cell", 3, 0, 4, seed=1)
    state = HiddenState(tf.constant([[0.5, -0.3, 0.8, 0.1]]))
    inputs = cell.project_inputs(tf.constant([[0.2, -1.0, 0.4]]))
    gates = cell_gates(cell, inputs, None, state)
    h, z, r = state.output[0].numpy(), gates["update gate"], gates["reset gate"]
    candidate = np.tanh(inputs[0, 8:].numpy() + (r * h) @ cell.candidate.matrix.numpy())
    np.testing.assert_allclose((1 - z) * h + z * candidate, cell(inputs, None, state).output[0], atol=1e-6)


def test_gradient_norms_equal_those_of_a_gradient_tape(loaded: LoadedRun, corpora: Path) -> None:
    norms = gradient_norms(loaded, corpora / "validation.txt")
    corpus = Dataset.open(corpora / "validation.txt", loaded.codecs, loaded.config.data)
    batch = corpus.batch(np.arange(len(corpus)), size=len(corpus), source_steps=8, target_steps=8, reverse=False)
    with tf.GradientTape() as tape:
        loss = loaded.model.loss(*(tf.constant(part) for part in batch))
        mean = loss.nats / loss.tokens
    expected = tape.gradient(mean, loaded.model.trainable_variables)
    for row, variable, gradient in zip(norms.variables, loaded.model.trainable_variables, expected, strict=True):
        assert row.gradient_norm == pytest.approx(float(tf.norm(tf.convert_to_tensor(gradient))), rel=1e-4), row.name
        assert row.norm == pytest.approx(float(tf.norm(variable)), rel=1e-5)
        assert row.rms == pytest.approx(float(np.sqrt(np.mean(np.square(variable.numpy())))), rel=1e-5)
    assert {part: len(values) for part, values in norms.by_step.items()} == {"encoder": 8, "decoder": 8}


@pytest.mark.parametrize("query", ["current", "previous"])
def test_decoder_gates_with_the_thought_vector_at_every_step(query: str) -> None:
    """h = o ∘ tanh(c) with the returned gates and the states of step-by-step decoding."""
    config = Model(hidden_size=4, embedding_size=3, attention_query=query, context="every_step", encoder_steps=3)
    model, codecs = Seq2Seq(config, 9, seed=1), Codecs.of_words(Vocabulary([*SPECIAL_WORDS, *"abcde"]))
    randomize(model, seed=2)
    ids = np.array([5, 6, 7], np.int32)
    gates = _decoder_gates(SimpleNamespace(model=model, codecs=codecs), ids, 3, [8, 6, EOS])  # type: ignore[arg-type]
    state, memory = model.start(model.encode(tf.constant([ids]), tf.constant([3])))
    for t, word in enumerate([GO, 8, 6]):
        _, state, _ = model.step(tf.constant([word]), state, memory)
        h, c = state.cells[0]
        np.testing.assert_allclose(gates.values["output gate"][t] * np.tanh(c[0]), h[0], atol=1e-6)


def test_replies_by_beam_width(loaded: LoadedRun) -> None:
    greedy, _ = loaded.chatbot.replies([QUESTION, "we know it"])
    with_words, without_words = study_beams(loaded, [QUESTION, "***"], [1, 3, 5])
    assert [best.width for best in with_words.best] == [1, 3, 5]
    assert with_words.best[0].text == greedy.text
    assert with_words.best[-1].text == with_words.widest[0][0]
    assert len(with_words.widest) == 5
    assert without_words.best == without_words.widest == []
    assert len(draw_beams([with_words, without_words], []).axes) == 2


def test_ranks_by_hand() -> None:
    tokenizer = EnglishTokenizer()
    study = BeamStudy("q", [BestReply(3, "x", -1.0, 1)], [("x", -1.0), ("yes, y!", -2.0), ("z", -3.0)])
    for favorite in ("yes, y!", "yes , y !", "Yes,y!"):
        assert rank_favorites([study], [favorite], tokenizer, None) == [Rank("q", favorite, "yes, y!", 2, 3)]
    assert rank_favorites([study, study], ["not in the beam", ""], tokenizer, None) == []
