"""DuckDB and Spark make the same bytes of the same inputs."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import ibis
import pytest

from seq2seq_chat.corpus import prepare, tables
from seq2seq_chat.corpus.engine import memory_bytes, open_engine
from seq2seq_chat.errors import UserError


@pytest.fixture
def spark() -> None:
    """Skips where there is no Spark."""
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("pyspark is not installed: pip install -c constraints.txt -e '.[spark]'")
    java = os.environ.get("JAVA_HOME")
    if shutil.which("java") is None and not (java and Path(java, "bin", "java").is_file()):
        pytest.skip("there is no Java, which Spark needs")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def reddit(folder: Path) -> Path:
    """Trees, orphans, cycles and names that occur twice."""
    draw = random.Random(3)
    words = ["caf\u00e9", "the", "film", "was", "good", ".", "why", "?", "&gt;", "you"]
    for month in range(3):
        with open(folder / f"RC_2011-0{month}", "w", encoding="utf-8") as file:
            for _ in range(700):
                fields = {
                    "id": f"c{draw.randrange(1500)}",
                    "link_id": f"t3_{draw.randrange(60)}",
                    "parent_id": draw.choice([f"t1_c{draw.randrange(1500)}", f"t3_{draw.randrange(60)}"]),
                    "subreddit": draw.choice(["movies", "films"]),
                    "body": " ".join(draw.choice(words) for _ in range(draw.randrange(9))),
                    "created_utc": draw.randrange(10**9),
                }
                file.write(json.dumps(fields, ensure_ascii=draw.random() < 0.5) + "\n")
    return folder


def films(folder: Path) -> Path:
    """Films with times, and a copy."""
    draw = random.Random(4)
    for number in range(12):
        clock, parts = 0.0, []
        for _ in range(60):
            clock += draw.choice([0.2, 1.5, 2.5, 12])
            minutes, rest = divmod(clock, 60)
            stamp = f"00:{int(minutes):02}:{int(rest):02},{int(rest * 1000) % 1000:03}"
            times = [f'<time id="T{kind}" value="{stamp}"/>' if draw.random() < 0.8 else "" for kind in ("1S", "1E")]
            said = "".join(f"<w>{draw.choice('abcdefg!')}{draw.randrange(30)}</w>" for _ in range(draw.randrange(12)))
            parts.append(f"<s>{times[0]}{said}{times[1]}</s>")
        (folder / f"{number}.xml").write_text(f"<document>{''.join(parts)}</document>")
    shutil.copy(folder / "3.xml", folder / "8.xml")
    return folder


@pytest.mark.parametrize("name", ["reddit [2011]", "a*c", "what?"])
def test_a_folder_whose_name_looks_like_a_pattern(tmp_path: Path, name: str) -> None:
    (tmp_path / "abc").mkdir()  # which the second one matches
    (tmp_path / "lines.txt").write_text("".join(f"w{n % 7} w{n}\n" for n in range(100)))
    for output in ("plain", name):
        prepare("lines", [tmp_path / "lines.txt"], tmp_path / output, vocabulary_size=50)
    assert contents(tmp_path / name) == contents(tmp_path / "plain")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("corpus", "how"),
    [
        ("reddit", {"pairing": "alternating"}),
        ("opensubtitles", {"split": (3, 1, 1)}),
        ("opensubtitles", {"max_gap": None, "level": "character", "split": (1, 0, 0)}),
        ("lines", {}),
    ],
)
def test_the_same_bytes(spark: None, tmp_path: Path, corpus: str, how: dict[str, Any]) -> None:
    source = tmp_path / "source"
    source.mkdir()
    if corpus == "lines":
        (source / "one.txt").write_text("".join(f"w{n % 7} w{n}\n" for n in range(1000)))
        (source / "two.txt").write_text("a\nb\n<<<<<END-CONV>>>>>\nc\nd\n<<<<<END-CONV>>>>>\n")
    else:
        (reddit if corpus == "reddit" else films)(source)
    where = {"duckdb": tmp_path / "duckdb", "spark": tmp_path / "by [spark] 1"}  # no pattern, and one word
    for engine, output in where.items():
        prepare(corpus, [source], output, engine=engine, vocabulary_size=200, **how)
    assert contents(where["duckdb"]) == contents(where["spark"])
    looks = {
        "bigrams": lambda table: tables.most_frequent(tables.ngram_counts(table, 2), 50, "ngram"),
        "lags": lambda table: tables.time_lags(table, "starts"),
        "silences": lambda table: tables.time_lags(table, "silence"),
    }
    found: dict[str, list[Any]] = {name: [] for name in looks}
    for name in ("duckdb", "spark"):
        with open_engine(name, tmp_path) as engine:  # type: ignore[arg-type]
            table = engine.table(tmp_path / "duckdb" / "utterances.parquet")
            for look, expression in looks.items():
                found[look].append([row for batch in engine.rows(expression(table)) for row in batch.to_pylist()])
    for look, (first, second) in found.items():
        assert first == second, look
        assert first or look != "bigrams"


@pytest.mark.slow
@pytest.mark.parametrize("corpus", ["reddit", "opensubtitles", "cornell", "dailydialog"])
def test_the_same_bytes_of_real_corpora(spark: None, tmp_path: Path, corpus: str) -> None:
    data = os.environ.get("SEQ2SEQ_CHAT_DATA")
    if not data or not Path(data, corpus).is_dir():
        pytest.skip(f"SEQ2SEQ_CHAT_DATA names no folder with {corpus}/")
    for engine in ("duckdb", "spark"):
        prepare(corpus, [Path(data, corpus)], tmp_path / engine, engine=engine, vocabulary_size=1000)  # type: ignore[arg-type]
    assert contents(tmp_path / "duckdb") == contents(tmp_path / "spark")


def test_little_memory_gives_the_same(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    reddit(source)
    prepare("reddit", [source], tmp_path / "much", memory="4GB")
    prepare("reddit", [source], tmp_path / "little", memory="100MB")
    assert contents(tmp_path / "much") == contents(tmp_path / "little")


def test_too_little_memory_is_told(tmp_path: Path) -> None:
    with (
        pytest.raises(UserError, match=r"100MB of memory is too little .*--memory"),
        open_engine("duckdb", tmp_path, memory="100MB") as engine,
    ):
        numbers = ibis.range(0, 10_000_000).unnest().name("number").as_table()
        list(engine.rows(numbers.agg(numbers=numbers.number.collect())))
    assert list(tmp_path.iterdir()) == []


def test_memory() -> None:
    assert memory_bytes("2GB") == 2_000_000_000
    assert memory_bytes(" 1.5 gib ") == 1_610_612_736
    assert memory_bytes("512M") == 512_000_000
    for wrong in ("2 GBs", "much", "", "-1GB", "5MB", "2XB"):
        with pytest.raises(UserError, match="memory"):
            memory_bytes(wrong)
