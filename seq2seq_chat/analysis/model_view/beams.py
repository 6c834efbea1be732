"""How replies change with the beam width, and at what rank of a wide beam the best-liked reply is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from seq2seq_chat.analysis.loaded_run import LoadedRun
from seq2seq_chat.analysis.metrics.distance import paired_cosine_similarity
from seq2seq_chat.analysis.metrics.sent2vec import Sent2Vec
from seq2seq_chat.config import Decoding, override_decoding

WIDTHS = (1, 2, 5, 10, 25, 50, 100, 200)
MAX_HYPOTHESES = 400  # searched together: replies hold the attention of every hypothesis


class BestReply(NamedTuple):
    """The best reply of a beam."""

    width: int
    text: str
    score: float  # log-probability, nats
    words: int


class BeamStudy(NamedTuple):
    """The replies to one utterance, by beam width."""

    utterance: str
    best: list[BestReply]  # one per width, ascending; empty if the utterance has no words
    widest: list[tuple[str, float]]  # replies of the widest beam and their log-probabilities in nats, best first


class Rank(NamedTuple):
    """The rank by probability of a person's favourite reply."""

    utterance: str
    favourite: str
    nearest: str  # the reply of the beam that is nearest to the favourite in meaning
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
    """A beam search ranked by log-probability alone, with the word constraints of ``decoding``."""
    greedy = override_decoding(decoding, method="greedy", n_best=1)  # drops the settings that only beams have
    return override_decoding(greedy, method="beam", beam_width=width, n_best=n_best)


def rank_favourites(studies: Sequence[BeamStudy], favourites: Sequence[str], vectors: Sent2Vec | None) -> list[Rank]:
    """Rank the favourite reply to each utterance in the widest beam.

    A favourite that the beam does not contain is replaced by the reply nearest in meaning; without ``vectors`` it is
    skipped.
    """
    ranks = []
    for study, favourite in zip(studies, favourites, strict=True):
        texts = [text for text, _ in study.widest]
        if not texts or not favourite:
            continue
        if favourite in texts:
            index = texts.index(favourite)
        elif vectors is not None:
            embedded = vectors.embed([favourite, *texts]).astype(np.float64)
            target = np.broadcast_to(embedded[0], embedded[1:].shape)
            index = int(np.argmax(paired_cosine_similarity(embedded[1:], target)))
        else:
            continue
        ranks.append(Rank(study.utterance, favourite, texts[index], index + 1, len(texts)))
    return ranks
