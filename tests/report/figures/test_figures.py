"""Learning curves, BLEU by the length of the source, attention, and labels with characters of any kind."""

import json
import logging
import warnings
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from seq2seq_chat.chat.replies import Hypothesis
from seq2seq_chat.config import override_decoding
from seq2seq_chat.report.figures import replies, style
from seq2seq_chat.report.figures.curves import draw_bleu_by_length, draw_curves, moving_average, read_curves
from seq2seq_chat.report.figures.model_internals import draw_gradients_by_step
from seq2seq_chat.report.loaded_run import LoadedRun
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.errors import UserError


def test_steps_have_integer_ticks_and_a_legend_beside_the_curves() -> None:
    norms = {label: {"encoder": [1.0, 2.0, 4.0], "decoder": [3.0, 2.0, 1.0]} for label in ("all words", "last word")}
    figure = draw_gradients_by_step(norms)
    figure.draw_without_rendering()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["all words", "last word"]
    for axes in figure.axes:
        assert all(tick == int(tick) for tick in axes.get_xticks())
        assert axes.get_window_extent().x1 <= figure.legends[0].get_window_extent().x0


def test_moving_average_by_hand() -> None:
    np.testing.assert_allclose(moving_average([0, 3, 6, 0, 9], 3), [0, 3, 3, 5, 9])
    np.testing.assert_allclose(moving_average([0, 10, 0, 0, 0, 5], 5), [0, 10 / 3, 2, 3, 5 / 3, 5])
    assert not len(moving_average([], 5))


def test_curves_show_the_logged_losses(tiny_run: Path) -> None:
    curves = read_curves(Run(tiny_run), "tiny")
    assert curves.label.startswith("tiny, ")
    lines = [json.loads(line) for line in (tiny_run / "metrics.jsonl").read_text().splitlines()]
    assert list(curves.train.losses) == [line["loss"] for line in lines if line["kind"] == "train"]
    assert list(curves.validation.steps) == [10, 20]
    minutes = np.cumsum([line["seconds"] for line in lines if line["kind"] == "train"]) / 60
    np.testing.assert_allclose(curves.train.minutes, minutes)
    np.testing.assert_allclose(curves.validation.minutes, minutes[[1, 3]])
    figure = draw_curves([curves, curves])
    measured, smoothed, validation = figure.axes[0].lines[:3]
    assert list(measured.get_ydata()) == list(curves.train.losses)
    assert len(smoothed.get_ydata()) == 4
    assert list(validation.get_ydata()) == list(curves.validation.losses)
    np.testing.assert_allclose(figure.axes[1].lines[0].get_ydata(), np.exp(curves.train.losses))
    assert figure.axes[0].lines[4].get_linestyle() != smoothed.get_linestyle()  # distinguishable in grayscale


def row(samples: int, length: float | None, bleu: float | None, interval: tuple[float, float] | None) -> dict[str, Any]:
    return {"samples": samples, "mean_length": length, "bleu": bleu, "bleu_interval": interval}


def test_points_and_intervals() -> None:
    """Bins without samples are left out; runs lie side by side around the mean length."""
    one = [row(40, 4.0, 30.0, (28.0, 33.0)), row(35, 20.0, 10.0, (9.0, 12.0))]
    other = [row(40, 4.0, 20.0, (18.0, 23.0)), row(0, None, None, None)]
    (axes,) = draw_bleu_by_length({"one": one, "other": other}).axes
    (first, second) = [container.lines for container in axes.containers]
    assert first[0].get_ydata().tolist() == [30.0, 10.0]
    assert second[0].get_ydata().tolist() == [20.0]
    assert (first[0].get_xdata()[0] + second[0].get_xdata()[0]) / 2 == pytest.approx(4.0)
    segments = first[2][0].get_segments()
    assert [segment[:, 1].tolist() for segment in segments] == [[28.0, 33.0], [9.0, 12.0]]
    assert axes.get_ylim()[0] == 0


QUESTION = "you see the tree1 ?"


def test_heat_maps_show_the_weights(loaded: LoadedRun) -> None:
    decoding = override_decoding(loaded.config.decoding, method="beam", beam_width=4, n_best=3)
    reply = loaded.chatbot.reply(QUESTION, decoding)
    figure = replies.draw_heat_maps(reply.source_words, reply.hypotheses)
    assert len(figure.axes) == 4  # three heat maps and the color scale
    for axes, hypothesis in zip(figure.axes, reply.hypotheses, strict=False):
        np.testing.assert_allclose(axes.images[0].get_array(), hypothesis.attention)
        assert [label.get_text() for label in axes.get_yticklabels()] == hypothesis.words
        assert [label.get_text() for label in axes.get_xticklabels()] == QUESTION.split()
    style.render(replies.draw_overlay(reply.source_words, reply.hypotheses[0]), "png")


def test_characters_stand_upright_and_spaces_are_visible() -> None:
    hypothesis = Hypothesis("1 b", ["1", "<space>", "b"], -1.0, True, [[0.5, 0.25, 0.25]] * 3, -1.0)
    (axes, _) = replies.draw_heat_maps(["a", "<space>", "$"], [hypothesis]).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["1", "␣", "b"]
    assert {label.get_rotation() for label in axes.get_xticklabels()} == {60.0}  # "$" is written "\\$"
    (axes, _) = replies.draw_heat_maps(["a", "<space>", "b"], [hypothesis]).axes
    assert {label.get_rotation() for label in axes.get_xticklabels()} == {0.0}


def test_missing_attention(loaded: LoadedRun) -> None:
    empty, plain = Hypothesis("", [], -1.0, True, [], -1.0), Hypothesis("yes", ["yes"], -1.0, True, [], -1.0)
    for hypotheses, reason in (([], "no words"), ([empty], "empty"), ([plain], "has no attention")):
        with pytest.raises(UserError, match=reason):
            replies.ensure_attention(loaded.chatbot.reply(QUESTION)._replace(hypotheses=hypotheses))


def draw(label: str) -> bytes:
    figure = style.new_figure(4, 3)
    figure.subplots().set_title(style.plot_label(label))
    return style.render(figure, "svg")


@pytest.mark.parametrize("label", ["costs $5_{ or $\\frac", "\x00\x1b[31m\x85", "e\u0301", "שלום", "<b>&", "a" * 200])
def test_any_label(label: str) -> None:
    ElementTree.fromstring(draw(label).decode())


def test_formats_of_files(tmp_path: Path) -> None:
    for file_format, signature in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
        style.save(style.new_figure(4, 3), tmp_path / "figure", file_format)  # type: ignore[arg-type]
        assert (tmp_path / "figure").read_bytes().startswith(signature)


def test_one_warning_for_missing_fonts(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(style, "_characters_without_font", set())
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
        warnings.simplefilter("error")
        draw("\U00010ffd\U00010fff")  # unassigned: no font has them
        draw("\U00010ffe")
    (record,) = caplog.records
    assert record.getMessage().startswith("no installed font has \U00010ffd, so figures show boxes")
