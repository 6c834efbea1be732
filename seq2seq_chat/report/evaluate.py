"""Evaluate a run on a test corpus: exact loss, and metrics of its replies."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seq2seq_chat.chat.generator import LanguageModelScorer
from seq2seq_chat.chat.load import load_language_model_engine
from seq2seq_chat.config import Decoding, is_pairs
from seq2seq_chat.data.corpus_file import Corpus, corpus_paths, warn_of_edits
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.data.running_text import RunningText
from seq2seq_chat.metrics.ngrams import Diversity
from seq2seq_chat.metrics.scores import RESAMPLES, SEED, CorpusLoss, CorpusScores, bleu_by_source_length, loss_metrics
from seq2seq_chat.metrics.sent2vec import Sent2Vec
from seq2seq_chat.metrics.sentence_vectors import SentenceDistances, load_sentence_vectors
from seq2seq_chat.report.loaded_run import LoadedRun
from seq2seq_chat.report.memorization import find_copies
from seq2seq_chat.report.predictions import Predictions, evaluation_decoding, name_search, predict
from seq2seq_chat.report.scoring import (
    HALF_INTERVAL,
    Leakage,
    compare_with_baseline,
    ensure_comparable,
    find_leakage,
    format_value,
    read_references,
    score_predictions,
    writes_lower_case,
)
from seq2seq_chat.runs.find import RunSnapshot
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.hardware import AUTO, EngineOptions
from seq2seq_chat.system.tables import format_table
from seq2seq_chat.system.threads import run_in_thread

LIMIT, BEAM_LIMIT = 250_000, 2_000  # samples, if no other number is given; with a beam, each takes far longer
FOLDER = "evaluation"  # in the folder of the run


def evaluate(
    run: Run,
    data: str | Path | None = None,
    snapshot: str | None = None,
    limit: int | None = None,
    *,
    overrides: Sequence[str] = (),
    sent2vec: str | Path | None = None,
    folder: str | Path | None = None,
    references: Sequence[str | Path] = (),
    baseline: RunSnapshot | None = None,
    members: Sequence[RunSnapshot] = (),
    engine: EngineOptions = AUTO,
) -> dict[str, Any]:
    """Evaluate one snapshot of a run; see :func:`compute_all_metrics`. An interrupted evaluation is resumed.

    Of a language model, see :func:`evaluate_language_model`, only ``data``, ``snapshot`` and ``engine`` apply.

    Args:
        data: corpus file; None for the configured test corpus, or else the validation corpus.
        limit: number of samples, evenly spaced over the corpus; None for ``LIMIT``, or ``BEAM_LIMIT`` with a beam.
        overrides: ``decoding.key=value`` strings that change the decoding settings of the run and of the baseline.
        sent2vec: official Sent2Vec model; None to train a small one on the run's training corpus.
        folder: where to keep the predictions; None for the run's own folder.
        references: files of further references, with a line for each sample of the corpus.
        baseline: a run to compare the scores with, evaluated on the same samples.
        members: further members of an ensemble, whose probabilities are averaged.
        engine: what computes both.

    Raises:
        UserError: There is no corpus to evaluate on, or the run cannot be loaded; an override is not valid; a file of
            references has another number of lines than the corpus has samples; the baseline has other samples.
    """
    if run.config.task == "language_model":
        return evaluate_language_model(run, data, snapshot, engine)
    corpus_file = evaluation_corpus(run, data)
    output = Path(folder) if folder is not None else run.path / FOLDER
    decodings = [evaluation_decoding(each.config, overrides) for each in [run, *([baseline.run] if baseline else [])]]
    searches = [describe_search(decoding, limit) for decoding in decodings]
    limit = limit or min(map(default_limit, decodings))
    if baseline is not None:  # fail now, before predictions that may take an hour
        baseline_corpus = evaluation_corpus(baseline.run, data)
        ensure_comparable(run, corpus_file, baseline.run, baseline_corpus, limit)
    further = read_references(references, corpus_file, run.codecs, run.config.data, limit)
    warn_of_edits(corpus_paths(corpus_file))
    loaded = LoadedRun(run, snapshot, engine, decodings[0], members)
    if sent2vec is not None:
        Sent2Vec.load(sent2vec)  # the same
    Dataset.open(corpus_file, run.codecs, run.config.data)  # the same
    embeddings = run_in_thread(functools.partial(load_sentence_vectors, run, output, sent2vec))
    predictions = predict(loaded, corpus_file, output, limit=limit, decoding=decodings[0])
    vectors: Sent2Vec | None = None
    try:
        vectors, origin = embeddings.result()
    except UserError as error:
        origin = str(error)
    leakage = measure_leakage(loaded, corpus_file, predictions)
    scores = score_predictions(predictions, run.config.task, further)
    comparison, lowercase = None, writes_lower_case(run.codecs.target.tokenizer)
    if baseline is not None:
        other = LoadedRun(baseline.run, baseline.snapshot, engine, decodings[1])
        others_folder = output if folder is not None else baseline.run.path / FOLDER
        others = predict(other, baseline_corpus, others_folder, limit=limit, decoding=decodings[1])
        others_scores = score_predictions(others, run.config.task, further)
        comparison = compare_with_baseline(run, scores, other, others_scores, others)
        comparison["decoding"] = searches[1]
    return {
        "run": run.name,
        "with": list(map(str, members)),
        "task": run.config.task,
        "snapshot": snapshot or "latest",
        "step": loaded.step,
        "data": str(corpus_file),
        "decoding": searches[0],
        "references": list(map(str, references)),
        "lowercase": lowercase,
        **compute_all_metrics(predictions, vectors, leakage, scores, lowercase=lowercase),
        "copies": measure_copies(loaded, predictions, leakage),
        "bootstrap": {"resamples": RESAMPLES, "seed": SEED},
        "baseline": comparison,
        "sent2vec": origin,
        "predictions": str(predictions.path),
    }


def default_limit(decoding: Decoding) -> int:
    """How many samples are evaluated if no number is given."""
    return BEAM_LIMIT if decoding.method == "beam" else LIMIT


def describe_search(decoding: Decoding, limit: int | None) -> str:
    """A phrase for captions; ``limit`` is the number of samples that was given, None for the default."""
    note = f" (at most {BEAM_LIMIT:,} samples, the default with a beam)" if decoding.method == "beam" else ""
    return name_search(decoding) + (note if limit is None else "")


def evaluation_corpus(run: Run, data: str | Path | None = None) -> Corpus:
    """The corpus, or the text of a language model, to evaluate a run on.

    Raises:
        UserError: There is none, or ``data`` does not have the pairs that the run needs.
    """
    settings = run.config.data
    corpus_file = data or settings.test or settings.validation
    if data is not None and is_pairs(settings.train) and not is_pairs(data):
        raise UserError(
            f"run {run.name} was trained on pairs of texts; specify a .tsv of two columns with --data, not {data}. "
            "Two parallel files become one with: paste SOURCE TARGET > FILE.tsv"
        )
    if corpus_file is None:
        what = "text" if run.config.task == "language_model" else "corpus"
        raise UserError(
            f"run {run.name} has neither a test nor a validation {what} configured; specify one with --data FILE"
        )
    return corpus_file


def measure_leakage(loaded: LoadedRun, files: Corpus, predictions: Predictions) -> Leakage | str:
    """Which of the predicted samples occur in the training corpus of the run, or why this is unknown."""
    data, indices = loaded.config.data, np.array([prediction.sample for prediction in predictions])
    corpus = Dataset.open(files, loaded.codecs, data)
    try:
        return find_leakage(corpus, indices, Dataset.open(data.train, loaded.codecs, data))
    except UserError as error:
        return str(error)


def measure_copies(loaded: LoadedRun, predictions: Predictions, leakage: Leakage | str) -> dict[str, Any] | None:
    """The fields of :class:`Copies`; None if the leakage is unknown, as there is no training corpus to search."""
    if isinstance(leakage, str):
        return None
    training = Dataset.open(loaded.config.data.train, loaded.codecs, loaded.config.data)
    return find_copies((prediction.reply_tokens for prediction in predictions), training)._asdict()


def compute_all_metrics(
    predictions: Predictions,
    vectors: Sent2Vec | None,
    leakage: Leakage | str,
    scores: CorpusScores,
    *,
    lowercase: bool = False,
) -> dict[str, Any]:
    """The metrics of predictions; of those whose sample does not occur in train; and of those whose target does not.

    Args:
        leakage: of the predictions, or why it is unknown.
        scores: of the predictions.
        lowercase: See :func:`bleu_by_source_length`.

    Returns:
        See :func:`compute_metrics`; further the numbers of ``leaked_samples`` and ``leaked_targets``, and the same
        metrics ``without_leaked`` (samples) and ``without_leaked_targets``, which are None if nothing is left. If the
        leakage is unknown, all four are None, and ``leakage_error`` says why.
    """
    distances = None if vectors is None else sentence_distances(predictions, vectors)
    metrics = compute_metrics(predictions, distances, scores, lowercase=lowercase)
    if isinstance(leakage, str):
        return {**metrics, **dict.fromkeys(_LEAKAGE_KEYS), "leakage_error": leakage}
    values: list[Any] = [int(leakage.samples.sum()), int(leakage.targets.sum())]
    for leaked in leakage:
        rest = predictions.select(~leaked)
        if rest.samples == predictions.samples:
            values.append(metrics)
        else:
            kept = distances and distances.select(~leaked), scores.select(~leaked)
            values.append(compute_metrics(rest, *kept, lowercase=lowercase) if rest.samples else None)
    return {**metrics, **dict(zip(_LEAKAGE_KEYS, values, strict=True)), "leakage_error": None}


_LEAKAGE_KEYS = ("leaked_samples", "leaked_targets", "without_leaked", "without_leaked_targets")


def compute_metrics(
    predictions: Predictions, distances: SentenceDistances | None, scores: CorpusScores, *, lowercase: bool = False
) -> dict[str, Any]:
    """Compute all metrics of a set of predictions.

    ``loss`` and ``loss_bits`` are per target token, end markers included. ``perplexity`` is e^loss; ``two_to_the_loss``
    is 2 to the loss in nats, the perplexity of the thesis's code. ``word_accuracy`` is the share of target tokens
    that are the model's most probable ones under teacher forcing, ``exact_match`` the share of samples whose reply has
    the tokens of the target and no others. The ``_varied`` distances exclude the samples whose reply is among the most
    frequent ones.
    """
    nats, tokens = np.empty(predictions.samples), np.empty(predictions.samples, np.int64)
    correct, exact, first = 0, 0, 0
    diversity = Diversity()
    for block in predictions.in_blocks():
        rows = slice(first, first := first + len(block))
        nats[rows], tokens[rows] = [p.nats for p in block], [p.tokens for p in block]
        correct += sum(p.right for p in block)
        exact += sum(p.reply_tokens == p.expected_tokens for p in block)
        diversity.add(p.reply_tokens for p in block)
    loss = CorpusLoss(math.fsum(nats), int(tokens.sum()), predictions.samples)
    return {
        **loss_metrics(loss, nats, tokens),
        "two_to_the_loss": 2**loss.loss if loss.loss < 1000 else math.inf,
        "samples": predictions.samples,
        "tokens": loss.tokens,
        "word_accuracy": correct / loss.tokens,
        "exact_match": exact / predictions.samples,
        **scores.metrics(),
        "bleu_by_source_length_label": scores.bleu(lowercase).kind.label,
        "bleu_by_source_length": bleu_by_source_length(scores, lowercase=lowercase),
        **_distances(predictions, distances, {reply for reply, _ in diversity.most_frequent()}),
        **diversity.metrics(),
        "most_frequent": [{"reply": reply, "share": share} for reply, share in diversity.most_frequent()],
    }


def sentence_distances(predictions: Predictions, vectors: Sent2Vec) -> SentenceDistances:
    """How far the reply of each prediction is from the expected one."""
    blocks = predictions.in_blocks()
    texts = (([p.reply_tokens for p in block], [p.expected_tokens for p in block]) for block in blocks)
    return SentenceDistances.of_blocks(vectors, texts)


def _distances(predictions: Predictions, distances: SentenceDistances | None, frequent: set[str]) -> dict[str, Any]:
    names = ("sent2vec_distance", "sent2vec_cosine", "sent2vec_distance_varied", "sent2vec_cosine_varied")
    if distances is None:
        return dict.fromkeys((*names, "varied_samples"))
    varied = np.array([prediction.reply_tokens not in frequent for prediction in predictions], bool)
    values = *distances.means(), *distances.select(varied).means()
    return {**dict(zip(names, values, strict=True)), "varied_samples": int(varied.sum())}


def evaluate_language_model(
    run: Run, data: str | Path | None = None, snapshot: str | None = None, engine: EngineOptions = AUTO
) -> dict[str, Any]:
    """The exact loss of a language model on a whole text, with the state carried from its first token to its last.

    Args:
        data: text file; None for the configured test text, or else the validation text.

    Returns:
        What :func:`loss_metrics` returns, ``token_accuracy`` (the share of tokens that are the model's most probable
        ones), ``unknown_share`` and the number of ``tokens``, the first of which is not predicted. Intervals are from
        up to 64 stretches of the text, as its tokens are not independent.

    Raises:
        UserError: There is no text to evaluate on, or the run cannot be loaded.
    """
    config, file = run.config, str(evaluation_corpus(run, data))
    warn_of_edits([Path(file)])
    loaded = load_language_model_engine(run, snapshot, engine)
    text = RunningText.open(file, loaded.codecs, config.data)
    score = LanguageModelScorer(loaded.engine).score(text.tokens)
    loss = CorpusLoss(score.nats, score.tokens, None)
    return {
        "run": run.name,
        "task": config.task,
        "snapshot": snapshot or "latest",
        "step": loaded.step,
        "data": file,
        "tokens_are": "characters" if loaded.codecs.source.tokenizer.keeps_line_breaks else "tokens",
        **loss_metrics(loss, score.stretches, np.full(len(score.stretches), score.stretch_tokens)),
        "token_accuracy": score.correct / score.tokens,
        "unknown_share": text.unknown_share(),
        "tokens": score.tokens,
    }


def format_language_model_metrics(sets: Sequence[dict[str, Any]]) -> str:
    """The results of :func:`evaluate_language_model` for a terminal, with a column for each text."""
    unit = sets[0]["tokens_are"].removesuffix("s")
    header = [["", *(each["data"] for each in sets)]] if len(sets) > 1 else []
    rows = (
        (f"loss, nats per {unit}", "loss", ".4f"),
        (f"loss, bits per {unit}", "loss_bits", ".4f"),
        ("perplexity", "perplexity", ".2f"),
        (f"{unit} accuracy", "token_accuracy", ".2%"),
        ("unknown", "unknown_share", ".2%"),
        (sets[0]["tokens_are"], "tokens", ","),
    )
    values = [[label, *(format_value(each, key, form) for each in sets)] for label, key, form in rows]
    return f"{format_table([*header, *values], 'lr')}\n\n±  {HALF_INTERVAL} of stretches of the text"
