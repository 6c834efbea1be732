"""`seq2seq-chat prepare`: a command for each corpus, with the options that apply to it."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seq2seq_chat.cli.options import given_option
from seq2seq_chat.cli.prepare_summary import print_statistics, write_experiment
from seq2seq_chat.system.signals import explain_interrupt
from seq2seq_chat.system.tables import format_table

if TYPE_CHECKING:
    from seq2seq_chat.text.tokenizers import TokenizerSettings

_TOKENIZERS = ["english", "thesis", "unicode", "whitespace", "character", "subword"]
_COUNT = click.IntRange(1, 10**9)
_SIZE = click.IntRange(max=10**9)  # what is too small depends on the tokenizer


class _Corpora(click.Group):
    """A command for each corpus; options may also precede its name, as in earlier versions."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        index = next((index for index, word in enumerate(args) if word in self.commands), 0)
        return super().parse_args(ctx, [*args[index : index + 1], *args[:index], *args[index + 1 :]])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args[0] not in self.commands and Path(args[0]).exists():
            ctx.fail(f"{args[0]} is an input; name the kind of corpus before it, such as: prepare pairs {args[0]}")
        return super().resolve_command(ctx, args)


@click.group(cls=_Corpora, subcommand_metavar="CORPUS INPUT...", context_settings={"show_default": True})
def prepare() -> None:
    """Turn a raw corpus into training data.

    Writes train.txt, validation.txt, test.txt, vocabulary.txt and statistics.json; with --tokenizer subword also
    tokenizer.json. For pairs, writes .tsv files, and a target_vocabulary.txt.

    If it is stopped, run the same command again to continue.
    """


def _parse_split(context: click.Context, option: click.Parameter, text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        train, validation, test = map(float, text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text} is not three numbers, such as 97,1,2.") from None
    return train, validation, test


_UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}  # in seconds


def _parse_max_gap(context: click.Context, option: click.Parameter, text: str | None) -> float | None:
    """The seconds of a time such as 90, 90s, 10m, 6h or 2d; infinity for ``off``."""
    if text is None or text == "off":
        return None if text is None else math.inf
    match = re.fullmatch(r"(\d+(?:\.\d*)?)\s*([a-z]*)", text)
    if match is None or match[2] not in _UNITS:
        raise click.BadParameter(f"{text} is neither a time, such as 90s, 10m, 6h or 2d, nor off.")
    if not match[2] and context.info_name == "chats":
        logging.getLogger(__name__).warning("--max-gap %s are seconds; %sh are hours", text, text)
    return float(match[1]) * _UNITS[match[2]]


def _refuse_nan(context: click.Context, option: click.Parameter, value: float | None) -> float | None:
    if value is not None and math.isnan(value):
        raise click.BadParameter(f"{value} is not a number.")
    return value


