"""The chapters of a report: what was found out, as text, tables and pictures."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.figure import Figure

from seq2seq_chat import __version__
from seq2seq_chat.analysis import curves, ngrams
from seq2seq_chat.analysis.diversity import MOST_FREQUENT, Diversity
from seq2seq_chat.analysis.findings import Findings, Moments, Options
from seq2seq_chat.analysis.page import NOTHING, Chapter, Fold, Listing, Missing, Page, Table, Text, number, percent
from seq2seq_chat.analysis.replies import Column
from seq2seq_chat.analysis.style import look, new_figure
from seq2seq_chat.analysis.subject import Subject
from seq2seq_chat.errors import UserError
from seq2seq_chat.model.seq2seq import parameters_by_part
from seq2seq_chat.training.metrics import read_json_lines

Tell = Callable[[str], object]

FIGURES: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("loss", "loss, nats per token ↓", number),
    ("loss_bits", "loss, bits per token ↓", number),
    ("perplexity", "perplexity, e^loss ↓", lambda v: number(v, 2)),
    ("two_to_the_loss", "2^loss: the thesis's “perplexity”, for its tables only ↓", lambda v: number(v, 2)),
    ("word_accuracy", "word accuracy, given the right words before ↑", percent),
    ("bleu", "BLEU (0–100) ↑", lambda v: number(v, 2)),
    ("sent2vec_distance", "Sent2Vec distance, as in the thesis ↓", number),
    ("sent2vec_cosine", "Sent2Vec cosine similarity ↑", number),
    (
        "sent2vec_distance_varied",
        f"… distance without the {MOST_FREQUENT} most frequent replies ↓",
        number,
    ),
    (
        "sent2vec_cosine_varied",
        f"… similarity without the {MOST_FREQUENT} most frequent replies ↑",
        number,
    ),
    ("distinct_1", "distinct-1: different words / words ↑", lambda v: number(v, 4)),
    ("distinct_2", "distinct-2: different pairs / pairs ↑", lambda v: number(v, 4)),
    ("distinct_replies", "different replies / replies ↑", percent),
    ("words_used", "different words used", lambda v: number(v, 0)),
    ("word_entropy_bits", "entropy of the words, bits ↑", lambda v: number(v, 2)),
    ("most_frequent_share", f"share of the {MOST_FREQUENT} most frequent replies ↓", percent),
    ("mean_length", "words of a reply, mean", lambda v: number(v, 2)),
)
PANELS = (
    ("perplexity", "perplexity ↓"),
    ("word_accuracy", "word accuracy ↑"),
    ("bleu", "BLEU ↑"),
    ("sent2vec_distance", "Sent2Vec distance ↓"),
    ("distinct_2", "distinct-2 ↑"),
    ("most_frequent_share", f"share of the {MOST_FREQUENT} most frequent replies ↓"),
)


def run_title(found: Findings, everything: Sequence[Findings]) -> str:
    """The name of a run where there are several."""
    return f"{found.run.name}: " if len(everything) > 1 else ""


def newest_model(found: Findings) -> Subject:
    """The subject with its newest weights. Raises UserError where there is none."""
    if found.subject is None:
        raise UserError(found.faults.get("model", "the model could not be loaded"))
    return found.subject


def overview(page: Page, everything: Sequence[Findings]) -> None:
    """What was trained, and at which moments it was looked at."""
    chapter = page.chapter("The experiment")
    rows = []
    for found in everything:
        config = found.run.config
        parameters = parameters_by_part(found.subject.model) if found.subject else {}
        shape = f"{config.model.layers} × {config.model.cell}, {config.model.hidden_size} units"
        rows.append(
            [
                found.run.name,
                f"{shape}, {config.model.attention} attention"
                + (", input reversed" if config.data.reverse_input else ""),
                number(sum(parameters.values()), 0) if parameters else NOTHING,
                number(len(found.run.vocabulary), 0),
                config.data.train,
                ", ".join(moment.label for moment in found.moments) or NOTHING,
            ]
        )
    chapter.add(Table(["run", "model", "parameters", "words", "training corpus", "looked at after steps"], rows))
    for found in everything:
        missing(chapter, found, "model")
        for part, fault in found.faults.items():
            if part.startswith("snapshot"):
                chapter.add(Missing(f"{part}: {fault}"))
        if not found.run.snapshots():
            chapter.add(
                Missing(
                    f"{run_title(found, everything)}this run has no snapshots (training.snapshot_every is "
                    f"{json.dumps(found.run.config.training.snapshot_every)} steps), so nothing can be shown over time"
                    + ("; the newest weights stand for all." if found.moments else ".")
                )
            )


def missing(chapter: Chapter, found: Findings, part: str) -> None:
    if part in found.faults:
        chapter.add(Missing(f"{found.run.name}: {found.faults[part]}"))


def evaluation(page: Page, everything: Sequence[Findings], origin: str) -> None:
    """The figures of every moment."""
    chapter = page.chapter("Evaluation on the test corpus")
    measured = [(found, m, m.figures) for found in everything for m in found.moments if m.figures is not None]
    for found in everything:
        missing(chapter, found, "evaluation")
    if not measured:
        chapter.add(
            Missing("nothing was evaluated, so the parts that compare replies with expected ones are not here.")
        )
        return
    for found in everything:
        figures = [m.figures for m in found.moments if m.figures is not None]
        if figures:
            chapter.add(
                Text(
                    f"{run_title(found, everything)}{figures[0]['samples']:,} samples of {found.corpus_file}, "
                    f"{figures[0]['tokens']:,} target tokens. Replies are searched greedily."
                )
            )
    labels = [f"{run_title(found, everything)}{m.label}" for found, m, _ in measured]
    rows = [[name, *(show(figures[key]) for _, _, figures in measured)] for key, name, show in FIGURES]
    people = everything[0].people
    if people is not None and len(everything) == 1:
        for row, (key, _, show) in zip(rows, FIGURES, strict=True):
            row.append(show(_of_people(people).get(key)) if key in _of_people(people) else "")
        labels.append("people's own replies")
    chapter.add(Table(["after steps", *labels], rows, "↓: less is better, ↑: more is better", numbers_from=1))
    chapter.add(
        Text(
            "Losses are exact (full softmax), per target token, end markers included. Word accuracy is the share of "
            "target tokens that the model finds most probable. distinct-1 and -2 fall as samples are added, so "
            "compare them at "
            f"equal numbers of samples. BLEU is sacrebleu's, {measured[0][2]['bleu_signature']}; a reply to small "
            f"talk has "
            "hundreds of good forms and only one is expected, so BLEU stays low. Distances are of "
            f"{origin}; they compare only with others of the same vectors."
        )
    )
    chapter.add(page.picture("figures", _draw_figures(everything), "The figures over the training."))
    lengths = measured[0][2]["bleu_by_source_length"]
    rows = [
        [
            part["words"],
            number(part["samples"], 0),
            *(number(f["bleu_by_source_length"][n]["bleu"], 2) for _, _, f in measured),
        ]
        for n, part in enumerate(lengths)
    ]
    head = ["words of the utterance", "samples", *labels[: len(measured)]]
    chapter.add(Table(head, rows, "BLEU by the length of the utterance", numbers_from=1))
    for found in everything:
        if found.examples:
            table = Table(
                ["utterance", "reply", "expected", "log-probability of the reply"],
                [[p.source, p.reply or "(nothing)", p.expected, number(p.score, 2)] for p in found.examples],
                numbers_from=3,
            )
            chapter.add(
                Fold(f"{run_title(found, everything)}some samples and their replies at the last moment", [table])
            )


def _of_people(people: Diversity) -> dict[str, Any]:
    return {
        "distinct_1": people.distinct_1,
        "distinct_2": people.distinct_2,
        "distinct_replies": people.distinct_replies,
        "words_used": len(people.unigrams),
        "word_entropy_bits": people.entropy,
        "most_frequent_share": people.share_of_most_frequent(),
        "mean_length": people.mean_length,
    }


def _draw_figures(everything: Sequence[Findings]) -> Figure:
    figure = new_figure(12, 6)
    for axes, (key, title) in zip(figure.subplots(2, 3).flat, PANELS, strict=True):
        for number_, found in enumerate(everything):
            known = [(m.step, m.figures[key]) for m in found.moments if m.figures and m.figures[key] is not None]
            if known:
                axes.plot(*zip(*known, strict=True), label=found.run.config.name, **look(number_))
        axes.set(title=title, xlabel="training steps")
        axes.grid(alpha=0.3)
    if len(everything) > 1:
        axes.legend()
    return figure


def language_over_time(page: Page, everything: Sequence[Findings]) -> None:
    """Words and pairs of words of the replies against those of the corpus."""
    chapter = page.chapter("Language over time")
    for found in everything:
        missing(chapter, found, "language")
        spoken = [(moment, moment.language) for moment in found.moments if moment.language is not None]
        if not spoken or found.expected is None:
            chapter.add(
                Missing(
                    f"{run_title(found, everything)}without replies to a test corpus there is no language to look at."
                )
            )
            continue
        name, languages = found.run.config.name, [texts for _, texts in spoken]
        everybody = ([found.corpus] if found.corpus else []) + [found.expected]
        caption = (
            "Shares of words and of pairs of words by rank. A line that falls early stands for few words used often."
        )
        chapter.add(page.picture(f"{name}_ranks", ngrams.draw_ranks([*everybody, *spread_out(languages)]), caption))
        if found.corpus is not None:
            _against_corpus(page, chapter, found, found.corpus, spoken)
        head = ["rank", *(f"at {moment.label}" for moment, _ in spoken)]
        lists = [moment.figures["most_frequent"] for moment, _ in spoken if moment.figures]
        rows = [
            [
                str(rank + 1),
                *(f"{o[rank]['reply']} ({percent(o[rank]['share'])})" if rank < len(o) else NOTHING for o in lists),
            ]
            for rank in range(MOST_FREQUENT)
        ]
        chapter.add(Table(head, rows, f"{run_title(found, everything)}the most frequent replies and their shares"))


def spread_out(things: Sequence[Any], most: int = 5) -> list[Any]:
    """At most so many of some things, evenly, the last one among them: more lines cannot be told apart."""
    if len(things) <= most:
        return list(things)
    return [things[(len(things) - 1) * place // (most - 1)] for place in range(most)]


def _against_corpus(
    page: Page,
    chapter: Chapter,
    found: Findings,
    corpus: ngrams.Language,
    spoken: Sequence[tuple[Moments, ngrams.Language]],
) -> None:
    name, vocabulary = found.run.config.name, found.run.vocabulary
    by_n = {n: [ngrams.divergence(texts.ngrams[n], corpus.ngrams[n]) for _, texts in spoken] for n in ngrams.NAMES}
    people = {
        n: ngrams.divergence(found.expected.ngrams[n], corpus.ngrams[n]) if found.expected else None
        for n in ngrams.NAMES
    }
    steps = [moment.step for moment, _ in spoken]
    caption = (
        "Jensen–Shannon divergence of the replies from the training corpus: 0 for the same distribution, 1 where "
        "nothing "
        "is shared. The thin lines are people's own replies in the test corpus; a small sample always diverges a "
        "little."
    )
    chapter.add(page.picture(f"{name}_divergence", ngrams.draw_divergences(steps, by_n, people), caption))
    rows = [[ngrams.NAMES[n], *(number(value) for value in values), number(people[n])] for n, values in by_n.items()]
    head = ["Jensen–Shannon divergence, bits", *(f"at {moment.label}" for moment, _ in spoken), "people's own replies"]
    chapter.add(Table(head, rows, numbers_from=1))
    for place, (moment, texts) in enumerate(spoken):
        drawn = ngrams.draw_top(texts, corpus, vocabulary)
        caption = f"What is said most often at {moment.label}, and how often the training corpus says it."
        picture = page.picture(f"{name}_ngrams_{moment.label}", drawn, caption)
        chapter.add(picture if place + 1 == len(spoken) else Fold(f"The same at {moment.label}", [picture]))


def replies_over_time(page: Page, everything: Sequence[Findings], options: Options) -> None:
    """The same questions at every moment, to every run, and in transcripts."""
    chapter = page.chapter("Replies over time")
    for found in everything:
        columns = [moment.answers for moment in found.moments]
        if columns:
            caption = (
                f"{run_title(found, everything)}the same utterances at every moment, answered as the run is "
                f"configured to"
            )
            chapter.add(_answers(options.questions, columns, caption))
        else:
            missing(chapter, found, "model")
    newest = [
        Column(f"{found.run.config.name}, {found.moments[-1].label}", found.moments[-1].answers.answers)
        for found in everything
        if found.moments
    ]
    compared = [*newest, *options.transcripts]
    if len(compared) > 1:
        chapter.add(
            _answers(options.questions, compared, "Side by side: the newest weights, and transcripts made elsewhere")
        )
    else:
        chapter.add(
            Text(
                "To compare with others, name several runs, or give what another chat bot or a paper answered with "
                "--transcript FILE (lines of question<TAB>answer, or an answer a line in this order)."
            )
        )
    for found in everything:
        _while_training(chapter, found, everything)


def _answers(questions: Sequence[str], columns: Sequence[Column], caption: str) -> Table:
    rows = [[q, *(column.answers[n] or "(nothing)" for column in columns)] for n, q in enumerate(questions)]
    return Table(["utterance", *(column.label for column in columns)], rows, caption)


def _while_training(chapter: Chapter, found: Findings, everything: Sequence[Findings]) -> None:
    """The replies a training has written down at its validations."""
    lines = [line for line in read_json_lines(found.run.samples_file) if {"step", "source", "reply"} <= set(line)]
    steps = sorted({line["step"] for line in lines})
    shown = steps[:: max(1, -(-len(steps) // 8))]
    if steps and steps[-1] not in shown:
        shown.append(steps[-1])
    sources = list(dict.fromkeys(line["source"] for line in lines))
    said = {(line["source"], line["step"]): line for line in lines}
    if not sources:
        return
    rows = [
        [
            source,
            *(said[source, step]["reply"] if (source, step) in said else NOTHING for step in shown),
            next((line.get("target", NOTHING) for line in lines if line["source"] == source), NOTHING),
        ]
        for source in sources
    ]
    table = Table(["utterance", *(f"{step:,}" for step in shown), "expected"], rows)
    chapter.add(Fold(f"{run_title(found, everything)}validation utterances while training, by step", [table]))


def learning_curves(page: Page, everything: Sequence[Findings]) -> None:
    """Loss and perplexity of training and validation."""
    chapter = page.chapter("Learning curves")
    read = []
    for found in everything:
        with chapter.attempt(found.run.name):
            read.append(curves.read_curves(found.run))
    if read:
        caption = (
            "Loss and perplexity while training. Training losses are of batches with dropout, as measured (pale) and "
            "smoothed over 4 % of the points (strong); validation (markers) is exact and without dropout."
        )
        chapter.add(page.picture("learning_curves", curves.draw_curves(read), caption))
        if len(read) == 1 and len(set(read[0].train.minutes)) > 1:
            drawn = curves.draw_curves(read, by_time=True)
            chapter.add(Fold("By time", [page.picture("learning_curves_by_time", drawn, "The same over minutes.")]))
    rows = []
    for curve in read:
        if len(curve.validation.losses):
            best = int(curve.validation.losses.argmin())
            rows.append(
                [
                    curve.label,
                    f"{int(curve.train.steps[-1]):,}",
                    number(float(curve.train.minutes[-1]), 1),
                    number(float(curve.train.losses[-1])),
                    number(float(curve.validation.losses[best])),
                    f"{int(curve.validation.steps[best]):,}",
                ]
            )
    if rows:
        head = ["run", "steps", "minutes", "last training loss", "best validation loss", "at step"]
        chapter.add(Table(head, rows, "Losses in nats per target token", numbers_from=1))


def how_it_was_made(page: Page, everything: Sequence[Findings]) -> None:
    """What one needs to make it again."""
    chapter = page.chapter("How this was made")
    chapter.add(
        Text(f"seq2seq-chat {__version__}, seq2seq-chat report " + " ".join(found.run.name for found in everything))
    )
    for found in everything:
        title = f"{found.run.name}: complete configuration"
        chapter.add(Fold(title, [Listing(found.run.config.to_json())]))
