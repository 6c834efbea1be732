"""The model card of a run: what it was trained on and how, its scores, and what it cannot do (Mitchell et al. 2019)."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seq2seq_chat import __version__
from seq2seq_chat.architecture.variables import parameter_counts
from seq2seq_chat.config import Config
from seq2seq_chat.data.corpus_file import STATISTICS_FILE, corpus_paths
from seq2seq_chat.runs.run import Run
from seq2seq_chat.runs.summary import summarize
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import write_atomically, write_json

MODEL_CARD = "MODEL_CARD.md"
SCORES = Path("evaluation", "scores.json")  # in the folder of a run: the row of the card for each file
LICENSES = {
    "dailydialog": "CC BY-NC-SA 4.0",
    "cornell": "none stated; cite Danescu-Niculescu-Mizil and Lee (2011)",
    "opensubtitles": "none stated; cite Lison and Tiedemann (2016), and link to opensubtitles.org",
    "reddit": "none; the terms of Reddit apply",
    "tweets": "none; the terms of X apply",
}
"""Of the corpora that ``prepare`` knows by name."""

logger = logging.getLogger(__name__)

_LIMITS = {
    "conversation": """\
It continues conversations in the manner of its training data. It knows no facts, keeps no promises, and contradicts
itself; what it says can be wrong or offensive. It reads the last {turns}, at most {source} tokens, and writes at most
{target}.""",
    "translation": """\
It translates one line at a time, of at most {source} tokens into at most {target}, and sees no other line. It is best
at texts like its training data; a translation can be fluent and wrong, above all of names, numbers, rare words and
long sentences.""",
    "language_model": """\
It continues text in the manner of its training data. It knows no facts; what it writes can be wrong or offensive.""",
}
_CARD = """\
# {name}

A model for the task `{task}`, trained with seq2seq-chat {version}.

| | |
|---|---|
{rows}

`config.json` has all settings.

## What it cannot do

{limits}

It can repeat sentences of its training data word for word, private ones included: give it only to people who may read
that data. Weights and vocabularies derive from the data, whose license applies to them.
"""


def write_model_card(run: Run, folder: Path) -> None:
    """Write the card of a run into a folder: the run's own, or an exported model's.

    Raises:
        UserError: The run is damaged, or the card could not be written.
    """
    config, model, training = run.config, run.config.model, run.config.training
    source, target = (codec.vocabulary for codec in run.codecs)
    sizes = f"{len(target):,}" if source is target else f"{len(source):,} and {len(target):,}"
    parameters = sum(parameter_counts(config, *run.codecs.vocabulary_sizes).values())
    summary, turns = summarize(run), config.data.context_turns
    score = "not validated"
    if summary.best_perplexity is not None:
        bleu = "" if summary.best_bleu is None else f", BLEU {summary.best_bleu:.1f}"
        score = f"perplexity {summary.best_perplexity:.1f}{bleu} at step {summary.best_step:,}"
    rows = {
        "training data": _describe_data(config),
        "tokenizer": config.data.tokenizer,
        "vocabulary": f"{sizes} tokens",
        "architecture": f"{model.layers} × {model.cell} of {model.hidden_size} units, attention {model.attention}",
        "size": f"{parameters:,} parameters",
        "training": f"{summary.step:,} steps of {training.batch_size}, {training.optimizer}, learning rate "
        f"{training.learning_rate:g}, seed {config.seed}",
        "best validation": score,
        **_read_scores(run),
    }
    limits = _LIMITS[config.task].format(
        turns="utterance" if turns == 1 else f"{turns} turns",
        source=model.encoder_steps,
        target=model.decoder_steps - 1,
    )
    card = _CARD.format(
        name=config.name,
        task=config.task,
        version=__version__,
        rows="\n".join(f"| {label} | {value} |" for label, value in rows.items()),
        limits=limits,
    )
    write_atomically(folder / MODEL_CARD, card)


def record_scores(run: Run, sets: Sequence[Mapping[str, Any]]) -> None:
    """Add the scores of an evaluation to the card of a run, and so of its exports; for each file, the last are kept.

    Does nothing if the run has no card, is an exported model, or cannot be written to.
    """
    if not (run.path / MODEL_CARD).is_file() or not run.best_path.parent.is_dir():
        return
    scores = _read_scores(run)
    for metrics in sets:
        low, high = metrics["perplexity_interval"]
        score = f"perplexity {metrics['perplexity']:.2f} ± {(high - low) / 2:.2f}"
        if metrics["task"] == "translation" and metrics["bleu"] is not None:
            low, high = metrics["bleu_interval"]
            score += f", BLEU {metrics['bleu']:.1f} ± {(high - low) / 2:.1f} ({metrics['decoding']})"
        samples = f", {metrics['samples']:,} samples" if "samples" in metrics else ""
        scores[f"evaluation on {Path(metrics['data']).name}"] = f"{score}{samples}, at step {metrics['step']:,}"
    try:
        (run.path / SCORES).parent.mkdir(exist_ok=True)
        write_json(run.path / SCORES, scores)
        write_model_card(run, run.path)
    except (OSError, UserError) as error:
        logger.warning("the model card was not updated: %s", error)


def _read_scores(run: Run) -> dict[str, str]:
    try:
        return {str(row): str(score) for row, score in json.loads((run.path / SCORES).read_bytes()).items()}
    except (OSError, ValueError, AttributeError):
        return {}


def _describe_data(config: Config) -> str:
    """The training files, and the number of samples and the license if ``prepare`` made them."""
    paths = corpus_paths(config.data.train)
    try:
        statistics: dict[str, Any] = json.loads((paths[0].parent / STATISTICS_FILE).read_text(encoding="utf-8"))
        samples, corpus = statistics["train"].get("samples"), statistics["reading"]["corpus"]
    except (OSError, ValueError, LookupError, AttributeError, TypeError):
        samples, corpus = None, None
    count = f", {samples:,} samples" if isinstance(samples, int) else ""
    return f"{', '.join(path.name for path in paths)}{count}; license: {LICENSES.get(corpus, 'not known')}"