def _parse_years(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> tuple[int, ...]:
    """The years of texts such as 2015 or 2006-2015."""
    years: set[int] = set()
    for text in texts:
        match = re.fullmatch(r"(\d{4})(?:-(\d{4}))?", text)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise click.BadParameter(f"{text} is neither a year nor a range of years, such as 2006-2015.")
        years.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return tuple(sorted(years))


def _parse_columns(context: click.Context, option: click.Parameter, text: str | None) -> tuple[str, str] | None:
    """The two columns of a text such as 2,4 or question,answer."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(names):
        raise click.BadParameter(f"{text} does not name two columns, such as 2,4 or question,answer.")
    return names[0], names[1]


def _refuse_level(context: click.Context, option: click.Parameter, level: str | None) -> None:
    if level == "character":
        raise click.UsageError("--level character is now --tokenizer character")


_Decorator = Callable[[Callable[..., None]], Callable[..., None]]


def _all_options(*options: _Decorator) -> _Decorator:
    """One decorator that adds arguments and options in this order."""
    return lambda function: reduce(lambda decorated, option: option(decorated), reversed(options), function)


def _text_options(*, tokenizer: str, split: str) -> _Decorator:
    """The arguments and options of all corpora, with their defaults."""
    return _all_options(
        click.argument("inputs", nargs=-1, required=True, metavar="INPUT..."),
        click.option("--output", required=True, metavar="DIR", help="Folder for the results."),
        click.option(
            "--split", callback=_parse_split, metavar="A,B,C", help=f"Percentages of the splits.  [default: {split}]"
        ),
        click.option(
            "--vocabulary-size", type=_SIZE, default=50_000, metavar="N", help="Vocabulary size, with special words."
        ),
        click.option(
            "--tokenizer",
            type=click.Choice(_TOKENIZERS),
            default=tokenizer,
            help="How text is split into tokens; see docs/corpora.md.",
        ),
        click.option(  # of earlier versions
            "--level",
            type=click.Choice(["word", "character"]),
            callback=_refuse_level,
            expose_value=False,
            is_eager=True,
            hidden=True,
        ),
        click.option("--lowercase", is_flag=True, help="unicode: convert tokens to lower case."),
        click.option("--keep-apostrophes", is_flag=True, help="unicode: don’t and don't are different words."),
        click.option(
            "--subword-model",
            type=click.Choice(["unigram", "bpe"]),
            help="subword: type of the SentencePiece model.  [default: unigram]",
        ),
    )


def _corpus_options(*pairings: str, tokenizer: str = "english") -> _Decorator:
    """The options of corpora of conversations or pairs; the first of ``pairings`` is the default."""
    return _all_options(
        _text_options(tokenizer=tokenizer, split="as the files are named, or 97,1,2"),
        click.option("--seed", type=int, default=1, help="Seed of the random split."),
        click.option(
            "--pairing",
            type=click.Choice(sorted(pairings, reverse=True)),
            default=pairings[0],
            help="How utterances are paired to count samples.",
        ),
        click.option(
            "--drop-leaked", is_flag=True, help="Drop the samples of train that occur verbatim in validation or test."
        ),
        click.option("--encoder-steps", type=_COUNT, default=30, help="Statistics: maximum source tokens."),
        click.option("--decoder-steps", type=_COUNT, default=30, help="Statistics: maximum target tokens."),
        click.option(
            "--max-bad",
            type=click.FloatRange(0, 100),
            callback=_refuse_nan,
            default=1.0,
            help="Maximum percentage of damaged records.",
        ),
        click.option("--engine", type=click.Choice(["duckdb", "spark"]), default="duckdb", help="Query engine."),
        click.option("--spark-master", metavar="URL", help="URL of the Spark cluster.  [default: local[*]]"),
        click.option("--memory", default="2GB", metavar="SIZE", help="Memory limit of the engine."),
        click.option("--jobs", type=_COUNT, metavar="N", help="Reader processes.  [default: number of cores]"),
    )


_as_is = click.option("--as-is", is_flag=True, help="Also read files that look like JSON, tables, chats, … as lines.")


@prepare.command()
@click.option(
    "--turns",
    type=click.Choice(["running", "odd-even"]),
    default="running",
    help="Every line replies to the one before, or only every second line does.",
)
@click.option(
    "--separator", metavar="LINE", help="A line that ends a conversation, such as ===; `blank`: an empty one."
)
@_as_is
@_corpus_options("sliding", "alternating")
def lines(turns: Any, separator: str | None, as_is: bool, **options: Any) -> None:
    """Corpus files, or any text with one utterance per line."""
    from seq2seq_chat.prepare.readers.lines import LinesSettings

    _prepare_corpus("lines", options, reader=LinesSettings(turns, separator and separator.strip(), as_is))


@prepare.command()
@click.option("--target-tokenizer", type=click.Choice(_TOKENIZERS), help="For the target.  [default: --tokenizer]")
@click.option("--target-vocabulary-size", type=_SIZE, metavar="N", help="Words of the target.  [default: the same]")
@click.option(
    "--shared-vocabulary/--no-shared-vocabulary", help="One tokenizer and vocabulary for both sides, or separate ones."
)
@click.option("--max-words", type=_COUNT, metavar="N", help="Skip pairs with a side of more than N words.")
@click.option(
    "--max-ratio",
    type=click.FloatRange(1),
    callback=_refuse_nan,
    metavar="R",
    help="Skip pairs with a side that has more than R times as many tokens as the other.",
)
@click.option(
    "--columns",
    callback=_parse_columns,
    metavar="A,B",
    help="Source and target: names or numbers of columns, or languages.",
)
@click.option("--drop-duplicates", is_flag=True, help="Keep only the first of identical pairs.")
@_corpus_options("alternating", tokenizer="unicode")
def pairs(columns: tuple[str, str] | None, **options: Any) -> None:
    """Tables, parallel files SOURCE TARGET, TMX, XLIFF, .zip."""
    from seq2seq_chat.prepare.readers.pairs import PairSettings

    has_target_options = options["target_tokenizer"] or options["target_vocabulary_size"] is not None
    if options["shared_vocabulary"] and has_target_options:
        raise click.UsageError("--shared-vocabulary cannot be used with --target-tokenizer or --target-vocabulary-size")
    _prepare_corpus("pairs", options, reader=PairSettings(columns))


@prepare.command()
@click.option(
    "--max-gap",
    default="10",
    callback=_parse_max_gap,
    metavar="TIME",
    help="A longer silence ends a conversation: seconds, or 30s, 2m, 1h; or `off`.",
)
@click.option("--keep-copies", is_flag=True, help="Keep duplicate subtitles of the same film.")
@_corpus_options("sliding", "alternating")
def opensubtitles(max_gap: float | None, **options: Any) -> None:
    """Subtitles of OPUS: XML files, folder, .zip, or .txt list."""
    _prepare_corpus("opensubtitles", options, max_gap=None if max_gap == math.inf else max_gap)


@prepare.command()
@click.option("--subreddit", "subreddits", multiple=True, metavar="NAME", help="Only this subreddit. Can be repeated.")
@click.option(
    "--year",
    "years",
    multiple=True,
    callback=_parse_years,
    metavar="YEAR[-YEAR]",
    help="Only the dumps of these years. Can be repeated.",
)
@click.option(
    "--max-words", type=_COUNT, metavar="N", help="Skip comments of more than N words, separated by white space."
)
@click.option("--min-score", type=int, metavar="N", help="Skip comments with a lower score.")
@click.option("--keep-bots", is_flag=True, help="Keep comments of bots.")
@_corpus_options("alternating", "sliding")
def reddit(
    subreddits: tuple[str, ...],
    years: tuple[int, ...],
    max_words: int | None,
    min_score: int | None,
    keep_bots: bool,
    **options: Any,
) -> None:
    """Monthly dumps of comments, or their folder."""
    from seq2seq_chat.prepare.readers.reddit import RedditSettings

    reader = RedditSettings(tuple(sorted(set(subreddits))), max_words, min_score, keep_bots, years)
    _prepare_corpus("reddit", options, reader=reader)


@prepare.command()
@click.option(
    "--me", multiple=True, metavar="NAME", help="Your name in the chats: all replies are yours. Can be repeated."
)
@click.option(
    "--max-gap",
    callback=_parse_max_gap,
    metavar="TIME",
    help="A longer silence ends a conversation: 30m, 6h, 2d; or `off`.  [default: 6h; subtitles: 10s]",
)
@click.option(
    "--date-order",
    type=click.Choice(["dmy", "mdy", "ymd"]),
    help="Order of day, month and year.  [default: as the dates show]",
)
@click.option("--anonymize", is_flag=True, help="Replace names, numbers, e-mail addresses and links.")
@_corpus_options("sliding", "alternating", tokenizer="unicode")
def chats(me: tuple[str, ...], max_gap: float | None, date_order: Any, anonymize: bool, **options: Any) -> None:
    """Chats as programs export them: files, folders, .zip.

    WhatsApp, Telegram, Discord, Slack, Signal, SMS, Messenger, Instagram, LINE, KakaoTalk, subtitles, and texts with
    "Name: text" on each line.
    """
    from seq2seq_chat.prepare.readers.chats import ChatSettings

    if me:
        if given_option("pairing") and options["pairing"] != "alternating":
            raise click.UsageError(f"--me makes every second utterance yours; omit --pairing {options['pairing']}")
        options["pairing"] = "alternating"  # every second utterance is yours
    _prepare_corpus("chats", options, reader=ChatSettings(max_gap, me, date_order, anonymize))


def _add_command(name: str, help: str, *pairings: str) -> None:
    """Add the command of a corpus without options of its own."""

    @prepare.command(name, help=help)
    @_corpus_options(*pairings)
    def command(**options: Any) -> None:
        _prepare_corpus(name, options)


_add_command("cornell", "Cornell Movie-Dialogs: folder, or movie_conversations.txt.", "sliding", "alternating")
_add_command("dailydialog", "DailyDialog: the files or their folder.", "sliding", "alternating")
_add_command("tweets", "Texts of alternating lines: utterance, reply, utterance.", "alternating", "sliding")


@prepare.command()
@_as_is
@_text_options(tokenizer="character", split="as the files are named, or 90,5,5")
def text(inputs: tuple[str, ...], output: str, split: Any, vocabulary_size: int, as_is: bool, **options: Any) -> None:
    """Text files for a language model, or their folder."""
    from seq2seq_chat.prepare.running_text import RunningTextSettings, prepare_text
    from seq2seq_chat.prepare.settings import TextSide
    from seq2seq_chat.prepare.split import SPLITS

    tokenizer, _ = _tokenizers(**options)
    settings = RunningTextSettings(tokenizer, vocabulary_size, split, as_is)
    statistics = prepare_text(settings, inputs, output)
    rows = [["", *SPLITS]]
    rows += [[key.replace("_", " "), *(f"{statistics[name][key]:,}" for name in SPLITS)] for key in statistics["train"]]
    click.echo(format_table(rows, "lr"))
    click.echo(f"split: {statistics['split']}")
    files = {name: str(Path(output, f"{name}.txt")) for name in SPLITS if statistics[name]["characters"]}
    sides = [TextSide("", (), tokenizer, vocabulary_size)]
    write_experiment("language_model", files, sides, statistics["train"]["tokens"], output)
    click.echo(output)


def _prepare_corpus(corpus: str, options: dict[str, Any], **settings: Any) -> None:
    """Prepare a corpus by ``options``, None for a default, and further ``settings``; print its statistics."""
    from seq2seq_chat.prepare.pipeline import prepare as prepare_corpus
    from seq2seq_chat.prepare.settings import PrepareSettings
    from seq2seq_chat.prepare.split import SPLITS
    from seq2seq_chat.prepare.utterances import corpus_file

    if options["spark_master"] and options["engine"] != "spark":
        raise click.UsageError("--spark-master requires --engine spark")
    inputs, output = options.pop("inputs"), options.pop("output")
    names = ("tokenizer", "target_tokenizer", "lowercase", "keep_apostrophes", "subword_model")
    options["tokenizer"], options["target_tokenizer"] = _tokenizers(**{name: options.pop(name, None) for name in names})
    prepared = PrepareSettings(
        corpus, **{key: value for key, value in options.items() if value is not None}, **settings
    )
    with explain_interrupt(lambda: "run the same command again to continue"):
        statistics = prepare_corpus(prepared, inputs, output)
    print_statistics({name: statistics[name] for name in (*SPLITS, "total")}, statistics)
    as_pairs = prepared.has_pairs
    task, count = ("translation", "pairs") if as_pairs else ("conversation", "samples")
    files = {name: Path(output, corpus_file(name, as_pairs=as_pairs)) for name in SPLITS if statistics[name][count]}
    values: dict[str, Any] = {name: str(file) for name, file in files.items()}
    if prepared.shared_vocabulary:
        values["shared_vocabulary"] = True
    if not as_pairs:
        values["pairing"] = prepared.pairing
    write_experiment(task, values, prepared.text_sides, statistics["train"][count], output)
    click.echo(output)


def _tokenizers(
    tokenizer: str, lowercase: bool, keep_apostrophes: bool, subword_model: Any, target_tokenizer: str | None = None
) -> tuple[TokenizerSettings, TokenizerSettings | None]:
    """The settings of the tokenizers of source and target from the options. Raises click.UsageError."""
    from seq2seq_chat.text.tokenizers import TokenizerSettings

    names = {tokenizer, target_tokenizer or tokenizer}
    for option, is_given in (("--lowercase", lowercase), ("--keep-apostrophes", keep_apostrophes)):
        if is_given and "unicode" not in names:
            raise click.UsageError(f"{option} applies to the unicode tokenizer only, not to {tokenizer}")
    if subword_model and "subword" not in names:
        raise click.UsageError(f"--subword-model applies to the subword tokenizer only, not to {tokenizer}")

    def settings(name: Any) -> TokenizerSettings:
        model = subword_model if name == "subword" and subword_model else TokenizerSettings().subword_model
        is_unicode = name == "unicode"
        return TokenizerSettings(name, lowercase and is_unicode, model, is_unicode and not keep_apostrophes)

    return settings(tokenizer), settings(target_tokenizer) if target_tokenizer else None
