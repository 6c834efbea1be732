"""`seq2seq-chat prepare`."""

from __future__ import annotations

import logging
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seq2seq_chat.cli.options import given_option
from seq2seq_chat.system.signals import explain_interrupt
from seq2seq_chat.system.tables import format_table

if TYPE_CHECKING:
    from seq2seq_chat.prepare.settings import PrepareSettings

logger = logging.getLogger(__name__)

_TOKENIZERS = ["english", "thesis", "unicode", "whitespace", "character", "subword"]


@click.command()
@click.argument(
    "corpus",
    type=click.Choice(["opensubtitles", "reddit", "cornell", "dailydialog", "lines", "tweets", "pairs", "text"]),
    metavar="CORPUS",
)
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option("--output", required=True, metavar="DIR", help="Folder for the results.")
@click.option(
    "--split", metavar="A,B,C", help="Percentages of the splits.  [default: official, or 97,1,2; 90,5,5 for text]"
)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the random split.")
@click.option(
    "--vocabulary-size", type=int, default=50_000, show_default=True, help="Words, including the special ones."
)
@click.option(
    "--tokenizer",
    type=click.Choice(_TOKENIZERS),
    default="english",
    show_default="english; character for text",
    help="How text is split into tokens; see docs/corpora.md.",
)
@click.option("--level", type=click.Choice(["word", "character"]), hidden=True)  # of earlier versions
@click.option("--lowercase", is_flag=True, help="unicode: convert tokens to lower case.")
@click.option(
    "--subword-model",
    type=click.Choice(["unigram", "bpe"]),
    help="subword: type of the SentencePiece model.  [default: unigram]",
)
@click.option(
    "--pairing",
    type=click.Choice(["sliding", "alternating"]),
    help="How samples are counted.  [default: alternating for reddit, tweets and pairs, else sliding]",
)
@click.option(
    "--drop-leaked", is_flag=True, help="Drop the samples of train that occur verbatim in validation or test."
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
@click.option(
    "--max-words",
    type=click.IntRange(1),
    metavar="N",
    help="reddit, pairs: skip comments, or pairs with a side, of more than N words.",
)
@click.option("--min-score", type=int, metavar="N", help="reddit: skip comments with a lower score.")
@click.option(
    "--turns",
    type=click.Choice(["running", "odd-even"]),
    help="lines: every line is a reply, or every second.  [default: running]",
)
@click.option(
    "--target-tokenizer", type=click.Choice(_TOKENIZERS), help="pairs: tokenizer of the target.  [default: the same]"
)
@click.option(
    "--target-vocabulary-size",
    type=int,
    metavar="N",
    help="pairs: size of the target's vocabulary.  [default: the same]",
)
@click.option(
    "--shared-vocabulary/--no-shared-vocabulary",
    default=None,
    help="pairs: one tokenizer and vocabulary for both sides.  [default: separate ones]",
)
@click.option(
    "--max-ratio",
    type=click.FloatRange(1),
    metavar="R",
    help="pairs: skip those with a side that has more than R times as many tokens as the other.",
)
@click.option("--drop-duplicates", is_flag=True, help="pairs: keep only the first of identical pairs.")
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

    Writes train.txt, validation.txt, test.txt, vocabulary.txt and statistics.json; with --tokenizer subword also
    tokenizer.json. For pairs, writes .tsv files, and a target_vocabulary.txt.

    \b
    opensubtitles  XML files of OPUS, plain, .gz or in the .zip; their folder; a .txt that lists them
    reddit         monthly dumps of comments, plain, .gz, .bz2, .xz or .zst, or their folder
    cornell        the folder of Cornell Movie-Dialogs, or its movie_conversations.txt
    dailydialog    the files of DailyDialog, or their folder; the official split is kept
    lines          corpus files, or any text with one utterance per line
    tweets         text of alternating lines: utterances on odd lines, replies on even ones
    pairs          .tsv files of two columns, or their folder; or two files of parallel lines, SOURCE TARGET
    text           text files for a language model, divided at two positions

    If it is stopped, run the same command again to continue.
    """
    from seq2seq_chat.prepare.pipeline import prepare as prepare_corpus

    if corpus == "text":
        _prepare_text(inputs, output, options)
        return
    settings = _settings(corpus, options)
    with explain_interrupt(lambda: "run the same command again to continue"):
        statistics: dict[str, Any] = {**prepare_corpus(settings, inputs, output)}
    reading, leakage, left_out = (statistics.pop(key, {}) for key in ("reading", "leakage", "left_out"))
    tokenizers = {statistics.pop(key, "english") for key in ("tokenizer", "target_tokenizer")}
    _print_statistics(statistics, leakage, left_out, reading)
    if settings.has_pairs or tokenizers != {"english"}:
        click.echo(f"to train on it, set {_configuration(settings, Path(output), statistics)}")
    click.echo(output)


_TEXT_OPTIONS = ("corpus", "inputs", "output", "split", "tokenizer", "vocabulary_size", "lowercase", "subword_model")


def _prepare_text(inputs: tuple[str, ...], output: str, options: dict[str, Any]) -> None:
    """Prepare running text. Raises click.UsageError, UserError."""
    from seq2seq_chat.data.tokenizers import TOKENIZER_FILE
    from seq2seq_chat.data.vocabulary import VOCABULARY_FILE
    from seq2seq_chat.prepare.running_text import TextSettings, prepare_text
    from seq2seq_chat.prepare.settings import DEFAULT_VOCABULARY_SIZE
    from seq2seq_chat.prepare.split import SPLITS

    for name in options:
        if name not in _TEXT_OPTIONS and (option := given_option(name)):
            raise click.UsageError(f"{option} does not apply to text")
    if given_option("tokenizer") is None:
        options["tokenizer"] = "character"
    split = {} if options["split"] is None else {"split": _parse_split(options["split"])}
    settings = TextSettings(_tokenizer_settings(options)["tokenizer"], options["vocabulary_size"], **split)
    statistics = prepare_text(settings, inputs, output)
    rows = [["", *SPLITS]]
    rows += [[key.replace("_", " "), *(f"{statistics[name][key]:,}" for name in SPLITS)] for key in statistics["train"]]
    click.echo(format_table(rows, "lr"))
    values: dict[str, object] = {name: Path(output, f"{name}.txt") for name in SPLITS if statistics[name]["characters"]}
    values |= {"tokenizer": settings.tokenizer.name, "vocabulary": Path(output, VOCABULARY_FILE)}
    if settings.tokenizer.name == "subword":
        values["tokenizer_file"] = Path(output, TOKENIZER_FILE)
    if settings.vocabulary_size > DEFAULT_VOCABULARY_SIZE:
        values["vocabulary_size"] = settings.vocabulary_size
    if settings.tokenizer.lowercase:
        values["lowercase"] = "true"
    text = shlex.join(["task=language_model", *(f"data.{key}={value}" for key, value in values.items())])
    click.echo(f"to train on it, set {text}")
    click.echo(output)


def _configuration(settings: PrepareSettings, output: Path, splits: dict[str, Any]) -> str:
    """The settings of a configuration that belong to the prepared corpus."""
    from seq2seq_chat.data.tokenizers import TOKENIZER_FILE
    from seq2seq_chat.data.vocabulary import VOCABULARY_FILE
    from seq2seq_chat.prepare.settings import DEFAULT_VOCABULARY_SIZE
    from seq2seq_chat.prepare.split import SPLITS
    from seq2seq_chat.prepare.utterances import corpus_file

    count = "pairs" if settings.has_pairs else "samples"
    values: dict[str, object] = {
        name: output / corpus_file(name, as_pairs=settings.has_pairs) for name in SPLITS if splits[name][count]
    }
    if settings.shared_vocabulary:
        values["shared_vocabulary"] = "true"
    for side in settings.text_sides:
        values[f"{side.prefix}tokenizer"] = side.tokenizer.name
        values[f"{side.prefix}vocabulary"] = output / f"{side.prefix}{VOCABULARY_FILE}"
        if side.tokenizer.name == "subword":
            values[f"{side.prefix}tokenizer_file"] = output / f"{side.prefix}{TOKENIZER_FILE}"
        if side.vocabulary_size > DEFAULT_VOCABULARY_SIZE:
            values[f"{side.prefix}vocabulary_size"] = side.vocabulary_size
        if side.tokenizer.lowercase:
            values["lowercase"] = "true"
    task = ["task=translation"] if settings.has_pairs else []
    return shlex.join(task + [f"data.{key}={value}" for key, value in values.items()])


_CORPUS_OPTIONS = {
    "max_gap": ("opensubtitles",),
    "keep_copies": ("opensubtitles",),
    "subreddits": ("reddit",),
    "max_words": ("reddit", "pairs"),
    "min_score": ("reddit",),
    "turns": ("lines",),
    "target_tokenizer": ("pairs",),
    "target_vocabulary_size": ("pairs",),
    "shared_vocabulary": ("pairs",),
    "max_ratio": ("pairs",),
    "drop_duplicates": ("pairs",),
}
"""The options that only some corpora have."""


_LOSSES = {
    "removed_words": "words with invalid characters removed",
    "removed_characters": "control and format characters removed",
    "replaced_characters": "line breaks, NUL and lone surrogates replaced",
}
"""What was lost, by the keys of the statistics of reading."""

_LEFT_OUT = {
    "without_tokens": "without tokens on one side",
    "duplicates": "that are duplicates",
    "max_words": "that are too long",
    "max_ratio": "whose lengths differ too much",
}
"""Why pairs were left out, by the keys of their statistics."""


def _settings(corpus: str, options: dict[str, Any]) -> PrepareSettings:
    """The settings from the command line. Raises click.UsageError, UserError."""
    from seq2seq_chat.prepare.settings import DEFAULT_MAX_GAP, PairFilters, PrepareSettings, ReaderSettings
    from seq2seq_chat.system.hardware import available_cores

    for name, corpora in _CORPUS_OPTIONS.items():
        if corpus not in corpora and (option := given_option(name)):
            raise click.UsageError(f"{option} applies to {' and '.join(corpora)} only, not to {corpus}")
    if options.pop("level") == "character":
        raise click.UsageError("--level character is now --tokenizer character")
    if corpus == "pairs" and options["pairing"] == "sliding":
        raise click.UsageError("--pairing sliding applies to conversations only, not to pairs")
    options |= _tokenizer_settings(options)
    if options["spark_master"] and options["engine"] != "spark":
        raise click.UsageError("--spark-master requires --engine spark")
    max_words = options.pop("max_words")
    reader = ReaderSettings(
        turns=options.pop("turns") or "running",
        subreddits=tuple(sorted(set(options.pop("subreddits")))),
        max_words=max_words if corpus == "reddit" else None,
        min_score=options.pop("min_score"),
    )
    options["filters"] = PairFilters(
        max_words if corpus == "pairs" else None, options.pop("max_ratio"), options.pop("drop_duplicates")
    )
    defaults = {
        "pairing": "alternating" if corpus in ("reddit", "tweets", "pairs") else "sliding",
        "spark_master": "local[*]",
        "jobs": available_cores(),
    }
    options |= {name: options[name] or default for name, default in defaults.items()}
    options["max_gap"] = DEFAULT_MAX_GAP if options["max_gap"] is None else _parse_max_gap(options["max_gap"])
    options["split"] = None if options["split"] is None else _parse_split(options["split"])
    return PrepareSettings(corpus, reader, **options)


def _tokenizer_settings(options: dict[str, Any]) -> dict[str, Any]:
    """The settings of the tokenizers from the options, which are removed. Raises click.UsageError."""
    from seq2seq_chat.data.tokenizers import TokenizerSettings

    name, target, lowercase, subword_model = (
        options.pop(key) for key in ("tokenizer", "target_tokenizer", "lowercase", "subword_model")
    )
    names = {name, target or name}
    if lowercase and "unicode" not in names:
        raise click.UsageError(f"--lowercase applies to the unicode tokenizer only, not to {name}")
    if subword_model and "subword" not in names:
        raise click.UsageError(f"--subword-model applies to the subword tokenizer only, not to {name}")
    if options["shared_vocabulary"] and (target or options["target_vocabulary_size"] is not None):
        raise click.UsageError("--shared-vocabulary excludes --target-tokenizer and --target-vocabulary-size")
    options["shared_vocabulary"] = bool(options["shared_vocabulary"])

    def settings(name: Any) -> TokenizerSettings:
        model = subword_model if name == "subword" and subword_model else TokenizerSettings().subword_model
        return TokenizerSettings(name, lowercase and name == "unicode", model)

    return {"tokenizer": settings(name), "target_tokenizer": settings(target) if target else None}


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


def _flat(split: dict[str, Any]) -> dict[str, Any]:
    """The statistics of a split with those of its sides, as ``source_words``, after its own."""
    flat: dict[str, Any] = {}
    for key, value in split.items():
        flat |= (
            {f"{key}_{name}": of_side for name, of_side in value.items()} if isinstance(value, dict) else {key: value}
        )
    return flat


def _print_statistics(
    splits: dict[str, Any], leakage: dict[str, Any], left_out: dict[str, int], reading: dict[str, Any]
) -> None:
    columns = [_flat(split) for split in splits.values()]
    rows = [["", *splits]]
    for key in columns[-1]:
        rows.append([key.replace("_", " "), *(f"{column[key]:,}" for column in columns)])
    for key in leakage["test"]:
        counts = [f"{leakage[split][key]:,}" if split in leakage else "" for split in splits]
        rows.append([f"{key} in train".replace("_percent in train", " in train percent"), *counts])
    click.echo(format_table(rows, "lr"))
    if dropped := leakage["dropped_samples"]:
        click.echo(f"leaked samples dropped from train: {dropped:,}")
    copies = f" ({reading['copies']:,} duplicates skipped)" if reading["copies"] else ""
    counts = [f"{reading[key]:,} {key if reading[key] != 1 else key[:-1]}" for key in ("files", "bytes", "records")]
    click.echo(f"read: {counts[0]}{copies}, {counts[1]}, {counts[2]}")
    for key, what in _LEFT_OUT.items():
        if left_out.get(key):
            click.echo(f"left out: {left_out[key]:,} pairs {what}")
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
