"""Compare the results of queries, also those of scripts, to results of plain Python, on real and generated corpora."""

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from analyze_coverage import missing_words
from analyze_ngrams import ngram_counts
from analyze_time_lags import time_lags

from seq2seq_chat.prepare import queries
from seq2seq_chat.prepare.engine import fetch_rows, open_engine
from seq2seq_chat.prepare.pipeline import prepare
from seq2seq_chat.prepare.settings import PrepareSettings
from seq2seq_chat.prepare.statistics import vocabulary_table
from seq2seq_chat.prepare.utterances import PREPARED
from seq2seq_chat.text.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[list[tuple[str, float | None]]]]:
    """A prepared folder of films with times, and its conversations as (text, start) pairs."""
    rng = random.Random(5)
    folder = tmp_path_factory.mktemp("counted")
    conversations = []
    for film in range(30):
        clock, parts, texts = 0, [], []
        for _ in range(rng.randrange(2, 40)):
            clock += rng.choice([250, 500, 1000, 1499, 2250, 3000, 4800, 7600, 9100, 61000])
            text = " ".join(rng.choice("abcdefgh") for _ in range(rng.randrange(1, 7)))
            known = rng.random() < 0.9
            value = f"00:{clock // 60000:02}:{clock // 1000 % 60:02},{clock % 1000:03}"
            time = f'<time id="T1S" value="{value}"/>' if known else '<time id="T1E" value="x"/>'
            parts.append(f'<s id="1">{time}{"".join(f"<w>{word}</w>" for word in text.split())}</s>')
            texts.append((text, clock / 1000 if known else None))
        (folder / f"{film}.xml").write_text(f"<document>{''.join(parts)}</document>")
        conversations.append(texts)
    settings = PrepareSettings("opensubtitles", max_gap=1e9, keep_copies=True, split=(1, 0, 0), vocabulary_size=9)
    prepare(settings, [folder], folder / "out")
    order = sorted(range(30), key=lambda number: f"{number}.xml")
    return folder / "out", [conversations[number] for number in order]


def rows(expression: Callable[[Any, Any], Any], folder: Path, scratch: Path) -> list[tuple[Any, ...]]:
    """The result of a query over a prepared folder, with DuckDB."""
    with open_engine("duckdb", scratch) as engine:
        query = expression(engine.table(folder / "utterances.parquet"), engine)
        return [tuple(row.values()) for row in fetch_rows(engine, query)]


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_ngrams(counted: Any, tmp_path: Path, size: int) -> None:
    folder, conversations = counted
    expected: Counter[str] = Counter()
    for texts in conversations:
        for text, _ in texts:
            words = text.split()
            expected.update(" ".join(words[start : start + size]) for start in range(len(words) - size + 1))
    result = rows(lambda table, _: ngram_counts(table, size), folder, tmp_path)
    assert dict(result) == expected
    top = rows(lambda table, _: queries.most_frequent(ngram_counts(table, size), 7, "ngram"), folder, tmp_path)
    assert top == sorted(expected.items(), key=lambda item: (-item[1], item[0]))[:7]


def test_missing_words(counted: Any, tmp_path: Path) -> None:
    folder, conversations = counted
    vocabulary = Vocabulary.load(folder / "vocabulary.txt")
    known = set(vocabulary.words[4:])
    assert len(known) == 5
    expected = Counter(sum(word not in known for word in text.split()) for texts in conversations for text, _ in texts)
    result = rows(lambda t, engine: missing_words(t, vocabulary_table(engine, vocabulary, tmp_path)), folder, tmp_path)
    assert result == sorted(expected.items())


def test_time_lags(counted: Any, tmp_path: Path) -> None:
    folder, conversations = counted
    expected: Counter[int | None] = Counter()
    for texts in conversations:
        for (_, before), (_, start) in pairwise(texts):
            expected[None if before is None or start is None else math.floor(start - before + 0.5)] += 1
    assert len(expected) > 8
    assert dict(rows(lambda table, _: time_lags(table, "starts"), folder, tmp_path)) == expected


def write_times(folder: Path, utterances: list[tuple[str, int, int, float | None, float | None]]) -> None:
    """Write a table of utterances: thread, conversation, position, start, end."""
    names = ("thread", "conversation", "position", "start", "end")
    table = [dict(zip(names, row, strict=True)) | {"split": "train", "text": "a", "words": 1} for row in utterances]
    pq.write_table(pa.Table.from_pylist(table, PREPARED), folder / "utterances.parquet")


@pytest.mark.parametrize(
    ("between", "lags"),
    [("starts", [(3, 1), (4, 2), (28, 1), (None, 2)]), ("silence", [(-1, 2), (3, 1), (10, 1), (None, 2)])],
)
def test_time_lags_by_hand(tmp_path: Path, between: str, lags: list[tuple[int | None, int]]) -> None:
    """A film is cut twice, before 36 seconds and where a start is unknown; another film follows."""
    film = [("A", 0, 0, 1.0, 2.0), ("A", 0, 1, 5.0, 9.0), ("A", 0, 2, 8.0, None)]
    film += [("A", 1, 0, 36.0, 41.0), ("A", 1, 1, 40.0, 43.0), ("A", 2, 0, None, 50.0), ("A", 2, 1, 60.0, 61.0)]
    write_times(tmp_path, [*film, ("B", 3, 0, 1.0, 2.0)])
    (scratch := tmp_path / "scratch").mkdir()
    assert rows(lambda table, _: time_lags(table, between), tmp_path, scratch) == lags


