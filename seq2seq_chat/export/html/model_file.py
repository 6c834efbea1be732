"""A trained model as one compressed file, which the JavaScript in ``javascript/`` reads.

The contents are the length of a header as a 32-bit integer, the header in JSON, and the tensors it lists, each at a
multiple of four bytes; all numbers are little-endian. gzip adds a checksum.
"""

from __future__ import annotations

import functools
import gzip
import json
import math
import re
import sys
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from seq2seq_chat.config import Config
from seq2seq_chat.engines.onnx.quantization import MAX_INT8, QuantizedMatrix, quantize, relative_error
from seq2seq_chat.engines.tensorflow.engine import TrainedModel
from seq2seq_chat.model.variables import variable_name
from seq2seq_chat.search.logit_rules import rule_without_port
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.text.tokenizers import Tokenizer
from seq2seq_chat.text.tokenizers.subword import SubwordTokenizer
from seq2seq_chat.text.tokenizers.unicode import KEPT_OR_INVISIBLE, KINDS, TOKEN, UnicodeTokenizer

FORMAT = 1
ALIGNMENT = 4  # bytes
JAVASCRIPT = Path(__file__).parent / "javascript"
MAX_PARAMETERS = 64_000_000  # about 70 MB of text; a phone hardly loads more
SUPPORTED = {
    "cell": ("lstm", "gru", "rnn"),
    "activation": ("tanh", "relu"),
    "attention": ("additive", "concat", "dot", "general", "none"),
    "output": ("attentional", "maxout", "concatenated"),
}
"""The values of settings of the model that the JavaScript knows."""
ALLOWED_ERROR = 0.01  # relative, of a rounded matrix
MAX_ERROR = 0.02  # of the finest rounding; a matrix that loses more keeps 32-bit floats


def pack_model(trained: TrainedModel, config: Config, about: Mapping[str, Any], name: str) -> bytes:
    """The compressed file of a model.

    Args:
        trained: Its matrices are rounded to 8-bit integers.
        about: What the page shows of the model, as JSON.
        name: Names the run in error messages.

    Raises:
        UserError: The model is too large for a page or of a kind that pages do not have, or its weights are not finite.
    """
    weights = {variable_name(variable): variable.numpy() for variable in trained.model.trainable_variables}
    _ensure_exportable(config, weights, name)
    tensors = {tensor: pack_tensor(tensor, values) for tensor, values in weights.items()}
    header = {
        "format": FORMAT,
        "task": config.task,
        "model": config.model.model_dump(mode="json"),
        "context_turns": config.data.context_turns,
        "reverse_input": config.data.reverse_input,
        "codecs": [
            {"tokenizer": describe_tokenizer(codec.tokenizer), "words": codec.vocabulary.words}
            for codec in (trained.codecs[:1] if trained.codecs.is_shared else trained.codecs)  # source and target
        ],
        "about": about,
        "tensors": [
            {"name": tensor, "shape": values.shape, "type": values.dtype} for tensor, values in tensors.items()
        ],
    }
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    parts = [
        text.ljust(_aligned(len(text))),
        *(array.tobytes() for values in tensors.values() for array in values.arrays),
    ]
    contents = b"".join(part.ljust(_aligned(len(part)), b"\0") for part in parts)
    return gzip.compress(len(parts[0]).to_bytes(4, "little") + contents, mtime=0)


class PackedTensor(NamedTuple):
    """A tensor as it is stored: a matrix W, [outputs, inputs] so that its product with a vector is W x, or a vector."""

    shape: list[int]
    dtype: Literal["int8", "float32"]
    arrays: list[npt.NDArray[Any]]  # scales of the rows and integers, or floats


def pack_tensor(name: str, values: npt.NDArray[np.float32]) -> PackedTensor:
    """A variable as it is stored; see :func:`is_table` for the orientation of matrices."""
    if values.ndim == 1:
        return PackedTensor([*values.shape], "float32", [values])
    matrix = values if is_table(name) else np.ascontiguousarray(values.T)
    quantized = _coarsest(matrix)
    if quantized is None:
        return PackedTensor([*matrix.shape], "float32", [matrix])
    return PackedTensor([*matrix.shape], "int8", [quantized.scales, quantized.values])


def is_table(name: str) -> bool:
    """Whether a variable has a row for each word, [words, units], and is not the W of a product x W."""
    return name.startswith("embedding/") or name == "output/words"


