"""Evaluate a language model on a text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from seq2seq_chat.chat.language_model_scorer import LanguageModelScorer
from seq2seq_chat.chat.load import load_language_model_engine
from seq2seq_chat.data.running_text import RunningText
from seq2seq_chat.metrics.perplexity import CorpusLoss
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.tables import format_table


def evaluation_text(run: Run, data: str | Path | None = None) -> str:
    """The file to evaluate a language model on: ``data``, or its test text, or else its validation text.

    Raises:
        UserError: There is none.
    """
    file = data or run.config.data.test or run.config.data.validation
    if file is None:
        raise UserError(
            f"run {run.name} has neither a test nor a validation text configured; specify one with --data FILE"
        )
    return str(file)


def evaluate_text(run: Run, data: str | Path | None = None, snapshot: str | None = None) -> dict[str, Any]:
    """The exact loss of a language model on a whole text, with the state carried from its first token to its last.

    Args:
        data: text file; None for the configured test text, or else the validation text.

    Returns:
        ``loss`` in nats per token, ``loss_bits`` in bits, ``perplexity``, ``token_accuracy`` (the share of tokens that
        are the model's most probable ones), ``unknown_share`` and the number of ``tokens``, the first of which is not
        predicted.

    Raises:
        UserError: There is no text to evaluate on, or the run cannot be loaded.
    """
    config, file = run.config, evaluation_text(run, data)
    loaded = load_language_model_engine(run, snapshot)
    text = RunningText.open(file, loaded.codecs, config.data)
    score = LanguageModelScorer(loaded.engine).score(text.tokens)
    loss = CorpusLoss(score.nats, score.tokens, None)
    return {
        "run": run.name,
        "task": config.task,
        "snapshot": snapshot or "latest",
        "step": loaded.step,
        "data": file,
        "tokens_are": "characters" if loaded.codecs.source.tokenizer.keeps_line_breaks else "tokens",
        "loss": loss.loss,
        "loss_bits": loss.bits_per_token,
        "perplexity": loss.perplexity,
        "token_accuracy": score.correct / score.tokens,
        "unknown_share": text.unknown_share(),
        "tokens": score.tokens,
    }


def format_text_metrics(metrics: dict[str, Any]) -> str:
    """The results of :func:`evaluate_text` for a terminal."""
    unit = metrics["tokens_are"].removesuffix("s")
    rows = [
        [f"loss, nats per {unit}", f"{metrics['loss']:.4f}"],
        [f"loss, bits per {unit}", f"{metrics['loss_bits']:.4f}"],
        ["perplexity", f"{metrics['perplexity']:.2f}"],
        [f"{unit} accuracy", f"{metrics['token_accuracy']:.2%}"],
        ["unknown", f"{metrics['unknown_share']:.2%}"],
        [metrics["tokens_are"], f"{metrics['tokens']:,}"],
    ]
    return format_table(rows, "lr")
