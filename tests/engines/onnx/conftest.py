"""Exported models, and how their replies are compared."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.config import Decoding
from seq2seq_chat.export.onnx import export_onnx
from seq2seq_chat.runs.run import Run
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.text.tokenizers import TokenizerSettings
from tests.conftest import CommandResult
from tests.random_runs import codec_of_texts, random_run, small_config

TEXTS = [
    "Übermorgen grüßt Frau Müller die Straße!",
    "Äpfel, Öl und Süßes: schön, nicht?",
    "„Das Maß ist voll“, sagt er; STRASSE oder STRAẞE?",
    "Straße, u\u0308ber, schön",  # a letter and a mark, which is not how TEXTS[0] writes it
    "ein Wort, das fehlt: Wörterbücher 😀",
]
TOKENIZERS = [
    *(TokenizerSettings("character"), TokenizerSettings("subword", subword_model="bpe"), TokenizerSettings("english")),
    TokenizerSettings("unicode", lowercase=True),
    *(
        pytest.param(TokenizerSettings(name), marks=pytest.mark.nightly)
        for name in ("subword", "unicode", "english_character", "thesis", "whitespace")
    ),
]


@pytest.fixture(scope="session")
def exported(tiny_run: Path, cli: Callable[..., CommandResult], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny run as ONNX graphs. Read-only."""
    folder = tmp_path_factory.mktemp("exported") / "model"
    result = cli("export", tiny_run, "--format", "onnx", "--output", folder)
    assert result.status == 0, result
    assert "seq2seq-chat chat" in result.out
    return folder


@pytest.fixture(scope="module", params=TOKENIZERS, ids=str)
def german_run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run whose random model knows all TEXTS but the last one; its folder ``exported`` has its export."""
    settings: TokenizerSettings = request.param
    names = f"data.tokenizer={settings.name}", f"data.lowercase={json.dumps(settings.lowercase)}"
    codecs = Codecs.shared(codec_of_texts(settings, TEXTS[:-1]))
    folder = tmp_path_factory.mktemp("german") / "results"
    german = random_run(folder, small_config(*names, "model.encoder_steps=40"), codecs)
    export_onnx(german, german.path / "exported")
    return german


def compare_replies(
    one: Chatbot, other: Chatbot, texts: Sequence[str], decoding: Decoding, tolerance: float
) -> list[str]:
    """Compare all hypotheses of two chatbots; returns the replies. tolerance: of scores, in nats."""
    replies = one.replies(texts, decoding)
    for found, expected in zip(replies, other.replies(texts, decoding), strict=True):
        assert (found.text, found.source_words) == (expected.text, expected.source_words)
        assert found.unknown_words == expected.unknown_words
        for hypothesis, same in zip(found.hypotheses, expected.hypotheses, strict=True):
            assert (hypothesis.text, hypothesis.words) == (same.text, same.words)
            np.testing.assert_allclose([hypothesis.score, hypothesis.rank], [same.score, same.rank], atol=tolerance)
            np.testing.assert_allclose(hypothesis.attention, same.attention, atol=tolerance)
    return [reply.text for reply in replies]
