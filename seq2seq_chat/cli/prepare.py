"""`seq2seq-chat prepare`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import click

from seq2seq_chat.system.signals import explain_interrupt
from seq2seq_chat.system.tables import format_table

if TYPE_CHECKING:
    from seq2seq_chat.prepare.settings import PrepareSettings

logger = logging.getLogger(__name__)


@click.command()
@click.argument(
    "corpus",
    type=click.Choice(["opensubtitles", "reddit", "cornell", "dailydialog", "lines", "tweets"]),
    metavar="CORPUS",
)
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option("--output", required=True, metavar="DIR", help="Folder for the results.")
@click.option("--split", metavar="A,B,C", help="Percentages of the splits.  [default: official, or 97,1,2]")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the random split.")
@click.option(
    "--vocabulary-size", type=int, default=50_000, show_default=True, help="Words, including the special ones."
)
@click.option(
    "--level", type=click.Choice(["word", "character"]), default="word", show_default=True, help="What a token is."
)
@click.option(
    "--pairing",
    type=click.Choice(["sliding", "alternating"]),
    help="How samples are counted.  [default: alternating for reddit and tweets, else sliding]",
)
@click.option(
    "--encoder-steps",
    type=click.IntRange(1),
    default=30,
    show_default=True,
    help="Statistics: maximum source tokens.",
)
@click.option(
    "--decoder-steps",
    type=click.IntRange(1),
    default=30,
    show_default=True,
    help="Statistics: maximum target tokens.",
)
@click.option(
    "--max-gap",
    metavar="SECONDS",
    help="opensubtitles: a longer silence ends a conversation; or `off`.  [default: 10]",
)
@click.option("--keep-copies", is_flag=True, help="opensubtitles: keep duplicate subtitles of the same film.")
@click.option(
    "--subreddit", "subreddits", multiple=True, metavar="NAME", help="reddit: only this subreddit. Can be repeated."
)
@click.option("--max-words", type=click.IntRange(1), metavar="N", help="reddit: skip longer comments.")
@click.option("--min-score", type=int, metavar="N", help="reddit: skip comments with a lower score.")
@click.option(
    "--turns",
    type=click.Choice(["running", "odd-even"]),
    help="lines: every line is a reply, or every second.  [default: running]",
)
@click.option(
    "--max-bad",
    type=click.FloatRange(0, 100),
    default=1.0,
    show_default=True,
    help="Maximum percentage of damaged records.",
)
@click.option(
    "--engine", type=click.Choice(["duckdb", "spark"]), default="duckdb", show_default=True, help="Query engine."
)
@click.option("--spark-master", metavar="URL", help="URL of the Spark cluster.  [default: local[*]]")
@click.option("--memory", default="2GB", show_default=True, metavar="SIZE", help="Memory limit of the engine.")
@click.option(
    "--jobs", type=click.IntRange(1), metavar="N", help="Number of reader processes.  [default: number of cores]"
)
def prepare(corpus: str, inputs: tuple[str, ...], output: str, **options: Any) -> None:
    """Turn a raw corpus into training data.

    Writes train.txt, validation.txt, test.txt, vocabulary.txt and statistics.json.

    \b
    opensubtitles  XML files of OPUS, plain, .gz or in the .zip; their folder; a .txt that lists them
    reddit         monthly dumps of comments, plain, .gz, .bz2, .xz or .zst, or their folder
    cornell        the folder of Cornell Movie-Dialogs, or its movie_conversations.txt
    dailydialog    the files of DailyDialog, or their folder; the official split is kept
    lines          corpus files, or any text with one utterance per line
    tweets         text of alternating lines: utterances on odd lines, replies on even ones

    If it is stopped, run the same command again to continue.
    """
    from seq2seq_chat.prepare.pipeline import prepare as prepare_corpus

    settings = _settings(corpus, options)
    with explain_interrupt(lambda: "run the same command again to continue"):
        statistics: dict[str, Any] = {**prepare_corpus(settings, inputs, output)}
    reading = statistics.pop("reading")
    _print_statistics(statistics, reading)
    click.echo(output)


_CORPUS_OPTIONS = {
    "max_gap": "opensubtitles",
    "keep_copies": "opensubtitles",
    "subreddits": "reddit",
    "max_words": "reddit",
    "min_score": "reddit",
    "turns": "lines",
}
"""The options that only one corpus has."""


def _settings(corpus: str, options: dict[str, Any]) -> PrepareSettings:
    """The settings from the command line. Raises click.UsageError, UserError."""
    from seq2seq_chat.prepare.settings import DEFAULT_MAX_GAP, PrepareSettings, ReaderSettings
    from seq2seq_chat.system.hardware import available_cores

    for name, only in _CORPUS_OPTIONS.items():
        if corpus != only and options[name] not in (None, (), False):
            option = "--" + name.replace("_", "-").replace("subreddits", "subreddit")
            raise click.UsageError(f"{option} applies to {only} only, not to {corpus}")
    if options["spark_master"] and options["engine"] != "spark":
        raise click.UsageError("--spark-master requires --engine spark")
    reader = ReaderSettings(
        turns=options.pop("turns") or "running",
        subreddits=tuple(sorted(set(options.pop("subreddits")))),
        max_words=options.pop("max_words"),
        min_score=options.pop("min_score"),
    )
    defaults = {
        "pairing": "alternating" if corpus in ("reddit", "tweets") else "sliding",
        "spark_master": "local[*]",
        "jobs": available_cores(),
    }
    options |= {name: options[name] or default for name, default in defaults.items()}
    options["max_gap"] = DEFAULT_MAX_GAP if options["max_gap"] is None else _parse_max_gap(options["max_gap"])
    options["split"] = None if options["split"] is None else _parse_split(options["split"])
    return PrepareSettings(corpus, reader, **options)


def _parse_max_gap(text: str) -> float | None:
    if text == "off":
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise click.UsageError(f"--max-gap {text}: must be a number of seconds, or off")
    return seconds


def _parse_split(text: str) -> tuple[float, float, float]:
    try:
        train, validation, test = map(float, text.split(","))
    except ValueError:
        raise click.UsageError(f"--split {text}: must be three numbers, for example 97,1,2") from None
    return train, validation, test


def _print_statistics(splits: dict[str, Any], reading: dict[str, Any]) -> None:
    rows = [["", *splits]]
    for key in splits["total"]:
        rows.append([key.replace("_", " "), *(f"{split[key]:,}" for split in splits.values())])
    click.echo(format_table(rows, "lr"))
    copies = f" ({reading['copies']:,} duplicates skipped)" if reading["copies"] else ""
    click.echo(f"read: {reading['files']:,} files{copies}, {reading['bytes']:,} bytes, {reading['records']:,} records")
    if reading["damaged"]:
        examples = "".join(f"\n  {damage}" for damage in reading["damages"][:5])
        logger.warning(
            "skipped %s damaged records of %s (%s files are incomplete), see statistics.json:%s",
            *(f"{reading[key]:,}" for key in ("damaged", "records", "incomplete_files")),
            examples,
        )
