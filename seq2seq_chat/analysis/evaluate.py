"""Evaluate a run on a test corpus: exact loss, and metrics of its replies."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from seq2seq_chat.analysis.loaded_run import LoadedRun
from seq2seq_chat.analysis.metrics.bleu import Bleu
from seq2seq_chat.analysis.metrics.distance import Sent2VecDistance
from seq2seq_chat.analysis.metrics.diversity import TOP_REPLIES, Diversity
from seq2seq_chat.analysis.metrics.sent2vec import Sent2Vec
from seq2seq_chat.analysis.metrics.sentence_vectors import load_sentence_vectors
from seq2seq_chat.analysis.predictions import Predictions, predict
from seq2seq_chat.config import Decoding
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.tables import format_table
from seq2seq_chat.training.validation import perplexity

LIMIT = 250_000  # samples
SOURCE_LENGTHS = ((1, 5), (6, 10), (11, 15), (16, 20), (21, 30), (31, None))  # in words, first and last inclusive
FOLDER = "evaluation"  # in the folder of the run


def evaluate_run(
    run: Run,
    data: str | Path | None = None,
    snapshot: str | None = None,
    limit: int | None = LIMIT,
    *,
    decoding: Decoding | None = None,
    sent2vec: str | Path | None = None,
    folder: str | Path | None = None,
) -> dict[str, Any]:
    """Evaluate one snapshot of a run; see :func:`compute_metrics`. An interrupted evaluation is resumed.

    Args:
        data: corpus file; None for the configured test corpus, or else the validation corpus.
        limit: number of samples, evenly spaced over the corpus; None for all.
        decoding: decoding settings; None for greedy search.
        sent2vec: official Sent2Vec model; None to train a small one on the run's training corpus.
        folder: where to keep the predictions; None for the run's own folder.

    Raises:
        UserError: There is no corpus to evaluate on, or the run cannot be loaded.
    """
    corpus_file = evaluation_corpus(run, data)
    output = Path(folder) if folder is not None else run.path / FOLDER
    loaded = LoadedRun(run, snapshot)
    if sent2vec is not None:
        Sent2Vec.load(sent2vec)  # fail now, before predictions that may take an hour
    predictions = predict(loaded, corpus_file, output, limit=limit, decoding=decoding)
    vectors: Sent2Vec | None = None
    try:
        vectors, origin = load_sentence_vectors(run, output, sent2vec)
    except UserError as error:
        origin = str(error)
    return {
        "run": run.name,
        "snapshot": snapshot or "latest",
        "step": loaded.step,
        "data": str(corpus_file),
        **compute_metrics(predictions, vectors),
        "sent2vec": origin,
        "predictions": str(predictions.path),
    }


def evaluation_corpus(run: Run, data: str | Path | None = None) -> str | Path:
    """The corpus to evaluate a run on. Raises UserError if there is none."""
    settings = run.config.data
    corpus_file = data or settings.test or settings.validation
    if corpus_file is None:
        raise UserError(
            f"run {run.name} has neither a test nor a validation corpus configured; specify one with --data FILE"
        )
    return corpus_file


def compute_metrics(predictions: Predictions, vectors: Sent2Vec | None) -> dict[str, Any]:
    """Compute all metrics of a set of predictions.

    ``loss`` and ``loss_bits`` are per target token, end markers included. ``perplexity`` is e^loss; ``two_to_the_loss``
    is 2 to the loss in nats, the perplexity of the thesis's code. ``word_accuracy`` is the share of target tokens
    that are the model's most probable ones under teacher forcing. The ``_varied`` distances exclude the samples whose
    reply is among the most frequent ones.
    """
    nats, tokens, correct = 0.0, 0, 0
    bleu, diversity = Bleu(), Diversity()
    length_bleu = [Bleu() for _ in SOURCE_LENGTHS]
    for block in predictions.in_blocks():
        nats += math.fsum(p.nats for p in block)
        tokens += sum(p.tokens for p in block)
        correct += sum(p.right for p in block)
        bleu.add([p.reply for p in block], [p.expected for p in block])
        diversity.add(p.reply for p in block)
        for (first, last), bucket in zip(SOURCE_LENGTHS, length_bleu, strict=True):
            matching = [p for p in block if first <= len(p.source.split()) <= (last or math.inf)]
            bucket.add([p.reply for p in matching], [p.expected for p in matching])
    loss = nats / tokens
    return {
        "loss": loss,
        "loss_bits": loss / math.log(2),
        "perplexity": perplexity(loss),
        "two_to_the_loss": 2**loss if loss < 1000 else math.inf,
        "samples": predictions.samples,
        "tokens": tokens,
        "word_accuracy": correct / tokens,
        "bleu": bleu.score,
        "bleu_signature": bleu.signature,
        "bleu_by_source_length": [
            {"words": f"{first}–{last}" if last else f"{first}+", "samples": bucket.samples, "bleu": bucket.score}
            for (first, last), bucket in zip(SOURCE_LENGTHS, length_bleu, strict=True)
        ],
        **_distances(predictions, vectors, {reply for reply, _ in diversity.most_frequent()}),
        **diversity.metrics(),
        "most_frequent": [{"reply": reply, "share": share} for reply, share in diversity.most_frequent()],
    }


def _distances(predictions: Predictions, vectors: Sent2Vec | None, frequent: set[str]) -> dict[str, Any]:
    names = ("sent2vec_distance", "sent2vec_cosine", "sent2vec_distance_varied", "sent2vec_cosine_varied")
    if vectors is None:
        return dict.fromkeys((*names, "varied_samples"))
    total, varied = Sent2VecDistance(vectors), Sent2VecDistance(vectors, frequent)
    for block in predictions.in_blocks():
        replies, references = [p.reply for p in block], [p.expected for p in block]
        total.add(replies, references)
        varied.add(replies, references)
    values = (total.distance, total.cosine, varied.distance, varied.cosine)
    return {**dict(zip(names, values, strict=True)), "varied_samples": varied.samples}


def format_metrics(metrics: dict[str, Any]) -> str:
    """The metrics for a terminal, one per line."""

    def value(key: str, form: str) -> str:
        return "–" if metrics[key] is None else format(metrics[key], form)

    varied = "" if metrics["varied_samples"] is None else f" ({metrics['varied_samples']:,} samples)"
    excluding = f"without the {TOP_REPLIES} most frequent replies"
    lines = {
        "loss": f"{value('loss', '.4f')} nats per target token, {value('loss_bits', '.4f')} bits",
        "perplexity": f"{value('perplexity', '.2f')} (2^loss, as the thesis's code prints it: "
        f"{value('two_to_the_loss', '.2f')})",
        "word accuracy": value("word_accuracy", ".2%"),
        "BLEU": f"{value('bleu', '.2f')} ({metrics['bleu_signature']})",
        "Sent2Vec distance": f"{value('sent2vec_distance', '.4f')}, {excluding}: "
        f"{value('sent2vec_distance_varied', '.4f')}{varied}",
        "Sent2Vec cosine": f"{value('sent2vec_cosine', '.4f')}, {excluding}: {value('sent2vec_cosine_varied', '.4f')}",
        "vectors": metrics["sent2vec"],
        "distinct-1, -2": f"{value('distinct_1', '.4f')}, {value('distinct_2', '.4f')}",
        "most frequent": f"{value('most_frequent_share', '.1%')} of the replies are among the {TOP_REPLIES} most "
        "frequent",
        "mean length": f"{value('mean_length', '.2f')} words",
        "samples": f"{metrics['samples']:,}",
        "tokens": f"{metrics['tokens']:,}",
        "predictions": metrics["predictions"],
    }
    return format_table(list(lines.items()))
