"""Score and length of the best reply by beam width, and the ranks of favorite replies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from tqdm import tqdm

from seq2seq_chat.chat.chatbot import greedy
from seq2seq_chat.config import Decoding, override_decoding
from seq2seq_chat.metrics.distance import paired_cosine_similarity
from seq2seq_chat.metrics.sent2vec import Sent2Vec
from seq2seq_chat.report.figures.style import COLORS, new_figure
from seq2seq_chat.report.loaded_run import LoadedRun
from seq2seq_chat.text.tokenizers import Tokenizer


def draw_beams(studies: Sequence[BeamStudy], ranks: Sequence[Rank]) -> Figure:
    """Draw log-probability and length of the best reply by beam width and, if there are any, the ranks."""
    panel_count = 3 if ranks else 2
    figure = new_figure(4.4 * panel_count, 4.2)
    panels = figure.subplots(1, panel_count)
    _draw_by_width(panels[0], studies, "score", "log-probability, nats", "Log-probability of the best reply")
    _draw_by_width(panels[1], studies, "length", "words", "Length of the best reply")
    if ranks:
        _draw_ranks(panels[2], ranks)
    return figure


def _draw_by_width(axes: Axes, studies: Sequence[BeamStudy], attribute: str, ylabel: str, title: str) -> None:
    """Draw an attribute of the best replies by beam width: each utterance pale, their mean strong."""
    by_width: dict[int, list[float]] = {}
    for study in studies:
        values = {best.width: getattr(best, attribute) for best in study.best}
        axes.plot(list(values), list(values.values()), color="0.8", linewidth=0.7)
        for width, value in values.items():
            by_width.setdefault(width, []).append(value)
    widths = sorted(by_width)
    means = [float(np.mean(by_width[width])) for width in widths]
    axes.plot(widths, means, color=COLORS[attribute == "length"], marker="o", label="mean")
    axes.plot([], [], color="0.8", label="single utterances")
    axes.set(xscale="log", xlabel="beam width", ylabel=ylabel, title=title)
    _set_width_ticks(axes, widths)
    axes.legend()


def _draw_ranks(axes: Axes, ranks: Sequence[Rank]) -> None:
    """Draw the cumulative distribution of ranks."""
    positions = np.sort([rank.rank for rank in ranks])
    widest = max(rank.size for rank in ranks)
    shares = np.arange(1, len(positions) + 1) / len(positions) * 100
    axes.step(positions, shares, where="post", color=COLORS[2], linewidth=2)
    axes.set(
        xscale="log",
        xlim=(0.9, 1.1 * widest),
        xlabel="rank by probability in the widest beam",
        ylabel="% of utterances",
        ylim=(0, 105),
        title="Rank of the favorite reply (cumulative)",
    )
    _set_width_ticks(axes, [width for width in WIDTHS if width <= widest])


def _set_width_ticks(axes: Axes, widths: Sequence[int]) -> None:
    axes.set_xticks(widths, [str(width) for width in widths])
    axes.minorticks_off()
    axes.grid(alpha=0.3)


WIDTHS = (1, 2, 5, 10, 25, 50, 100, 200)
MAX_HYPOTHESES = 400  # decoded together: replies hold the attention of every hypothesis


class BestReply(NamedTuple):
    """The best reply of a beam."""

    width: int
    text: str
    score: float  # log-probability, nats
    length: int  # tokens


class BeamStudy(NamedTuple):
    """The replies to one utterance, by beam width."""

    utterance: str
    best: list[BestReply]  # one per width, ascending; empty if the utterance has no words
    widest: list[tuple[str, float]]  # replies of the widest beam and their log-probabilities in nats, best first


class Rank(NamedTuple):
    """The rank of a favorite reply by probability."""

    utterance: str
    favorite: str
    nearest: str  # the reply of the beam that is nearest to the favorite in meaning
    rank: int  # from 1
    size: int  # of the beam


def study_beams(loaded: LoadedRun, utterances: Sequence[str], widths: Sequence[int]) -> list[BeamStudy]:
    """Reply to utterances with beams of several widths; a width of 1 is greedy search."""
    studies = [BeamStudy(utterance, [], []) for utterance in utterances]
    for width in tqdm(list(widths), desc="beams", unit="width", delay=2, disable=None, leave=False):
        decoding = plain_beam(loaded.config.decoding, width, width)
        batch_size = max(1, MAX_HYPOTHESES // width)
        for start in range(0, len(utterances), batch_size):
            replies = loaded.chatbot.replies(list(utterances[start : start + batch_size]), decoding)
            for study, reply in zip(studies[start : start + batch_size], replies, strict=True):
                study.widest[:] = [(hypothesis.text, hypothesis.score) for hypothesis in reply.hypotheses]
                if reply.hypotheses:
                    best = reply.hypotheses[0]
                    study.best.append(BestReply(width, best.text, best.score, len(best.words)))
    return studies


def plain_beam(decoding: Decoding, width: int, n_best: int) -> Decoding:
    """A beam search ranked by log-probability alone, with the logit rules of ``decoding``."""
    # greedy search drops the settings that only beams have
    return override_decoding(greedy(decoding), method="beam", beam_width=width, n_best=n_best)


def rank_favorites(
    studies: Sequence[BeamStudy], favorites: Sequence[str | None], tokenizer: Tokenizer, vectors: Sent2Vec | None
) -> list[Rank]:
    """Rank the favorite reply to each utterance in the widest beam, comparing tokens of the target's tokenizer.

    If the beam does not contain it, the reply nearest in meaning is ranked instead; without ``vectors``, none.
    """
    ranks = []
    for study, favorite in zip(studies, favorites, strict=True):
        texts = [text for text, _ in study.widest]
        if not texts or not favorite:
            continue
        tokenized_favorite, *tokenized = tokenizer.encode_lines([favorite, *texts])
        if tokenized_favorite in tokenized:
            index = tokenized.index(tokenized_favorite)
        elif vectors is not None:
            embedded = vectors.embed([tokenized_favorite, *tokenized]).astype(np.float64)
            target = np.broadcast_to(embedded[0], embedded[1:].shape)
            index = int(np.argmax(paired_cosine_similarity(embedded[1:], target)))
        else:
            continue
        ranks.append(Rank(study.utterance, favorite, texts[index], index + 1, len(texts)))
    return ranks
