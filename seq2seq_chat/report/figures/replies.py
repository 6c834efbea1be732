"""Replies: attention as heat maps and as shading of the utterance; scores, lengths and ranks by beam width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from tqdm import tqdm

from seq2seq_chat.chat.corpus import greedy
from seq2seq_chat.chat.replies import Hypothesis, Reply
from seq2seq_chat.config import Decoding, override_decoding
from seq2seq_chat.metrics.sent2vec import Sent2Vec
from seq2seq_chat.metrics.sentence_vectors import paired_cosine_similarity
from seq2seq_chat.report.figures.style import (
    COLORS,
    HEATMAP_COLORS,
    WHITE_TEXT_ABOVE,
    installed_fonts,
    label_axes,
    new_figure,
    plot_label,
)
from seq2seq_chat.report.loaded_run import LoadedRun
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.text.tokenizers import Tokenizer

NO_ATTENTION = 'this model has no attention (model.attention is "none")'


def ensure_attention(reply: Reply) -> None:
    """Raise UserError if a reply has no attention to draw."""
    if not reply.hypotheses:
        raise UserError("the utterance has no words, so there is no reply; try another one")
    best = reply.hypotheses[0]
    if not best.words:
        raise UserError("the reply is empty, so there is no attention to draw; try another utterance")
    if not best.attention:
        raise UserError(NO_ATTENTION)


def draw_heat_maps(source: Sequence[str], hypotheses: Sequence[Hypothesis]) -> Figure:
    """Draw a heat map for each hypothesis, best first; rows are its tokens, columns the tokens of the source."""
    shown = [hypothesis for hypothesis in hypotheses if hypothesis.words]
    rows = max(len(hypothesis.words) for hypothesis in shown)
    vmax = _max_weight(shown)
    panel_width = max(3.5, 1.4 + 0.42 * len(source))
    figure = new_figure(panel_width * len(shown) + 0.8, 1.6 + 0.3 * rows)
    columns = [_token_label(token) for token in source]
    style: dict[str, Any] = {"rotation": 0} if max(map(len, columns)) == 1 else {"rotation": 60, "ha": "left"}
    panels = figure.subplots(1, len(shown), squeeze=False)[0]
    for axes, hypothesis in zip(panels, shown, strict=True):
        image = axes.imshow(np.array(hypothesis.attention), cmap=HEATMAP_COLORS, vmin=0, vmax=vmax, aspect="auto")
        axes.set_xticks(range(len(source)), columns, rotation_mode="anchor", **style)
        axes.xaxis.tick_top()
        axes.set_yticks(range(len(hypothesis.words)), [_token_label(token) for token in hypothesis.words])
        axes.set_xlabel("tokens of the source")
        axes.set_ylabel("tokens of the output")
        if len(shown) > 1:
            axes.set_title(f"log-probability {hypothesis.score:.2f} nats")
        axes.spines[:].set_visible(False)
        axes.set_xticks(np.arange(-0.5, len(source)), minor=True)
        axes.set_yticks(np.arange(-0.5, len(hypothesis.words)), minor=True)
        axes.grid(which="minor", color="white", linewidth=1.5)
        axes.tick_params(which="both", length=0)
    figure.colorbar(image, ax=panels[-1], label="attention weight; each row sums to 1", shrink=0.8)
    return figure


def draw_overlay(source: Sequence[str], hypothesis: Hypothesis) -> Figure:
    """Draw the source once for each token of the output, shaded by attention."""
    labels = [_token_label(token) for token in source]
    figure = new_figure(2 + 0.105 * (sum(len(label) + 2 for label in labels)), 0.9 + 0.3 * len(hypothesis.words))
    axes = figure.subplots()
    colors = mpl.colormaps[HEATMAP_COLORS]
    text_style: dict[str, Any] = {"va": "center", "family": installed_fonts("DejaVu Sans Mono"), "fontsize": 9}
    vmax = _max_weight([hypothesis])
    ends = np.cumsum([len(label) + 2 for label in labels])  # in characters
    for row, (reply_word, weights) in enumerate(zip(hypothesis.words, hypothesis.attention, strict=True)):
        axes.text(-1.5, row, _token_label(reply_word), ha="right", weight="bold", **text_style)
        for label, end, weight in zip(labels, ends, weights, strict=True):
            width, shade = len(label) + 2, weight / vmax
            axes.add_patch(Rectangle((end - width + 0.1, row - 0.42), width - 0.2, 0.84, color=colors(shade), lw=0))
            color = "white" if shade > WHITE_TEXT_ABOVE else "black"
            axes.text(end - width / 2, row, label, ha="center", color=color, **text_style)
    longest = max(len(_token_label(word)) for word in hypothesis.words)
    axes.set(xlim=(-longest - 4, ends[-1] + 1), ylim=(len(hypothesis.words) - 0.4, -0.6))
    axes.set_title("Attention of each token of the output", loc="left")
    axes.axis("off")
    return figure


def _token_label(token: str) -> str:
    return "␣" if token == "<space>" else plot_label(token)


def _max_weight(hypotheses: Sequence[Hypothesis]) -> float:
    """The top of the color scale; on a scale up to 1, attention over a long utterance would be pale."""
    return max(weight for hypothesis in hypotheses for row in hypothesis.attention for weight in row)


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
    _label_width_axes(axes, widths, ylabel=ylabel, title=title, xlabel="beam width")
    axes.legend()


def _draw_ranks(axes: Axes, ranks: Sequence[Rank]) -> None:
    """Draw the cumulative distribution of ranks."""
    positions = np.sort([rank.rank for rank in ranks])
    widest = max(rank.size for rank in ranks)
    shares = np.arange(1, len(positions) + 1) / len(positions) * 100
    axes.step(positions, shares, where="post", color=COLORS[2], linewidth=2)
    widths = [width for width in WIDTHS if width <= widest]
    _label_width_axes(axes, widths, title="Rank of the favorite reply (cumulative)", xlim=(0.9, 1.1 * widest))
    axes.set(xlabel="rank by probability in the widest beam", ylabel="% of utterances", ylim=(0, 105))


def _label_width_axes(axes: Axes, widths: Sequence[int], **settings: Any) -> None:
    """Label a logarithmic axis of beam widths; see :func:`label_axes`."""
    label_axes(axes, xscale="log", **settings)
    axes.set_xticks(widths, [str(width) for width in widths])
    axes.minorticks_off()


WIDTHS = (1, 2, 5, 10, 25, 50, 100, 200)
MAX_HYPOTHESES = 400  # decoded together: replies hold the attention of every hypothesis


class BestReply(NamedTuple):
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