def _coarsest(matrix: npt.NDArray[np.float32]) -> QuantizedMatrix | None:
    """The matrix in the smallest integers that are exact enough, as they compress best; None if there are none."""
    finest = quantize(matrix)
    error = relative_error(matrix, finest)
    if error > MAX_ERROR:
        return None
    largest = math.ceil(MAX_INT8 * error / ALLOWED_ERROR)  # the error is about proportional to the scale
    if 0 < largest < MAX_INT8:
        coarse = quantize(matrix, largest)
        if relative_error(matrix, coarse) <= ALLOWED_ERROR * 1.01:
            return coarse
    return finest


def _ensure_exportable(config: Config, weights: Mapping[str, npt.NDArray[np.float32]], name: str) -> None:
    for setting, values in SUPPORTED.items():
        if (value := getattr(config.model, setting)) not in values:
            raise UserError(f"run {name} has model.{setting} {value}, which pages do not support; use another --format")
    if missing := rule_without_port(config.decoding):
        raise UserError(f"run {name} has decoding.{missing}, which pages do not support; use another --format")
    parameters = sum(values.size for values in weights.values())
    if parameters > MAX_PARAMETERS:
        raise UserError(
            f"run {name} has {parameters / 1e6:.0f} million parameters, but a page holds at most "
            f"{MAX_PARAMETERS / 1e6:.0f} million; use --format onnx, or a smaller model or vocabulary"
        )
    if not all(np.isfinite(values).all() for values in weights.values()):
        raise UserError(
            f"the weights of run {name} are not finite, as its training diverged; use an earlier --snapshot"
        )


def _aligned(length: int) -> int:
    """The next multiple of ALIGNMENT."""
    return length + -length % ALIGNMENT


_PROPERTY = re.compile(r"\\p\{([^}]+)\}")
_UNSUPPORTED = ("Line_Break=SA", "Indic_Syllabic_Category=Invisible_Stacker", "Prepended_Concatenation_Mark")
"""Properties of characters that regular expressions of JavaScript do not have."""
_SCRIPTS = frozenset(
    ("Armenian", "Han", "Hebrew", "Hiragana", "Katakana", "Khitan_Small_Script", "Nushu", "Tangut", "Tibetan", "Yi")
)


def describe_tokenizer(tokenizer: Tokenizer) -> dict[str, Any]:
    """The description for ``createTokenizer`` of ``tokenizers.js``."""
    description: dict[str, Any] = {"name": tokenizer.name}
    if isinstance(tokenizer, UnicodeTokenizer):
        description |= {
            "lowercase": tokenizer.lowercase,
            "normalize_apostrophes": tokenizer.normalize_apostrophes,
            "patterns": {
                "token": javascript_pattern(TOKEN),
                "kept_or_invisible": javascript_pattern(KEPT_OR_INVISIBLE),
                "kinds": {kind.name: javascript_pattern(pattern) for kind, pattern in KINDS.items()},
            },
        }
    if isinstance(tokenizer, SubwordTokenizer):
        scores = tokenizer.scores()
        # byte pair encoding numbers its subwords 0, -1, -2 …; the scores of a unigram model are log-probabilities
        model = "bpe" if all(score.is_integer() for score in scores.values()) else "unigram"
        description |= {"pieces": list(scores.items()), "model": model}
    return description


def javascript_pattern(pattern: str) -> str:
    """A pattern of the Python package ``regex`` as one for JavaScript with the flag ``v``.

    Possessive quantifiers become greedy ones, which match the same where nothing follows that could make them give up
    characters.
    """
    pattern = (
        pattern.replace("++", "+").replace("*+", "*").replace(r"\Z", "$").replace(r"\p{RI}", r"\p{Regional_Indicator}")
    )
    pattern = re.sub(r"\\U000([0-9A-F]{5})", r"\\u{\1}", pattern)

    def convert(match: re.Match[str]) -> str:
        name = match[1]
        if name in _UNSUPPORTED:
            return _character_class(name)
        return rf"\p{{Script={name}}}" if name in _SCRIPTS else rf"\p{{{name}}}"

    return _PROPERTY.sub(convert, pattern)


@functools.cache
def _character_class(name: str) -> str:
    """The characters with a property as a class of ranges."""
    import regex

    has_property = regex.compile(rf"\p{{{name}}}").match
    codes = [code for code in range(sys.maxunicode + 1) if has_property(chr(code))]
    runs = [[code for _, code in run] for _, run in groupby(enumerate(codes), lambda pair: pair[1] - pair[0])]
    return "".join(["[", *(rf"\u{{{run[0]:X}}}-\u{{{run[-1]:X}}}" for run in runs), "]"])
