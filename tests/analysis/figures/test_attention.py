"""Attention figures."""

from __future__ import annotations

import numpy as np
import pytest

from seq2seq_chat.chat.chatbot import Hypothesis
from seq2seq_chat.config import override_decoding
from seq2seq_chat.report.figures import attention, style
from seq2seq_chat.report.loaded_run import LoadedRun
from seq2seq_chat.system.errors import UserError

QUESTION = "you see the tree1 ?"


def test_heat_maps_show_the_weights(loaded: LoadedRun) -> None:
    decoding = override_decoding(loaded.config.decoding, method="beam", beam_width=4, n_best=3)
    reply = loaded.chatbot.reply(QUESTION, decoding)
    figure = attention.draw_heat_maps(reply.source_words, reply.hypotheses)
    assert len(figure.axes) == 4  # three heat maps and the color scale
    for axes, hypothesis in zip(figure.axes, reply.hypotheses, strict=False):
        np.testing.assert_allclose(axes.images[0].get_array(), hypothesis.attention)
        assert [label.get_text() for label in axes.get_yticklabels()] == hypothesis.words
        assert [label.get_text() for label in axes.get_xticklabels()] == QUESTION.split()
    style.render(attention.draw_overlay(reply.source_words, reply.hypotheses[0]), "png")


def test_characters_stand_upright_and_spaces_are_visible() -> None:
    hypothesis = Hypothesis("1 b", ["1", "<space>", "b"], -1.0, True, [[0.5, 0.25, 0.25]] * 3, -1.0)
    (axes, _) = attention.draw_heat_maps(["a", "<space>", "$"], [hypothesis]).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["1", "␣", "b"]
    assert {label.get_rotation() for label in axes.get_xticklabels()} == {60.0}  # "$" is written "\\$"
    (axes, _) = attention.draw_heat_maps(["a", "<space>", "b"], [hypothesis]).axes
    assert {label.get_rotation() for label in axes.get_xticklabels()} == {0.0}


@pytest.mark.parametrize(
    ("hypotheses", "reason"),
    [
        ([], "no words"),
        ([Hypothesis("", [], -1.0, True, [], -1.0)], "empty"),
        ([Hypothesis("yes", ["yes"], -1.0, True, [], -1.0)], "has no attention"),
    ],
)
def test_missing_attention(loaded: LoadedRun, hypotheses: list[Hypothesis], reason: str) -> None:
    reply = loaded.chatbot.reply(QUESTION)._replace(hypotheses=hypotheses)
    with pytest.raises(UserError, match=reason):
        attention.ensure_attention(reply)
