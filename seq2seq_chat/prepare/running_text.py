"""Prepare running text for language models: consecutive splits, vocabulary and statistics."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.data.running_text import encode_text, read_text, read_tokens
from seq2seq_chat.prepare.pipeline import STAGING_FOLDER, ensure_not_an_input, find_inputs, publish, working_folder
from seq2seq_chat.prepare.read_result import warn_of_marks
from seq2seq_chat.prepare.readers.lines import LinesSettings
from seq2seq_chat.prepare.settings import DEFAULT_VOCABULARY_SIZE
from seq2seq_chat.prepare.shards import MAX_EXAMPLES
from seq2seq_chat.prepare.split import SPLITS, Shares, check_shares, describe_split, missing_shares, official_splits
from seq2seq_chat.system.files import atomic_write
from seq2seq_chat.text.codec import Codecs, TextCodec
from seq2seq_chat.text.tokenizers import SubwordTokenizer, Tokenizer, TokenizerSettings, create_tokenizer
from seq2seq_chat.text.tokenizers.english import words_with_marks
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, UNKNOWN, Vocabulary

logger = logging.getLogger(__name__)


class RunningTextSettings(NamedTuple):
    """How running text is prepared."""

    tokenizer: TokenizerSettings
    vocabulary_size: int = DEFAULT_VOCABULARY_SIZE  # including the special words
    split: Shares | None = None  # numbers of characters; None: by the names of the files, else 90, 5, 5
    as_is: bool = False  # whether to read files that look like something else than text


def prepare_text(settings: RunningTextSettings, inputs: Sequence[str | Path], output: str | Path) -> dict[str, Any]:
    """Write train.txt, validation.txt, test.txt, vocabulary.txt and statistics.json; for subwords also tokenizer.json.

    The texts of all inputs, one after the other, each at the start of a line, are divided at two positions, so that
    each split is running text. A split begins at the start of a line, unless the tokenizer keeps line breaks. Line ends
    become ``\\n``. Memory does not grow with the length of the text. If the files are named after the splits, each is
    part of its own; what is missing is taken from the end of train.

    Returns:
        The contents of statistics.json: the characters, lines, tokens and unknown tokens of each split, and how the
        text was split.

    Raises:
        CorpusError: An input cannot be read, or looks like something else than text, or train has no characters.
        TokenizerError: The tokenizer cannot be trained.
        UserError: The split is invalid, or ``output`` cannot be written.
    """
    shares, output = settings.split or (90.0, 5.0, 5.0), Path(output)
    check_shares(shares)
    pieces = find_inputs("text", inputs, LinesSettings(separator="", as_is=settings.as_is))
    files = [piece.path for piece in pieces]
    official = official_splits(pieces, inputs) if settings.split is None else None
    divided, named = files, dict[str, list[Path]]()
    if official is not None:
        shares = missing_shares(official, shares)
        divided = [file for file, name in zip(files, official, strict=True) if name == "train"]
        named = {name: [file for file, own in zip(files, official, strict=True) if own == name] for name in SPLITS[1:]}
    ensure_not_an_input(output, [file.parent for file in files])
    total = sum(len(piece) for piece in _read_all(divided))
    if not total:
        raise CorpusError(f"{divided[0]} is empty.")
    with working_folder(output) as folder:
        staging = folder / STAGING_FOLDER
        staging.mkdir()
        whole_lines = settings.tokenizer.name != "character"
        ends = [int(total * sum(shares[:number]) / sum(shares)) for number in (1, 2)]
        _write_splits(divided, [*ends, total], whole_lines, staging, named)
        if not (staging / "train.txt").stat().st_size:
            raise CorpusError("train.txt would be empty. Use a longer text, or another --split.")
        codec = _build_codec(settings, staging)
        if settings.tokenizer.name == "english":
            start = next(read_text(staging / "train.txt"), "")
            if marks := words_with_marks([start], MAX_EXAMPLES):
                warn_of_marks(marks)
        statistics: dict[str, Any] = {name: _count(staging / f"{name}.txt", codec) for name in SPLITS}
        statistics |= {"vocabulary": len(codec.vocabulary), "tokenizer": settings.tokenizer.name}
        empty = [name for name, share in zip(SPLITS, shares, strict=True) if share and not statistics[name]["tokens"]]
        if empty:
            logger.warning(
                "the text is too short: nothing is left for %s. Use a longer one, another --split, or train without "
                "validation (data.validation: null)",
                " and ".join(empty),
            )
        statistics["split"] = describe_split(official, shares, "at two positions")
        publish(output, statistics)
    return statistics


def _read_all(files: Sequence[Path]) -> Iterator[str]:
    last = "\n"
    for file in files:
        if not last.endswith("\n"):
            yield (last := "\n")
        for last in read_text(file):
            yield last


def _write_splits(
    files: Sequence[Path], ends: Sequence[int], whole_lines: bool, folder: Path, named: Mapping[str, Sequence[Path]]
) -> None:
    """Write the text up to each end into the file of its split, and the files that are ``named`` after splits."""
    with ExitStack() as stack:
        streams = [stack.enter_context(atomic_write(folder / f"{name}.txt")) for name in SPLITS]
        for name, texts in named.items():
            for piece in _read_all(texts):
                streams[SPLITS.index(name)].write(piece)
        position, split = 0, 0
        for piece in _read_all(files):
            for part in re.findall(r".*\n|.+", piece) if whole_lines else [piece]:
                rest = part
                while rest:
                    while position >= ends[split] and split < len(SPLITS) - 1:
                        split += 1
                    is_last = split == len(SPLITS) - 1  # to which everything belongs that was appended meanwhile
                    room = len(rest) if whole_lines or is_last else ends[split] - position
                    streams[split].write(rest[:room])
                    position, rest = position + len(rest[:room]), rest[room:]


def _build_codec(settings: RunningTextSettings, folder: Path) -> TextCodec:
    """The tokenizer and the vocabulary of train.txt, which are written into ``folder``."""
    train, size = folder / "train.txt", settings.vocabulary_size
    tokenizer: Tokenizer
    if settings.tokenizer.name == "subword":
        texts = (line for piece in read_text(train) for line in piece.split("\n"))
        tokenizer = SubwordTokenizer.train(texts, size, settings.tokenizer.subword_model, "--vocabulary-size")
    else:
        tokenizer = create_tokenizer(settings.tokenizer)
    if tokenizer.tokens is not None:
        vocabulary = Vocabulary([*SPECIAL_WORDS, *tokenizer.tokens])
    else:
        counts = Counter(chain.from_iterable(read_tokens(train, tokenizer)))
        vocabulary = Vocabulary.from_counts(counts, size)
    codec = TextCodec(tokenizer, vocabulary)
    Codecs.shared(codec).save(folder)
    return codec


def _count(file: Path, codec: TextCodec) -> dict[str, int]:
    """Characters, lines, tokens and unknown tokens of a split."""
    counts = dict.fromkeys(("characters", "lines", "tokens", "unknown_tokens"), 0)
    if not file.stat().st_size:
        return counts
    last = ""
    for last in read_text(file):
        ids = encode_text(last, codec)
        counts["characters"] += len(last)
        counts["lines"] += last.count("\n")
        counts["tokens"] += len(ids)
        counts["unknown_tokens"] += ids.count(UNKNOWN)
    counts["lines"] += not last.endswith("\n")
    return counts
