"""The chapters of a report on the newest model: attention, beams, vectors, weights and gates."""

from __future__ import annotations

import shlex

from seq2seq_chat.architecture.variables import parameter_counts
from seq2seq_chat.config import Decoding
from seq2seq_chat.report.chapters import add_error
from seq2seq_chat.report.figures import replies, vectors
from seq2seq_chat.report.figures.model_internals import (
    draw_gates,
    draw_gradients_by_step,
    draw_variables,
    gate_activations,
)
from seq2seq_chat.report.figures.replies import NO_ATTENTION, draw_heat_maps, draw_overlay, ensure_attention
from seq2seq_chat.report.figures.vectors import draw_projections
from seq2seq_chat.report.loaded_run import LoadedRun
from seq2seq_chat.report.measure import Projection, Report, RunMeasurements, sample_evenly
from seq2seq_chat.report.page import Chapter, Details, Paragraph, Table, format_number, format_percent
from seq2seq_chat.report.predictions import name_search
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.tables import NO_VALUE

ATTENTION_BEAM = 3  # hypotheses whose attention is drawn
WORD_LABELS = 110  # in the figure of word embeddings
NEIGHBOR_WORDS = 24  # words whose neighbors are listed
MAX_LISTED = 50  # replies listed of the widest beam


def attention(chapter: Chapter, report: Report) -> None:
    """Attention of replies, and of beams."""
    chapter.add(Paragraph("Words are in the order they were written, even if the model reads its input reversed."))
    for run in report.runs:
        with chapter.show_errors(run.name):
            loaded = run.newest_model
            if loaded.config.model.attention == "none":
                raise UserError(NO_ATTENTION)
            samples = [p.source for p in run.examples if 4 <= len(p.source.split()) <= 14][:2]
            for index, text in enumerate([max(report.options.questions, key=len), *samples], start=1):
                with chapter.show_errors(f"“{text}”"):
                    _add_attention(chapter, loaded, run.decoding, text, f"{run.label}_attention_{index}")


def _add_attention(chapter: Chapter, loaded: LoadedRun, decoding: Decoding, text: str, name: str) -> None:
    reply = loaded.chatbot.reply(text, decoding)
    ensure_attention(reply)
    figure = draw_heat_maps(reply.source_words, reply.hypotheses)
    chapter.add_picture(f"{name}_heat_map", figure, f"“{text}” → “{reply.text}” ({name_search(decoding)})")
    figure = draw_overlay(reply.source_words, reply.hypotheses[0])
    chapter.add_picture(f"{name}_overlay", figure, "The same weights, as shading of the utterance.")
    beam = replies.plain_beam(decoding, max(decoding.beam_width, ATTENTION_BEAM), ATTENTION_BEAM)
    reply = loaded.chatbot.reply(text, beam)
    ensure_attention(reply)
    caption = f"The {ATTENTION_BEAM} best replies of a beam of {beam.beam_width}."
    picture = chapter.picture(f"{name}_beam", draw_heat_maps(reply.source_words, reply.hypotheses), caption)
    chapter.add(Details(caption, [picture]))


def beam_study(chapter: Chapter, report: Report) -> None:
    """Replies and their log-probabilities by beam width."""
    for run in report.runs:
        with chapter.show_errors(run.name):
            _add_beam_study(chapter, report, run, run.newest_model)


def _add_beam_study(chapter: Chapter, report: Report, run: RunMeasurements, loaded: LoadedRun) -> None:
    report.on_progress(f"{run.name}: beams of up to {replies.WIDTHS[-1]} hypotheses")
    questions = list(report.options.questions)
    samples = [p for p in run.examples if p.expected.split()]
    studies = replies.study_beams(loaded, [*questions, *(p.source for p in samples)], replies.WIDTHS)
    question_studies, sample_studies = studies[: len(questions)], studies[len(questions) :]
    tokenizer = loaded.codecs.target.tokenizer
    if report.options.favorites is not None:
        ranks = replies.rank_favorites(question_studies, report.options.favorites.replies, tokenizer, report.vectors)
        favorite = "your favorite reply"
    else:
        ranks = replies.rank_favorites(sample_studies, [p.expected for p in samples], tokenizer, report.vectors)
        favorite = "the reply nearest in meaning to the expected one"
    caption = (
        "Log-probability and length of the best reply by beam width (a length of 0 is an empty reply), and the rank of "
        f"{favorite} in the beam of {replies.WIDTHS[-1]}."
    )
    chapter.add_picture(f"{run.label}_beams", replies.draw_beams(studies, ranks), caption)
    rows = [
        [
            study.utterance,
            *([f"{b.text or '(empty)'} ({b.score:.1f})" for b in study.best] or [NO_VALUE] * len(replies.WIDTHS)),
        ]
        for study in question_studies
    ]
    head = ["utterance", *(str(width) for width in replies.WIDTHS)]
    chapter.add(Table(head, rows, "Best reply by beam width, and its log-probability in nats"))
    if ranks:
        rows = [[r.utterance, r.favorite, r.nearest, f"{r.rank} of {r.size}"] for r in ranks]
        table = Table(["utterance", "favorite", "nearest in the beam", "rank"], rows, numbers_from=3)
        chapter.add(Details(f"Ranks of {favorite}", [table]))
    first = question_studies[0]
    rows = [
        [str(rank), text or "(empty)", f"{score:.2f}"]
        for rank, (text, score) in enumerate(first.widest[:MAX_LISTED], start=1)
    ]
    table = Table(["rank", "reply", "log-probability, nats"], rows, numbers_from=2)
    chapter.add(Details(f"The first {MAX_LISTED} of {replies.WIDTHS[-1]} replies to “{first.utterance}”", [table]))


