"""What a wider beam brings: replies and scores by width, and how far down the best reply is found."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from tqdm import tqdm

from seq2seq_chat.analysis.distance import cosines
from seq2seq_chat.analysis.sent2vec import Sent2Vec
from seq2seq_chat.analysis.style import COLORS, new_figure
from seq2seq_chat.analysis.subject import Subject
from seq2seq_chat.config import Decoding, decoding_with

WIDTHS = (1, 2, 5, 10, 25, 50, 100, 200)


class Found(NamedTuple):
    """The best reply that a beam found."""

    width: int
    text: str
    score: float  # log-probability, nats
    words: int


class Study(NamedTuple):
    """What beams of several widths reply to one utterance."""

    question: str
    best: list[Found]  # a beam each, narrowest first
    widest: list[tuple[str, float]]  # all replies of the widest beam with their scores, best first


class Rank(NamedTuple):
    """Where the reply one likes best stands in a list that is ordered by probability."""

    question: str
    liked: str  # what was asked for
    nearest: str  # the reply of the beam that is nearest to it
    rank: int  # from 1
    of: int


def study_beams(subject: Subject, questions: Sequence[str], widths: Sequence[int] = WIDTHS) -> list[Study]:
    """Ask the same with beams of several widths; 1 is greedy search. An utterance without any word gets no reply."""
    best: list[list[Found]] = [[] for _ in questions]
    widest: list[list[tuple[str, float]]] = [[] for _ in questions]
    bar = tqdm(list(widths), desc="beams", unit="width", delay=2, disable=not sys.stderr.isatty(), leave=False)
    for width in bar:
        decoding = plain_beam(subject.config.decoding, width, width)
        # a few at a time: replies hold the attention of every hypothesis
        at_once = max(1, 400 // width)
        for start in range(0, len(questions), at_once):
            replies = subject.bot.replies(list(questions[start : start + at_once]), decoding)
            for place, reply in enumerate(replies, start=start):
                widest[place] = [(hypothesis.text, hypothesis.score) for hypothesis in reply.hypotheses]
                if reply.hypotheses:
                    top = reply.hypotheses[0]
                    best[place].append(Found(width, top.text, top.score, len(top.words)))
    return [Study(*parts) for parts in zip(questions, best, widest, strict=True)]


def plain_beam(decoding: Decoding, width: int, n_best: int) -> Decoding:
    """A beam whose replies are ranked by their probability alone, with the same words forbidden."""
    plain = decoding_with(decoding, method="greedy", n_best=1)  # drops what only beams have
    return decoding_with(plain, method="beam", beam_width=width, n_best=n_best)


def rank_liked(studies: Sequence[Study], liked: Sequence[str], vectors: Sent2Vec | None) -> list[Rank]:
    """The rank of the liked reply to every question: itself where the beam has it, else the nearest in meaning."""
    ranks = []
    for study, wanted in zip(studies, liked, strict=True):
        texts = [text for text, _ in study.widest]
        if not texts or not wanted:
            continue
        if wanted in texts:
            place = texts.index(wanted)
        elif vectors is not None:
            embedded = vectors.embed([wanted, *texts]).astype(np.float64)
            target = np.broadcast_to(embedded[0], embedded[1:].shape)
            place = int(np.argmax(cosines(embedded[1:], target)))
        else:
            continue
        ranks.append(Rank(study.question, wanted, texts[place], place + 1, len(texts)))
    return ranks


def draw_beams(studies: Sequence[Study], ranks: Sequence[Rank]) -> Figure:
    """Score and length of the best reply by width, and where the replies nearest to the liked ones rank."""
    count = 3 if ranks else 2
    figure = new_figure(4.4 * count, 4.2)
    panels = figure.subplots(1, count)
    widths = sorted({found.width for study in studies for found in study.best})
    values: dict[str, Callable[[Found], float]] = {
        "log-probability of the best reply, nats": lambda found: found.score,
        "words of the best reply": lambda found: found.words,
    }
    titles = ("Are wider beams' replies more probable?", "Are they shorter?")
    for axes, title, (label, value), color in zip(panels[:2], titles, values.items(), COLORS, strict=False):
        rows = [[value(f) for study in studies for f in study.best if f.width == width] for width in widths]
        for study in studies:
            axes.plot([f.width for f in study.best], [value(f) for f in study.best], color="0.8", linewidth=0.7)
        axes.plot(widths, [float(np.mean(row)) for row in rows], color=color, marker="o", label="mean")
        axes.set(xscale="log", xlabel="beam width", ylabel=label, title=title)
        axes.set_xticks(widths, [str(width) for width in widths])
        axes.minorticks_off()
        axes.plot([], [], color="0.8", label="each utterance")
        axes.legend()
        axes.grid(alpha=0.3)
    if ranks:
        axes = panels[2]
        places = np.sort([rank.rank for rank in ranks])
        axes.step(places, np.arange(1, len(places) + 1) / len(places) * 100, where="post", color=COLORS[2], linewidth=2)
        axes.set(
            xscale="log",
            xlim=(0.9, 1.1 * max(rank.of for rank in ranks)),
            xlabel=f"rank by probability in the beam of {widths[-1]}",
            ylabel="% of utterances",
            ylim=(0, 105),
            title="Where does the best-liked reply stand?",
        )
        ticks = [tick for tick in WIDTHS if tick <= max(rank.of for rank in ranks)]
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    return figure
