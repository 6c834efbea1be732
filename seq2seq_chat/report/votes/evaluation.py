"""Blind evaluations on the disk: systems that reply to the same prompts, their replies, and the votes of judges.

::

    results/votes/2026-05-04_17-03-22_greedy-or-beam/
      evaluation.json     the columns, the prompts and the seed
      replies.jsonl       the replies, one line for each prompt and column
      votes.jsonl         the votes, and those that were withdrawn, one line each
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import random
import secrets
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from seq2seq_chat.config import Decoding
from seq2seq_chat.runs.json_lines import append_durably, read_objects
from seq2seq_chat.runs.run import create_folder
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import as_user_error, remove_folder, remove_temporary, write_json
from seq2seq_chat.system.lines import read_error

FOLDER, SETTINGS = "votes", "evaluation.json"

Choice = Literal["left", "right", "both_good", "both_bad"]
Outcome = Literal["first", "second", "both_good", "both_bad"]


class System(NamedTuple):
    """What replies: the weights of a run at a step, and decoding settings."""

    run: str
    step: int | None
    decoding: str  # see :func:`describe_decoding`

    def __str__(self) -> str:
        step = "" if self.step is None else f" at step {self.step:,}"
        return f"{self.run}{step}, {self.decoding}"


class Column(BaseModel):
    """A run, a snapshot and decoding settings, as they were chosen."""

    run: str
    snapshot: str | None = None
    decoding: dict[str, Any] = {}


class Settings(BaseModel):
    """The contents of evaluation.json."""

    columns: list[Column] = Field(min_length=2)
    prompts: list[str] = Field(min_length=1)
    seed: int


class StoredReply(BaseModel):
    """A line of replies.jsonl: the reply of a column to a prompt, both given by their index."""

    prompt: int
    column: int
    text: str
    step: int | None


class Vote(BaseModel):
    """A line of votes.jsonl: what a judge prefers."""

    time: str
    judge: str
    item: int  # see Evaluation.items
    prompt: str
    left: System
    right: System
    left_reply: str
    right_reply: str
    choice: Choice

    @property
    def systems(self) -> tuple[System, System]:
        """Both systems, in an order that does not depend on their sides."""
        first, second = sorted((self.left, self.right), key=str)
        return first, second

    @property
    def outcome(self) -> Outcome:
        """The vote in terms of :attr:`systems` rather than sides."""
        is_left = self.left == self.systems[0]
        outcomes: dict[Choice, Outcome] = {
            "left": "first" if is_left else "second",
            "right": "second" if is_left else "first",
            "both_good": "both_good",
            "both_bad": "both_bad",
        }
        return outcomes[self.choice]


class Withdrawal(BaseModel):
    """A line of votes.jsonl: the vote of a judge on an item, somewhere above it, does not count."""

    time: str
    judge: str
    item: int
    withdrawn: Literal[True] = True


class Item(NamedTuple):
    """Two columns that reply to a prompt, given by their indices."""

    prompt: int
    columns: tuple[int, int]


class Evaluation:
    """The folder of an evaluation."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._votes, self._replies = path / "votes.jsonl", path / "replies.jsonl"

    @functools.cached_property
    def settings(self) -> Settings:
        """Columns, prompts and seed. Raises UserError if the file is damaged or cannot be read."""
        file = self.path / SETTINGS
        try:
            return Settings.model_validate_json(file.read_bytes())
        except OSError as error:
            raise read_error(file, error, UserError) from error
        except ValidationError as error:
            raise UserError(f"{file} is damaged; restore it, or start another evaluation") from error

    @functools.cached_property
    def items(self) -> list[Item]:
        """All pairs of columns for all prompts in random order, the same for all judges, so that they can agree."""
        pairs = list(itertools.combinations(range(len(self.settings.columns)), 2))
        items = [Item(prompt, pair) for prompt in range(len(self.settings.prompts)) for pair in pairs]
        random.Random(f"{self.settings.seed}/items").shuffle(items)
        return items

    def sides(self, index: int, judge: str) -> tuple[int, int]:
        """The columns on the left and on the right when a judge sees an item: a function of seed, judge and item."""
        first, second = self.items[index].columns
        swapped = random.Random(f"{self.settings.seed}/{judge}/{index}").random() < 0.5
        return (second, first) if swapped else (first, second)

    def system(self, column: int, step: int | None) -> System:
        """What a column is with the weights of a step."""
        chosen = self.settings.columns[column]
        return System(chosen.run, step, describe_decoding(Decoding.model_validate(chosen.decoding)))

    def replies(self) -> dict[tuple[int, int], StoredReply]:
        """All replies by prompt and column; of several, the first."""
        replies: dict[tuple[int, int], StoredReply] = {}
        for reply in _read(self._replies, REPLY_LINE):
            replies.setdefault((reply.prompt, reply.column), reply)
        return replies

    def add_reply(self, reply: StoredReply) -> None:
        """Store a reply. Raises UserError if it could not be written."""
        append_durably(self._replies, reply.model_dump())

    def votes(self) -> list[Vote]:
        """All votes, oldest first, without withdrawn ones; of several of a judge on an item, the first."""
        return distinct_votes(self._standing().values())

    def voted(self, judge: str) -> dict[int, Vote]:
        """The votes of a judge by item, oldest first, without withdrawn ones; of several on an item, the first."""
        # not votes(): two items may turn out to have the same systems
        return {item: vote for (voter, item), vote in self._standing().items() if voter == judge}

    def _standing(self) -> dict[tuple[str, int], Vote]:
        standing: dict[tuple[str, int], Vote] = {}
        for line in _read(self._votes, VOTE_LINE):
            if isinstance(line, Vote):
                standing.setdefault((line.judge, line.item), line)
            else:
                standing.pop((line.judge, line.item), None)
        return standing

    def add_vote(self, judge: str, index: int, choice: Choice) -> Vote:
        """Record a vote on an item whose replies are stored. Raises UserError if it could not be written."""
        replies = self.replies()
        shown = [replies[self.items[index].prompt, column] for column in self.sides(index, judge)]
        left, right = (self.system(reply.column, reply.step) for reply in shown)
        vote = Vote(
            time=_now(),
            judge=judge,
            item=index,
            prompt=self.settings.prompts[self.items[index].prompt],
            left=left,
            right=right,
            left_reply=shown[0].text,
            right_reply=shown[1].text,
            choice=choice,
        )
        append_durably(self._votes, vote.model_dump())
        return vote

    def withdraw(self, judge: str, index: int) -> None:
        """Record that a vote does not count any more. Raises UserError if it could not be written."""
        append_durably(self._votes, Withdrawal(time=_now(), judge=judge, item=index).model_dump())

    def delete(self) -> None:
        """Delete the folder; if the process is killed meanwhile, the rest is hidden, and the next deletion removes it.

        Raises:
            UserError: It could not be deleted, and is as before.
        """
        with as_user_error(self.path):
            remove_folder(self.path)
        remove_temporary(self.path.parent)


