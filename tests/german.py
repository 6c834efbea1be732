"""German texts, and models of them with each tokenizer."""

from __future__ import annotations

import json

import pytest

from seq2seq_chat.config import Config
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.text.tokenizers import TokenizerSettings
from tests.random_runs import codec_of_texts, small_config

TEXTS = [
    "Übermorgen grüßt Frau Müller die Straße!",
    "Äpfel, Öl und Süßes: schön, nicht?",
    "„Das Maß ist voll“, sagt er; STRASSE oder STRAẞE?",
    "Straße, u\u0308ber, schön",  # a letter and a mark, which is not how TEXTS[0] writes it
    "ein Wort, das fehlt: Wörterbücher 😀",
]
SLOW = pytest.mark.slow(minutes=1)
TOKENIZERS = [
    TokenizerSettings("character"),
    TokenizerSettings("subword", subword_model="bpe"),
    *(
        pytest.param(settings, marks=SLOW)
        for settings in (TokenizerSettings("unicode", lowercase=True), TokenizerSettings("english"))
    ),
    *(
        pytest.param(settings, marks=pytest.mark.nightly)
        for settings in (
            TokenizerSettings("subword"),
            TokenizerSettings("unicode"),
            TokenizerSettings("english_character"),
            TokenizerSettings("thesis"),
            TokenizerSettings("whitespace"),
        )
    ),
]
"""Parameters for tests, two of them quick and two slow."""


def german_model(settings: TokenizerSettings) -> tuple[Config, Codecs]:
    """A configuration with a tokenizer, and a codec that knows the tokens of all texts but the last."""
    names = f"data.tokenizer={settings.name}", f"data.lowercase={json.dumps(settings.lowercase)}"
    return small_config(*names, "model.encoder_steps=40"), Codecs.shared(codec_of_texts(settings, TEXTS[:-1]))
