"""The speed of tokenizers on one core: alone, as `prepare` calls them, and in `prepare`."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from seq2seq_chat.data.tokenizers import Tokenizer, TokenizerSettings, create_tokenizer, train_tokenizer
from seq2seq_chat.data.tokenizers.subword import SubwordTokenizer
from seq2seq_chat.prepare.subwords import tokenize_words

SUBWORD_VOCABULARY = 8000
_BLOCK, _SUBWORD_BLOCK = 1 << 12, 1 << 17  # texts that are tokenized together

CONTENDERS: Mapping[str, TokenizerSettings] = {
    "english": TokenizerSettings("english"),
    "thesis": TokenizerSettings("thesis"),
    "unicode": TokenizerSettings("unicode"),
    "unicode, lower case": TokenizerSettings("unicode", lowercase=True),
    "whitespace": TokenizerSettings("whitespace"),
    "character": TokenizerSettings("character"),
    "subword, unigram": TokenizerSettings("subword"),
    "subword, bpe": TokenizerSettings("subword", subword_model="bpe"),
}


_PREPARE = """
import time
from seq2seq_chat.cli import main
from seq2seq_chat.data.tokenizers.subword import SubwordTokenizer
train = SubwordTokenizer.train
def timed(*arguments):
    start = time.process_time()
    tokenizer = train(*arguments)
    print("training seconds", time.process_time() - start)
    return tokenizer
SubwordTokenizer.train = timed
main()
"""


class PrepareSeconds(NamedTuple):
    """The processor time of `prepare`, and how much of it the training of the tokenizer takes."""

    total: float
    training: float


def time_prepare_on_one_core(arguments: Sequence[str], settings: TokenizerSettings) -> PrepareSeconds:
    """Run `prepare` with a tokenizer in one process."""
    options = ["--jobs", "1", "--tokenizer", settings.name, *["--lowercase"] * settings.lowercase]
    if settings.name == "subword":
        options += ["--subword-model", settings.subword_model, "--vocabulary-size", str(SUBWORD_VOCABULARY)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", _PREPARE, "prepare", *arguments, *options]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    training = re.search("^training seconds (.*)$", output, re.MULTILINE)
    total = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return PrepareSeconds(total, float(training[1]) if training else 0.0)


def time_tokenizers(texts: Sequence[str], rounds: int) -> dict[str, list[float]]:
    """The processor time in seconds that each contender takes for all texts, in each round."""
    files = {
        name: train_tokenizer(settings, texts, SUBWORD_VOCABULARY).file_content if settings.name == "subword" else None
        for name, settings in CONTENDERS.items()
    }
    seconds: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for _ in range(rounds):
        for name, settings in CONTENDERS.items():
            tokenizer = create_tokenizer(settings, files[name])  # with empty caches
            seconds[name].append(_tokenize(tokenizer, texts))
    return seconds


def _tokenize(tokenizer: Tokenizer, texts: Sequence[str]) -> float:
    start = time.process_time()
    if isinstance(tokenizer, SubwordTokenizer):
        for first in range(0, len(texts), _SUBWORD_BLOCK):
            tokenize_words(tokenizer, pa.array(texts[first : first + _SUBWORD_BLOCK]))
    else:
        for first in range(0, len(texts), _BLOCK):
            tokenizer.encode_lines(texts[first : first + _BLOCK])
    return time.process_time() - start
