"""The chapters of a report on language models: their loss, and what they write, at every snapshot."""

from __future__ import annotations

from seq2seq_chat.architecture.variables import parameter_counts
from seq2seq_chat.report.chapters import add_validation_replies
from seq2seq_chat.report.figures.model_internals import draw_gradients_by_distance
from seq2seq_chat.report.figures.style import new_figure
from seq2seq_chat.report.measure import Report, sample_evenly
from seq2seq_chat.report.page import (
    Chapter,
    Details,
    Preformatted,
    Table,
    Unavailable,
    format_number,
    format_percent,
)
from seq2seq_chat.report.predictions import name_search
from seq2seq_chat.system.tables import NO_VALUE


def overview(chapter: Chapter, report: Report) -> None:
    """The language models: architecture, size, text and snapshots."""
    rows = []
    for run in report.runs:
        model = run.config.model
        with chapter.show_errors(run.name):
            parameters = sum(parameter_counts(run.config, *run.run.codecs.vocabulary_sizes).values())
            rows.append(
                [
                    run.name,
                    f"{model.layers} × {model.cell}, {model.hidden_size} units",
                    format_number(parameters, 0),
                    format_number(len(run.run.codecs.source.vocabulary), 0),
                    str(run.config.data.train),
                    ", ".join(snapshot.label for snapshot in run.texts) or NO_VALUE,
                ]
            )
    head = ["run", "model", "parameters", "vocabulary", "training text", "snapshots (training steps)"]
    chapter.add(Table(head, rows))
    for run in report.runs:
        chapter.add(*(Unavailable(f"{run.name}: {error}") for error in run.errors.values()))


def loss(chapter: Chapter, report: Report) -> None:
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


def gradients(chapter: Chapter, report: Report) -> None:
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
        draw_gradients_by_distance(dict(sample_evenly(list(norms.items()))), figure.subplots())
        chapter.add_picture(f"{run.label}_gradients", figure, caption)
