"""`seq2seq-chat score`."""

from __future__ import annotations

import json
import logging
import sys
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import click

from seq2seq_chat.cli.options import (
    engine_options,
    ensure_can_create,
    json_option,
    results_option,
    run_argument,
    snapshot_option,
)
from seq2seq_chat.system.errors import UserError

if TYPE_CHECKING:
    from io import BufferedReader

    import numpy.typing as npt

    from seq2seq_chat.runs.run import Run
    from seq2seq_chat.system.hardware import EngineOptions

logger = logging.getLogger(__name__)
LINES_AT_ONCE = 256


class _Sample(NamedTuple):
    """The tokens of a line to score."""

    source: list[str]  # empty for a language model
    target: list[str]


@click.command()
@run_argument
@click.argument("file", metavar="FILE")
@snapshot_option
@engine_options
@json_option
@results_option
def score(
    run_name: str,
    file: str,
    snapshot: str | None,
    engine: EngineOptions,
    json_file: str | None,
    results: str,
) -> None:
    """Score the texts of FILE with RUN; `-` reads stdin.

    FILE has lines of source<TAB>target, or for a language model lines of text. For each line, prints the
    log-probability of the target or text in nats, its number of tokens, and the log-probability of each token,
    separated by tabs. The end of the target or line is the last token.
    """
    from seq2seq_chat.runs.find import find_run
    from seq2seq_chat.system.files import write_atomically
    from seq2seq_chat.system.lines import numbered_lines
    from seq2seq_chat.text.vocabulary import EOS, SPECIAL_WORDS

    run = find_run(run_name, results)
    ensure_can_create("--json", json_file)
    parser = _Parser(run)
    blocks: Iterable[list[_Sample]] = _stdin_blocks(parser)
    if file != "-":  # all lines are checked before the first one is scored
        samples = [parser.sample(f"{file}, line {number}", line) for number, line in numbered_lines(file, UserError)]
        blocks = (samples[first : first + LINES_AT_ONCE] for first in range(0, len(samples), LINES_AT_ONCE))
    log_probabilities = _load(run, snapshot, engine)
    end = "\n" if run.codecs.target.tokenizer.keeps_line_breaks else SPECIAL_WORDS[EOS]
    scores: list[dict[str, Any]] = []
    for block in blocks:
        for sample, values in zip(block, log_probabilities(block), strict=True):
            total = values.sum(dtype="float64")
            click.echo(f"{total:.4f}\t{len(values)}\t{' '.join(f'{value:.4f}' for value in values)}")
            if json_file:
                tokens = [*sample.target, end][: len(values)]
                scores.append({"log_probability": total, "tokens": tokens, "log_probabilities": values.tolist()})
        sys.stdout.flush()  # the other program may wait for the scores before it writes the next line
    if json_file:
        write_atomically(json_file, json.dumps(scores, indent=2, ensure_ascii=False) + "\n")


def _stdin_blocks(parser: _Parser) -> Iterator[list[_Sample]]:
    """The lines of stdin, in blocks of those that can be read without waiting."""
    from seq2seq_chat.cli.conversation import available_lines

    if sys.stdin is None:
        raise UserError("stdin is closed; connect it to a file or pipe")
    done = 0
    for block in available_lines(cast("BufferedReader", sys.stdin.buffer), LINES_AT_ONCE):
        samples = []
        for number, line in enumerate(block, start=done + 1):
            try:
                text = line.removeprefix(BOM_UTF8 if number == 1 else b"").removesuffix(b"\r").decode("utf-8")
            except UnicodeDecodeError:
                raise UserError(f"stdin, line {number} is not UTF-8") from None
            samples.append(parser.sample(f"stdin, line {number}", text))
        done += len(block)
        yield samples


class _Parser:
    """Tokenizes the lines for a run, and warns of the first one that is longer than its model reads."""

    def __init__(self, run: Run) -> None:
        self._tokenizers, self._model = run.codecs.tokenizers, run.config.model
        self._has_pairs, self._warned = run.config.task != "language_model", False

    def sample(self, place: str, line: str) -> _Sample:
        """The sample of a line. Raises UserError if it is no pair of texts with tokens; ``place`` names the line."""
        if not self._has_pairs:
            return _Sample([], self._tokenizers.source.encode(line))
        texts = line.split("\t")
        if len(texts) != 2:
            raise UserError(f"{place}: write two columns, source<TAB>target, not {len(texts)}")
        sample = _Sample(*(tokenizer.encode(text) for tokenizer, text in zip(self._tokenizers, texts, strict=True)))
        for side, tokens in sample._asdict().items():
            if not tokens:
                raise UserError(f"{place}: the {side} has no tokens that the model can read; remove the line")
        limits = self._model.encoder_steps, self._model.decoder_steps
        if not self._warned and (len(sample.source) > limits[0] or len(sample.target) >= limits[1]):
            self._warned = True
            message = (
                "%s is too long: only the last %d tokens of a source are read, and the first %d of a target scored"
            )
            logger.warning(message, place, *limits)
        return sample


def _load(run: Run, snapshot: str | None, options: EngineOptions) -> Callable[[list[_Sample]], list[npt.NDArray[Any]]]:
    """Load what computes the log-probability of each token of some samples."""
    from seq2seq_chat.chat.chatbot import Chatbot
    from seq2seq_chat.chat.generator import Generator

    if run.config.task == "language_model":
        generator = Generator.load(run, snapshot, options)
        return lambda samples: generator.token_log_probabilities([target for _, target in samples])
    bot = Chatbot.load(run, snapshot, options)
    return lambda samples: bot.token_log_probabilities(*zip(*samples, strict=True))
