"""The chapters of a report that look into the newest model: where it looks, what it thinks, what moves inside."""

from __future__ import annotations

from collections.abc import Sequence

from seq2seq_chat.analysis import beams, vectors
from seq2seq_chat.analysis.attention import check_attention, draw_heat_maps, draw_overlay
from seq2seq_chat.analysis.chapters import Tell, missing, newest_model, spread_out
from seq2seq_chat.analysis.findings import Findings, Options
from seq2seq_chat.analysis.inside import draw_gates, draw_gradients_by_step, draw_variables, gates
from seq2seq_chat.analysis.page import NOTHING, Fold, Page, Table, Text, number, percent
from seq2seq_chat.analysis.sent2vec import Sent2Vec
from seq2seq_chat.config import decoding_with
from seq2seq_chat.errors import UserError
from seq2seq_chat.model.seq2seq import parameters_by_part


def attention(page: Page, everything: Sequence[Findings], options: Options) -> None:
    """Where the model looks, for greedy search and for beams."""
    chapter = page.chapter("Attention")
    chapter.add(Text("Words stand in the order they were written, also where the model reads them backwards."))
    for found in everything:
        with chapter.attempt(found.run.name):
            subject = newest_model(found)
            if subject.config.model.attention == "none":
                raise UserError('this model has no attention (model.attention is "none")')
            settings = subject.config.decoding
            greedy = decoding_with(settings, method="greedy", n_best=1)
            beam = beams.plain_beam(settings, max(settings.beam_width, 3), 3)
            asked = [p.source for p in found.examples if 4 <= len(p.source.split()) <= 14][:2]
            for place, text in enumerate([max(options.questions, key=len), *asked]):
                with chapter.attempt(f"“{text}”"):
                    name = f"{subject.config.name}_attention_{place + 1}"
                    reply = subject.bot.reply(text, greedy)
                    check_attention(reply)
                    caption = f"“{text}” → “{reply.text}” (greedy)"
                    figure = draw_heat_maps(reply.source_words, reply.hypotheses)
                    chapter.add(page.picture(f"{name}_heat_map", figure, caption))
                    figure = draw_overlay(reply.source_words, reply.hypotheses[0])
                    chapter.add(page.picture(f"{name}_overlay", figure, "The same, laid over the utterance."))
                    others = subject.bot.reply(text, beam)
                    check_attention(others)
                    caption = f"The three best of a beam of {beam.beam_width}."
                    figure = draw_heat_maps(others.source_words, others.hypotheses)
                    chapter.add(Fold(caption, [page.picture(f"{name}_beam", figure, caption)]))


def beam_study(
    page: Page, everything: Sequence[Findings], options: Options, vectors_: Sent2Vec | None, tell: Tell
) -> None:
    """Replies and scores by beam width."""
    chapter = page.chapter("Beam study")
    for found in everything:
        with chapter.attempt(found.run.name):
            subject = newest_model(found)
            tell(f"{found.run.name}: beams of up to {beams.WIDTHS[-1]} hypotheses")
            questions = list(options.questions)
            samples = [p for p in found.examples if p.expected.split()]
            studies = beams.study_beams(subject, [*questions, *(p.source for p in samples)])
            asked, tested = studies[: len(questions)], studies[len(questions) :]
            if options.liked is not None:
                ranks = beams.rank_liked(asked, options.liked.answers, vectors_)
                what = "the reply a person likes best"
            else:
                ranks = beams.rank_liked(tested, [p.expected for p in samples], vectors_)
                what = "the reply whose meaning is nearest to the expected one"
            caption = (
                "Score and length of the best reply by beam width (a reply of no words is an end marker said at "
                "once), and "
                f"how deep in the beam of {beams.WIDTHS[-1]} one has to look for {what}."
            )
            chapter.add(page.picture(f"{subject.config.name}_beams", beams.draw_beams(studies, ranks), caption))
            widths = [f"{width}" for width in beams.WIDTHS]
            rows = [
                [study.question, *(f"{f.text or '(nothing)'} ({f.score:.1f})" for f in study.best)]
                if study.best
                else [study.question, *(NOTHING for _ in widths)]
                for study in asked
            ]
            chapter.add(
                Table(["utterance", *widths], rows, "Best reply by beam width, and its log-probability in nats")
            )
            if ranks:
                rows = [[r.question, r.liked, r.nearest, f"{r.rank} of {r.of}"] for r in ranks]
                table = Table(["utterance", "liked", "nearest in the beam", "rank"], rows, numbers_from=3)
                chapter.add(Fold(f"Ranks of {what}", [table]))
            rows = [
                [f"{place}", text or "(nothing)", f"{score:.2f}"]
                for place, (text, score) in enumerate(asked[0].widest[:50], start=1)
            ]
            table = Table(["rank", "reply", "log-probability"], rows, numbers_from=2)
            chapter.add(Fold(f"The first 50 of {beams.WIDTHS[-1]} replies to “{asked[0].question}”", [table]))


