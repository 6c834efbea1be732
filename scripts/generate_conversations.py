#!/usr/bin/env python3
"""Generate the bundled conversations: training and validation utterances for each topic, in many variants.

python scripts/generate_conversations.py configs/sample

Reads openings.txt (patterns and replies, explained at its top) in FOLDER and writes conversations.txt and
validation.txt there. The patterns are expanded, contracted the way people type, and given filler words and typing
errors. The output is always the same for the same input.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from itertools import chain, product
from math import prod
from pathlib import Path
from typing import NamedTuple, TypeAlias

import click

from seq2seq_chat.cli.options import run_command
from seq2seq_chat.data.corpus_file import write_conversations

VARIANTS = 92  # minimum number of utterances of a topic
MAX_TEXTS = 270  # of a topic, before variants
HELD_OUT = 0.03  # fraction of a topic's utterances that is used for validation
MAX_EXPANSIONS = 80  # of one pattern, besides those without optional words
MAX_REQUIRED = 100  # of those
COPIES = {0: 2, 1: 1, 2: 1}  # spaces in a text → how often it is repeated as it is
VARIED = {0: 5, 1: 2}  # the same for its variants; longer texts have one
CONTRACTIONS = {  # as the tokenizer leaves them, and as people type them
    "what is": ["what s", "whats"],
    "how is": ["how s", "hows"],
    "who is": ["who s", "whos"],
    "where is": ["where s"],
    "that is": ["that s", "thats"],
    "it is": ["it s", "its"],
    "let us": ["let s", "lets"],
    "i am": ["i m", "im"],
    "you are": ["you re", "youre", "your", "ur"],
    "i have": ["i ve", "ive"],
    "i will": ["i ll"],
    "i would": ["i d"],
    "do not": ["don t", "dont"],
    "does not": ["doesn t"],
    "did not": ["didn t", "didnt"],
    "can not": ["can t", "cant", "cannot"],
    "could not": ["couldn t"],
    "is not": ["isn t"],
    "will not": ["won t", "wont"],
    "how are you": ["how r u", "how are u", "hru"],
    "are you": ["are u", "r u"],
    "your": ["ur"],
    "you": ["u", "u", "ya"],
    "why": ["y"],
    "favourite": ["favorite", "fav"],
    "colour": ["color"],
    "please": ["pls", "plz"],
    "want to": ["wanna"],
    "going to": ["gonna"],
    "have to": ["gotta"],
    "give me": ["gimme"],
    "kind of": ["kinda"],
    "really": ["rly"],
    "something": ["smth", "sth"],
    "i do not know": ["idk", "dunno", "i don t know", "i dont know"],
    "by the way": ["btw"],
    "thanks": ["thx", "thanx"],
    "thank you": ["thankyou", "thank u"],
    "doing": ["doin"],
    "going": ["goin"],
    "tomorrow": ["tmrw"],
}
PREFIXES = ["so", "and", "but", "well", "hey", "oh", "ok", "hi", "um", "now", "just", "please", "hello", "hey sequel"]
SUFFIXES = [
    *("exactly", "actually", "then", "anyway", "please"),
    *("by the way", "my friend", "sequel", "right now", "today"),
]
PAIRS = 50  # of utterance and reply in a conversation
QUESTION = re.compile(r"(what|how|who|where|when|why|which|are|r|do|did|can|could|is|will|would|have|may|shall)\b")

Alternatives: TypeAlias = "list[list[str | Alternatives]]"
"""Each alternative of a pattern is a sequence of texts and groups."""


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


def parse(pattern: str) -> Alternatives:
    """The alternatives of a pattern."""
    return _parse(iter(re.findall(r"[()\[\]|]|[^()\[\]|]+", pattern)))


def _parse(tokens: Iterator[str]) -> Alternatives:
    """Parse up to the closing bracket."""
    alternatives: Alternatives = [[]]
    for token in tokens:
        if token in ")]":
            break
        if token == "|":
            alternatives.append([])
        elif token in "([":
            group = _parse(tokens)
            alternatives[-1].append(group if token == "(" else [[], *group])
        else:
            alternatives[-1].append(token)
    return alternatives


def count(alternatives: Alternatives) -> int:
    """Number of texts that match a pattern; those that match it in several ways count several times."""
    return sum(prod(1 if isinstance(part, str) else count(part) for part in parts) for parts in alternatives)


def expand(alternatives: Alternatives) -> list[str]:
    """Every text that matches a pattern."""
    expanded = [
        product(*([part] if isinstance(part, str) else expand(part) for part in parts)) for parts in alternatives
    ]
    return [" ".join("".join(parts).split()) for parts in chain.from_iterable(expanded)]


def pick(alternatives: Alternatives, rng: random.Random) -> str:
    """A random text that matches a pattern; the alternatives of a group are equally probable."""
    parts = (part if isinstance(part, str) else pick(part, rng) for part in rng.choice(alternatives))
    return " ".join("".join(parts).split())


def texts_of(pattern: str, rng: random.Random) -> list[str]:
    """All texts that match a pattern; if there are many, those without its optional words and a random selection."""
    alternatives, required = parse(pattern), parse(re.sub(r"\[[^\[\]]*\]", "", pattern))
    if count(alternatives) <= MAX_EXPANSIONS:
        return expand(alternatives)
    shortest = expand(required) if count(required) <= MAX_REQUIRED else []
    return shortest + [pick(alternatives, rng) for _ in range(MAX_EXPANSIONS)]


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
    if rng.random() < (0.4 if short else 0.25):
        text = mistype(text, rng)
    if " " in text and rng.random() < 0.06:
        first, rest = text.split(" ", 1)
        text = f"{first} , {rest}"
    marks = ["", "", " ?"] if QUESTION.match(text) else ["", "", " .", " !"]
    return text + rng.choice(marks)


def mistype(text: str, rng: random.Random) -> str:
    """Mistype a letter of a word of at least four letters, or lengthen a short text."""
    words = text.split()
    places = [place for place, word in enumerate(words) if len(word) > 3]
    if not places:
        return text + text[-1] * rng.randint(1, 3) if len(words) == 1 else text
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
    """Utterances of a topic in random order; short ones, which typing errors change most, in more variants."""
    plain = list(dict.fromkeys(chain.from_iterable(texts_of(pattern, rng) for pattern in topic.patterns)))
    plain = rng.sample(plain, min(len(plain), MAX_TEXTS))
    varied: list[str] = []
    for text in plain:
        spaces = text.count(" ")
        varied += [text] * COPIES.get(spaces, 0) + [vary(text, rng) for _ in range(VARIED.get(spaces, 1))]
    while len(set(varied)) < VARIANTS:
        varied.append(vary(rng.choice(plain), rng))
    rng.shuffle(varied)
    return varied


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), help="Where to write.  [default: FOLDER]")
def main(folder: Path, output: Path | None) -> None:
    """Write both files and print their sizes."""
    rng, output = random.Random(1), output or folder
    replies: dict[str, str] = {}
    train: list[tuple[str, str]] = []
    validation: list[tuple[str, str]] = []
    for topic in read_topics(folder / "openings.txt"):
        texts = [text for text in utterances(topic, rng) if text not in replies]
        replies |= dict.fromkeys(texts, topic.reply)
        longer = [text for text in dict.fromkeys(texts) if text.count(" ") > 2]  # shorter ones are unlike all others
        held_out = longer[: round(HELD_OUT * len(texts))]
        validation += [(text, topic.reply) for text in held_out]
        train += [(text, topic.reply) for text in texts if text not in held_out]
    for name, pairs in (("conversations", train), ("validation", validation)):
        rng.shuffle(pairs)
        conversations = (chain.from_iterable(pairs[n : n + PAIRS]) for n in range(0, len(pairs), PAIRS))
        write_conversations(output / f"{name}.txt", conversations)
    click.echo(f"{len(train):,} training utterances, {len(validation):,} validation utterances")


if __name__ == "__main__":
    run_command(main)
