"""Train a SentencePiece model on the words of texts."""

from __future__ import annotations

import io
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, pairwise
from typing import Literal

from seq2seq_chat.text.tokenizers.tokenizer import TokenizerError
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS

SubwordModel = Literal["unigram", "bpe"]

logger = logging.getLogger(__name__)

_COVERAGE = 0.9995  # share of the characters of the texts that get subwords; the rest become bytes
_MAX_TEXTS, _MAX_CHARACTERS = 1_000_000, 1 << 26
_MAX_WORD_CHARACTERS = 1 << 22  # of all distinct words
_MAX_SEGMENT = 500  # characters; SentencePiece skips lines of two that are longer than 4192 bytes
_MAX_TRAINING_CHARACTERS = 1 << 24  # of all words, as often as they occur; a unigram model needs 25 bytes for each


def sample_texts(texts: Iterable[str]) -> list[str]:
    """All texts, or evenly spaced ones if there are many, which take bounded memory."""
    kept: list[str] = []
    stride, characters = 1, 0
    for index, text in enumerate(texts):
        if index % stride:
            continue
        kept.append(text)
        characters += len(text)
        while len(kept) > 1 and (len(kept) > _MAX_TEXTS or characters > _MAX_CHARACTERS):
            stride *= 2
            kept = kept[::2]
            characters = sum(map(len, kept))
    return kept


def count_words(texts: list[str]) -> Counter[str]:
    """The words, as separated by single spaces, of all texts or of evenly spaced ones if there are many words."""
    while True:
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(text.split(" "))
        if len(texts) < 2 or sum(map(len, counts)) <= _MAX_WORD_CHARACTERS:
            return counts
        texts = texts[::2]


def train_model(words: Mapping[str, int], vocabulary_size: int, model: SubwordModel, size_setting: str) -> bytes:
    """A SentencePiece model, serialized.

    Args:
        words: How often each word occurs.
        vocabulary_size, size_setting: See `SubwordTokenizer.train`.

    Raises:
        TokenizerError: The texts are empty, or the vocabulary is too small for their characters.
    """
    from sentencepiece import SentencePieceTrainer

    counts = scale_counts(_count_segments(words))
    if not counts:
        raise TokenizerError("There is no text to train a subword tokenizer on. Name a corpus with text.")
    required = len(SPECIAL_WORDS) + len(BYTES) + len(_required_characters(counts))
    if vocabulary_size < required:
        raise TokenizerError(
            f"A vocabulary of size {vocabulary_size} is too small for subwords: the special tokens, all bytes "
            f"and the characters of the corpus are {required} tokens already. Raise {size_setting}, or use the "
            "character tokenizer."
        )
    logger.info("training a subword tokenizer on %d distinct words; this cannot be interrupted", len(words))
    output = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=_records(counts),
        input_format="tsv",
        model_writer=output,
        model_type=model,
        vocab_size=vocabulary_size - len(SPECIAL_WORDS) + 1,  # <unk>
        hard_vocab_limit=False,  # fewer pieces if the corpus has no more
        character_coverage=_COVERAGE,
        required_chars=WORD_START,
        byte_fallback=True,
        normalization_rule_name="identity",
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        unk_id=0,
        bos_id=-1,
        eos_id=-1,
        pad_id=-1,
        num_threads=1,  # several are slower on a busy machine, and would be part of the result
        minloglevel=2,
    )
    return output.getvalue()


def _count_segments(words: Mapping[str, int]) -> Counter[str]:
    """The parts of words that can be subwords, with a space before those at the start of a word."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for index, (plain, part) in enumerate(segments(word)):
            if plain:
                text = part if index else f" {part}"
                for start in range(0, len(text), _MAX_SEGMENT):
                    counts[text[start : start + _MAX_SEGMENT]] += count
    return counts


def scale_counts(counts: Counter[str]) -> Counter[str]:
    """Reduce counts in proportion, so that the memory and time of training are bounded."""
    characters = sum(len(segment) * count for segment, count in counts.items())
    scale = min(1.0, _MAX_TRAINING_CHARACTERS / max(1, characters))
    return Counter({segment: scaled for segment, count in counts.items() if (scaled := round(scale * count))})


def _records(counts: Mapping[str, int]) -> Iterator[str]:
    """The lines of a TSV file: text and how often it occurs.

    The first candidates for pieces of a unigram model are the strings that two different characters follow. So that
    frequent words are among them, each is once followed by another word, and once by the end of the line.
    """
    words = [segment for segment, count in counts.items() if count > 1 and segment.startswith(" ")]
    for word, following in pairwise([*words, *words[:1]]):
        yield f"{word}{following}\t1"
    in_pairs = dict.fromkeys(words, 2)
    for segment, count in counts.items():
        if count > in_pairs.get(segment, 0):
            yield f"{segment}\t{count - in_pairs.get(segment, 0)}"


def _required_characters(counts: Mapping[str, int]) -> list[str]:
    """The characters that SentencePiece makes pieces of: the most frequent ones up to the coverage."""
    characters = Counter({WORD_START: 0})
    for segment, count in counts.items():
        for character in segment:
            characters[character] += count
    limit, covered, required = _COVERAGE * characters.total(), 0, []
    for character, count in characters.most_common():
        if covered >= limit:
            break
        covered += count
        required.append(character)
    return required


WORD_START = "▁"
"""U+2581, which stands for a space in a subword."""
BYTES = {f"<0x{byte:02X}>": bytes([byte]) for byte in range(256)}
"""The token of each byte → the byte."""


_JOINERS = ("\u200c", "\u200d")


def is_plain(text: str) -> bool:
    """Whether all characters of a text without spaces may be part of a subword. The others become bytes.

    These are characters that a vocabulary file cannot have, others that are invisible except the joiners of Indic
    and Arabic scripts and of emoji, the character of ``WORD_START`` itself, and "<", so that no subword looks like
    the token of a byte or a special word.
    """
    return (text.isprintable() and WORD_START not in text and "<" not in text) or text in _JOINERS


def segments(word: str) -> Iterable[tuple[bool, str]]:
    """The longest parts of a word that are (True) or are not (False) plain."""
    if is_plain(word):
        return [(True, word)] if word else []
    return ((plain, "".join(part)) for plain, part in groupby(word, is_plain))
