#!/usr/bin/env python3
"""Generate the bundled conversations: training and validation utterances for each topic, in many variants.

python scripts/generate_conversations.py configs/sample

Reads openings.txt (patterns and replies, explained at its top) and dialogues.txt (longer conversations) in FOLDER and
writes conversations.txt and validation.txt there. The patterns are expanded, contracted the way people type, and given
filler words and typing errors. The output is always the same for the same input.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from itertools import count, groupby, pairwise, product
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import click

from seq2seq_chat.cli.running import run_command
from seq2seq_chat.data.corpus_file import read_utterances, write_conversations

VARIANTS = 100  # minimum number of utterances of a topic
HELD_OUT = 0.03  # fraction of a topic's utterances that is used for validation
MAX_EXPANSIONS = 80  # of one pattern
CONTRACTIONS = {  # as the tokenizer leaves them, and as people type them
    "what is": ["what s", "whats"],
    "how is": ["how s", "hows"],
    "who is": ["who s", "whos"],
    "where is": ["where s"],
    "that is": ["that s", "thats"],
    "it is": ["it s", "its"],
    "let us": ["let s", "lets"],
    "i am": ["i m", "im"],
    "you are": ["you re", "youre", "ur"],
    "i have": ["i ve", "ive"],
    "i will": ["i ll"],
    "i would": ["i d"],
    "do not": ["don t", "dont"],
    "does not": ["doesn t"],
    "did not": ["didn t", "didnt"],
    "can not": ["can t", "cant", "cannot"],
    "could not": ["couldn t"],
    "is not": ["isn t"],
    "are you": ["are u", "r u"],
    "you": ["u"],
    "favourite": ["favorite"],
    "colour": ["color"],
    "please": ["pls"],
    "want to": ["wanna"],
    "going to": ["gonna"],
    "thank you": ["thankyou"],
}
PREFIXES = ["so", "and", "but", "well", "hey", "oh", "ok", "hi", "um", "now", "just", "please", "hello", "hey sequel"]
SUFFIXES = [
    "exactly",
    "actually",
    "then",
    "anyway",
    "please",
    "by the way",
    "my friend",
    "sequel",
    "right now",
    "today",
]
QUESTION = re.compile(r"(what|how|who|where|when|why|which|are|r|do|did|can|could|is|will|would|have|may|shall)\b")


Choice = tuple[tuple[tuple[int, int], ...], str]
"""(-group, alternative) where not the first alternative is chosen, so that tuples sort by group, and the text."""


class Topic(NamedTuple):
    """Utterances of the same meaning, and the reply to them."""

    patterns: list[str]
    reply: str


def read_topics(path: Path) -> list[Topic]:
    """Read the topics of openings.txt; lists of words are already inserted into the patterns."""
    words: dict[str, str] = {}
    topics: list[Topic] = []
    patterns: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        kind, _, text = line.partition(" ")
        if kind == "=":
            name, _, alternatives = text.partition(" ")
            words[name] = alternatives.strip()
        elif kind == "<":
            patterns.append(text.strip())
        elif kind == ">":
            topics.append(Topic(patterns, text.strip()))
            patterns = []
    return [
        Topic([re.sub(r"\{(\w+)\}", lambda m: words[m[1]], p) for p in topic.patterns], topic.reply) for topic in topics
    ]


def expand(pattern: str) -> list[str]:
    """Every text that matches a pattern, once, ordered by the alternatives chosen; inner groups count first."""
    tokens, groups = re.findall(r"[()\[\]|]|[^()\[\]|]+", pattern), count()
    expanded = sorted((choices, " ".join(text.split())) for choices, text in _expand(iter(tokens), groups))
    return list(dict.fromkeys(text for _, text in expanded))


def _expand(tokens: Iterator[str], groups: Iterator[int], optional: bool = False) -> list[Choice]:
    """Expand up to the closing bracket; groups are numbered in the order in which they close."""
    nothing: Choice = ((), "")
    alternatives = [[nothing], [nothing]] if optional else [[nothing]]
    for token in tokens:
        if token in ")]":
            break
        if token == "|":
            alternatives.append([nothing])
        else:
            part = _expand(tokens, groups, token == "[") if token in "([" else [((), token)]
            alternatives[-1] = [(a + b, start + end) for (a, start), (b, end) in product(alternatives[-1], part)]
    group = next(groups)
    return [((*c, (-group, n)) if n else c, text) for n, texts in enumerate(alternatives) for c, text in texts]


def vary(text: str, rng: random.Random) -> str:
    """A text as somebody might type it: contracted, with a filler word, a typing error or a punctuation mark."""
    short = text.count(" ") < 2
    for full, contracted in CONTRACTIONS.items():
        if rng.random() < 0.4:
            text = re.sub(rf"\b{full}\b", rng.choice(contracted), text)
    if not short and rng.random() < 0.15:
        text = f"{rng.choice(PREFIXES)} {text}"
    elif not short and rng.random() < 0.12:
        text = f"{text} {rng.choice(SUFFIXES)}"
    if rng.random() < 0.25:
        text = mistype(text, rng)
    if " " in text and rng.random() < 0.12:
        first, rest = text.split(" ", 1)
        text = f"{first} , {rest}"
    marks = ["", "", " ?"] if QUESTION.match(text) else ["", "", " .", " !"]
    return text + rng.choice(marks)


def mistype(text: str, rng: random.Random) -> str:
    """Swap two letters of a word of at least four letters, leave one out or double it."""
    words = text.split()
    places = [place for place, word in enumerate(words) if len(word) > 3]
    if not places:
        return text
    place = rng.choice(places)
    word = words[place]
    letter = rng.randrange(len(word) - 1)
    error = rng.choice(["swap", "swap", "omit", "double"])
    if error == "swap":
        word = word[:letter] + word[letter + 1] + word[letter] + word[letter + 2 :]
    elif error == "omit":
        word = word[: letter + 1] + word[letter + 2 :]
    else:
        word = word[:letter] + word[letter] + word[letter:]
    return " ".join([*words[:place], word, *words[place + 1 :]])


def utterances(topic: Topic, rng: random.Random) -> list[str]:
    """Distinct utterances of a topic in random order; short ones, which typing errors change most, in more variants."""
    plain: list[str] = []
    for pattern in topic.patterns:
        texts = expand(pattern)
        plain += rng.sample(texts, MAX_EXPANSIONS) if len(texts) > MAX_EXPANSIONS else texts
    plain = list(dict.fromkeys(plain))
    varied: list[str] = []
    for text in plain:
        short = text.count(" ") < 2
        varied += [text, vary(text, rng), vary(text, rng)] if short else [vary(text, rng)]
    while len(set(varied)) < VARIANTS:
        varied.append(vary(rng.choice(plain), rng))
    rng.shuffle(varied)
    return list(dict.fromkeys(varied))


def read_dialogues(path: Path, replies: Mapping[str, str]) -> list[list[str]]:
    """Read the longer conversations, except those that reply to an utterance otherwise than ``replies``."""
    conversations = [
        [utterance for _, utterance in group] for _, group in groupby(read_utterances(path), key=itemgetter(0))
    ]
    return [
        conversation
        for conversation in conversations
        if all(replies.get(text, reply) == reply for text, reply in pairwise(conversation))
    ]


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), help="Where to write.  [default: FOLDER]")
def main(folder: Path, output: Path | None) -> None:
    """Write both files and print their sizes."""
    rng, output = random.Random(1), output or folder
    replies: dict[str, str] = {}
    held_out: set[str] = set()
    for topic in read_topics(folder / "openings.txt"):
        texts = [text for text in utterances(topic, rng) if text not in replies]
        replies |= dict.fromkeys(texts, topic.reply)
        held_out.update(texts[: round(HELD_OUT * len(texts))])
    dialogues = read_dialogues(folder / "dialogues.txt", replies)
    pairs = list(replies.items())
    rng.shuffle(pairs)
    train = [pair for pair in pairs if pair[0] not in held_out]
    validation = [pair for pair in pairs if pair[0] in held_out]
    write_conversations(output / "conversations.txt", [*dialogues, *train])
    write_conversations(output / "validation.txt", validation)
    click.echo(f"{len(train):,} training utterances, {len(validation):,} validation utterances")


if __name__ == "__main__":
    run_command(main)
