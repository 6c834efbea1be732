#!/usr/bin/env python3
"""Reply to the same utterances with several decoding settings, and compare how generic the replies are.

python scripts/compare_decoding.py latest --limit 1000
python scripts/compare_decoding.py latest --decoding method=sample,top_p=0.8 --decoding method=beam,length_penalty=1

Distinct-n decreases with the number of replies; only compare it for equal numbers of utterances.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from contenders.table import json_option, print_table
from tqdm import tqdm

from seq2seq_chat.cli.running import run_command
from seq2seq_chat.config import override_decoding
from seq2seq_chat.data.batches import evenly_spaced
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.inference.chatbot import Chatbot
from seq2seq_chat.metrics.diversity import Diversity
from seq2seq_chat.runs.find import find_run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import write_json
from seq2seq_chat.system.versions import load_tensorflow

VARIANTS = [
    "method=greedy",
    "method=beam,beam_width=10",
    "method=beam,beam_width=10,length_penalty=1",
    "method=beam,beam_width=10,no_repeat_ngram_size=2",
    "method=beam,beam_width=50,rerank=anti_language_model,rerank_weight=0.5",
    "method=beam,beam_width=20,beam_groups=10,diversity_penalty=1,rerank=anti_language_model",
    "method=sample,top_p=0.9,seed=1",
    "method=sample,top_k=20,temperature=0.8,seed=1",
]
BATCH_SIZE = 32
COLUMNS = ["decoding", "ten most frequent", "distinct-1", "distinct-2", "mean length", "replies/s"]


@click.command(help=__doc__)
@click.argument("run_name", metavar="RUN")
@click.option("--results", default="results", show_default=True, help="folder of the runs")
@click.option("--data", help="corpus file; default: the run's test or validation corpus")
@click.option(
    "--limit", default=1000, show_default=True, type=click.IntRange(1), help="number of utterances, evenly spaced"
)
@click.option("--decoding", "variants", multiple=True, help="decoding settings, KEY=VALUE,KEY=VALUE; repeatable")
@json_option
def main(
    run_name: str, results: str, data: str | None, limit: int, variants: tuple[str, ...], json_file: Path | None
) -> None:
    """Reply with each variant and print the table."""
    load_tensorflow()
    try:
        run = find_run(run_name, results)
        bot = Chatbot.load(run)
        settings = run.config.data
        corpus_file = data or settings.test or settings.validation
        if corpus_file is None:
            raise UserError(f"run {run.name} has no test or validation corpus; name a corpus with --data")
        corpus = Dataset.open(corpus_file, bot.codecs, settings)
        chosen = evenly_spaced(len(corpus), limit)
        texts = [bot.codecs.source.decode(corpus.source_ids(i)) for i in chosen]
        rows = [measure_replies(bot, variant, texts) for variant in variants or VARIANTS]
    except UserError as error:
        raise click.UsageError(str(error)) from error
    print_table(rows, COLUMNS)
    if json_file:
        write_json(json_file, {"run": run.name, "data": str(corpus_file), "samples": len(texts), "variants": rows})


def measure_replies(bot: Chatbot, variant: str, texts: list[str]) -> dict[str, Any]:
    """A row of the table: the diversity of the replies with one variant."""
    changes = dict(setting(part) for part in variant.split(","))
    decoding = override_decoding(bot.config.decoding, **({"n_best": 1} | changes))
    diversity, seconds = Diversity(), 0.0
    bot.replies(texts[:1], decoding)  # trace the graph
    for first in tqdm(range(0, len(texts), BATCH_SIZE), desc=variant, unit="batch", leave=False, disable=None):
        replies = bot.replies(texts[first : first + BATCH_SIZE], decoding)
        seconds += replies[0].seconds
        diversity.add(" ".join(reply.hypotheses[0].words) if reply.hypotheses else "" for reply in replies)
    return {
        "decoding": variant,
        "ten most frequent": f"{100 * (diversity.most_frequent_share() or 0):.1f} %",
        "distinct-1": f"{diversity.distinct_1 or 0:.4f}",
        "distinct-2": f"{diversity.distinct_2 or 0:.4f}",
        "mean length": f"{diversity.mean_length or 0:.1f}",
        "replies/s": len(texts) / seconds,
        "most frequent": [list(pair) for pair in diversity.most_frequent()],
    }


def setting(text: str) -> tuple[str, Any]:
    """``beam_width=10`` → ("beam_width", 10). Values are JSON, or else strings."""
    key, _, value = text.partition("=")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


if __name__ == "__main__":
    run_command(main)
