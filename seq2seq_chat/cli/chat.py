"""`seq2seq-chat chat` and `seq2seq-chat generate`."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, cast

import click

from seq2seq_chat.cli.options import (
    decoding_option,
    engine_options,
    ensure_beam_search,
    results_option,
    run_argument,
    snapshot_option,
    with_option,
)
from seq2seq_chat.system.errors import UserError

if TYPE_CHECKING:
    from io import BufferedReader

    from seq2seq_chat.config import Config, Decoding
    from seq2seq_chat.system.hardware import EngineOptions

logger = logging.getLogger(__name__)


@click.command()
@run_argument
@click.option("--beam-width", type=click.IntRange(1, 1000), metavar="N", help="Beam search with N hypotheses.")
@click.option("--n-best", type=click.IntRange(1, 1000), metavar="N", help="Show the N best replies with their scores.")
@click.option("--tokens", is_flag=True, help="Show the tokens of replies, separated by spaces, instead of the text.")
@click.option(
    "--prefix",
    metavar="TEXT",
    help="Text that replies start with, in whole tokens; - reads it from each line, as prefix<TAB>utterance.",
)
@with_option
@snapshot_option
@decoding_option
@engine_options
@results_option
def chat(
    run_name: str,
    beam_width: int | None,
    n_best: int | None,
    tokens: bool,
    prefix: str | None,
    others: tuple[str, ...],
    snapshot: str | None,
    overrides: tuple[str, ...],
    engine: EngineOptions,
    results: str,
) -> None:
    """Talk to a trained RUN in the terminal, or translate with it.

    If stdin is not a terminal, it reads one utterance per line and prints one reply per line (with --n-best N: up to N
    lines `score<TAB>reply` and an empty line). Line breaks and control characters in replies become spaces.
    """
    from seq2seq_chat.runs.find import find_run, find_snapshot

    if sys.stdin is None:  # started with <&-
        raise UserError("stdin is closed; connect it to a terminal, or to a file or pipe with one utterance per line")
    run = find_run(run_name, results)
    if run.config.task == "language_model":
        raise UserError(f"run {run.name} is a language model, which `chat` does not support; use `generate`")
    decoding = _decoding(run.config, overrides, beam_width, n_best)
    if sys.stdin.isatty():
        click.echo(f"loading {run.name}…", err=True)
    from seq2seq_chat.chat.chatbot import Chatbot
    from seq2seq_chat.cli.conversation import ReplyFormat, answer_lines, converse

    members = [find_snapshot(name, results) for name in others]
    bot = Chatbot.load(run, snapshot, engine, decoding, members)
    bot.reader(decoding)  # a lexicon that cannot be read is reported before the first utterance
    if prefix == "-" and sys.stdin.isatty():
        raise UserError("--prefix - needs lines of prefix<TAB>utterance on stdin; in a terminal, write --prefix TEXT")
    bot.prefix_tokens("" if prefix in (None, "-") else prefix)
    reply_format = ReplyFormat(scores=n_best is not None, tokens=tokens)
    if sys.stdin.isatty():
        converse(bot, decoding, reply_format, prefix or "")
    else:
        answer_lines(bot, decoding, reply_format, cast("BufferedReader", sys.stdin.buffer), sys.stdout, prefix)


def _decoding(config: Config, overrides: tuple[str, ...], beam_width: int | None, n_best: int | None) -> Decoding:
    """The run's decoding settings, changed by --set and by --beam-width and --n-best, which select beam search."""
    from seq2seq_chat.config import override_decoding, set_decoding

    if beam_width is None and n_best is None:
        return set_decoding(config, overrides) if overrides else config.decoding
    ensure_beam_search(overrides)
    widths = [] if beam_width is None else [f"decoding.beam_width={beam_width}"]
    decoding = set_decoding(config, ("decoding.method=beam", *widths, *overrides))  # --set may have options of a beam
    width = beam_width or max(decoding.beam_width, n_best or 1)
    return override_decoding(decoding, method="beam", beam_width=width, n_best=n_best or 1)


@click.command()
@run_argument
@click.option("--prompt", metavar="TEXT", help="Text to continue; - reads it from stdin.  [default: start a new line]")
@click.option(
    "--length", type=click.IntRange(1), default=1000, show_default=True, metavar="N", help="Number of tokens to write."
)
@click.option(
    "--temperature",
    type=click.FloatRange(0, 100, min_open=True),
    metavar="T",
    help="Divide logits by T; lower values make probable tokens more probable.  [default: the run's]",
)
@click.option("--top-k", type=click.IntRange(1), metavar="K", help="Sample from the K most probable tokens.")
@click.option(
    "--top-p",
    type=click.FloatRange(0, 1, min_open=True),
    metavar="P",
    help="Sample from the most probable tokens whose probabilities add up to P.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**31 - 1),
    metavar="N",
    help="The same seed gives the same text.  [default: random]",
)
@snapshot_option
@engine_options
@results_option
def generate(
    run_name: str,
    prompt: str | None,
    length: int,
    temperature: float | None,
    top_k: int | None,
    top_p: float | None,
    seed: int | None,
    snapshot: str | None,
    engine: EngineOptions,
    results: str,
) -> None:
    """Write text with RUN, a language model.

    The text appears on stdout as it is written, without the prompt.
    """
    from seq2seq_chat.config import override_decoding
    from seq2seq_chat.runs.find import find_run

    run = find_run(run_name, results)
    given = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    decoding = override_decoding(run.config.decoding, **{k: v for k, v in given.items() if v is not None})
    text = _read_prompt(prompt)
    from seq2seq_chat.chat.generator import Generator
    from seq2seq_chat.search.batches import random_seed

    generator = Generator.load(run, snapshot, engine)
    for note in generator.notes(text):
        logger.warning("%s", note)
    for piece in generator.stream(text, length, decoding, random_seed(decoding)):
        click.echo(piece, nl=False)
        sys.stdout.flush()
    if sys.stdout.isatty():
        click.echo()


def _read_prompt(prompt: str | None) -> str:
    """The text of --prompt, from stdin if it is "-". Raises UserError."""
    if prompt != "-":
        return prompt or ""
    if sys.stdin is None:
        raise UserError("stdin is closed, but --prompt is -; pipe a text into it")
    try:
        return sys.stdin.buffer.read().decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise UserError(f"the prompt on stdin is not UTF-8 (byte {error.start})") from None
