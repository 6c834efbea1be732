"""The chapters of a report on metrics, replies and training."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

from seq2seq_chat import __version__
from seq2seq_chat.architecture.variables import parameter_counts
from seq2seq_chat.config import Model
from seq2seq_chat.metrics.ngrams import ORDERS, TOP_REPLIES, NgramProfile, divergences
from seq2seq_chat.report.figures import curves
from seq2seq_chat.report.figures.curves import draw_divergences, draw_rank_frequency, draw_top_ngrams
from seq2seq_chat.report.figures.model_internals import draw_gradients_by_distance
from seq2seq_chat.report.figures.style import legend_beside, new_figure
from seq2seq_chat.report.measure import Report, RunMeasurements, sample_evenly
from seq2seq_chat.report.page import (
    Chapter,
    Details,
    Paragraph,
    Preformatted,
    Table,
    Unavailable,
    format_number,
    format_percent,
)
from seq2seq_chat.report.predictions import ReplyColumn, name_search
from seq2seq_chat.runs.json_lines import read_json_lines
from seq2seq_chat.runs.summary import read_initialization
from seq2seq_chat.system.tables import NO_VALUE

MAX_STEPS = 8  # validation steps shown in a table of replies


def add_error(chapter: Chapter, run: RunMeasurements, part: str) -> None:
    """Show the error of a part, if any."""
    if part in run.errors:
        chapter.add(Unavailable(f"{run.name}: {run.errors[part]}"))


def overview(chapter: Chapter, report: Report) -> None:
    """The runs: architecture, size, corpus and snapshots."""
    rows = [_overview_row(run) for run in report.runs]
    is_text = report.task == "language_model"
    corpus = "training text" if is_text else "training corpus"
    head = ["run", "model", "parameters", "vocabulary", corpus, "snapshots (training steps)"]
    chapter.add(Table(head, rows))
    for run in report.runs:
        if is_text:
            chapter.add(*(Unavailable(f"{run.name}: {error}") for error in run.errors.values()))
            continue
        if origin := read_initialization(run.run):
            chapter.add(Paragraph(f"{run.name} was initialized from {origin}."))
        add_error(chapter, run, "model")
        for part, error in run.errors.items():
            if part.startswith("snapshot"):
                chapter.add(Unavailable(f"{part}: {error}"))
        if not run.run.snapshots():
            interval = json.dumps(run.config.training.snapshot_every)
            chapter.add(
                Unavailable(
                    f"{run.prefix}the run has no snapshots (training.snapshot_every is {interval} steps), "
                    "so changes over time cannot be shown"
                    + ("; only the newest weights were measured." if run.snapshots else ".")
                )
            )


def _overview_row(run: RunMeasurements) -> list[str]:
    config, codecs, snapshots = run.config, run.run.codecs, run.texts or run.snapshots
    architecture = [f"{config.model.layers} × {config.model.cell}, {config.model.hidden_size} units"]
    if config.task != "language_model":
        architecture += _decoder(config.model) + ["input reversed"] * config.data.reverse_input
    counts = parameter_counts(config, *codecs.vocabulary_sizes)
    is_known = run.loaded or config.task == "language_model"
    return [
        run.name,
        ", ".join(architecture),
        format_number(sum(counts.values()), 0) if is_known else NO_VALUE,
        format_number(codecs.words, 0),
        str(config.data.train),
        ", ".join(snapshot.label for snapshot in snapshots) or NO_VALUE,
    ]


def _decoder(model: Model) -> list[str]:
    """The attention, and the settings of the decoder that differ from their defaults."""
    settings = {"attention_query", "input_feeding", "context", "output"}
    changed = model.model_dump(include=settings, exclude_defaults=True)
    return [f"{model.attention} attention", *(f"{key} {str(value).lower()}" for key, value in changed.items())]


def language_over_time(chapter: Chapter, report: Report) -> None:
    """Frequencies of words, bigrams and trigrams in the replies, compared with those in the corpus."""
    for run in report.runs:
        add_error(chapter, run, "language")
        searches = report.searches(run)
        if not run.evaluations or run.reference_profile is None:
            chapter.add(Unavailable(f"{run.prefix}there are no replies to a test corpus to count words in."))
            continue
        baselines = ([run.training_profile] if run.training_profile else []) + [run.reference_profile]
        figure = draw_rank_frequency([*baselines, *sample_evenly([each.profile for each in run.evaluations])])
        caption = (
            "Relative frequency of words, bigrams and trigrams by rank. A curve that drops early means that few are "
            f"used, and used often; {searches}."
        )
        chapter.add_picture(f"{run.label}_ranks", figure, caption)
        if run.training_profile is not None:
            _compare_with_corpus(chapter, run, searches, run.training_profile, run.reference_profile)
        replies = [each.metrics["most_frequent"] for each in run.evaluations]
        rows = [
            [str(rank + 1), *(_share(ranked[rank]) if rank < len(ranked) else NO_VALUE for ranked in replies)]
            for rank in range(TOP_REPLIES)
        ]
        head = ["rank", *(f"at {each.label}" for each in run.evaluations)]
        chapter.add(Table(head, rows, f"{run.prefix}the most frequent {searches}, and their shares"))


def _share(entry: dict[str, Any]) -> str:
    return f"{entry['reply']} ({format_percent(entry['share'])})"


def _compare_with_corpus(
    chapter: Chapter, run: RunMeasurements, searches: str, corpus: NgramProfile, expected: NgramProfile
) -> None:
    replies = [divergences(each.profile, corpus) for each in run.evaluations]
    references = divergences(expected, corpus)
    caption = (
        "Jensen–Shannon divergence of the replies from the training corpus, in bits: 0 for equal distributions, 1 if "
        "nothing is shared. Thin lines are the expected replies of the test corpus; a small sample always diverges a "
        f"little; {searches}."
    )
    figure = draw_divergences([each.step for each in run.evaluations], replies, references)
    chapter.add_picture(f"{run.label}_divergence", figure, caption)
    rows = [
        [title, *(format_number(values[n]) for values in replies), format_number(references[n])]
        for n, title in ORDERS.items()
    ]
    labels = [f"at {each.label}" for each in run.evaluations]
    head = ["Jensen–Shannon divergence, bits", *labels, "expected replies"]
    chapter.add(Table(head, rows, f"Divergence of {searches}", numbers_from=1))
    for each in run.evaluations:
        caption = (
            f"The most frequent words, bigrams and trigrams at {each.label}, and their frequency in the training "
            f"corpus; {searches}."
        )
        figure = draw_top_ngrams(each.profile, corpus, run.run.codecs.target.vocabulary)
        picture = chapter.picture(f"{run.label}_ngrams_{each.step}", figure, caption)
        is_newest = each is run.evaluations[-1]
        chapter.add(picture if is_newest else Details(f"Most frequent words at {each.label}", [picture]))


def replies_over_time(chapter: Chapter, report: Report) -> None:
    """Replies to the same questions at every snapshot, of every run, and in transcripts."""
    outputs, source, questions = report.labels.outputs, report.labels.source, report.options.asked
    for run in report.runs:
        if run.snapshots:
            caption = f"{run.prefix}{outputs} at every snapshot, by {name_search(run.decoding)}"
            chapter.add(_reply_table(source, questions, [snapshot.replies for snapshot in run.snapshots], caption))
        else:
            add_error(chapter, run, "model")
    newest = [(run.label, run.snapshots[-1]) for run in report.runs if run.snapshots]
    columns = [snapshot.replies._replace(label=f"{name}, {snapshot.label}") for name, snapshot in newest]
    columns += report.options.transcripts
    if len(columns) > 1:
        searches = dict.fromkeys(f"by {name_search(run.decoding)}" for run in report.runs)
        caption = f"Side by side: the newest snapshots, {', '.join(searches)}, and transcripts"
        chapter.add(_reply_table(source, questions, columns, caption))
    else:
        chapter.add(
            Paragraph(
                f"To compare {outputs}, add other runs, or the {outputs} of another system with --transcript FILE "
                f"(lines of question<TAB>reply, or one {report.labels.output} per line in the order above)."
            )
        )
    for run in report.runs:
        add_validation_replies(chapter, report, run)


def _reply_table(source: str, questions: Sequence[str], columns: Sequence[ReplyColumn], caption: str) -> Table:
    def show(reply: str | None) -> str:
        return "not asked" if reply is None else reply or "(empty)"

    rows = [[question, *(show(column.replies[n]) for column in columns)] for n, question in enumerate(questions)]
    return Table([source, *(column.label for column in columns)], rows, caption)


def add_validation_replies(chapter: Chapter, report: Report, run: RunMeasurements) -> None:
    """The sample replies logged at validations during training."""
    lines = [line for line in read_json_lines(run.run.samples_file) if {"step", "source", "reply"} <= set(line)]
    if not lines:
        return
    steps = sorted({line["step"] for line in lines})
    shown = sample_evenly(steps, MAX_STEPS)
    replies = {(line["source"], line["step"]): line["reply"] for line in lines}
    targets = {line["source"]: line.get("target", NO_VALUE) for line in reversed(lines)}
    sources = dict.fromkeys(line["source"] for line in lines)
    rows = [[source, *(replies.get((source, step), NO_VALUE) for step in shown), targets[source]] for source in sources]
    labels = report.labels
    head = [labels.source, *(f"step {step:,}" for step in shown), labels.reference]
    search = "" if run.config.task == "language_model" else ", by greedy search"
    title = f"{run.prefix}{labels.outputs} of validation samples during training{search}"
    chapter.add(Details(title, [Table(head, rows)]))


def learning_curves(chapter: Chapter, report: Report) -> None:
    """Training and validation loss and perplexity."""
    runs = []
    for run in report.runs:
        with chapter.show_errors(run.name):
            runs.append(curves.read_curves(run.run, run.label))
    if not runs:
        return
    caption = (
        "Loss and perplexity during training. The training loss is measured on batches with dropout (pale: raw, "
        "strong: a moving average); the validation loss (markers) is exact and without dropout."
    )
    chapter.add_picture("learning_curves", curves.draw_curves(runs), caption)
    if len(runs) == 1 and len(set(runs[0].train.minutes)) > 1:
        figure = curves.draw_curves(runs, by_time=True)
        chapter.add(Details("By time", [chapter.picture("learning_curves_by_time", figure, "The same by time.")]))
    rows = [_curves_row(run) for run in runs if len(run.validation.losses)]
    if rows:
        head = ["run", "steps", "minutes", "last training loss", "best validation loss", "at step"]
        chapter.add(Table(head, rows, "Losses in nats per target token", numbers_from=1))


def _curves_row(run: curves.Curves) -> list[str]:
    best = int(run.validation.losses.argmin())
    return [
        run.label,
        f"{int(run.train.steps[-1]):,}",
        format_number(float(run.train.minutes[-1]), 1),
        format_number(float(run.train.losses[-1])),
        format_number(float(run.validation.losses[best])),
        f"{int(run.validation.steps[best]):,}",
    ]


def configuration(chapter: Chapter, report: Report) -> None:
    """How to reproduce the report."""
    options = report.options
    given = {"--data": options.data, "--limit": options.limit, "--sent2vec": options.sent2vec}
    command = ["seq2seq-chat", "report", *(run.name for run in report.runs)]
    command += [word for name, value in given.items() if value is not None for word in (name, str(value))]
    command += [word for override in options.overrides for word in ("--set", override)]
    chapter.add(Paragraph(f"Generated by seq2seq-chat {__version__} with: {shlex.join(command)}"))
    for run in report.runs:
        title = f"{run.name}: complete configuration"
        chapter.add(Details(title, [Preformatted(run.config.to_json())]))


def text_loss(chapter: Chapter, report: Report) -> None:
    """The loss of every snapshot."""
    rows = []
    for run in report.runs:
        for label, metrics in ((s.label, s.metrics) for s in run.texts if s.metrics is not None):
            values = (metrics["loss"], metrics["loss_bits"], metrics["perplexity"])
            accuracy = format_percent(metrics["token_accuracy"])
            rows.append([run.name, label, *map(format_number, values), accuracy, f"{metrics['tokens']:,}"])
    if not rows:
        chapter.add(Unavailable("no snapshot was evaluated."))
        return
    head = ["run", "snapshot", "nats per token", "bits per token", "perplexity", "accuracy", "tokens"]
    caption = "Exact loss of the whole text, with the state carried from its first token to its last"
    chapter.add(Table(head, rows, caption, numbers_from=2))


def texts(chapter: Chapter, report: Report) -> None:
    """The same prompts, with the same random numbers, at every snapshot."""
    for run in report.runs:
        for index, prompt in enumerate(report.options.questions):
            for snapshot in run.texts:
                title = f"{run.name}, {snapshot.label}, prompt {index + 1}, by {name_search(run.decoding)}"
                chapter.add(Details(title, [Preformatted(prompt + snapshot.texts[index])], is_open=index == 0))
        add_validation_replies(chapter, report, run)


def text_gradients(chapter: Chapter, report: Report) -> None:
    """Gradients by distance."""
    for run in report.runs:
        norms = {snapshot.label: snapshot.gradients for snapshot in run.texts if snapshot.gradients is not None}
        if not norms:
            chapter.add(Unavailable(f"{run.name}: there is no text that is long enough."))
            continue
        caption = (
            "Norm of the gradient of a token's loss with respect to the embedding of each token before it, relative to "
            "that of the nearest one. A norm that falls quickly is a vanishing gradient: the model does not learn from "
            "what is farther away."
        )
        figure = new_figure(8, 4.2)
        axes = figure.subplots()
        draw_gradients_by_distance(dict(sample_evenly(list(norms.items()))), axes)
        legend_beside(figure, axes)
        chapter.add_picture(f"{run.label}_gradients", figure, caption)
