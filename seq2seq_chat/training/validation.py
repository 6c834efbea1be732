"""Validation during training: the exact loss (full softmax, teacher forcing, no dropout), BLEU and sample replies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.chat.corpus import decode_corpus, greedy
from seq2seq_chat.data.batches import Bucket, evenly_spaced
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.engines.tensorflow.scorer import Scorer
from seq2seq_chat.metrics.scores import CorpusLoss, corpus_bleu

TRANSLATED_ROWS = 128  # sources translated together, of similar length


def corpus_loss(
    scorer: Scorer, corpus: Dataset, buckets: Sequence[Bucket], reverse_input: bool, limit: int | None = None
) -> CorpusLoss:
    """Compute the exact loss of a model on a corpus.

    Args:
        scorer: Computes the losses, with the model's weights.
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


class SampleReply(NamedTuple):
    """The model's reply to an utterance of the validation corpus."""

    source: str
    reply: str
    target: str


class SampleValidator:
    """Evaluates the current weights of a model on validation samples, as its configuration says.

    Translations and references are compared as people write them; a reference lacks what its tokenizer removes.

    Args:
        bot: Replies with the model, whose weights change.
        buckets: Step limits, the model's own last.

    Raises:
        UserError: The lexicon or the texts of the corpus cannot be read.
    """

    def __init__(self, scorer: Scorer, bot: Chatbot, corpus: Dataset, buckets: Sequence[Bucket]) -> None:
        self._scorer, self._bot, self._corpus, self._buckets = scorer, bot, corpus, buckets
        settings, target = bot.config.training, bot.codecs.target
        self._decoding = greedy(bot.config.decoding)
        self._replied = evenly_spaced(len(corpus), settings.sample_replies)
        self._translated, self._references = np.zeros(0, np.int64), list[str]()
        if bot.config.task == "translation":
            samples = evenly_spaced(len(corpus), settings.bleu_limit)
            lengths = corpus.source_lengths(samples)
            self._translated = samples[np.argsort(lengths, kind="stable")]  # a search lasts as long as the longest
            self._references = [
                target.tokenizer.decode(sample.target_tokens) for sample in corpus.samples(self._translated)
            ]
        if bot.reader(self._decoding).replaces_unknown:
            corpus.keep_texts([*self._replied, *self._translated])

    def loss(self) -> CorpusLoss:
        """The exact loss."""
        config = self._bot.config
        return corpus_loss(
            self._scorer, self._corpus, self._buckets, config.data.reverse_input, config.training.validation_limit
        )

    def bleu(self) -> float | None:
        """The BLEU of the translations, 0 to 100; None for conversations."""
        if self._bot.config.task != "translation":
            return None
        best = decode_corpus(self._bot, self._corpus, self._decoding, self._translated, TRANSLATED_ROWS)
        return corpus_bleu([hypothesis.text for hypothesis in best], self._references) or 0.0

    def replies(self) -> list[SampleReply]:
        """Replies to some utterances of the corpus, evenly spaced."""
        corpus, codecs, replies = self._corpus, self._bot.codecs, []
        decoded = decode_corpus(self._bot, corpus, self._decoding, self._replied)
        for index, best in zip(self._replied, decoded, strict=True):
            source, target = corpus.source_ids(index), corpus.target_ids(index)
            replies.append(SampleReply(codecs.source.decode(source), best.text, codecs.target.decode(target)))
        return replies
