"""`seq2seq-chat prepare`."""

from __future__ import annotations

from typing import Any, Optional

import click


@click.command()
@click.argument(
    "corpus",
    type=click.Choice(["opensubtitles", "reddit", "cornell", "dailydialog", "lines", "tweets"]),
    metavar="CORPUS",
)
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option("--output", required=True, metavar="DIR", help="Folder for what is written.")
@click.option("--split", metavar="A,B,C", help="Shares of train, validation and test.  [default: official, or 97,1,2]")
@click.option("--seed", type=int, default=1, show_default=True, help="Another seed gives another split.")
@click.option(
    "--vocabulary-size", type=int, default=50_000, show_default=True, help="Words, the special ones included."
)
@click.option("--level", type=click.Choice(["word", "character"]), default="word", show_default=True)
@click.option(
    "--pairing",
    type=click.Choice(["sliding", "alternating"]),
    help="How the statistics count samples.  [default: alternating for reddit and tweets, else sliding]",
)
@click.option("--encoder-steps", type=click.IntRange(1), default=30, show_default=True, help="For the statistics.")
@click.option("--decoder-steps", type=click.IntRange(1), default=30, show_default=True, help="For the statistics.")
@click.option(
    "--max-gap",
    metavar="SECONDS",
    help="opensubtitles: a silence that ends a conversation, or `off` for a single endless one.  [default: 10]",
)
@click.option("--keep-copies", is_flag=True, help="opensubtitles: keep files that are copies of one film.")
@click.option("--subreddit", "subreddits", multiple=True, metavar="NAME", help="reddit: may be given several times.")
@click.option("--max-words", type=click.IntRange(1), metavar="N", help="reddit: leave out longer comments.")
@click.option("--min-score", type=int, metavar="N", help="reddit: leave out comments with a lower score.")
@click.option("--turns", type=click.Choice(["running", "odd-even"]), help="lines: how they follow.  [default: running]")
@click.option(
    "--max-bad", type=click.FloatRange(0, 100), default=1.0, show_default=True, help="Percent that may be damaged."
)
@click.option("--engine", type=click.Choice(["duckdb", "spark"]), default="duckdb", show_default=True)
@click.option("--spark-master", metavar="URL", help="Address of a Spark cluster.  [default: local[*]]")
@click.option("--memory", default="2GB", show_default=True, metavar="SIZE", help="What the engine may take.")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Processes to read with.  [default: processors]")
def prepare(
    corpus: str, inputs: tuple[str, ...], output: str, split: Optional[str], seed: int, vocabulary_size: int, **how: Any
) -> None:
    """Turn a raw corpus into train.txt, validation.txt, test.txt, vocabulary.txt and statistics.json.

    \b
    opensubtitles  XML files of OPUS, plain, .gz or in the .zip; their folder; a .txt that lists them
    reddit         monthly dumps of comments, plain, .gz, .bz2, .xz or .zst, or their folder
    cornell        the folder of Cornell Movie-Dialogs, or its movie_conversations.txt
    dailydialog    the files of DailyDialog, or their folder; their official split is kept
    lines          corpus files, or any text with one utterance a line
    tweets         texts of alternating lines: odd ones ask, even ones answer

    Started again after a stop it goes on where it was.
    """
    from seq2seq_chat.corpus.preparation import DEFAULT_GAP
    from seq2seq_chat.corpus.preparation import prepare as prepare_corpus
    from seq2seq_chat.corpus.shards import ReadingSettings

    _belongs(corpus, "opensubtitles", {"--max-gap": how["max_gap"], "--keep-copies": how["keep_copies"]})
    _belongs(
        corpus,
        "reddit",
        {"--subreddit": how["subreddits"], "--max-words": how["max_words"], "--min-score": how["min_score"]},
    )
    _belongs(corpus, "lines", {"--turns": how["turns"]})
    if how["spark_master"] and how["engine"] != "spark":
        raise click.UsageError("--spark-master is for --engine spark")
    statistics = prepare_corpus(
        corpus,
        inputs,
        output,
        reading=ReadingSettings(
            turns=how["turns"] or "running",
            subreddits=tuple(sorted(set(how["subreddits"]))),
            max_words=how["max_words"],
            min_score=how["min_score"],
        ),
        max_gap=DEFAULT_GAP if how["max_gap"] is None else _gap(how["max_gap"]),
        keep_copies=how["keep_copies"],
        split=_shares(split),
        seed=seed,
        vocabulary_size=vocabulary_size,
        level=how["level"],
        pairing=how["pairing"] or ("alternating" if corpus in ("reddit", "tweets") else "sliding"),
        source_steps=how["encoder_steps"],
        target_steps=how["decoder_steps"],
        max_bad=how["max_bad"],
        engine=how["engine"],
        spark_master=how["spark_master"] or "local[*]",
        memory=how["memory"],
        jobs=how["jobs"],
    )
    reading = statistics["reading"]
    columns: dict[str, Any] = {**statistics}
    del columns["reading"]
    click.echo(f"{'':24}" + "".join(f"{name:>14}" for name in columns))
    for key in columns["total"]:
        cells = [column[key] for column in columns.values()]
        click.echo(f"{key.replace('_', ' '):24}" + "".join(f"{cell:>14,}" for cell in cells))
    copies = f", {reading['copies']:,} of them copies that were left out" if reading["copies"] else ""
    click.echo(f"read: {reading['files']:,} files{copies}, {reading['bytes']:,} bytes, {reading['records']:,} records")
    if reading["damaged"]:
        click.echo(
            f"warning: {reading['damaged']:,} of {reading['records']:,} records were damaged and left out "
            f"({reading['incomplete_files']:,} files could not be read to their ends), see statistics.json:",
            err=True,
        )
        for damage in reading["damages"][:5]:
            click.echo(f"  {damage}", err=True)
    click.echo(output)


def _belongs(corpus: str, owner: str, options: dict[str, Any]) -> None:
    """Raises click.UsageError for an option that does nothing for this corpus."""
    for name, value in options.items():
        if value not in (None, (), False) and corpus != owner:
            raise click.UsageError(f"{name} is for {owner}, not for {corpus}")


def _gap(text: str) -> Optional[float]:
    if text == "off":
        return None
    try:
        gap = float(text)
    except ValueError:
        gap = -1.0
    if not 0 <= gap < float("inf"):
        raise click.UsageError(f"--max-gap {text}: write a number of seconds, or off")
    return gap


def _shares(split: Optional[str]) -> Optional[tuple[float, float, float]]:
    if split is None:
        return None
    try:
        train_share, validation_share, test_share = (float(part) for part in split.split(","))
    except ValueError:
        raise click.UsageError(f"--split {split}: write three numbers, for example 97,1,2") from None
    return train_share, validation_share, test_share
