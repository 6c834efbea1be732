"""The chapter of a report on the metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from seq2seq_chat.metrics.ngrams import TOP_REPLIES
from seq2seq_chat.metrics.scores import RESAMPLES, SCORE_KEYS, bleu_by_source_length, length_bins
from seq2seq_chat.report.chapters import add_error
from seq2seq_chat.report.figures.curves import draw_bleu_by_length, draw_metrics
from seq2seq_chat.report.measure import Report
from seq2seq_chat.report.page import Chapter, Details, Paragraph, Table, Unavailable, format_number, format_percent
from seq2seq_chat.report.scoring import (
    describe_copies,
    describe_leakage,
    format_interval,
    format_value,
    writes_lower_case,
)
from seq2seq_chat.report.votes.evaluation import votes_on_runs
from seq2seq_chat.report.votes.statistics import (
    PAIR_HEAD,
    STRENGTH_HEAD,
    notes,
    pair_rows,
    strength_rows,
    vote_statistics,
)
from seq2seq_chat.system.tables import pluralize


def _digits(digits: int) -> Callable[[Any], str]:
    return lambda value: format_number(value, digits)


METRICS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("loss", "loss, nats per token ↓", format_number),
    ("loss_bits", "loss, bits per token ↓", format_number),
    ("perplexity", "perplexity, e^loss ↓", _digits(2)),
    ("two_to_the_loss", "2^loss, the “perplexity” of the thesis's tables ↓", _digits(2)),
    ("word_accuracy", "word accuracy under teacher forcing ↑", format_percent),
    ("exact_match", "exact match: whole lines that equal the {reference} ↑", format_percent),
    *((key, key, str) for key in SCORE_KEYS),  # with their labels and intervals
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

_LOW_BLEU = 20
_WHY_LOW = ", and low because many replies to small talk are good, but only one of them is the reference"


def evaluation(chapter: Chapter, report: Report) -> None:
    """All metrics of every snapshot."""
    for run in report.runs:
        add_error(chapter, run, "evaluation")
    evaluated = [(f"{run.prefix}{each.label}", each) for run in report.runs for each in run.evaluations]
    if not evaluated:
        chapter.add(Unavailable("No snapshot was evaluated, so there are no metrics."))
        return
    for run in (run for run in report.runs if run.evaluations):
        metrics, newest = run.evaluations[0].metrics, run.evaluations[-1]
        chapter.add(
            Paragraph(
                f"{run.prefix}{metrics['samples']:,} samples of {run.corpus_file}, "
                f"{metrics['tokens']:,} target tokens; {report.searches(run)}. "
                f"Leakage: {describe_leakage(metrics)}."
            )
        )
        if newest.metrics["copies"]:
            chapter.add(Paragraph(f"{run.prefix}{newest.label}: {describe_copies(newest.metrics, report.task)}."))
    columns = [(label, each.metrics) for label, each in evaluated]
    is_low = report.task == "conversation" and max(metrics["bleu"] for _, metrics in columns) < _LOW_BLEU
    chapter.add(_metrics_table(report, columns))
    chapter.add(
        Paragraph(
            "Losses are exact (full softmax) and per target token, end markers included. Word accuracy is the share of "
            "target tokens that are the most probable ones under teacher forcing. distinct-1 and distinct-2 fall as "
            "samples are added, so compare them only for equal numbers of samples. Scores are sacrebleu's"
            f"{_WHY_LOW if is_low else ''}: {_signatures([metrics for _, metrics in columns])}; ± is half the "
            f"width of the 95 % interval, from {RESAMPLES:,} bootstrap resamples. "
            f"Sent2Vec distances use {report.vectors_origin}; compare them only with distances from the same vectors."
        )
    )
    searches = report.searches(*report.runs)
    over_time = [(run.label, [(each.step, each.metrics) for each in run.evaluations]) for run in report.runs]
    chapter.add_picture("figures", draw_metrics(over_time), f"Metrics over the course of training; {searches}.")
    _add_bleu_by_length(chapter, report)
    for run in report.runs:
        if run.examples:
            rows = [[p.source, p.reply or "(empty)", p.expected, format_number(p.score, 2)] for p in run.examples]
            labels = report.labels
            head = [labels.source, labels.output, labels.reference, f"log-probability of the {labels.output}, nats"]
            title = f"{run.prefix}test samples at the newest snapshot; {report.searches(run)}"
            chapter.add(Details(title, [Table(head, rows, numbers_from=3)]))


def _metrics_table(report: Report, evaluated: Sequence[tuple[str, dict[str, Any]]]) -> Table:
    columns = [*evaluated, *_without_leaked(report)]
    names = report.labels._asdict()
    reference = report.runs[0].reference_diversity
    with_references = reference is not None and len(report.runs) == 1
    values = reference.metrics() if reference is not None and with_references else {}
    rows = []
    for key, name, show in METRICS:
        if key not in SCORE_KEYS:
            row = [name.format(**names), *(show(metrics[key]) for _, metrics in columns)]
        elif title := " or ".join(_score_labels(key, [metrics for _, metrics in columns])):
            row = [f"{title}, 0–100 ↑", *(format_value(metrics, key) for _, metrics in columns)]
        else:
            continue
        rows.append([*row, *([show(values[key]) if key in values else ""] if with_references else [])])
    labels = [*(label for label, _ in columns), *([report.labels.references] if with_references else [])]
    caption = f"By training steps; {report.searches(*report.runs)}; ↓: lower is better, ↑: higher is better"
    return Table(["metric", *labels], rows, caption, numbers_from=1)


def _without_leaked(report: Report) -> Iterator[tuple[str, dict[str, Any]]]:
    """The metrics of the newest snapshot of each run without leaked samples, if there are any."""
    for run in report.runs:
        if run.evaluations and (metrics := run.evaluations[-1].metrics)["leaked_samples"] and metrics["without_leaked"]:
            label = run.evaluations[-1].label
            yield f"{run.prefix}{label}, without leaked samples", metrics["without_leaked"]


def _score_labels(key: str, evaluated: Sequence[dict[str, Any]]) -> list[str]:
    """What a score is called; runs of different tasks may differ in it."""
    return list(dict.fromkeys(metrics[f"{key}_label"] for metrics in evaluated if metrics[f"{key}_label"]))


def _signatures(evaluated: Sequence[dict[str, Any]]) -> str:
    signatures = {m[f"{key}_label"]: m[f"{key}_signature"] for key in SCORE_KEYS for m in evaluated}
    return "; ".join(f"{label} {signature}" for label, signature in signatures.items() if label)


def _add_bleu_by_length(chapter: Chapter, report: Report) -> None:
    """BLEU by the length of the source: a table of all snapshots, and curves of the newest one of each run."""
    scores = {f"{run.prefix}{each.label}": each.scores for run in report.runs for each in run.evaluations}
    bins = length_bins(*(each.source_lengths for each in scores.values()))
    lowercase = any(writes_lower_case(run.run.codecs.target.tokenizer) for run in report.runs)
    by_length = {label: bleu_by_source_length(each, bins, lowercase=lowercase) for label, each in scores.items()}
    labels = dict.fromkeys(each.bleu(lowercase).kind.label for each in scores.values())
    measured = [run for run in report.runs if run.evaluations]
    newest = {run.label: by_length[f"{run.prefix}{run.evaluations[-1].label}"] for run in measured}
    source, searches = report.labels.source, report.searches(*report.runs)
    caption = (
        f"BLEU by the length of the {source} in tokens, at the newest snapshot: points at the mean length of the "
        f"samples, and 95 % intervals; {searches}."
    )
    chapter.add_picture("bleu_by_length", draw_bleu_by_length(newest, source, " / ".join(labels)), caption)
    rows = []
    for columns in zip(*by_length.values(), strict=True):
        cells = [f"{format_number(row['bleu'], 2)} ({format_interval(row['bleu_interval'])})" for row in columns]
        samples = dict.fromkeys(format_number(row["samples"], 0) for row in columns)
        rows.append([columns[0]["words"], " / ".join(samples), *cells])
    head = [f"tokens of the {source}", "samples", *by_length]
    caption = f"BLEU by the length of the {source}, with 95 % intervals; {searches}"
    chapter.add(Table(head, rows, caption, numbers_from=1))


def votes(chapter: Chapter, report: Report) -> None:
    """What people preferred, if they voted on these runs."""
    cast = votes_on_runs(report.runs[0].run.results, [run.name for run in report.runs])
    if not cast:
        chapter.add(Paragraph("No votes yet. The page Judge of seq2seq-chat serve collects some."))
        return
    statistics = vote_statistics(cast)
    caption = (
        f"{pluralize(statistics.votes, 'vote')} on pairs of replies whose systems were hidden. The win rate is the "
        "share of wins among votes with a preference, with a 95 % interval by Wilson; about as many votes are missing "
        "as exclude 50 % from the interval in four of five evaluations."
    )
    chapter.add(Table(PAIR_HEAD, pair_rows(statistics), caption, numbers_from=2))
    caption = (
        "Bradley–Terry strengths: log-odds of winning against the average of these systems. A vote without a "
        "preference counts as half a win; the 95 % intervals resample prompts."
    )
    chapter.add(Table(STRENGTH_HEAD, strength_rows(statistics), caption, numbers_from=1))
    for note in notes(statistics):
        chapter.add(Paragraph(note[0].upper() + note[1:] + "."))
