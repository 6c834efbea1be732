"""The file of a subword tokenizer: JSON with the SentencePiece model, its checksum and the tokens."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Sequence

from seq2seq_chat.data.tokenizers.tokenizer import TokenizerError

_FORMAT = "seq2seq-chat tokenizer"
_VERSION = 1
_KEYS = {"format", "version", "tokenizer", "sha256", "model", "tokens"}


def write_model(model: bytes, tokens: Sequence[str]) -> bytes:
    """The contents of the file."""
    value = {
        "format": _FORMAT,
        "version": _VERSION,
        "tokenizer": "subword",
        "sha256": hashlib.sha256(model).hexdigest(),
        "model": base64.b64encode(model).decode("ascii"),
        "tokens": list(tokens),
    }
    return json.dumps(value, ensure_ascii=False, indent=0).encode() + b"\n"


def read_model(content: bytes, source: str) -> tuple[bytes, list[str]]:
    """The model and the tokens, most frequent first; ``source`` names the file in error messages.

    Raises:
        TokenizerError: These are not the contents of such a file, or they are damaged.
    """
    damaged = TokenizerError(f"{source} is damaged. Copy it again, or train the tokenizer again.")
    try:
        value = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise TokenizerError(
            f"{source} is not a tokenizer file, or is damaged: it is not valid JSON. "
            "Copy it again, or train the tokenizer again."
        ) from error
    if not isinstance(value, dict) or value.get("format") != _FORMAT:
        raise TokenizerError(f"{source} is not a tokenizer file. Use a tokenizer.json of prepare or of a run.")
    if value.get("version") != _VERSION:
        raise TokenizerError(
            f"{source} has format version {value.get('version')!r}, but this seq2seq-chat reads version "
            f"{_VERSION} only. Use the version of seq2seq-chat that wrote it."
        )
    if value.get("tokenizer") != "subword":
        raise TokenizerError(
            f"{source} is a file of the tokenizer {value.get('tokenizer')!r}, not of 'subword'. Use another file."
        )
    tokens = value.get("tokens")
    if set(value) != _KEYS or not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise damaged
    try:
        model = base64.b64decode(value["model"], validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise damaged from error
    if hashlib.sha256(model).hexdigest() != value["sha256"]:
        raise damaged
    return model, tokens
