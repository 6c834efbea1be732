"""Figures with characters of any kind."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from xml.etree import ElementTree

import pytest

from seq2seq_chat.report.figures import style


def draw(label: str) -> bytes:
    figure = style.new_figure(4, 3)
    figure.subplots().set_title(style.plot_label(label))
    return style.render(figure, "svg")


@pytest.mark.parametrize("label", ["costs $5_{ or $\\frac", "\x00\x1b[31m\x85", "e\u0301", "שלום", "<b>&", "a" * 200])
def test_any_label(label: str) -> None:
    ElementTree.fromstring(draw(label).decode())


@pytest.mark.parametrize(("file_format", "signature"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_formats_of_files(tmp_path: Path, file_format: style.Format, signature: bytes) -> None:
    figure = style.new_figure(4, 3)
    style.save(figure, tmp_path / "figure", file_format)
    assert (tmp_path / "figure").read_bytes().startswith(signature)


def test_one_warning_for_missing_fonts(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(style, "_characters_without_font", set())
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
        warnings.simplefilter("error")
        draw("\U00010ffd\U00010fff")  # unassigned: no font has them
        draw("\U00010ffe")
    (record,) = caplog.records
    assert record.getMessage().startswith("no installed font has \U00010ffd, so figures show boxes")
