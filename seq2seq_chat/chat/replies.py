"""Replies, and how the ids of hypotheses become their text, with unknown words replaced by what they attend to."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from seq2seq_chat.config import Config, Decoding
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.data.samples import Sample
from seq2seq_chat.search.engine import Hypotheses
from seq2seq_chat.system.errors import cut
from seq2seq_chat.text.codec import Codecs, TextCodec, are_equal, convert_tokens
from seq2seq_chat.text.lexicon import Lexicon, LexiconError
from seq2seq_chat.text.vocabulary import TURN, UNKNOWN, strip_ids

READABLE = dict.fromkeys(("english", "english_character"), "the letters a to z, digits and . , ! ?")
READABLE["thesis"] = "words of the letters a to z, digits and . , ! ?"
"""What tokenizers that remove most characters keep."""


class Hypothesis(NamedTuple):
    """One possible reply."""

    text: str  # as people write it
    words: list[str]  # tokens, without the end marker
    score: float  # log-probability of the words and the end marker, nats
    ended: bool  # true: by the end marker, false: truncated at the model's step limit
    attention: list[list[float]]  # a row for each word, a column for each word of the source; empty without attention
    rank: float  # what hypotheses are sorted by: the score, unless a setting adjusts it


class Reply(NamedTuple):
    """The reply to an utterance, and what explains it."""

    text: str  # of the first hypothesis; empty if the utterance has no tokens
    hypotheses: list[Hypothesis]  # best first, samples in the order of sampling; with distinct words
    source_words: list[str]  # the tokens that the encoder read, in the order of the text
    unknown_words: list[str]  # tokens of the utterance that are not in the vocabulary of the source
    seconds: float  # time for all utterances of the call
    unread_words: int = 0  # of the utterance: those at its beginning that exceed the model's steps
    unknown_share: float = 0.0  # of the tokens with letters of the utterance, 0 to 1; see Chatbot._unknown_share
    removed_letters: str = ""  # letters of the utterance that the tokenizer removes, each once


class HypothesisReader:
    """Turns the hypotheses of a model into text.

    Args:
        decoding: Whether a token replaces each ``<unknown>``, given the attention of the model, and with which lexicon;
            words that are not in it are copied.

    Raises:
        LexiconError: ``decoding.lexicon`` cannot be read.
    """

    def __init__(self, config: Config, decoding: Decoding, codecs: Codecs) -> None:
        self.codecs, self._reverse_input = codecs, config.data.reverse_input
        self.replaces_unknown = decoding.replace_unknown and config.model.attention != "none"
        self.lexicon: Lexicon | None = None
        if self.replaces_unknown and decoding.lexicon is not None:
            try:
                self.lexicon = Lexicon.load(decoding.lexicon, codecs.source.tokenizer)
            except LexiconError as error:
                raise LexiconError(f"decoding.lexicon: {error}") from error

    def read(self, hypothesis: Hypotheses, source: SourceText) -> Hypothesis:
        """Read one hypothesis.

        Args:
            hypothesis: Fields without batch and n: words [steps], attention [steps, source steps], …
            source: Its tokens are in the order of the text. Those at its beginning that exceed the model's steps are
                ignored.
        """
        ids = strip_ids(hypothesis.words[: hypothesis.lengths])
        words, rows = self.codecs.target.words(ids), self.attention(hypothesis.attention[: len(ids)], source)
        if self.replaces_unknown and rows and UNKNOWN in ids:
            tokens = source.tokens[-hypothesis.attention.shape[1] :]
            words, rows = self._replace_unknown(ids, rows, SourceText(tokens, source.text))
        text, score, rank = self.codecs.target.text(words), float(hypothesis.scores), float(hypothesis.ranks)
        return Hypothesis(text, words, score, bool(hypothesis.ended), rows, rank)

    def distinct(self, hypotheses: Hypotheses, source: SourceText) -> list[Hypothesis]:
        """Read the distinct hypotheses of one utterance, [n, …]: sampling may return duplicates."""
        found: dict[tuple[int, ...], Hypothesis] = {}
        for n in range(len(hypotheses.words)):
            hypothesis = hypotheses.at(n)
            ids = tuple(hypothesis.words[: hypothesis.lengths].tolist())
            if np.isfinite(hypothesis.scores) and ids not in found:
                found[ids] = self.read(hypothesis, source)
        return list(found.values())

    def attention(self, weights: np.ndarray, source: SourceText) -> list[list[float]]:
        """The attention to each token of the source that was read, in the order of the text.

        Args:
            weights: The attention to the encoder's steps, [n, source steps].
            source: See :meth:`read`.

        Returns:
            n rows with a column for each token, or none without attention or source.
        """
        weights = weights[:, : len(source.tokens)]
        if self._reverse_input:
            weights = weights[:, ::-1]
        rows: list[list[float]] = weights.tolist() if weights.shape[1] else []
        return rows

    def _replace_unknown(
        self, ids: list[int], rows: list[list[float]], source: SourceText
    ) -> tuple[list[str], list[list[float]]]:
        """The tokens of a hypothesis and their attention, where others replace unknown words.

        Each may become several tokens, with the same attention.
        """
        words, attention = [], []
        spelling = original_spelling(source.tokens, source.text)
        for word_id, row in zip(ids, rows, strict=True):
            tokens = self.codecs.target.words([word_id])
            if word_id == UNKNOWN:
                position = int(np.argmax(row))
                tokens = self._replacement(source.tokens[position], spelling[position])
            words += tokens
            attention += [row] * len(tokens)
        return words, attention

    def _replacement(self, attended: str, spelled: str) -> list[str]:
        """The tokens of the target for a token of the source: its entry in the lexicon, or a copy.

        A copy may be several tokens if source and target have tokenizers of their own, and none of a turn marker.

        Args:
            spelled: How it is written in the text, as the tokenizer of the target may keep capitals and accents that
                the one of the source removes.
        """
        if attended == TURN:
            return []
        target = self.codecs.target.tokenizer
        entry = self.lexicon.find(attended) if self.lexicon else None
        if tokens := target.encode(entry) if entry is not None else []:
            return tokens
        if spelled == attended or are_equal(*self.codecs.tokenizers):
            return convert_tokens([attended], *self.codecs.tokenizers)
        return target.encode(spelled)


class SourceText(NamedTuple):
    """The tokens of a source, and the text of its last turn as it was written."""

    tokens: list[str]
    text: str


def source_text(corpus: Dataset, index: int, sample: Sample) -> SourceText:
    """The source of a sample. In turns before the last one, unknown words are ``<unknown>``.

    Args:
        index: The number of the sample in the corpus.
    """
    tokens = corpus.codecs.source.vocabulary.tokens(corpus.source_ids(index))
    return SourceText(tokens[: len(tokens) - len(sample.source_tokens)] + sample.source_tokens, sample.source)


def original_spelling(tokens: Sequence[str], text: str) -> list[str]:
    """How each token is written in a text, with its capitals and accents: ``zoe`` may be ``Zoë``.

    The last token is looked for first, so that a text may have more tokens before the given ones. A token that is
    not found, as one of another text, is returned as it is.
    """
    folded, positions = "", []
    for position, character in enumerate(text):
        plain = _fold(character)
        folded += plain
        positions += [position] * len(plain)
    positions.append(len(text))
    spelled, end = [], len(folded)
    for token in reversed(tokens):
        plain = _fold(token)
        start = folded.rfind(plain, 0, end) if plain else -1
        if start < 0:
            spelled.append(token)
        else:
            spelled.append(text[positions[start] : positions[start + len(plain)]])
            end = start
    return spelled[::-1]


def _fold(text: str) -> str:
    """Lower case, without accents."""
    decomposed = unicodedata.normalize("NFKD", text.lower())
    return "".join(character for character in decomposed if not unicodedata.combining(character))


def removed_letters(text: str, tokens: list[str], codec: TextCodec) -> str:
    """The letters of a text that its tokens lack, even without accents, each once; few tokenizers remove any."""
    if text.isascii() or not tokens or codec.tokenizer.name not in READABLE:
        return ""
    read = set("".join(tokens))
    letters = dict.fromkeys(filter(str.isalpha, text))
    return "".join(one for one in letters if read.isdisjoint(unicodedata.normalize("NFKD", one).casefold()))


UNKNOWN_LANGUAGE = 0.8
"""Share of unknown words from which on an utterance is taken for one in another language or script."""


def notes(reply: Reply) -> list[str]:
    """What a person should know about how the model reads an utterance."""
    found = [unread_note(reply)] if reply.unread_words else []
    if reply.removed_letters:
        found.append(f"the model cannot read some letters: {cut(reply.removed_letters)}")
    if reply.unknown_share >= UNKNOWN_LANGUAGE:
        found.append(f"the text has {unknown_note(reply)}")
    return found


def unknown_note(reply: Reply) -> str:
    """What an utterance has that is in another language or script than the model was trained on."""
    share = f"{100 * reply.unknown_share:.0f} %"
    return f"hardly any known words ({share} are not in the vocabulary); it may be in another language or script"


def unread_note(reply: Reply) -> str:
    """What a model does with an utterance that is longer than model.encoder_steps."""
    read = len(reply.source_words)
    return f"the model reads only the last {read} of {read + reply.unread_words} tokens"
