"""An oracle for prepared corpora: plain Python, line by line, with dictionaries.

It shares nothing with the package but ``clean`` and, for corpora too small to be split, ``fill_empty_splits``.
"""

import json
import os
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import md5
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from seq2seq_chat.prepare.split import fill_empty_splits
from seq2seq_chat.text.tokenizers import Tokenizer
from seq2seq_chat.text.tokenizers.english import clean
from seq2seq_chat.text.vocabulary import Vocabulary

SPLITS = ("train", "validation", "test")
Conversations = list[tuple[str, list[str]]]  # thread, utterances


# ---- the oracle ------------------------------------------------------------------------------------------------------


def oracle_comments(files: Sequence[Sequence[str]]) -> Iterator[dict[str, Any]]:
    """The valid comments of dumps, given as lines."""
    for lines in files:
        for line in lines:
            try:
                comment = json.loads(line)
                _ = comment["id"], comment["body"] + comment["link_id"], comment["parent_id"], comment["subreddit"]
            except (ValueError, KeyError, TypeError):
                continue
            yield comment


def oracle_reddit(
    files: Sequence[Sequence[str]], subreddits: Sequence[str], max_words: int | None, min_score: int | None
) -> Conversations:
    """(submission, [comment, reply]) in the order of the comments, and of the replies to each."""
    known: dict[str, dict[str, Any]] = {}
    for comment in oracle_comments(files):
        if subreddits and comment["subreddit"].lower() not in subreddits:
            continue
        if comment["body"] in ("[deleted]", "[removed]"):
            continue
        if min_score is not None and comment.get("score", 0) < min_score:
            continue
        if re.search(r"\bbot\b", comment["body"]) and re.search(r"I(.a|['’])m an? (\w+ )?bot\b", comment["body"], re.I):
            continue
        body = comment["body"].replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&")
        body = re.sub(r"&#(\d+);", lambda match: chr(int(match[1])), body).replace("&nbsp;", " ")
        lines = [line for line in body.split("\n") if not re.match(r"[ \t]*>(?!!)", line)]
        body = re.split(r"\n[ \t]*\W{0,3}edit(?:ed)?\W{0,2}\d*\W{0,2}(?::|\s[-–])", "\n".join(lines), flags=re.I)[0]
        text = clean(body)
        if not text or (max_words is not None and len(comment["body"].split()) > max_words):
            continue
        name = comment.get("name") or "t1_" + comment["id"]
        known.setdefault(name, {"link": comment["link_id"], "parent": comment["parent_id"], "text": text})
    children: dict[str, list[str]] = {}
    for name, comment in known.items():
        parent = known.get(comment["parent"])
        if parent is not None and comment["parent"] != name and parent["link"] == comment["link"]:
            children.setdefault(comment["parent"], []).append(name)
    return [
        (known[name]["link"], [known[name]["text"], known[child]["text"]])
        for name in known
        for child in children.get(name, [])
    ]


def oracle_film(content: bytes) -> list[tuple[str, float | None, float | None]]:
    """(text, start, end) of the sentences that are not empty after cleaning. Raises ParseError."""
    flat: list[tuple[str, Any]] = []  # sentence ends, words and times in document order

    def walk(element: ET.Element, inside: bool) -> None:
        for child in element:
            if inside and child.tag == "w":
                flat.append(("word", "".join(child.itertext())))
            elif inside and child.tag == "time":
                flat.append(("time", (child.get("id", "").endswith("S"), child.get("value", ""))))
            walk(child, inside or child.tag == "s")
            if child.tag == "s":
                flat.append(("end", None))

    walk(ET.fromstring(content), False)
    sentences = []
    first = 0
    for index, (kind, _) in enumerate(flat):
        if kind != "end":
            continue
        words = [number for number in range(first, index) if flat[number][0] == "word"]
        first = index + 1
        text = clean(" ".join(flat[number][1] for number in words))
        if not text:
            continue
        before = [item for kind, item in flat[: words[0]] if kind == "time"][-1:]
        after = [item for kind, item in flat[words[-1] :] if kind == "time"][:1]
        start = oracle_seconds(before[0][1]) if before and before[0][0] else None
        end = oracle_seconds(after[0][1]) if after and not after[0][0] else None
        sentences.append((text, start, end))
    return sentences


def oracle_seconds(value: str) -> float | None:
    parts = re.split("[:,.]", value.strip())
    if len(parts) not in (3, 4) or not all(re.fullmatch(r"[0-9]+", part) for part in parts[:3]):
        return None
    fraction = (parts[3] if len(parts) == 4 else "")[:3]
    if fraction and not re.fullmatch(r"[0-9]+", fraction):
        return None
    hours, minutes, seconds = map(int, parts[:3])
    return ((hours * 3600 + minutes * 60 + seconds) * 1000 + int(fraction.ljust(3, "0") or 0)) / 1000


