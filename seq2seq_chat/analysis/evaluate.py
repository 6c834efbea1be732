"""What a run is worth on a test corpus: exact loss, and what its replies are like."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from seq2seq_chat.analysis.bleu import Bleu
from seq2seq_chat.analysis.distance import MeaningDistance
from seq2seq_chat.analysis.diversity import MOST_FREQUENT, Diversity
from seq2seq_chat.analysis.predictions import Predictions, predict
from seq2seq_chat.analysis.sent2vec import Sent2Vec
from seq2seq_chat.analysis.sentence_vectors import sentence_vectors
from seq2seq_chat.analysis.subject import Subject
from seq2seq_chat.config import Decoding
from seq2seq_chat.errors import UserError
from seq2seq_chat.runs import Run
from seq2seq_chat.training.validation import perplexity

LIMIT = 250_000  # samples, as in the thesis
LENGTHS = ((1, 5), (6, 10), (11, 15), (16, 20), (21, 30), (31, None))  # words of a source, first and last
FOLDER = "evaluation"


def evaluate_run(
    run: Run,
    data: str | Path | None = None,
    snapshot: str | None = None,
    limit: int | None = LIMIT,
    warn: Callable[[str], object] = lambda text: None,
    *,
    decoding: Decoding | None = None,
    sent2vec: str | Path | None = None,
    folder: str | Path | None = None,
) -> dict[str, Any]:
    """All figures of a run at one moment, see :func:`figures`. Goes on where it was stopped.

    Args:
        data: a corpus file; else the configuration's test corpus, or its validation corpus.
        limit: samples to use, spread evenly over the corpus; None: all.
        decoding: how to search for replies; else greedily.
        sent2vec: an official model; else a small one is learned from the run's training corpus.
        folder: where predictions are kept; else in the run's own.

    Raises:
        UserError: there is nothing to evaluate on, or the run cannot be loaded.
    """
    corpus_file = test_corpus(run, data)
    kept = Path(folder) if folder is not None else run.path / FOLDER
    subject = Subject(run, snapshot, warn)
    if sent2vec is not None:
        Sent2Vec.load(sent2vec)  # whether it can be used is better known before an hour's work
    predictions = predict(subject, corpus_file, kept, limit=limit, decoding=decoding)
    vectors: Sent2Vec | None = None
    try:
        vectors, origin = sentence_vectors(run, kept, sent2vec)
    except UserError as fault:
        origin = str(fault)
    found = figures(predictions, vectors)
    return {
        "run": run.name,
        "snapshot": snapshot or "latest",
        "step": subject.step,
        "data": str(corpus_file),
        **found,
        "sent2vec": origin,
        "predictions": str(predictions.path),
    }


def test_corpus(run: Run, data: str | Path | None = None) -> str | Path:
    """The corpus a run is evaluated on. Raises UserError where none is named."""
    settings = run.config.data
    corpus_file = data or settings.test or settings.validation
    if corpus_file is None:
        raise UserError(f"run {run.name} names neither a test nor a validation corpus; give one with --data FILE")
    return corpus_file


test_corpus.__test__ = False  # type: ignore[attr-defined]  # its name is not pytest's business


def figures(predictions: Predictions, vectors: Sent2Vec | None, left_out: int = MOST_FREQUENT) -> dict[str, Any]:
    """What predictions come to.

    ``loss`` and ``loss_bits`` are per target token, end markers included; ``perplexity`` is e^loss, and
    ``two_to_the_loss`` what the thesis's tables call perplexity: 2 to a loss in nats. ``word_accuracy`` is the share of
    target tokens that the model finds most probable, given the right ones before. The distances with ``varied`` leave
    out the samples that were given one of the ``left_out`` most frequent replies.
    """
    nats, tokens, right = 0.0, 0, 0
    bleu, diversity = Bleu(), Diversity()
    by_length = [Bleu() for _ in LENGTHS]
    for block in predictions.in_blocks():
        nats += math.fsum(p.nats for p in block)
        tokens += sum(p.tokens for p in block)
        right += sum(p.right for p in block)
        bleu.add([p.reply for p in block], [p.expected for p in block])
        diversity.add(p.reply for p in block)
        for (first, last), part in zip(LENGTHS, by_length, strict=True):
            here = [p for p in block if first <= len(p.source.split()) <= (last or math.inf)]
            part.add([p.reply for p in here], [p.expected for p in here])
    loss = nats / tokens
    return {
        "loss": loss,
        "loss_bits": loss / math.log(2),
        "perplexity": perplexity(loss),
        "two_to_the_loss": 2**loss if loss < 1000 else math.inf,
        "samples": predictions.samples,
        "tokens": tokens,
        "word_accuracy": right / tokens,
        "bleu": bleu.score,
        "bleu_signature": bleu.signature,
        "bleu_by_source_length": [
            {"words": f"{first}–{last}" if last else f"{first}+", "samples": part.samples, "bleu": part.score}
            for (first, last), part in zip(LENGTHS, by_length, strict=True)
        ],
        **_distances(predictions, vectors, {reply for reply, _ in diversity.most_frequent(left_out)}),
        "distinct_1": diversity.distinct_1,
        "distinct_2": diversity.distinct_2,
        "distinct_replies": diversity.distinct_replies,
        "words_used": len(diversity.unigrams),
        "word_entropy_bits": diversity.entropy,
        "most_frequent_share": diversity.share_of_most_frequent(),
        "most_frequent": [{"reply": reply, "share": share} for reply, share in diversity.most_frequent()],
        "mean_length": diversity.mean_length,
    }


def _distances(predictions: Predictions, vectors: Sent2Vec | None, frequent: set[str]) -> dict[str, Any]:
    names = ("sent2vec_distance", "sent2vec_cosine", "sent2vec_distance_varied", "sent2vec_cosine_varied")
    if vectors is None:
        return dict.fromkeys((*names, "varied_samples"))
    everything, varied = MeaningDistance(vectors), MeaningDistance(vectors, frequent)
    for block in predictions.in_blocks():
        replies, expected = [p.reply for p in block], [p.expected for p in block]
        everything.add(replies, expected)
        varied.add(replies, expected)
    values = (everything.distance, everything.cosine, varied.distance, varied.cosine)
    return {**dict(zip(names, values, strict=True)), "varied_samples": varied.samples}


def summary(found: dict[str, Any]) -> str:
    """The figures for a terminal, a line each."""

    def shown(key: str, form: str) -> str:
        return "–" if found[key] is None else format(found[key], form)

    varied = "" if found["varied_samples"] is None else f" ({found['varied_samples']:,} samples)"
    left_out = f"without the {MOST_FREQUENT} most frequent replies"
    lines = {
        "loss": f"{shown('loss', '.4f')} nats per target token, {shown('loss_bits', '.4f')} bits",
        "perplexity": f"{shown('perplexity', '.2f')} (2^loss, as in the thesis's tables: "
        f"{shown('two_to_the_loss', '.2f')})",
        "word accuracy": shown("word_accuracy", ".2%"),
        "BLEU": f"{shown('bleu', '.2f')} ({found['bleu_signature']})",
        "Sent2Vec distance": f"{shown('sent2vec_distance', '.4f')}, {left_out}: "
        f"{shown('sent2vec_distance_varied', '.4f')}{varied}",
        "Sent2Vec cosine": f"{shown('sent2vec_cosine', '.4f')}, {left_out}: {shown('sent2vec_cosine_varied', '.4f')}",
        "vectors": found["sent2vec"],
        "distinct-1, -2": f"{shown('distinct_1', '.4f')}, {shown('distinct_2', '.4f')}",
        "most frequent": f"{shown('most_frequent_share', '.1%')} of the replies are one of the {MOST_FREQUENT} most "
        f"frequent",
        "mean length": f"{shown('mean_length', '.2f')} words",
        "samples": f"{found['samples']:,}",
        "tokens": f"{found['tokens']:,}",
        "predictions": found["predictions"],
    }
    return "\n".join(f"{name:<19}{value}" for name, value in lines.items())
