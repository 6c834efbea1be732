"""Validation during training: the exact loss (full softmax, teacher forcing, no dropout), BLEU and sample replies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from seq2seq_chat.config import Data
from seq2seq_chat.data.batches import evenly_spaced
from seq2seq_chat.data.buckets import Bucket
from seq2seq_chat.data.codec import Codec, Codecs
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.data.source_text import SourceText, source_text
from seq2seq_chat.decoding.result import Hypotheses
from seq2seq_chat.inference.corpus_loss import CorpusLoss
from seq2seq_chat.inference.hypothesis_reader import HypothesisReader
from seq2seq_chat.inference.reply_search import ReplySearch
from seq2seq_chat.inference.scorer import Scorer
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.training.bleu import Bleu

TRANSLATED_ROWS = 128  # sources translated together, of similar length


def corpus_loss(
    scorer: Scorer, corpus: Dataset, buckets: Sequence[Bucket], reverse_input: bool, limit: int | None = None
) -> CorpusLoss:
    """Compute the exact loss of a model on a corpus.

    Args:
        scorer: of the model.
        corpus: samples.
        buckets: step limits, the model's own last.
        reverse_input: whether the encoder reads the last word first.
        limit: number of samples to use, evenly spaced; None: all.
    """
    indices = None if limit is None else evenly_spaced(len(corpus), limit)
    nats, tokens, samples = 0.0, 0, 0
    for positions, _, scores in scorer.score_batches(corpus, buckets, reverse_input, indices):
        nats, tokens = nats + float(scores.loss.nats), tokens + int(scores.loss.tokens)
        samples += len(positions)
    return CorpusLoss(nats, tokens, samples)


class Reply(NamedTuple):
    """The model's reply to an utterance of the validation corpus."""

    source: str
    reply: str
    target: str


class ReplySampler:
    """Generates replies to some utterances of a corpus.

    Args:
        model: the model that replies.
        search: the search for its replies.
        codecs: those that it was trained with.
        corpus: where the utterances come from.
        data: order of the input, and the files of the corpus.
        count: number of replies.
        reader: turns hypotheses into tokens.
    """

    def __init__(
        self,
        model: Seq2Seq,
        search: ReplySearch,
        codecs: Codecs,
        corpus: Dataset,
        data: Data,
        count: int,
        reader: HypothesisReader,
    ) -> None:
        self._corpus, self._codecs, self._search, self._reader = corpus, codecs, search, reader
        self._samples = evenly_spaced(len(corpus), count)
        self._sources = read_sources(corpus, self._samples, reader)
        if len(self._samples):
            self._batch = corpus.batch(
                self._samples,
                size=len(self._samples),
                source_steps=model.config.encoder_steps,
                target_steps=model.config.decoder_steps,
                reverse=data.reverse_input,
            )

    def __call__(self) -> list[Reply]:
        """Reply to the utterances with the model's current weights."""
        if not len(self._samples):
            return []
        hypotheses = self._search(self._batch.source, self._batch.source_length)
        return [
            Reply(
                self._codecs.source.decode(self._corpus.source_ids(i)),
                self._codecs.target.text(words),
                self._codecs.target.decode(self._corpus.target_ids(i)),
            )
            for i, words in zip(self._samples, best_words(hypotheses, self._sources, self._reader), strict=True)
        ]


class BleuScorer:
    """Computes the corpus BLEU of a model's translations.

    Translations and references are compared as people write them; a reference lacks what its tokenizer removes.

    Args:
        search: the search for translations, usually greedy.
        codec: that of the target.
        corpus: the sources.
        samples: which samples of it to translate.
        references: the reference of each of these samples.
        sources: the source of each; without tokens unless the reader replaces unknown words.
        reader: turns hypotheses into tokens.
        source_steps: the encoder's steps.
        reverse_input: whether the encoder reads the last word first.
    """

    def __init__(
        self,
        search: ReplySearch,
        codec: Codec,
        corpus: Dataset,
        samples: np.ndarray,
        references: Sequence[str],
        sources: Sequence[SourceText],
        reader: HypothesisReader,
        source_steps: int,
        reverse_input: bool,
    ) -> None:
        self._search, self._codec, self._corpus, self._reader = search, codec, corpus, reader
        self._source_steps, self._reverse_input = source_steps, reverse_input
        order = np.argsort(corpus.source_lengths(samples), kind="stable")  # a search lasts as long as the longest
        self._samples, self._references = samples[order], [references[n] for n in order]
        self._sources = [sources[n] for n in order]

    def __call__(self) -> float:
        """The BLEU of the model's current weights, 0 to 100."""
        bleu = Bleu()
        for start in range(0, len(self._samples), TRANSLATED_ROWS):
            rows = slice(start, start + TRANSLATED_ROWS)
            samples = self._samples[rows]
            batch = self._corpus.batch(
                samples,
                size=len(samples),
                source_steps=self._source_steps,
                target_steps=1,
                reverse=self._reverse_input,
            )
            hypotheses = self._search(batch.source, batch.source_length)
            best = best_words(hypotheses, self._sources[rows], self._reader)
            bleu.add([self._codec.text(words) for words in best], self._references[rows])
        return bleu.score or 0.0


def best_words(hypotheses: Hypotheses, sources: Sequence[SourceText], reader: HypothesisReader) -> Iterator[list[str]]:
    """The tokens of the best hypothesis for each source."""
    for row, source in enumerate(sources):
        yield reader.read(Hypotheses(*(field[row, 0] for field in hypotheses)), source)[0]


def read_sources(corpus: Dataset, samples: np.ndarray, reader: HypothesisReader) -> list[SourceText]:
    """The sources of some samples; without tokens unless unknown words are replaced."""
    if not reader.replaces_unknown:
        return [SourceText([], "") for _ in samples]
    return [source_text(corpus, index, sample) for index, sample in zip(samples, corpus.samples(samples), strict=True)]


class Validator(Protocol):
    """Evaluates the current weights of a model on the validation corpus."""

    def loss(self) -> CorpusLoss:
        """The exact loss."""

    def bleu(self) -> float | None:
        """The BLEU of the translations; None for other tasks."""

    def replies(self) -> list[Reply]:
        """Sample replies, translations or continuations."""


class SampleValidator:
    """Evaluates the current weights of a model on validation samples.

    Args:
        scorer: of the model.
        replies: generates sample replies.
        bleu: computes the BLEU of translations; None for conversations.
        corpus: the validation corpus.
        buckets: step limits, the model's own last.
        reverse_input: whether the encoder reads the last word first.
        limit: number of samples to use, evenly spaced; None: all.
    """

    def __init__(
        self,
        scorer: Scorer,
        replies: ReplySampler,
        bleu: BleuScorer | None,
        corpus: Dataset,
        buckets: Sequence[Bucket],
        reverse_input: bool,
        limit: int | None,
    ) -> None:
        self._scorer, self._corpus, self._buckets = scorer, corpus, buckets
        self._reverse_input, self._limit = reverse_input, limit
        self.replies, self._bleu = replies, bleu

    def loss(self) -> CorpusLoss:
        """The exact loss."""
        return corpus_loss(self._scorer, self._corpus, self._buckets, self._reverse_input, self._limit)

    def bleu(self) -> float | None:
        """The BLEU of the translations; None for conversations."""
        return None if self._bleu is None else self._bleu()