def oracle_films(contents: Sequence[tuple[str, bytes]], max_gap: float) -> Conversations:
    """The conversations of films, given with their names; damaged films are skipped."""
    conversations: Conversations = []
    for name, content in contents:
        try:
            sentences = oracle_film(content)
        except (ET.ParseError, UnicodeDecodeError):
            continue
        previous_end = None
        for number, (text, start, end) in enumerate(sentences):
            is_cut = start is not None and previous_end is not None and abs(start - previous_end) > max_gap
            if number == 0 or is_cut:
                conversations.append((name, []))
            conversations[-1][1].append(text)
            previous_end = end if end is not None else start
    return conversations


def oracle_split(
    conversations: Conversations, shares: tuple[float, float, float], seed: int
) -> dict[str, list[list[str]]]:
    """The conversations of each split."""
    splits: dict[str, str] = {}
    for thread, _ in conversations:
        position = int(md5(f"{seed} {thread}".encode()).hexdigest()[:13], 16) / 16**13 * sum(shares)
        splits[thread] = (
            "train" if position < shares[0] else "validation" if position < shares[0] + shares[1] else "test"
        )
    if len(splits) < 3 or set(splits.values()) != {name for name, share in zip(SPLITS, shares, strict=True) if share}:
        splits |= fill_empty_splits(splits, shares, seed)
    return {name: [texts for thread, texts in conversations if splits[thread] == name] for name in SPLITS}


# ---- prepared corpora ------------------------------------------------------------------------------------------------


def read_corpus_files(folder: Path) -> dict[str, list[list[str]]]:
    """The conversations in the corpus files."""
    splits = {}
    for name in SPLITS:
        text = (folder / f"{name}.txt").read_bytes().decode()
        assert text == "" or text.endswith("\n<<<<<END-CONV>>>>>\n")
        splits[name] = [part.split("\n")[:-1] for part in text.split("<<<<<END-CONV>>>>>\n")[:-1]]
    return splits


def check(
    folder: Path,
    conversations: Conversations,
    shares: tuple[float, float, float] = (97, 1, 2),
    seed: int = 1,
    tokenizer: Tokenizer | None = None,
) -> None:
    """Compare corpus files, table, vocabulary and statistics to those of the oracle for these conversations.

    Args:
        tokenizer: If given, corpus files hold texts as they are, and this encodes them.
    """
    encode = str.split if tokenizer is None else tokenizer.encode
    expected = oracle_split(conversations, shares, seed)
    assert read_corpus_files(folder) == expected
    rows = pq.read_table(folder / "utterances.parquet").to_pylist()
    numbered = [
        (name, number, position, text)
        for name in SPLITS
        for number, texts in enumerate(expected[name], sum(len(expected[n]) for n in SPLITS[: SPLITS.index(name)]))
        for position, text in enumerate(texts)
    ]
    assert [(row["split"], row["conversation"], row["position"], row["text"]) for row in rows] == numbered
    assert all(row["words"] == len(encode(row["text"])) for row in rows)
    if tokenizer is not None:
        assert [row["tokens"].split(" ") for row in rows] == [encode(row["text"]) for row in rows]
    counts = Counter(word for texts in expected["train"] for text in texts for word in encode(text))
    vocabulary = Vocabulary.load(folder / "vocabulary.txt").words
    if tokenizer is None or tokenizer.tokens is None:
        ranked = sorted(counts.keys() - set(vocabulary[:4]), key=lambda word: (-counts[word], word))
        assert vocabulary[4:] == ranked[: len(vocabulary) - 4]
    else:
        assert vocabulary[4:] == list(tokenizer.tokens)
    known_words = set(vocabulary[4:])
    statistics = json.loads((folder / "statistics.json").read_text())
    for name in SPLITS:
        texts = [text for conversation in expected[name] for text in conversation]
        words = [word for text in texts for word in encode(text)]
        known = sum(word in known_words for word in words)
        assert statistics[name] | {"samples": 0, "too_long_percent": 0} == {
            "conversations": len(expected[name]),
            "utterances": len(texts),
            "samples": 0,
            "words": len(words),
            "distinct_words": len(set(words)),
            "coverage_percent": round(100 * known / len(words), 2) if words else 0.0,
            "too_long_percent": 0,
        }


def data_folder(name: str) -> Path:
    data = os.environ.get("SEQ2SEQ_CHAT_DATA")
    if not data or not Path(data, name).is_dir():
        pytest.skip(f"SEQ2SEQ_CHAT_DATA names no folder with {name}/")
    return Path(data, name)
