"""How replies change with the beam width, and the rank of a favorite reply in a wide beam."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from seq2seq_chat.analysis.loaded_run import LoadedRun
from seq2seq_chat.chat.decode_corpus import greedy
from seq2seq_chat.config import Decoding, override_decoding
from seq2seq_chat.data.tokenizers import Tokenizer
from seq2seq_chat.metrics.distance import paired_cosine_similarity
from seq2seq_chat.metrics.sent2vec import Sent2Vec

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
    studies: Sequence[BeamStudy], favorites: Sequence[str], tokenizer: Tokenizer, vectors: Sent2Vec | None
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
