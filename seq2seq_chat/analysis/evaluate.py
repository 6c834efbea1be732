"""Evaluate a run on a test corpus: exact loss, and metrics of its replies."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from seq2seq_chat.analysis.loaded_run import LoadedRun
from seq2seq_chat.analysis.metrics.distance import Sent2VecDistance
from seq2seq_chat.analysis.metrics.diversity import TOP_REPLIES, Diversity
from seq2seq_chat.analysis.metrics.sent2vec import Sent2Vec
from seq2seq_chat.analysis.metrics.sentence_vectors import load_sentence_vectors
from seq2seq_chat.analysis.predictions import Predictions, predict
from seq2seq_chat.config import LABELS, Decoding, is_pairs
from seq2seq_chat.data.leakage import Leakage, LeakageFinder
from seq2seq_chat.data.pairs import Corpus
from seq2seq_chat.data.samples import read_samples, samples_at
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.tables import format_table
from seq2seq_chat.training.bleu import Bleu
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
    """Evaluate one snapshot of a run; see :func:`compute_all_metrics`. An interrupted evaluation is resumed.

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
    leakage = find_leakage(loaded, corpus_file, predictions)
    return {
        "run": run.name,
        "task": run.config.task,
        "snapshot": snapshot or "latest",
        "step": loaded.step,
        "data": str(corpus_file),
        **compute_all_metrics(predictions, vectors, leakage),
        "sent2vec": origin,
        "predictions": str(predictions.path),
    }


def evaluation_corpus(run: Run, data: str | Path | None = None) -> Corpus:
    """The corpus to evaluate a run on. Raises UserError if there is none, or if it needs pairs and has none."""
    settings = run.config.data
    corpus_file = data or settings.test or settings.validation
    if data is not None and is_pairs(settings.train) and not is_pairs(data):
        raise UserError(
            f"run {run.name} was trained on pairs of texts; specify a .tsv of two columns with --data, not {data}. "
            "Two parallel files become one with: paste SOURCE TARGET > FILE.tsv"
        )
    if corpus_file is None:
        raise UserError(
            f"run {run.name} has neither a test nor a validation corpus configured; specify one with --data FILE"
        )
    return corpus_file


def find_leakage(loaded: LoadedRun, files: Corpus, predictions: Predictions) -> Leakage | str:
    """Which of the predicted samples occur in the training corpus of the run, or why this is unknown."""
    data, tokenizers = loaded.config.data, loaded.codecs.tokenizers
    finder = LeakageFinder(samples_at(files, data, tokenizers, (prediction.sample for prediction in predictions)))
    try:
        for sample in read_samples(data.train, data, tokenizers, progress=True):
            finder.add(sample)
    except UserError as error:
        return str(error)
    return finder.leakage()


def compute_all_metrics(predictions: Predictions, vectors: Sent2Vec | None, leakage: Leakage | str) -> dict[str, Any]:
    """The metrics of predictions; of those whose sample does not occur in train; and of those whose target does not.

    Args:
        leakage: of the predictions, or why it is unknown.

    Returns:
        See :func:`compute_metrics`; further the numbers of ``leaked_samples`` and ``leaked_targets``, and the same
        metrics ``without_leaked`` (samples) and ``without_leaked_targets``, which are None if nothing is left. If the
        leakage is unknown, all four are None, and ``leakage_error`` says why.
    """
    metrics = compute_metrics(predictions, vectors)
    if isinstance(leakage, str):
        return {**metrics, **dict.fromkeys(_LEAKAGE_KEYS), "leakage_error": leakage}
    values: list[Any] = [int(leakage.samples.sum()), int(leakage.targets.sum())]
    for leaked in leakage:
        rest = predictions.select(~leaked)
        if rest.samples == predictions.samples:
            values.append(metrics)
        else:
            values.append(compute_metrics(rest, vectors) if rest.samples else None)
    return {**metrics, **dict(zip(_LEAKAGE_KEYS, values, strict=True)), "leakage_error": None}


_LEAKAGE_KEYS = ("leaked_samples", "leaked_targets", "without_leaked", "without_leaked_targets")


