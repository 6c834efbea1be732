"""The exact loss of a model on a corpus."""

from __future__ import annotations

import math
from typing import NamedTuple


class CorpusLoss(NamedTuple):
    """The exact loss of a model on a corpus."""

    nats: float  # sum over all target tokens
    tokens: int  # target tokens, end markers included
    samples: int | None  # None for running text

    @property
    def loss(self) -> float:
        """Nats per target token."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        """See :func:`perplexity`."""
        return perplexity(self.loss)

    @property
    def bits_per_token(self) -> float:
        """The loss in bits: of a character, if these are the tokens."""
        return self.loss / math.log(2)


def perplexity(loss: float) -> float:
    """e^loss of a loss in nats per token, or infinity if that is too large for a float."""
    return math.exp(loss) if loss < 700 else math.inf
