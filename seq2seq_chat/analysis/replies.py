"""The same questions at every moment of a training, to several runs, and in transcripts made elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import NamedTuple

from matplotlib.figure import Figure

from seq2seq_chat.analysis.style import new_figure, plain
from seq2seq_chat.analysis.subject import Subject
from seq2seq_chat.config import Decoding, decoding_with
from seq2seq_chat.corpus.lines import numbered_lines
from seq2seq_chat.corpus.text import clean
from seq2seq_chat.errors import UserError

WRAPPED_AT = 32  # characters of a line in a drawn table

QUESTIONS = (
    "hello !",
    "how are you ?",
    "what is your name ?",
    "where are you from ?",
    "what do you do for a living ?",
    "what did you do yesterday ?",
    "do you like music ?",
    "i am hungry .",
    "how much is it ?",
    "what is the meaning of life ?",
    "thank you very much .",
    "good bye !",
)


class Column(NamedTuple):
    """Somebody's answers: a run at some moment, or a transcript."""

    label: str
    answers: list[str]  # to the questions, in their order; "" where there is none


def read_questions(path: str | Path | None) -> list[str]:
    """The questions of a text file, one a line, or the usual ones. Raises UserError where there is none."""
    if path is None:
        return list(QUESTIONS)
    questions = [line.strip() for _, line in numbered_lines(path, UserError) if line.strip()]
    if not questions:
        raise UserError(f"{path} has no question; write one a line")
    return questions


def read_transcript(path: str | Path, questions: Sequence[str]) -> Column:
    """Answers given elsewhere: lines of ``question<TAB>answer``, or only the answers, in the order of the questions.

    Raises:
        UserError: the file cannot be read, or its answers cannot be told to the questions.
    """
    lines = [(number, line) for number, line in numbered_lines(path, UserError) if line.strip()]
    label = Path(path).stem
    if not any("\t" in line for _, line in lines):
        if len(lines) != len(questions):
            raise UserError(
                f"{path} has {len(lines)} answers to {len(questions)} questions; write an answer a line in the order "
                "of the questions, or lines of question<TAB>answer"
            )
        return Column(label, [line.strip() for _, line in lines])
    answers: dict[str, str] = {}
    for number, line in lines:
        question, tab, answer = line.partition("\t")
        if not tab:
            raise UserError(f"{path}, line {number}: has no tab; write question<TAB>answer")
        answers.setdefault(clean(question), answer.strip())
    if not any(clean(question) in answers for question in questions):
        raise UserError(f"{path} answers none of the questions; they are: {'; '.join(questions[:5])} …")
    return Column(label, [answers.get(clean(question), "") for question in questions])


def ask(subject: Subject, questions: Sequence[str], label: str, decoding: Decoding | None = None) -> Column:
    """What the model answers as it is now; where words are drawn at random, it is the same draws every time."""
    decoding = decoding or subject.config.decoding
    if decoding.method == "sample" and decoding.seed is None:
        decoding = decoding_with(decoding, seed=subject.config.seed)
    return Column(label, [reply.text for reply in subject.bot.replies(list(questions), decoding)])


def draw_replies(questions: Sequence[str], columns: Sequence[Column]) -> Figure:
    """The table of answers as a picture, for a talk or a paper."""
    cells = [
        [question, *(column.answers[n] or "(nothing)" for column in columns)] for n, question in enumerate(questions)
    ]
    wrapped = [[fill(plain(cell, 120), WRAPPED_AT) for cell in row] for row in cells]
    heights = [max(cell.count("\n") + 1 for cell in row) for row in wrapped]
    figure = new_figure(2.3 * (len(columns) + 1), 0.5 + 0.17 * sum(heights) + 0.1 * len(heights))
    axes = figure.subplots()
    axes.axis("off")
    table = axes.table(
        wrapped, colLabels=["utterance", *(plain(c.label, 30) for c in columns)], loc="center", cellLoc="left"
    )
    table.auto_set_font_size(False)
    table.set_fontsize(8)
    unit = 1 / (sum(heights) + 0.6 * len(heights) + 1.6)
    for (row, place), cell in table.get_celld().items():
        cell.set_height(unit * (1.6 if row == 0 else heights[row - 1] + 0.6))
        cell.set_edgecolor("0.8")
        if row == 0 or place == 0:
            cell.get_text().set_fontweight("bold")
        if row == 0:
            cell.set_facecolor("0.93")
    return figure
