"""The results of an evaluation as text, for a terminal and for reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seq2seq_chat.config import LABELS
from seq2seq_chat.metrics.diversity import TOP_REPLIES
from seq2seq_chat.metrics.scores import SCORE_KEYS
from seq2seq_chat.system.tables import NO_VALUE, format_table

_ROWS = (
    ("loss, nats per target token", "loss", ".4f"),
    ("loss, bits per target token", "loss_bits", ".4f"),
    ("perplexity", "perplexity", ".2f"),
    ("2^loss, as the thesis's code prints it", "two_to_the_loss", ".2f"),
    ("word accuracy", "word_accuracy", ".2%"),
    ("exact match (whole lines)", "exact_match", ".2%"),
    *((key, key, "") for key in SCORE_KEYS),  # with their labels and intervals
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

    labels = LABELS[metrics["task"]]._asdict()
    rows = [["", *columns]]
    for name, key, form in _ROWS:
        if key not in SCORE_KEYS:
            rows.append([name.format(**labels), *(_value(column, key, form) for column in columns.values())])
        elif label := metrics[f"{key}_label"]:
            rows.append([label, *(format_score(column, key) for column in columns.values())])
    notes = {
        **{metrics[f"{key}_label"]: metrics[f"{key}_signature"] for key in SCORE_KEYS if metrics[f"{key}_label"]},
        "±": "half the width of the 95 % interval, from {resamples:,} bootstrap resamples".format(
            **metrics["bootstrap"]
        ),
        "references": ", ".join(["targets of the corpus", *metrics["references"]]),
        "vectors": metrics["sent2vec"],
        "leakage": describe_leakage(metrics),
        "predictions": metrics["predictions"],
    }
    if metrics["lowercase"] and metrics["bleu_lowercase"] is not None:
        notes["case"] = "this run writes lower case only, so capital letters in the references count as mistakes"
    score = metrics["bleu_by_source_length_label"]
    tables = [rows, format_lengths(metrics["bleu_by_source_length"], labels["source"], score)]
    if metrics["baseline"]:
        tables.append(_baseline_rows(metrics))
    return "\n\n".join([*(format_table(table, "lr") for table in tables), format_table(list(notes.items()))])


def _value(column: dict[str, Any] | None, key: str, form: str) -> str:
    return NO_VALUE if column is None or column[key] is None else format(column[key], form)


def format_score(column: dict[str, Any] | None, key: str) -> str:
    """A score and half of its interval: 26.81 ± 0.89."""
    if column is None or column.get(key) is None:
        return NO_VALUE
    low, high = column[f"{key}_interval"]
    return f"{column[key]:.2f} ± {(high - low) / 2:.2f}"


def format_interval(interval: Sequence[float] | None) -> str:
    """25.92–27.70, or a dash."""
    return NO_VALUE if interval is None else f"{interval[0]:.2f}–{interval[1]:.2f}"


def format_lengths(by_length: Sequence[dict[str, Any]], source: str, score: str) -> list[list[str]]:
    """The rows of :func:`bleu_by_source_length` for a table."""
    return [
        [f"tokens of the {source}", "samples", score, "95 % interval"],
        *(
            [row["words"], f"{row['samples']:,}", _value(row, "bleu", ".2f"), format_interval(row["bleu_interval"])]
            for row in by_length
        ),
    ]


def _baseline_rows(metrics: dict[str, Any]) -> list[list[str]]:
    baseline = metrics["baseline"]
    rows = [[f"compared with {baseline['run']}", "baseline", "difference", "95 % interval", "p"]]
    for key, test in baseline["scores"].items():
        low, high = test["interval"]
        rows.append(
            [
                metrics[f"{key}_label"],
                f"{test['baseline']:.2f}",
                f"{test['difference']:+.2f}",
                f"{low:+.2f} to {high:+.2f}",
                f"{test['p_value']:.3f}",
            ]
        )
    return rows


def describe_leakage(metrics: dict[str, Any]) -> str:
    """A phrase about the leakage in the results of :func:`compute_all_metrics`."""
    if metrics["leakage_error"] is not None:
        return f"unknown: {metrics['leakage_error'].rstrip('.')}"
    samples, leaked, targets = (metrics[key] for key in ("samples", "leaked_samples", "leaked_targets"))
    return (
        f"{leaked:,} of {samples:,} samples ({leaked / samples:.2%}) and {targets:,} of the targets alone "
        f"({targets / samples:.2%}) occur in the training corpus; the others are new"
    )
