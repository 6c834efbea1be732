"""Generated corpora in the formats of the originals, for benchmarks of `prepare`."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path

SUBREDDITS = ("movies", "television", "films")
SELECTED_SHARE = 0.035  # of the comments; the thesis had 39 million pairs of 1,650 million comments, which is 2.4 %


class Words:
    """Sentences of about ten words, drawn from 200,000 made-up words by Zipf's law."""

    def __init__(self) -> None:
        self._rng = random.Random(1)
        spelling_rng = random.Random(1)
        syllables = ["".join(pair) for pair in itertools.product("bcdfghjklmnprstvwz", "aeiou")]
        words = ["the", "i", "you", "it", "to", "a", "and", "of"]
        words += [
            "".join(spelling_rng.choice(syllables) for _ in range(spelling_rng.randrange(2, 6))) for _ in range(200_000)
        ]
        weights = itertools.accumulate(1 / rank for rank in range(1, len(words) + 1))
        # For speed, draw a long sequence once and read it from random positions.
        self._sequence = self._rng.choices(words, cum_weights=list(weights), k=3_000_000)

    def sentence(self) -> list[str]:
        """A capitalized sentence with a final punctuation mark."""
        length = 1 + int(self._rng.expovariate(1 / 9))
        start = self._rng.randrange(len(self._sequence) - length)
        words = self._sequence[start : start + length]
        words[0] = words[0].capitalize()
        words[-1] += self._rng.choice(".....,!??")
        return words


def generate_reddit(path: Path, megabytes: float) -> None:
    """Write a month of comments, with reply trees, deleted comments and missing parents."""
    if path.exists() and path.stat().st_size >= megabytes * 1e6:
        return
    rng, words = random.Random(1), Words()
    others = [f"subreddit{number}" for number in range(3000)]
    threads: list[tuple[str, str, list[str]]] = []
    with open(path, "w", encoding="ascii") as file:
        written, number = 0, 0
        while written < megabytes * 1e6:
            number += 1
            if len(threads) < 5000 or rng.random() < 0.05:
                subreddit = rng.choice(SUBREDDITS) if rng.random() < SELECTED_SHARE else rng.choice(others)
                thread: tuple[str, str, list[str]] = (f"t3_{number:x}", subreddit, [])
                if len(threads) < 5000:
                    threads.append(thread)
                else:
                    threads[rng.randrange(len(threads))] = thread
            link, subreddit, names = rng.choice(threads)
            kind = rng.random()
            parent = link if not names or kind < 0.3 else "t1_gone" if kind < 0.33 else rng.choice(names[-20:])
            body = " ".join(itertools.chain(*(words.sentence() for _ in range(rng.randrange(1, 6)))))
            if kind > 0.95:
                body = "[deleted]"
            elif kind > 0.9:
                body += " &gt; it\u2019s caf\u00e9 \U0001f600\n\nyes"
            name = f"t1_c{number:x}"
            names.append(name)
            comment = {
                "gilded": 0, "author_flair_text": None, "author_flair_css_class": None, "retrieved_on": 1425846807,
                "ups": 3, "subreddit_id": f"t5_{len(subreddit)}", "edited": False, "controversiality": 0,
                "parent_id": parent, "subreddit": subreddit, "body": body, "created_utc": str(1420070400 + number // 9),
                "downs": 0, "score": rng.randrange(-5, 50), "author": f"user{number % 99991}", "archived": False,
                "distinguished": None, "id": name[3:], "score_hidden": False, "name": name, "link_id": link,
            }  # fmt: skip
            line = json.dumps(comment, separators=(",", ":")) + "\n"
            written += len(line)
            file.write(line)


def generate_opensubtitles(folder: Path, megabytes: float) -> None:
    """Write a tree of OPUS XML files of about 100 kB each; every fiftieth repeats the last with different times."""
    done = folder / "done"
    if done.exists() and float(done.read_text()) >= megabytes:
        return
    rng, words = random.Random(1), Words()
    total, film = 0, 0
    sentences: list[list[str]] = []
    while total < megabytes * 1e6:
        film += 1
        if film % 50:
            sentences = [words.sentence() for _ in range(rng.randrange(100, 500))]
        clock = 1000 * rng.randrange(90)
        lines = ['<?xml version="1.0" encoding="utf-8"?>', f'<document id="{film}">']
        for number, sentence in enumerate(sentences, 1):
            lines.append(f'  <s id="{number}">')
            clock += rng.choice([100, 700, 900, 2000, 15000])
            if rng.random() < 0.9:
                lines.append(f'    <time id="T{number}S" value="{stamp(clock)}" />')
            tokens = [*sentence[:-1], sentence[-1][:-1], sentence[-1][-1]]
            lines += [f'    <w id="{number}.{place}">{word}</w>' for place, word in enumerate(tokens, 1)]
            clock += 300 * len(tokens)
            if rng.random() < 0.9:
                lines.append(f'    <time id="T{number}E" value="{stamp(clock)}" />')
            lines.append("  </s>")
        subtitle = f"    <subtitle><blocks>{len(sentences)}</blocks></subtitle>"
        lines += ["  <meta>", subtitle, "  </meta>", "</document>", ""]
        path = folder / "xml" / "en" / str(1990 + film % 25) / str(film) / f"{film}.xml"
        path.parent.mkdir(parents=True, exist_ok=True)
        total += path.write_text("\n".join(lines), encoding="ascii")
    done.write_text(str(megabytes))


def stamp(milliseconds: int) -> str:
    """A time in the format of subtitles."""
    seconds = milliseconds // 1000
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02},{milliseconds % 1000:03}"