def compute_metrics(predictions: Predictions, vectors: Sent2Vec | None) -> dict[str, Any]:
    """Compute all metrics of a set of predictions.

    ``loss`` and ``loss_bits`` are per target token, end markers included. ``perplexity`` is e^loss; ``two_to_the_loss``
    is 2 to the loss in nats, the perplexity of the thesis's code. ``word_accuracy`` is the share of target tokens
    that are the model's most probable ones under teacher forcing, ``exact_match`` that of the samples whose reply has
    the tokens of the target and no others. The ``_varied`` distances exclude the samples whose reply is among the most
    frequent ones.
    """
    nats, tokens, correct, exact = 0.0, 0, 0, 0
    bleu, diversity = Bleu(), Diversity()
    length_bleu = [Bleu() for _ in SOURCE_LENGTHS]
    for block in predictions.in_blocks():
        nats += math.fsum(p.nats for p in block)
        tokens += sum(p.tokens for p in block)
        correct += sum(p.right for p in block)
        exact += sum(p.reply_tokens == p.expected_tokens for p in block)
        bleu.add([p.reply_tokens for p in block], [p.expected_tokens for p in block])
        diversity.add(p.reply_tokens for p in block)
        for (first, last), bucket in zip(SOURCE_LENGTHS, length_bleu, strict=True):
            matching = [p for p in block if first <= p.source_words <= (last or math.inf)]
            bucket.add([p.reply_tokens for p in matching], [p.expected_tokens for p in matching])
    loss = nats / tokens
    return {
        "loss": loss,
        "loss_bits": loss / math.log(2),
        "perplexity": perplexity(loss),
        "two_to_the_loss": 2**loss if loss < 1000 else math.inf,
        "samples": predictions.samples,
        "tokens": tokens,
        "word_accuracy": correct / tokens,
        "exact_match": exact / predictions.samples,
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
        replies, references = [p.reply_tokens for p in block], [p.expected_tokens for p in block]
        total.add(replies, references)
        varied.add(replies, references)
    values = (total.distance, total.cosine, varied.distance, varied.cosine)
    return {**dict(zip(names, values, strict=True)), "varied_samples": varied.samples}


_ROWS = (
    ("loss, nats per target token", "loss", ".4f"),
    ("loss, bits per target token", "loss_bits", ".4f"),
    ("perplexity", "perplexity", ".2f"),
    ("2^loss, as the thesis's code prints it", "two_to_the_loss", ".2f"),
    ("word accuracy", "word_accuracy", ".2%"),
    ("exact match (whole lines)", "exact_match", ".2%"),
    ("BLEU", "bleu", ".2f"),
    ("Sent2Vec distance", "sent2vec_distance", ".4f"),
    ("Sent2Vec cosine", "sent2vec_cosine", ".4f"),
    (f"distance without the {TOP_REPLIES} most frequent", "sent2vec_distance_varied", ".4f"),
    ("cosine without them", "sent2vec_cosine_varied", ".4f"),
    ("samples without them", "varied_samples", ","),
    ("distinct-1", "distinct_1", ".4f"),
    ("distinct-2", "distinct_2", ".4f"),
    (f"share of the {TOP_REPLIES} most frequent", "most_frequent_share", ".1%"),
    ("mean length of a {output}, tokens", "mean_length", ".2f"),
    ("samples", "samples", ","),
    ("tokens", "tokens", ","),
)


def format_metrics(metrics: dict[str, Any]) -> str:
    """The metrics for a terminal, with a column for those without leaked samples and targets if there are any."""
    columns = {"all samples": metrics}
    if metrics["leaked_samples"]:
        columns["new samples"] = metrics["without_leaked"]
    if metrics["leaked_targets"]:
        columns["new targets"] = metrics["without_leaked_targets"]

    def value(column: dict[str, Any] | None, key: str, form: str) -> str:
        return "–" if column is None or column[key] is None else format(column[key], form)

    labels = LABELS[metrics["task"]]._asdict()
    rows = [["", *columns]]
    for name, key, form in _ROWS:
        rows.append([name.format(**labels), *(value(column, key, form) for column in columns.values())])
    notes = {
        "BLEU": metrics["bleu_signature"],
        "vectors": metrics["sent2vec"],
        "leakage": describe_leakage(metrics),
        "predictions": metrics["predictions"],
    }
    return f"{format_table(rows, 'lr')}\n\n{format_table(list(notes.items()))}"


def describe_leakage(metrics: dict[str, Any]) -> str:
    """A phrase about the leakage in the results of :func:`compute_all_metrics`."""
    if metrics["leakage_error"] is not None:
        return f"unknown: {metrics['leakage_error'].rstrip('.')}"
    samples, leaked, targets = (metrics[key] for key in ("samples", "leaked_samples", "leaked_targets"))
    return (
        f"{leaked:,} of {samples:,} samples ({leaked / samples:.2%}) and {targets:,} of the targets alone "
        f"({targets / samples:.2%}) occur in the training corpus; the others are new"
    )