def test_time_lags_of_replies(tmp_path: Path) -> None:
    """The lags of a submission are those between a comment and a reply, not from one pair to the next."""
    pairs = [("s", 0, 0, 100.0, None), ("s", 0, 1, 107.0, None), ("s", 1, 0, 100.0, None), ("s", 1, 1, 130.0, None)]
    write_times(tmp_path, [*pairs, ("t", 2, 0, 140.0, None), ("t", 2, 1, 141.0, None)])
    (scratch := tmp_path / "scratch").mkdir()
    found = rows(lambda table, _: time_lags(table, "starts"), tmp_path, scratch)
    assert found == [(1, 1), (7, 1), (30, 1)]


def query(
    expression: Callable[[Any], Any], columns: dict[str, list[Any]], types: list[tuple[str, Any]], scratch: Path
) -> list[tuple[Any, ...]]:
    """The result of a query over a table, with DuckDB, sorted."""
    pq.write_table(pa.table(columns, pa.schema(types)), scratch / "table.parquet")
    with open_engine("duckdb", scratch) as engine:
        found = fetch_rows(engine, expression(engine.table(scratch / "table.parquet")))
    return sorted(tuple(row.values()) for row in found)


def test_copies_of_films(tmp_path: Path) -> None:
    """Equal films, and films of which at least half of the sketches are shared; incomplete sketches do not count."""
    rng, size = random.Random(3), 6
    sketches = {file: set(rng.sample(range(9), size if file % 4 else size - 1)) for file in range(12)}
    exact = {file: rng.choice([100, 101, None]) for file in range(12)}
    entries = [(file, fingerprint, False) for file, sketch in sketches.items() for fingerprint in sketch]
    entries += [(file, fingerprint, True) for file, fingerprint in exact.items() if fingerprint is not None]
    columns = dict(zip(("file", "fingerprint", "exact"), map(list, zip(*entries, strict=True)), strict=True))
    types = [("file", pa.int32()), ("fingerprint", pa.int64()), ("exact", pa.bool_())]
    shared = {pair: len(sketches[pair[0]] & sketches[pair[1]]) for pair in itertools.combinations(range(12), 2)}
    assert size // 2 in shared.values()
    expected = [
        (one, other)
        for (one, other), count in shared.items()
        if (2 * count >= size and one % 4 and other % 4) or (exact[one] is not None and exact[one] == exact[other])
    ]
    assert query(lambda table: queries.find_copies(table, size), columns, types, tmp_path) == expected


def test_utterances_over_time(tmp_path: Path) -> None:
    columns, types = {"start": [100.0, 104.9, 105.0, 119.0, 120.0, None]}, [("start", pa.float64())]
    counts = query(lambda table: queries.over_time(table, 100.0, 120.0, 4), columns, types, tmp_path)
    assert counts == [(0, 2), (1, 1), (3, 2)]
    counts = query(lambda table: queries.over_time(table, 100.0, 100.0, 4), {"start": [100.0]}, types, tmp_path)
    assert counts == [(0, 1)]


def test_silences(tmp_path: Path) -> None:
    """Only a silence that is longer than the limit cuts, also one of a clock that jumps back."""
    times = [(9.0, 4.0), (9.0, 3.5), (9.0, 3.0), (3.0, 8.0), (3.0, 8.5), (None, 1.0), (50.0, None), (None, None)]
    columns = {"row": list(range(8)), "start": [a for a, _ in times], "previous_end": [b for _, b in times]}
    types = [("row", pa.int64()), ("start", pa.float64()), ("previous_end", pa.float64())]
    found = query(lambda table: queries.cut_at_silences(table, 5.0).select("row", "cut"), columns, types, tmp_path)
    assert [cut for _, cut in found] == [0, 1, 1, 0, 1, 0, 0, 0]


def test_replies_to_comments(tmp_path: Path) -> None:
    """Against plain Python, with ids that occur twice, and parents that are missing or of another submission."""
    rng = random.Random(5)
    comments = [(rng.choice("ST"), rng.randrange(30), rng.randrange(33), n) for n in range(60)]
    rng.shuffle(comments)
    names = ("link", "id", "parent", "ordinal")
    columns = dict(zip(names, map(list, zip(*comments, strict=True)), strict=True))
    types = [("link", pa.string()), ("id", pa.int64()), ("parent", pa.int64()), ("ordinal", pa.int64())]
    first: dict[int, tuple[str, int, int, int]] = {}
    for comment in sorted(comments, key=lambda comment: comment[3]):
        first.setdefault(comment[1], comment)
    expected = [
        (link, first[parent][3], ordinal)
        for link, name, parent, ordinal in first.values()
        if parent != name and parent in first and first[parent][0] == link
    ]
    assert len(expected) > 5
    assert query(queries.reply_pairs, columns, types, tmp_path) == sorted(expected)


@pytest.mark.parametrize("pairing", ["sliding", "alternating"])
def test_samples(counted: Any, tmp_path: Path, pairing: Any) -> None:
    folder, conversations = counted
    lengths = [[len(text.split()) for text, _ in texts] for texts in conversations]
    step = 1 if pairing == "sliding" else 2
    pairs = [pair for conversation in lengths for pair in list(pairwise(conversation))[::step]]
    too_long = sum(source > 4 or target + 1 > 5 for source, target in pairs)
    (row,) = rows(lambda table, _: queries.split_statistics(table, pairing, 4, 5), folder, tmp_path)
    words = sum(map(sum, lengths))
    assert row == ("train", 30, sum(map(len, lengths)), words, len(pairs), too_long)