def thought_vectors(chapter: Chapter, report: Report) -> None:
    """Projections, clusters and neighbors of thought vectors."""
    chapter.add(
        Paragraph(
            "A thought vector is the final state of the encoder. Utterances similar in meaning or form lie close "
            "together. Clusters are found by k-means on normalized vectors."
        )
    )
    for run in report.runs:
        with chapter.show_errors(run.name):
            points, tsne = _projection(run, "thoughts")
            cluster_index, clusters = vectors.cluster_vectors(points)
            figure = draw_projections(points, "Thought vectors", cluster_index, neighborhoods=tsne)
            name = f"{run.label}_thought_vectors"
            size = f"{len(points.labels):,} utterances in {points.values.shape[1]:,} dimensions"
            chapter.add_picture(name, figure, f"{size}; colors and markers are clusters.")
            rows = [[str(n), f"{c.size:,}", " · ".join(c.nearest)] for n, c in enumerate(clusters, start=1)]
            chapter.add(Table(["cluster", "utterances", "nearest to its center"], rows))
            rows = [[label, *_neighbors(points, label, 4)] for label in points.labels[:8]]
            head = ["utterance", "nearest", "2nd", "3rd", "4th"][: len(rows[0])]
            chapter.add(Table(head, rows, "Nearest neighbors and their cosine similarity"))
            _export_projector(chapter, points, name)


def word_embeddings(chapter: Chapter, report: Report) -> None:
    """Projections and neighbors of word embeddings."""
    for run in report.runs:
        with chapter.show_errors(run.name):
            points, tsne = _projection(run, "words")
            figure = draw_projections(points, "Word embeddings", max_labels=WORD_LABELS, neighborhoods=tsne)
            caption = f"The encoder's embeddings of the {len(points.labels):,} most frequent words; some are labeled."
            name = f"{run.label}_word_embeddings"
            chapter.add_picture(name, figure, caption)
            words = points.labels[:: max(1, len(points.labels) // NEIGHBOR_WORDS)][:NEIGHBOR_WORDS]
            rows = [[word, " · ".join(_neighbors(points, word, 6))] for word in words]
            chapter.add(Table(["word", "nearest neighbors (cosine similarity)"], rows))
            _export_projector(chapter, points, name)


def _projection(run: RunMeasurements, part: str) -> Projection:
    """A projection of the newest model. Raises UserError if there is none."""
    _ = run.newest_model
    if part not in run.projections:
        raise UserError(run.errors[part])
    return run.projections[part]


def _neighbors(points: vectors.Vectors, label: str, count: int) -> list[str]:
    neighbors = vectors.nearest_neighbors(points, label, count)
    return [f"{other} ({similarity:.2f})" for other, similarity in neighbors]


def _export_projector(chapter: Chapter, points: vectors.Vectors, name: str) -> None:
    folder = chapter.figures / "projector" / name
    vectors.export_projector(points, folder)
    chapter.add(Paragraph(f"View them in TensorBoard's projector: tensorboard --logdir {shlex.quote(str(folder))}"))


def internals(chapter: Chapter, report: Report) -> None:
    """Parameters, weights, gradients and gates."""
    for run in report.runs:
        add_error(chapter, run, "gradients")
        with chapter.show_errors(run.name):
            loaded = run.newest_model
            chapter.add(_parameter_table(loaded))
            _add_gradients(chapter, run)
            text = max(report.options.questions, key=len)
            of_reply = f"at each word of its reply to “{text}”, by {name_search(run.decoding)}"
            for part, gates in gate_activations(loaded, text, run.decoding).items():
                inputs = f"while it reads “{text}”" if part == "encoder" else of_reply
                caption = f"Gates of the {part} {inputs}."
                chapter.add_picture(f"{run.label}_gates_{part}", draw_gates(gates, part), caption)


def _parameter_table(loaded: LoadedRun) -> Table:
    parts = parameter_counts(loaded.config, *loaded.codecs.vocabulary_sizes)
    total = sum(parts.values())
    by_size = sorted(parts.items(), key=lambda part: -part[1])
    rows = [[part, format_number(count, 0), format_percent(count / total)] for part, count in by_size]
    return Table(["part", "parameters", "share"], [*rows, ["total", format_number(total, 0), ""]], numbers_from=1)


def _add_gradients(chapter: Chapter, run: RunMeasurements) -> None:
    measured = [(snapshot.label, snapshot.gradients) for snapshot in run.snapshots if snapshot.gradients is not None]
    if not measured:
        return
    by_snapshot = {label: gradients.by_step for label, gradients in sample_evenly(measured)}
    caption = (
        "Norm of the gradient of the mean loss of some test samples, by time step. A norm that falls toward the first "
        "step is a vanishing gradient."
    )
    figure = draw_gradients_by_step(by_snapshot, "training steps" if len(by_snapshot) > 1 else "")
    chapter.add_picture(f"{run.label}_gradients", figure, caption)
    label, newest = measured[-1]
    caption = f"Weights, and gradients of the mean loss of some test samples, at {label}."
    chapter.add_picture(f"{run.label}_weights", draw_variables(newest.variables), caption)
    head = ["variable", "shape", "parameters", "norm", "rms", "gradient norm"]
    rows = [
        [
            variable.name,
            " × ".join(map(str, variable.shape)),
            format_number(variable.parameters, 0),
            format_number(variable.norm),
            f"{variable.rms:.4f}",
            f"{variable.gradient_norm:.3g}",
        ]
        for variable in newest.variables
    ]
    chapter.add(Details("All variables", [Table(head, rows, numbers_from=1)]))
