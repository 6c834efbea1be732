"""The report on language models: their loss, and what they write, at every snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seq2seq_chat.architecture.variables import parameter_counts
from seq2seq_chat.chat.generator import Generator
from seq2seq_chat.config import set_decoding
from seq2seq_chat.data.running_text import RunningText
from seq2seq_chat.engines.tensorflow.engine import load_trained_model
from seq2seq_chat.engines.tensorflow.language_model import TensorFlowLanguageModel
from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.report.chapters import (
    add_validation_replies,
    configuration,
    learning_curves,
    sample_evenly,
)
from seq2seq_chat.report.evaluate import evaluate_language_model, evaluation_text
from seq2seq_chat.report.figures.model_internals import draw_gradients_by_distance, gradient_by_distance
from seq2seq_chat.report.figures.style import new_figure
from seq2seq_chat.report.loaded_run import available_snapshots
from seq2seq_chat.report.measure import OnProgress, Report, ReportOptions, RunMeasurements
from seq2seq_chat.report.page import (
    Details,
    Page,
    Preformatted,
    Table,
    Unavailable,
    format_number,
    format_percent,
    start_page,
)
from seq2seq_chat.report.predictions import name_search
from seq2seq_chat.runs.find import distinct_names
from seq2seq_chat.runs.json_lines import read_json_lines
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.tables import NO_VALUE

LENGTH = 300  # tokens of each text
PROMPTS = 3
SEED = 1
MAX_SNAPSHOTS = 8  # measured, evenly spaced
ROWS, DISTANCE = 64, 100  # passages, and tokens of each, for gradients


class TextSnapshot(NamedTuple):
    """Measurements of a language model at one snapshot."""

    label: str
    metrics: dict[str, Any] | None  # see evaluate_language_model
    texts: list[str]  # one for each prompt
    gradients: np.ndarray | None  # norm by distance


def default_prompts(run: Run) -> list[str]:
    """The first prompts of the samples that training wrote, or a new line."""
    lines = (line["source"] for line in read_json_lines(run.samples_file) if "source" in line)
    return list(dict.fromkeys(lines))[:PROMPTS] or [""]


def write_text_report(
    runs: Sequence[Run],
    prompts: Sequence[str] | None = None,
    data: str | None = None,
    output: Path | None = None,
    on_progress: OnProgress = lambda text: None,
    overrides: Sequence[str] = (),
) -> Path:
    """Measure language models and write the page.

    Args:
        runs: language models.
        prompts: what every snapshot continues; None for prompts of the samples that training wrote.
        data: text to evaluate on; None for that of each run.
        output: file of the page; None for ``report.html`` in the first run's folder. Figures are also written to a
            folder next to it.
        on_progress: called before each step.
        overrides: ``decoding.key=value`` strings that change the settings of sampling.

    Returns:
        The file of the page.

    Raises:
        UserError: The output cannot be written, or a decoding setting is not valid.
    """
    decodings = [set_decoding(run.config, overrides) for run in runs]
    path, page = start_page(runs, output)
    prompts = default_prompts(runs[0]) if prompts is None else prompts
    measurements = list(map(RunMeasurements, runs, distinct_names(runs), decodings))
    report = Report(measurements, ReportOptions(data, overrides=overrides), None, "", on_progress)
    snapshots = [_measure(run, prompts, report) for run in report.runs]
    on_progress("drawing figures")
    _overview(page, report, snapshots)
    _loss(page, report, snapshots)
    _texts(page, report, snapshots, prompts)
    learning_curves(page, report)
    _gradients(page, report, snapshots)
    configuration(page, report)
    page.write(path, on_progress)
    return path


def _measure(run: RunMeasurements, prompts: Sequence[str], report: Report) -> list[TextSnapshot]:
    measured = []
    for snapshot in sample_evenly(available_snapshots(run.run), MAX_SNAPSHOTS):
        report.on_progress(f"{run.name}: measuring snapshot {snapshot.label}")
        with run.record_errors(f"snapshot {snapshot.label}"):
            trained = load_trained_model(run.run, snapshot.name)
            generator = Generator(TensorFlowLanguageModel(trained.model), trained.codecs.source)
            texts = ["".join(generator.stream(prompt, LENGTH, run.decoding, SEED)) for prompt in prompts]
            metrics, gradients = None, None
            with run.record_errors("evaluation"):
                metrics = evaluate_language_model(run.run, report.options.data, snapshot.name)
                gradients = _gradient_norms(run.run, trained.model, report.options.data)
            measured.append(TextSnapshot(snapshot.label, metrics, texts, gradients))
    return measured


def _gradient_norms(run: Run, model: LanguageModel, data: str | None) -> np.ndarray | None:
    """Gradient norms by distance on passages of the text to evaluate on; None if it is too short."""
    tokens = RunningText.open(evaluation_text(run, data), run.codecs, run.config.data).tokens
    length = min(DISTANCE, len(tokens) // ROWS - 1)
    if length < 1:
        return None
    passages = np.array(tokens[: ROWS * (length + 1)], np.int32).reshape(ROWS, length + 1)
    return gradient_by_distance(model, passages[:, :-1], passages[:, -1])


def _overview(page: Page, report: Report, snapshots: Sequence[Sequence[TextSnapshot]]) -> None:
    chapter = page.chapter("Experiment")
    rows = []
    for run, measured in zip(report.runs, snapshots, strict=True):
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
                    ", ".join(snapshot.label for snapshot in measured) or NO_VALUE,
                ]
            )
    head = ["run", "model", "parameters", "vocabulary", "training text", "snapshots (training steps)"]
    chapter.add(Table(head, rows))
    for run in report.runs:
        chapter.add(*(Unavailable(f"{run.name}: {error}") for error in run.errors.values()))


def _loss(page: Page, report: Report, snapshots: Sequence[Sequence[TextSnapshot]]) -> None:
    chapter = page.chapter("Loss over time")
    rows = []
    for run, measured in zip(report.runs, snapshots, strict=True):
        for label, metrics in ((s.label, s.metrics) for s in measured if s.metrics is not None):
            values = (metrics["loss"], metrics["loss_bits"], metrics["perplexity"])
            accuracy = format_percent(metrics["token_accuracy"])
            rows.append([run.name, label, *map(format_number, values), accuracy, f"{metrics['tokens']:,}"])
    if not rows:
        chapter.add(Unavailable("no snapshot was evaluated."))
        return
    head = ["run", "snapshot", "nats per token", "bits per token", "perplexity", "accuracy", "tokens"]
    caption = "Exact loss of the whole text, with the state carried from its first token to its last"
    chapter.add(Table(head, rows, caption, numbers_from=2))


def _texts(page: Page, report: Report, snapshots: Sequence[Sequence[TextSnapshot]], prompts: Sequence[str]) -> None:
    """The same prompts, with the same random numbers, at every snapshot."""
    chapter = page.chapter("What it writes over time")
    for run, measured in zip(report.runs, snapshots, strict=True):
        for index, prompt in enumerate(prompts):
            for snapshot in measured:
                title = f"{run.name}, {snapshot.label}, prompt {index + 1}, by {name_search(run.decoding)}"
                chapter.add(Details(title, [Preformatted(prompt + snapshot.texts[index])], is_open=index == 0))
        add_validation_replies(chapter, report, run)


def _gradients(page: Page, report: Report, snapshots: Sequence[Sequence[TextSnapshot]]) -> None:
    chapter = page.chapter("How far back gradients reach")
    for run, measured in zip(report.runs, snapshots, strict=True):
        norms = {snapshot.label: snapshot.gradients for snapshot in measured if snapshot.gradients is not None}
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
        chapter.add(page.picture(f"{run.label}_gradients", figure, caption))


def ensure_same_kind(runs: Sequence[Run]) -> None:
    """Raise UserError if only some of the runs are language models."""
    if len({run.config.task == "language_model" for run in runs}) > 1:
        raise UserError("language models and other runs have different reports: write one for each kind")
