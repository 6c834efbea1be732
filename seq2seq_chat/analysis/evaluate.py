"""The loss of a run on a test corpus."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional, Union

from tqdm import tqdm

from seq2seq_chat.corpus.encoded import EncodedCorpus
from seq2seq_chat.errors import UserError
from seq2seq_chat.runs import Run
from seq2seq_chat.training.batches import configured_buckets
from seq2seq_chat.training.restore import load_trained_model
from seq2seq_chat.training.validation import LossFunction


def evaluate_run(
    run: Run,
    data: Union[str, Path, None] = None,
    snapshot: Optional[str] = None,
    limit: Optional[int] = None,
    warn: Callable[[str], object] = lambda text: None,
) -> dict[str, Any]:
    """Exact loss (full softmax, nats per target token, end markers included) and perplexity of a run.

    Args:
        data: a corpus file; else the configuration's test corpus, or its validation corpus.
        limit: samples to use, spread evenly over the corpus.

    Raises:
        UserError: there is nothing to evaluate on, or the run cannot be loaded.
    """
    settings = run.config.data
    corpus_file = data or settings.test or settings.validation
    if corpus_file is None:
        raise UserError(f"run {run.name} names neither a test nor a validation corpus; give one with --data FILE")
    model, vocabulary, step = load_trained_model(run, snapshot, warn)
    corpus = EncodedCorpus.open(corpus_file, vocabulary, level=settings.level, pairing=settings.pairing)
    samples = len(corpus) if limit is None else min(limit, len(corpus))
    loss_function = LossFunction(model, configured_buckets(run.config, corpus), settings.reverse_input)
    with tqdm(total=samples, unit="sample", delay=2, disable=not sys.stderr.isatty(), leave=False) as bar:
        result = loss_function(corpus, limit, bar.update)
    return {
        "run": run.name,
        "snapshot": snapshot or "latest",
        "step": step,
        "data": str(corpus_file),
        "loss": result.loss,
        "perplexity": result.perplexity,
        "samples": result.samples,
        "tokens": result.tokens,
    }
