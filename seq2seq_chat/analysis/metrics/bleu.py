"""BLEU, by sacrebleu: the number its command line gives, for corpora of any size.

BLEU is made of counts that add up, so texts are taken block by block and forgotten.
Source: Papineni et al. 2002; Post 2018, "A call for clarity in reporting BLEU scores".
"""

from __future__ import annotations

from collections.abc import Sequence

from sacrebleu.metrics.bleu import BLEU, MAX_NGRAM_ORDER


class Bleu:
    """Corpus BLEU of replies, each against one expected reply, 0 to 100.

    sacrebleu's defaults are kept (13a tokenisation, exponential smoothing), so that
    ``sacrebleu expected.txt -i replies.txt`` prints the same number.
    """

    def __init__(self) -> None:
        self._metric = BLEU(force=True)  # our texts have their full stops apart, of which it would warn
        self._correct, self._total = [0] * MAX_NGRAM_ORDER, [0] * MAX_NGRAM_ORDER
        self._reply_words = self._expected_words = self.samples = 0

    def add(self, replies: Sequence[str], expected: Sequence[str]) -> None:
        """Count some replies and the expected ones, in the same order."""
        if not replies:
            return
        block = self._metric.corpus_score(list(replies), [list(expected)])
        self._correct = [a + b for a, b in zip(self._correct, block.counts, strict=True)]
        self._total = [a + b for a, b in zip(self._total, block.totals, strict=True)]
        self._reply_words += block.sys_len
        self._expected_words += block.ref_len
        self.samples += len(replies)

    @property
    def score(self) -> float | None:
        """BLEU of all that was counted; None where that is nothing."""
        if not self.samples:
            return None
        return BLEU.compute_bleu(
            correct=self._correct,
            total=self._total,
            sys_len=self._reply_words,
            ref_len=self._expected_words,
            smooth_method=self._metric.smooth_method,
            smooth_value=self._metric.smooth_value,
            effective_order=self._metric.effective_order,
            max_ngram_order=self._metric.max_ngram_order,
        ).score

    @property
    def signature(self) -> str:
        """What makes the number comparable: references, case, tokenisation, smoothing and sacrebleu's version."""
        self._metric.num_refs = 1
        return str(self._metric.get_signature())
