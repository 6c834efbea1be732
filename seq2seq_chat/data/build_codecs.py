"""The codecs of a new run: tokenizers and vocabularies from files, or built from the training corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Literal

from seq2seq_chat.config import FILE_SETTINGS, Data, TextSettings, is_pairs
from seq2seq_chat.data.corpus_file import corpus_paths, ensure_published, read_pairs, read_utterances
from seq2seq_chat.data.running_text import read_text, read_tokens
from seq2seq_chat.data.samples import read_samples, read_tokenized_utterances
from seq2seq_chat.text.codec import Codecs, TextCodec, ensure_fit, load_tokenizer, tokenizer_settings
from seq2seq_chat.text.tokenizers import SubwordTokenizer, Tokenizer, Tokenizers, create_tokenizer
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, TURN, Vocabulary, VocabularyError

_Side = Literal["both", "source", "target", "text"]  # text: running text, without sources and targets


def named_files(settings: Data) -> list[Path]:
    """The corpora, vocabularies and tokenizers that a configuration names."""
    values = (getattr(settings, name) for name in FILE_SETTINGS["data"])
    return [path for value in values if value is not None for path in corpus_paths(value)]


def build_codecs(settings: Data, running_text: bool = False) -> Codecs:
    """The codecs that the settings describe.

    A tokenizer or a vocabulary without a file is made from the training corpus: one that both sides share from all
    texts, otherwise from the sources or the targets.

    Args:
        running_text: Whether the training corpus is running text rather than samples.

    Raises:
        CorpusError, VocabularyError, TokenizerError: A file cannot be used, or does not fit the others.
    """
    ensure_published(named_files(settings))
    if running_text:
        tokenizer = _tokenizer(settings, settings.source_text, "text")
        return Codecs.shared(_codec(settings, settings.source_text, Tokenizers(tokenizer, tokenizer), "text"))
    tokenizers = build_tokenizers(settings)
    if settings.has_shared_vocabulary:
        return Codecs.shared(_codec(settings, settings.source_text, tokenizers, "both"))
    return Codecs(
        _codec(settings, settings.source_text, tokenizers, "source"),
        _codec(settings, settings.target_text, tokenizers, "target"),
    )


def build_tokenizers(settings: Data) -> Tokenizers:
    """The tokenizers that the settings describe; see :func:`build_codecs`.

    Raises:
        CorpusError, TokenizerError: A file cannot be used.
    """
    if settings.has_shared_vocabulary:
        tokenizer = _tokenizer(settings, settings.source_text, "both")
        return Tokenizers(tokenizer, tokenizer)
    return Tokenizers(
        _tokenizer(settings, settings.source_text, "source"), _tokenizer(settings, settings.target_text, "target")
    )


def _tokenizer(settings: Data, text: TextSettings, side: _Side) -> Tokenizer:
    if text.tokenizer != "subword":
        return create_tokenizer(tokenizer_settings(text))
    if text.tokenizer_file is not None:
        return load_tokenizer(tokenizer_settings(text), text.tokenizer_file)
    size = text.vocabulary_size - _has_turns(settings, side)
    return SubwordTokenizer.train(_texts(settings, side), size, text.subword_model, _size_setting(settings, side))


def _codec(settings: Data, text: TextSettings, tokenizers: Tokenizers, side: _Side) -> TextCodec:
    tokenizer, size = tokenizers.target if side == "target" else tokenizers.source, text.vocabulary_size
    if text.vocabulary is not None:
        words = Vocabulary.load(text.vocabulary).words[:size]
        ensure_fit(TextCodec(tokenizer, Vocabulary(words, source=text.vocabulary)), text.vocabulary)
    elif tokenizer.tokens is not None:
        words = [*SPECIAL_WORDS, *tokenizer.tokens]
    else:
        counts = Counter(chain.from_iterable(_tokens(settings, tokenizers, side)))
        words = Vocabulary.from_counts(counts, size).words
    if _has_turns(settings, side) and TURN not in words:
        # the last word; a tokenizer of subwords needs all of its tokens
        words = [*(words if tokenizer.tokens is not None else words[: size - 1]), TURN]
    if len(words) > size:
        raise VocabularyError(
            f"the tokenizer {text.tokenizer_file} requires a vocabulary of {len(words):,} words, but "
            f"{_size_setting(settings, side)} is only {size:,}; raise it"
        )
    return TextCodec(tokenizer, Vocabulary(words))


def _size_setting(settings: Data, side: _Side) -> str:
    """The setting that limits the vocabulary of a side."""
    own = side == "target" and settings.target_vocabulary_size is not None
    return "data.target_vocabulary_size" if own else "data.vocabulary_size"


def _has_turns(settings: Data, side: _Side) -> bool:
    """Whether sources have several turns, with a marker between them."""
    return settings.context_turns > 1 and side != "target"


def _texts(settings: Data, side: _Side) -> Iterator[str]:
    """The texts of one side of the training corpus; of conversations all of them, as nearly all are both."""
    if side == "text":
        yield from (line for piece in read_text(str(settings.train)) for line in piece.split("\n"))
        return
    if isinstance(settings.train, str) and not is_pairs(settings.train):
        yield from (text for _, text in read_utterances(settings.train, progress=True))
        return
    number = 1 if (side == "target") != settings.swap_source_target else 0
    for pair in read_pairs(settings.train, progress=True):
        yield from pair if side == "both" else (pair[number],)


def _tokens(settings: Data, tokenizers: Tokenizers, side: _Side) -> Iterator[list[str]]:
    """The tokens of the texts of one side of the training corpus."""
    if side == "text":
        yield from read_tokens(str(settings.train), tokenizers.source)
        return
    if side == "both" and not is_pairs(settings.train):
        yield from (
            utterance.source_tokens
            for utterance in read_tokenized_utterances(settings.train, tokenizers, progress=True)
        )
        return
    for sample in read_samples(settings.train, settings, tokenizers, progress=True):
        if side != "target":
            yield sample.source_tokens
        if side != "source":
            yield sample.target_tokens
