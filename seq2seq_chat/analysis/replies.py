"""Replies to the same questions: of snapshots, of several runs, and in transcripts of other systems."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from seq2seq_chat.analysis.loaded_run import LoadedRun
from seq2seq_chat.config import override_decoding
from seq2seq_chat.data.bundled import bundled_questions
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.data.lines import numbered_lines
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.errors import UserError

QUESTIONS = tuple(bundled_questions().read_text(encoding="utf-8").splitlines())


class ReplyColumn(NamedTuple):
    """The replies of a run at a snapshot, or of a transcript."""

    label: str
    replies: list[str]  # in the order of the questions; "" if there is none


def read_questions(path: str | Path | None) -> list[str]:
    """Read questions from a text file, one per line; None for the default ones. Raises UserError if it is empty."""
    if path is None:
        return list(QUESTIONS)
    questions = [line.strip() for _, line in numbered_lines(path, UserError) if line.strip()]
    if not questions:
        raise UserError(f"{path} contains no questions; write one per line")
    return questions


def default_questions(run: Run, data: str | None = None) -> list[str]:
    """The questions of a report; for a translation run, the first sources of ``data`` or else of its test corpus."""
    settings = run.config.data
    if run.config.task == "translation":
        with suppress(UserError):  # the corpus is missing; the report says so
            files = data or settings.test or settings.validation or settings.train
            corpus = Dataset.open(files, run.codecs, settings)
            return list(dict.fromkeys(corpus.text(n).source for n in range(min(len(corpus), len(QUESTIONS)))))
    return list(QUESTIONS)


def read_transcript(path: str | Path, questions: Sequence[str]) -> ReplyColumn:
    """Read replies of another system: lines of ``question<TAB>reply``, or one reply per question in their order.

    Raises:
        UserError: The file cannot be read or does not match the questions.
    """
    lines = [(number, line) for number, line in numbered_lines(path, UserError) if line.strip()]
    label = Path(path).stem
    if not any("\t" in line for _, line in lines):
        if len(lines) != len(questions):
            raise UserError(
                f"{path} has {len(lines)} replies to {len(questions)} questions; write one per line in the order of "
                "the questions, or lines of question<TAB>reply"
            )
        return ReplyColumn(label, [line.strip() for _, line in lines])
    replies: dict[str, str] = {}
    for number, line in lines:
        question, tab, reply = line.partition("\t")
        if not tab:
            raise UserError(f"{path}, line {number}: missing tab; write question<TAB>reply")
        replies.setdefault(_words(question), reply.strip())
    if not any(_words(question) in replies for question in questions):
        raise UserError(f"{path} replies to none of the questions, which are: {'; '.join(questions[:5])} …")
    return ReplyColumn(label, [replies.get(_words(question), "") for question in questions])


def _words(question: str) -> str:
    """The words of a question, by which questions are matched: without case, punctuation marks and extra spaces."""
    return " ".join(re.findall(r"\w+", question.casefold()))


def reply_to_all(loaded: LoadedRun, questions: Sequence[str], label: str) -> ReplyColumn:
    """Reply to questions with the current weights; sampling uses a fixed seed."""
    decoding = loaded.config.decoding
    if decoding.method == "sample" and decoding.seed is None:
        decoding = override_decoding(decoding, seed=loaded.config.seed)
    return ReplyColumn(label, [reply.text for reply in loaded.chatbot.replies(list(questions), decoding)])
