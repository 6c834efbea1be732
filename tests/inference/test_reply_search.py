"""Replies of small random models: what a search over a real network must hold."""

from __future__ import annotations

import numpy as np
import pytest

from seq2seq_chat.config import Decoding, Model
from seq2seq_chat.corpus.vocabulary import EOS, GO, PAD, UNKNOWN
from seq2seq_chat.decoding.hypotheses import Hypotheses
from seq2seq_chat.decoding.reply_search import ReplySearch
from seq2seq_chat.model.seq2seq import Seq2Seq

VOCABULARY, STEPS = 12, 6


@pytest.fixture(scope="module", params=[{}, {"layers": 2}, {"attention": "none"}], ids=str)
def model(request: pytest.FixtureRequest) -> Seq2Seq:
    settings = {"hidden_size": 8, "embedding_size": 6, "projection_size": 5, "encoder_steps": 5, "decoder_steps": STEPS}
    model = Seq2Seq(Model(**(settings | request.param)), VOCABULARY, seed=4)
    rng = np.random.default_rng(9)
    for variable in model.trainable_variables:
        variable.assign(rng.standard_normal(variable.shape) * 1.2)
    return model


@pytest.fixture(scope="module")
def utterances() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    lengths = rng.integers(1, 6, 40).astype(np.int32)
    source = rng.integers(4, VOCABULARY, (40, 5)).astype(np.int32)
    source[np.arange(5) >= lengths[:, np.newaxis]] = PAD
    return source, lengths


def beam(width: int, allow_unknown: bool = True) -> Decoding:
    return Decoding(method="beam", beam_width=width, n_best=width, allow_unknown=allow_unknown)


GREEDY = Decoding(method="greedy", allow_unknown=True)


def test_a_hypothesis_scores_what_teacher_forcing_gives_to_its_words(
    model: Seq2Seq, utterances: tuple[np.ndarray, np.ndarray]
) -> None:
    found = ReplySearch(model, beam(4))(*utterances)
    for n in range(4):
        for row in range(len(found.scores)):
            length = int(found.lengths[row, n])
            source, source_length = utterances[0][row : row + 1], utterances[1][row : row + 1]
            nats = model.loss(source, source_length, found.words[row : row + 1, n], np.array([length], np.int32)).nats
            assert found.scores[row, n] == pytest.approx(-float(nats), abs=1e-4)


def test_wider_beams_and_greedy(model: Seq2Seq, utterances: tuple[np.ndarray, np.ndarray]) -> None:
    greedy = ReplySearch(model, GREEDY)(*utterances)
    one = ReplySearch(model, beam(1))(*utterances)
    np.testing.assert_array_equal(one.words, greedy.words)
    np.testing.assert_allclose(one.scores, greedy.scores, atol=1e-4)
    np.testing.assert_allclose(one.attention, greedy.attention, atol=1e-5)
    wide = ReplySearch(model, beam(VOCABULARY**2))(*utterances)
    assert np.all(wide.scores[:, 0] >= greedy.scores[:, 0] - 1e-4)


@pytest.mark.parametrize("decoding", [GREEDY, beam(3)], ids=["greedy", "beam"])
def test_a_batch_gives_what_its_utterances_give_alone(
    model: Seq2Seq, utterances: tuple[np.ndarray, np.ndarray], decoding: Decoding
) -> None:
    search = ReplySearch(model, decoding)
    together = search(*utterances)
    alone = [search(utterances[0][row : row + 1], utterances[1][row : row + 1]) for row in range(40)]
    np.testing.assert_array_equal(np.concatenate([found.words for found in alone]), together.words)
    np.testing.assert_allclose(np.concatenate([found.scores for found in alone]), together.scores, atol=1e-4)


def test_special_words_never_stand_in_a_reply(model: Seq2Seq, utterances: tuple[np.ndarray, np.ndarray]) -> None:
    def words_of(found: Hypotheses) -> set[int]:
        inside = np.arange(STEPS) < found.lengths[..., np.newaxis]
        return set(found.words[inside].tolist())

    allowed = words_of(ReplySearch(model, beam(20))(*utterances))
    assert not allowed & {PAD, GO}
    assert UNKNOWN in allowed and EOS in allowed
    assert UNKNOWN not in words_of(ReplySearch(model, beam(20, allow_unknown=False))(*utterances))


def test_utterances_are_searched_a_few_at_a_time(
    model: Seq2Seq, utterances: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    search = ReplySearch(model, beam(3))
    expected = search(*utterances)
    monkeypatch.setattr("seq2seq_chat.decoding.reply_search.ROWS_AT_ONCE", 21)
    assert [len(part.scores) for part in search.in_parts(*utterances)] == [7, 7, 7, 7, 7, 5]
    np.testing.assert_array_equal(search(*utterances).words, expected.words)
