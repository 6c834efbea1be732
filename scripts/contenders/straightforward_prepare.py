"""A straightforward implementation of `prepare`, line by line and without a database for tables."""

from __future__ import annotations

import json
import shelve
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from seq2seq_chat.data.tokenizers.english import clean


def plain_reddit(path: Path, max_bytes: int, output: Path, subreddits: tuple[str, ...]) -> int:
    """Run the straightforward implementation; return the number of bytes read."""
    read = 0
    with shelve.open(str(output / "tree"), "n") as tree, open(path, "rb") as file:
        order = []
        for line in file:
            read += len(line)
            comment = json.loads(line)
            if (not subreddits or comment["subreddit"] in subreddits) and comment["body"] not in (
                "[deleted]",
                "[removed]",
            ):
                text = clean(comment["body"])
                if text:
                    tree[comment["name"]] = (comment["parent_id"], text)
                    order.append(comment["name"])
            if read >= max_bytes:
                break
        pairs = ((tree[tree[name][0]][1], tree[name][1]) for name in order if tree[name][0] in tree)
        plain_output(pairs, output)
    return read


def plain_opensubtitles(folder: Path, max_bytes: int, output: Path, subreddits: tuple[str, ...]) -> int:
    """Run the straightforward implementation; return the number of bytes read."""
    read = 0

    def films() -> Iterator[list[str]]:
        nonlocal read
        for path in sorted((folder / "xml").rglob("*.xml")):
            read += path.stat().st_size
            document = ET.parse(path).getroot()
            texts = (clean(" ".join(word.text or "" for word in sentence.iter("w"))) for sentence in document.iter("s"))
            yield [text for text in texts if text]
            if read >= max_bytes:
                break

    plain_output(films(), output)
    return read


def plain_output(conversations: Iterable[Iterable[str]], output: Path) -> None:
    """Write a corpus file and its vocabulary."""
    counts: Counter[str] = Counter()
    with open(output / "train.txt", "w", encoding="utf-8") as file:
        for conversation in conversations:
            for text in conversation:
                file.write(text + "\n")
                counts.update(text.split())
            file.write("<<<<<END-CONV>>>>>\n")
    with open(output / "vocabulary.txt", "w", encoding="utf-8") as file:
        file.writelines(f"{word}\n" for word, _ in counts.most_common(50_000))