def thoughts(page: Page, everything: Sequence[Findings], options: Options, tell: Tell) -> None:
    """Thought vectors: projections and clusters of sentences."""
    chapter = page.chapter("Thought vectors")
    chapter.add(
        Text(
            "What the encoder has made of an utterance when it has read it. Utterances of a similar meaning, or a "
            "similar "
            "form, lie together. Clusters are k-means' on vectors of length one."
        )
    )
    for found in everything:
        with chapter.attempt(found.run.name):
            subject = newest_model(found)
            tell(f"{found.run.name}: thought vectors")
            points = vectors.thought_vectors(subject, [*options.questions, *found.test_sources])
            clusters_of, clusters = vectors.clusters_of(points)
            figure = vectors.draw_projections(points, "Thought vectors", clusters_of)
            size = f"{len(points.labels):,} utterances in {points.values.shape[1]:,} dimensions"
            caption = f"{size}; colours and markers are clusters."
            chapter.add(page.picture(f"{subject.config.name}_thought_vectors", figure, caption))
            rows = [[f"{n + 1}", f"{c.size:,}", " · ".join(c.nearest)] for n, c in enumerate(clusters)]
            chapter.add(Table(["cluster", "utterances", "nearest to its centre"], rows))
            rows = [
                [label, *(f"{other} ({similarity:.2f})" for other, similarity in vectors.neighbours(points, label, 4))]
                for label in points.labels[:8]
            ]
            chapter.add(
                Table(
                    ["utterance", "nearest", "2nd", "3rd", "4th"][: len(rows[0])],
                    rows,
                    "Nearest neighbours, cosine similarity",
                )
            )
            folder = page.pictures / "projector" / f"{subject.config.name}_thought_vectors"
            vectors.export_projector(points, folder)
            chapter.add(Text(f"For TensorBoard's projector: tensorboard --logdir {folder}"))


def words(page: Page, everything: Sequence[Findings], tell: Tell) -> None:
    """Word embeddings: projections and neighbours."""
    chapter = page.chapter("Word embeddings")
    for found in everything:
        with chapter.attempt(found.run.name):
            subject = newest_model(found)
            tell(f"{found.run.name}: word embeddings")
            points = vectors.word_vectors(subject)
            figure = vectors.draw_projections(points, "Word embeddings", labelled=110)
            caption = (
                f"The {len(points.labels):,} most frequent words, as the encoder knows them; the first are labelled."
            )
            chapter.add(page.picture(f"{subject.config.name}_word_embeddings", figure, caption))
            chosen = points.labels[:: max(1, len(points.labels) // 24)][:24]
            rows = [
                [
                    word,
                    " · ".join(f"{other} ({similarity:.2f})" for other, similarity in vectors.neighbours(points, word)),
                ]
                for word in chosen
            ]
            chapter.add(Table(["word", "nearest, cosine similarity"], rows))
            folder = page.pictures / "projector" / f"{subject.config.name}_word_embeddings"
            vectors.export_projector(points, folder)
            chapter.add(Text(f"For TensorBoard's projector: tensorboard --logdir {folder}"))


def model_inside(page: Page, everything: Sequence[Findings], options: Options) -> None:
    """Parameters, weights, gradients and gates."""
    chapter = page.chapter("The model's inside")
    for found in everything:
        missing(chapter, found, "gradients")
        with chapter.attempt(found.run.name):
            subject = newest_model(found)
            name = subject.config.name
            parts = parameters_by_part(subject.model)
            total = sum(parts.values())
            rows = [[part, number(n, 0), percent(n / total)] for part, n in sorted(parts.items(), key=lambda p: -p[1])]
            chapter.add(Table(["part", "parameters", "share"], [*rows, ["all", number(total, 0), ""]], numbers_from=1))
            known = [(moment.label, moment.gradients) for moment in found.moments if moment.gradients is not None]
            if known:
                by_moment = {label: slopes.by_step for label, slopes in spread_out(known)}
                caption = (
                    "Where it falls towards the first step, the gradient vanishes; mean over samples of the "
                    "test corpus."
                )
                chapter.add(page.picture(f"{name}_gradients", draw_gradients_by_step(by_moment), caption))
                variables = known[-1][1].variables
                caption = f"Weights, and gradients of the mean loss of some samples, at {known[-1][0]}."
                chapter.add(page.picture(f"{name}_weights", draw_variables(variables), caption))
                rows = [
                    [
                        v.name,
                        " × ".join(map(str, v.shape)),
                        number(v.parameters, 0),
                        number(v.norm),
                        f"{v.rms:.4f}",
                        f"{v.gradient_norm:.3g}",
                    ]
                    for v in variables
                ]
                head = ["variable", "shape", "parameters", "norm", "rms", "gradient norm"]
                chapter.add(Fold("All variables", [Table(head, rows, numbers_from=1)]))
            text = max(options.questions, key=len)
            for part, opened in gates(subject, text).items():
                caption = f"The {part}'s gates for “{text}”" + (
                    "" if part == "encoder" else ", at each word that is said"
                )
                chapter.add(page.picture(f"{name}_gates_{part}", draw_gates(opened, part), caption))
