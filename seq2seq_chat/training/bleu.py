"""Corpus BLEU by sacrebleu, accumulated in blocks so that memory does not grow with the corpus.

Source: Papineni et al. 2002; Post 2018, "A call for clarity in reporting BLEU scores".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sacrebleu.metrics.bleu import BLEU, MAX_NGRAM_ORDER


class Bleu:
    """Corpus BLEU with one reference per hypothesis, 0 to 100.

    Uses sacrebleu's defaults (13a tokenization, exponential smoothing), so the score equals that of
    ``sacrebleu references.txt -i hypotheses.txt``.
    """

    def __init__(self) -> None:
        self._metric = BLEU(force=True)  # our texts are tokenized, which sacrebleu would warn about
        self._correct, self._total = np.zeros((2, MAX_NGRAM_ORDER), np.int64)
        self._hypothesis_length = self._reference_length = self.samples = 0

    def add(self, hypotheses: Sequence[str], references: Sequence[str]) -> None:
        """Add a block of hypotheses and their references, in the same order."""
        if not hypotheses:
            return
        block = self._metric.corpus_score(list(hypotheses), [list(references)])
        self._correct += block.counts
        self._total += block.totals
        self._hypothesis_length += block.sys_len
        self._reference_length += block.ref_len
        self.samples += len(hypotheses)

    @property
    def score(self) -> float | None:
        """BLEU of everything added so far, or None if nothing was."""
        if not self.samples:
            return None
        return BLEU.compute_bleu(
            correct=self._correct.tolist(),
            total=self._total.tolist(),
            sys_len=self._hypothesis_length,
            ref_len=self._reference_length,
            smooth_method=self._metric.smooth_method,
            smooth_value=self._metric.smooth_value,
            effective_order=self._metric.effective_order,
            max_ngram_order=self._metric.max_ngram_order,
        ).score

    @property
    def signature(self) -> str:
        """sacrebleu's signature: references, case, tokenization, smoothing and version."""
        self._metric.num_refs = 1
        return str(self._metric.get_signature())
