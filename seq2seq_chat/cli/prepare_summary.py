"""What `prepare` prints at its end: statistics, what was left out, and the experiment that fits."""

from __future__ import annotations

import json
import logging
import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seq2seq_chat.system.files import write_atomically
from seq2seq_chat.system.tables import format_table, pluralize

if TYPE_CHECKING:
    from seq2seq_chat.prepare.settings import TextSide

logger = logging.getLogger(__name__)

_BARS = " ▁▂▃▄▅▆▇█"


def write_experiment(
    task: str, files: Mapping[str, object], sides: Sequence[TextSide], amount: int, output: str
) -> None:
    """Write the experiment that fits the output, and print why, and the command that trains it.

    Args:
        files: The first settings of the section ``data``.
        amount: Samples of the training corpus, or tokens of a text.
    """
    from seq2seq_chat.prepare.fit import fit_experiment
    from seq2seq_chat.prepare.pipeline import EXPERIMENT_FILE
    from seq2seq_chat.prepare.settings import DEFAULT_VOCABULARY_SIZE
    from seq2seq_chat.text.tokenizers import TOKENIZER_FILE
    from seq2seq_chat.text.vocabulary import VOCABULARY_FILE

    if "train" not in files:
        return
    values = {**files}
    for side in sides:
        values[f"{side.prefix}tokenizer"] = side.tokenizer.name
        values[f"{side.prefix}vocabulary"] = str(Path(output, f"{side.prefix}{VOCABULARY_FILE}"))
        if side.tokenizer.name == "subword":
            values[f"{side.prefix}tokenizer_file"] = str(Path(output, f"{side.prefix}{TOKENIZER_FILE}"))
        if side.vocabulary_size > DEFAULT_VOCABULARY_SIZE:
            values[f"{side.prefix}vocabulary_size"] = side.vocabulary_size
        if side.tokenizer.lowercase:
            values["lowercase"] = True
        if side.tokenizer.normalize_apostrophes:
            values["normalize_apostrophes"] = True
    experiment, reasons = fit_experiment(task, values, amount, Path(output).absolute().name)
    for reason in reasons:
        click.echo(f"experiment: {reason}")
    path = Path(output, EXPERIMENT_FILE)
    write_atomically(path, json.dumps(experiment, indent=2, ensure_ascii=False) + "\n")
    click.echo(f"to train it: seq2seq-chat train {shlex.quote(str(path))}")


_LOSSES = {
    "removed_words": "words with invalid characters removed",
    "removed_characters": "control and format characters removed",
    "replaced_characters": "line breaks, NUL and lone surrogates replaced",
}
"""What was lost, by the keys of the statistics of reading."""


def _flat(split: dict[str, Any]) -> dict[str, Any]:
    """The statistics of a split and then of its sides, as ``source_words``."""
    flat: dict[str, Any] = {}
    for key, value in split.items():
        flat |= {f"{key}_{name}": number for name, number in value.items()} if isinstance(value, dict) else {key: value}
    return flat


def print_statistics(splits: dict[str, Any], statistics: dict[str, Any]) -> None:
    """Print the columns of the splits, and what else ``statistics.json`` has."""
    leakage, reading = statistics["leakage"], statistics["reading"]
    columns = [_flat(split) for split in splits.values()]
    rows = [["", *splits]]
    rows += [[key.replace("_", " "), *(f"{column[key]:,}" for column in columns)] for key in columns[-1]]
    for key in leakage["test"]:
        counts = [f"{leakage[split][key]:,}" if split in leakage else "" for split in splits]
        rows.append([f"{key} in train".replace("_percent in train", " in train percent"), *counts])
    click.echo(format_table(rows, "lr"))
    click.echo(f"split: {statistics['split']}")
    if dropped := leakage["dropped_samples"]:
        click.echo(f"leaked samples dropped from train: {dropped:,}")
    copies = f" ({pluralize(reading['copies'], 'duplicate')} skipped)" if reading["copies"] else ""
    counts = [pluralize(reading[f"{noun}s"], noun) for noun in ("file", "byte", "record")]
    click.echo(f"read: {counts[0]}{copies}, {counts[1]}, {counts[2]}")
    if reading.get("people"):
        span = f", {reading['first'][:10]} to {reading['last'][:10]}" if "first" in reading else ""
        click.echo(f"people: {reading['people']:,}{span}")
    for name, count in reading.get("chats", {}).items():
        click.echo(f"  {pluralize(count, 'message')}: {name}")
    if any(parts := reading.get("over_time", ())):
        bars = "".join(_BARS[math.ceil(count * (len(_BARS) - 1) / max(parts))] for count in parts)
        click.echo(f"utterances over time: {bars}")
    print_left_out(reading, reading.get("used", splits["total"].get("utterances", 0)))
    for key, what in _LOSSES.items():
        if reading.get(key):
            click.echo(f"{what}: {reading[key]:,}")
    if reading["damaged"]:
        examples = "".join(f"\n  {damage}" for damage in reading["damages"][:5])
        logger.warning(
            "skipped %s damaged records of %s (%s files are incomplete), see statistics.json:%s",
            *(f"{reading[key]:,}" for key in ("damaged", "records", "incomplete_files")),
            examples,
        )


def print_left_out(reading: dict[str, Any], used: int) -> None:
    """Print what was left out, by reason; a warning if much was for one reason."""
    from seq2seq_chat.prepare.shards import EXPECTED

    total = used + sum(reading["left_out"].values())
    for reason, count in reading["left_out"].items():
        examples = "".join(f"\n  {text}" for text in reading["examples"].get(reason, ()))
        text = f"left out: {pluralize(count, reading['unit'].removesuffix('s'))} ({reason})"
        if 10 * count > total and reason not in EXPECTED:
            logger.warning("%s, more than a tenth of %s%s", text, f"{total:,}", examples)
        else:
            click.echo(text + examples)