def create_evaluation(results: Path, name: str, columns: Sequence[Column], prompts: Sequence[str]) -> Evaluation:
    """Start an evaluation of columns, which differ, on prompts; duplicated ones are used once.

    Raises:
        UserError: The folder could not be written.
    """
    folder = create_folder(results / FOLDER, name)
    settings = Settings(columns=list(columns), prompts=list(dict.fromkeys(prompts)), seed=secrets.randbelow(2**31))
    write_json(folder / SETTINGS, settings.model_dump())
    return Evaluation(folder)


def list_evaluations(results: Path) -> list[Evaluation]:
    """All evaluations below a folder of results, oldest first."""
    return [Evaluation(file.parent) for file in sorted((results / FOLDER).glob(f"[!.]*/{SETTINGS}"))]


def votes_on_runs(results: Path, runs: Collection[str]) -> list[Vote]:
    """The votes of all evaluations in which both systems belong to these runs, oldest evaluation first."""
    votes = (vote for evaluation in list_evaluations(results) for vote in evaluation.votes())
    return distinct_votes(vote for vote in votes if {vote.left.run, vote.right.run} <= set(runs))


def distinct_votes(votes: Iterable[Vote]) -> list[Vote]:
    """Without repeated votes: of several of a judge on the same prompt and systems, the first counts."""
    distinct: dict[Any, Vote] = {}
    for vote in votes:
        distinct.setdefault((vote.judge, vote.prompt, vote.systems), vote)
    return list(distinct.values())


def describe_decoding(decoding: Decoding) -> str:
    """The method, and the settings of a single reply that differ from their defaults: "beam, beam_width 5"."""
    settings = decoding.model_dump(exclude={"method", "n_best"}, exclude_defaults=True)
    if decoding.method == "beam":
        settings = {"beam_width": decoding.beam_width, **settings}
    else:
        settings.pop("beam_width", None)
    return ", ".join([decoding.method, *(f"{name} {json.dumps(value)}" for name, value in settings.items())])


Line = TypeVar("Line")
REPLY_LINE = TypeAdapter(StoredReply)
VOTE_LINE: TypeAdapter[Vote | Withdrawal] = TypeAdapter(Vote | Withdrawal)


def _read(path: Path, line_type: TypeAdapter[Line]) -> Iterator[Line]:
    """The valid lines of a file; those that are damaged are reported."""
    for line in read_objects(path, reports=True):
        with contextlib.suppress(ValidationError):
            yield line_type.validate_python(line)


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")
