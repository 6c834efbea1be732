"""The chapter of a report on the metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from seq2seq_chat.analysis.evaluate import describe_leakage
from seq2seq_chat.analysis.figures.metrics import draw_metrics
from seq2seq_chat.analysis.metrics.diversity import TOP_REPLIES
from seq2seq_chat.analysis.report.chapters import add_error, run_prefix
from seq2seq_chat.analysis.report.measure import Report
from seq2seq_chat.analysis.report.page import (
    Details,
    Page,
    Paragraph,
    Table,
    Unavailable,
    format_number,
    format_percent,
)
from seq2seq_chat.config import Labels


def _digits(digits: int) -> Callable[[Any], str]:
    return lambda value: format_number(value, digits)


METRICS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("loss", "loss, nats per token ↓", format_number),
    ("loss_bits", "loss, bits per token ↓", format_number),
    ("perplexity", "perplexity, e^loss ↓", _digits(2)),
    ("two_to_the_loss", "2^loss, the “perplexity” of the thesis's tables ↓", _digits(2)),
    ("word_accuracy", "word accuracy under teacher forcing ↑", format_percent),
    ("exact_match", "exact match: whole lines that equal the {reference} ↑", format_percent),
    ("bleu", "BLEU, 0–100 ↑", _digits(2)),
    ("sent2vec_distance", "Sent2Vec distance, as in the thesis ↓", format_number),
    ("sent2vec_cosine", "Sent2Vec cosine similarity ↑", format_number),
    ("sent2vec_distance_varied", f"… distance without the {TOP_REPLIES} most frequent {{outputs}} ↓", format_number),
    ("sent2vec_cosine_varied", f"… similarity without the {TOP_REPLIES} most frequent {{outputs}} ↑", format_number),
    ("distinct_1", "distinct-1: distinct words / words ↑", _digits(4)),
    ("distinct_2", "distinct-2: distinct bigrams / bigrams ↑", _digits(4)),
    ("distinct_replies", "distinct {outputs} / {outputs} ↑", format_percent),
    ("words_used", "distinct words", _digits(0)),
    ("word_entropy_bits", "entropy of the words, bits ↑", _digits(2)),
    ("most_frequent_share", f"share of the {TOP_REPLIES} most frequent {{outputs}} ↓", format_percent),
    ("mean_length", "mean length of a {output}, tokens", _digits(2)),
)

_LOW_BLEU = {
    "conversation": "; it is low because many replies to small talk are good, but only one of them is the reference",
    "translation": "",
}


def evaluation(page: Page, report: Report) -> None:
    """All metrics of every snapshot."""
    chapter = page.chapter("Evaluation on the test corpus")
    for run in report.runs:
        add_error(chapter, run, "evaluation")
    evaluated = [
        (f"{run_prefix(report, run)}{snapshot.label}", snapshot.metrics)
        for run in report.runs
        for snapshot in run.snapshots
        if snapshot.metrics is not None
    ]
    if not evaluated:
        chapter.add(Unavailable("No snapshot was evaluated, so there are no metrics."))
        return
    for run in report.runs:
        if metrics := next((s.metrics for s in run.snapshots if s.metrics is not None), None):
            chapter.add(
                Paragraph(
                    f"{run_prefix(report, run)}{metrics['samples']:,} samples of {run.corpus_file}, "
                    f"{metrics['tokens']:,} target tokens; {report.labels.outputs} by greedy search. "
                    f"Leakage: {describe_leakage(metrics)}."
                )
            )
    chapter.add(_metrics_table(report, evaluated))
    chapter.add(
        Paragraph(
            "Losses are exact (full softmax) and per target token, end markers included. Word accuracy is the share of "
            "target tokens that are the most probable ones under teacher forcing. distinct-1 and distinct-2 fall as "
            "samples are added, so compare them only for equal numbers of samples. BLEU is sacrebleu's, "
            f"{evaluated[0][1]['bleu_signature']}{_LOW_BLEU[report.task]}. "
            f"Sent2Vec distances use {report.vectors_origin}; compare them only with distances from the same vectors."
        )
    )
    over_time = [
        (run.config.name, [(s.step, s.metrics) for s in run.snapshots if s.metrics is not None]) for run in report.runs
    ]
    chapter.add(page.picture("figures", draw_metrics(over_time), "Metrics over the course of training."))
    chapter.add(_bleu_by_length(report.labels, evaluated))
    for run in report.runs:
        if run.examples:
            rows = [[p.source, p.reply or "(empty)", p.expected, format_number(p.score, 2)] for p in run.examples]
            labels = report.labels
            head = [labels.source, labels.output, labels.reference, f"log-probability of the {labels.output}, nats"]
            title = f"{run_prefix(report, run)}test samples and the {labels.outputs} at the newest snapshot"
            chapter.add(Details(title, [Table(head, rows, numbers_from=3)]))


def _metrics_table(report: Report, evaluated: Sequence[tuple[str, dict[str, Any]]]) -> Table:
    columns = [*evaluated, *_without_leaked(report)]
    names = report.labels._asdict()
    rows = [[name.format(**names), *(show(metrics[key]) for _, metrics in columns)] for key, name, show in METRICS]
    labels = [label for label, _ in columns]
    reference = report.runs[0].reference_diversity
    if reference is not None and len(report.runs) == 1:
        values = reference.metrics()
        for row, (key, _, show) in zip(rows, METRICS, strict=True):
            row.append(show(values[key]) if key in values else "")
        labels.append(report.labels.references)
    return Table(
        ["metric", *labels], rows, "By training steps; ↓: lower is better, ↑: higher is better", numbers_from=1
    )


def _without_leaked(report: Report) -> Iterator[tuple[str, dict[str, Any]]]:
    """The metrics of the newest snapshot of each run without leaked samples, if there are any."""
    for run in report.runs:
        snapshot = next((s for s in reversed(run.snapshots) if s.metrics is not None), None)
        metrics = snapshot and snapshot.metrics
        if snapshot and metrics and metrics["leaked_samples"] and metrics["without_leaked"]:
            yield f"{run_prefix(report, run)}{snapshot.label}, without leaked samples", metrics["without_leaked"]


def _bleu_by_length(labels: Labels, evaluated: Sequence[tuple[str, dict[str, Any]]]) -> Table:
    by_length = [metrics["bleu_by_source_length"] for _, metrics in evaluated]
    rows = [
        [first["words"], format_number(first["samples"], 0), *(format_number(b[n]["bleu"], 2) for b in by_length)]
        for n, first in enumerate(by_length[0])
    ]
    head = [f"tokens of the {labels.source}", "samples", *(label for label, _ in evaluated)]
    return Table(head, rows, f"BLEU by the length of the {labels.source}", numbers_from=1)
