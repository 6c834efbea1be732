#!/usr/bin/env python3
"""Answer the same utterances in several ways of decoding, and show which replies are less generic.

python scripts/compare_decoding.py latest --limit 1000
python scripts/compare_decoding.py latest --way method=sample,top_p=0.8 --way method=beam,length_penalty=1

Distinct-n falls as replies are added: compare it at equal numbers of samples only.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Optional

import click
from contenders.table import print_table, write_json
from tqdm import tqdm

from seq2seq_chat.analysis.diversity import Diversity
from seq2seq_chat.chatbot import Chatbot
from seq2seq_chat.config import decoding_with
from seq2seq_chat.corpus.experiment_data import open_samples
from seq2seq_chat.corpus.text import detokenize
from seq2seq_chat.environment import load_tensorflow
from seq2seq_chat.errors import UserError
from seq2seq_chat.runs import find_run
from seq2seq_chat.training.validation import spread

WAYS = [
    "method=greedy",
    "method=beam,beam_width=10",
    "method=beam,beam_width=10,length_penalty=1",
    "method=beam,beam_width=10,no_repeated_ngrams=2",
    "method=beam,beam_width=50,rerank=anti_language_model,rerank_weight=0.5",
    "method=beam,beam_width=20,beam_groups=10,group_diversity=1,rerank=anti_language_model",
    "method=sample,top_p=0.9,seed=1",
    "method=sample,top_k=20,temperature=0.8,seed=1",
]
AT_ONCE = 32
COLUMNS = ["decoding", "ten most frequent", "distinct-1", "distinct-2", "mean length", "replies/s"]


@click.command(help=__doc__)
@click.argument("run_name", metavar="RUN")
@click.option("--results", default="results", show_default=True, help="where runs are")
@click.option("--data", help="corpus file; the run's test or validation corpus if left out")
@click.option("--limit", default=1000, show_default=True, type=click.IntRange(1), help="utterances, evenly spread")
@click.option("--way", "ways", multiple=True, help="settings of decoding, KEY=VALUE,KEY=VALUE; may be repeated")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path))
def main(
    run_name: str, results: str, data: Optional[str], limit: int, ways: tuple[str, ...], json_file: Optional[Path]
) -> None:
    """Answer in each way and print the table."""
    load_tensorflow()
    try:
        run = find_run(run_name, results)
        bot = Chatbot.load(run)
        settings = run.config.data
        corpus_file = data or settings.test or settings.validation
        if corpus_file is None:
            raise UserError(f"run {run.name} names no corpus to take utterances from; name one with --data")
        corpus = open_samples(corpus_file, bot.vocabulary, settings)
        chosen = spread(len(corpus), limit)
        texts = [detokenize(bot.vocabulary.tokens(corpus.source_ids(i)), settings.level) for i in chosen]
        rows = [answer_all(bot, way, texts) for way in ways or WAYS]
    except UserError as error:
        raise click.UsageError(str(error)) from error
    print_table(rows, COLUMNS)
    if json_file:
        write_json(json_file, {"run": run.name, "data": str(corpus_file), "samples": len(texts), "ways": rows})


def answer_all(bot: Chatbot, way: str, texts: list[str]) -> dict[str, Any]:
    """One row: how varied the replies of one way are."""
    changes = dict(setting(part) for part in way.split(","))
    decoding = decoding_with(bot.config.decoding, **({"n_best": 1} | changes))
    diversity, seconds = Diversity(), 0.0
    bot.replies(texts[:1], decoding)  # builds the graph
    for first in tqdm(range(0, len(texts), AT_ONCE), desc=way, unit="batch", leave=False, disable=None):
        replies = bot.replies(texts[first : first + AT_ONCE], decoding)
        seconds += replies[0].seconds
        diversity.add(reply.text for reply in replies)
    return {
        "decoding": way,
        "ten most frequent": f"{100 * (diversity.share_of_most_frequent() or 0):.1f} %",
        "distinct-1": f"{diversity.distinct_1 or 0:.4f}",
        "distinct-2": f"{diversity.distinct_2 or 0:.4f}",
        "mean length": f"{diversity.mean_length or 0:.1f}",
        "replies/s": len(texts) / seconds,
        "most frequent": [list(pair) for pair in diversity.most_frequent()],
    }


def setting(text: str) -> tuple[str, Any]:
    """``beam_width=10`` → ("beam_width", 10). Values are JSON; what is no JSON is taken as text."""
    key, _, value = text.partition("=")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


if __name__ == "__main__":
    main()
