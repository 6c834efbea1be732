"""The language of replies against that of the training corpus: how often each word and each pair of words comes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from seq2seq_chat.analysis.diversity import jensen_shannon
from seq2seq_chat.analysis.style import COLORS, look, new_figure, plain
from seq2seq_chat.corpus.experiment_data import open_samples
from seq2seq_chat.corpus.text import Level, tokenize
from seq2seq_chat.corpus.vocabulary import Vocabulary
from seq2seq_chat.runs import Run
from seq2seq_chat.training.validation import spread

MOST_UTTERANCES = 500_000  # of the training corpus that are counted, evenly spread
AT_ONCE = 50_000  # utterances whose n-grams are held before they are counted
TOP = 30
NAMES = {1: "words", 2: "pairs of words"}


class Ngrams(NamedTuple):
    """How often each n-gram occurs; an n-gram is the number its ids make to the base of the vocabulary's size."""

    codes: np.ndarray  # int64 [different n-grams], ascending
    counts: np.ndarray  # int64 [different n-grams]

    @property
    def total(self) -> int:
        """All n-grams counted."""
        return int(self.counts.sum())

    def shares(self, codes: np.ndarray) -> np.ndarray:
        """The shares of some n-grams, 0 to 1."""
        result = np.zeros(len(codes))
        if len(self.codes):
            places = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
            result = np.where(self.codes[places] == codes, self.counts[places] / self.total, 0.0)
        return result

    def top(self, count: int) -> np.ndarray:
        """The codes of the most frequent n-grams, of equally frequent ones those of more frequent words first."""
        codes: np.ndarray = self.codes[np.lexsort((self.codes, -self.counts))[:count]]
        return codes


def count_ngrams(sentences: Iterable[Sequence[int] | np.ndarray], n: int, vocabulary_size: int) -> Ngrams:
    """Count the n-grams of sentences of word ids; memory grows with the different ones only."""
    counted = Ngrams(np.zeros(0, np.int64), np.zeros(0, np.int64))
    block: list[np.ndarray] = []
    for sentence in sentences:
        ids = np.asarray(sentence, dtype=np.int64)
        codes = np.zeros(max(0, len(ids) - n + 1), np.int64)
        for place in range(n):
            codes = codes * vocabulary_size + ids[place : len(ids) - n + 1 + place]
        block.append(codes)
        if len(block) == AT_ONCE:
            counted, block = _merged(counted, block), []
    return _merged(counted, block)


def _merged(counted: Ngrams, block: list[np.ndarray]) -> Ngrams:
    if not block:
        return counted
    codes, counts = np.unique(np.concatenate(block), return_counts=True)
    union, places = np.unique(np.concatenate([counted.codes, codes]), return_inverse=True)
    sums = np.zeros(len(union), np.int64)
    np.add.at(sums, places.ravel(), np.concatenate([counted.counts, counts]))
    return Ngrams(union, sums)


def divergence(first: Ngrams, second: Ngrams) -> float | None:
    """Jensen–Shannon divergence in bits: 0 for the same distribution, 1 where no n-gram is shared."""
    codes = np.union1d(first.codes, second.codes)
    return jensen_shannon(list(first.shares(codes)), list(second.shares(codes)))


class Language(NamedTuple):
    """The words and pairs of words of some texts."""

    label: str
    ngrams: dict[int, Ngrams]  # by n


def corpus_language(run: Run) -> Language:
    """The language of the training corpus's replies, as the model knows them. Raises UserError without the corpus."""
    data, vocabulary = run.config.data, run.vocabulary
    corpus = open_samples(data.train, vocabulary, data)
    chosen = spread(len(corpus), MOST_UTTERANCES)
    counts = {n: count_ngrams((corpus.target_ids(int(s)) for s in chosen), n, len(vocabulary)) for n in NAMES}
    return Language("training corpus", counts)


def language(label: str, texts: Iterable[str], vocabulary: Vocabulary, level: Level) -> Language:
    """The language of texts; words that the vocabulary does not have are <unknown>."""
    ids = [np.asarray(vocabulary.ids(tokenize(text, level)), np.int32) for text in texts]
    return Language(label, {n: count_ngrams(ids, n, len(vocabulary)) for n in NAMES})


def ngram_text(code: int, n: int, vocabulary: Vocabulary) -> str:
    """The words of an n-gram."""
    ids: list[int] = []
    for _ in range(n):
        code, word = divmod(int(code), len(vocabulary))
        ids.insert(0, word)
    return " ".join(vocabulary.tokens(ids))


def draw_ranks(languages: Sequence[Language]) -> Figure:
    """Share against rank, for words and pairs of words: a straight line is Zipf's law."""
    figure = new_figure(11, 4.6)
    for axes, (n, name) in zip(figure.subplots(1, 2), NAMES.items(), strict=True):
        for number, spoken in enumerate(languages):
            counts = np.sort(spoken.ngrams[n].counts)[::-1]
            if len(counts):
                shown = np.unique(np.geomspace(1, len(counts), 300).astype(int))
                style = look(number, marker=False) | {"linewidth": 2.5 if number == 0 else 1.4}
                axes.plot(shown, counts[shown - 1] / counts.sum(), label=plain(spoken.label), **style)
        axes.set(xscale="log", yscale="log", xlabel="rank", ylabel="share of all", title=f"{name.capitalize()} by rank")
        axes.grid(alpha=0.3)
        if axes.lines:
            axes.legend()
    return figure


def draw_top(spoken: Language, corpus: Language, vocabulary: Vocabulary, count: int = TOP) -> Figure:
    """The most frequent words and pairs of some replies, beside their shares in the training corpus."""
    figure = new_figure(11, 2.2 + 0.24 * count)
    for axes, (n, name) in zip(figure.subplots(1, 2), NAMES.items(), strict=True):
        codes = spoken.ngrams[n].top(count)
        places = np.arange(len(codes))
        for number, texts in enumerate((spoken, corpus)):
            axes.barh(
                places + 0.4 * number - 0.2,
                100 * texts.ngrams[n].shares(codes),
                height=0.4,
                color=COLORS[number],
                hatch=("", "////")[number],
                edgecolor="white",
                linewidth=0,
                label=plain(texts.label),
            )
        axes.set_yticks(places, [plain(ngram_text(code, n, vocabulary)) for code in codes])
        axes.margins(y=0.01)
        axes.invert_yaxis()
        axes.set(xlabel="share, %", title=f"The {len(codes)} most frequent {name}")
        axes.grid(alpha=0.3, axis="x")
        if len(codes):
            axes.legend(loc="lower right")
    return figure


def draw_divergences(
    steps: Sequence[int], by_n: Mapping[int, Sequence[float | None]], test: Mapping[int, float | None]
) -> Figure:
    """How far the replies' language is from the corpus's while training; the people's own replies for comparison."""
    figure = new_figure(7, 4)
    axes = figure.subplots()
    for number, (n, values) in enumerate(by_n.items()):
        known = [(step, value) for step, value in zip(steps, values, strict=True) if value is not None]
        if known:
            axes.plot(*zip(*known, strict=True), label=NAMES[n], **look(number))
        people = test[n]
        if people is not None:
            style = look(number, marker=False)
            axes.axhline(people, label=f"{NAMES[n]}, expected replies", alpha=0.5, linewidth=1, **style)
    axes.set(
        xlabel="training steps",
        ylabel="Jensen–Shannon divergence, bits",
        title="How far the replies' language is from the training corpus's (0: the same)",
        ylim=(0, 1),
    )
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return figure
