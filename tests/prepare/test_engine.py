"""DuckDB and Spark write the same bytes for the same inputs."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.types as ir
import pytest
from analyze_ngrams import ngram_counts
from analyze_time_lags import time_lags

from seq2seq_chat.prepare import queries
from seq2seq_chat.prepare.engine import fetch_rows, memory_bytes, open_engine
from seq2seq_chat.prepare.pipeline import prepare
from seq2seq_chat.prepare.settings import PrepareSettings
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.text.tokenizers import TokenizerSettings
from tests.prepare.oracle import data_folder
from tests.prepare.raw import contents


def write_comments(folder: Path) -> Path:
    """Write comments with trees, orphans, cycles and duplicated names."""
    rng = random.Random(3)
    words = ["caf\u00e9", "the", "film", "was", "good", ".", "why", "?", "&gt;", "you"]
    for month in range(3):
        with open(folder / f"RC_2011-0{month}", "w", encoding="utf-8") as file:
            for _ in range(700):
                fields = {
                    "id": f"c{rng.randrange(1500)}",
                    "link_id": f"t3_{rng.randrange(60)}",
                    "parent_id": rng.choice([f"t1_c{rng.randrange(1500)}", f"t3_{rng.randrange(60)}"]),
                    "subreddit": rng.choice(["movies", "films"]),
                    "body": " ".join(rng.choice(words) for _ in range(rng.randrange(9))),
                    "created_utc": rng.randrange(10**9),
                }
                file.write(json.dumps(fields, ensure_ascii=rng.random() < 0.5) + "\n")
    return folder


def write_films(folder: Path) -> Path:
    """Write films with times, and a copy."""
    rng = random.Random(4)
    for number in range(12):
        clock, parts = 0.0, []
        for _ in range(60):
            clock += rng.choice([0.2, 1.5, 2.5, 12])
            minutes, rest = divmod(clock, 60)
            stamp = f"00:{int(minutes):02}:{int(rest):02},{int(rest * 1000) % 1000:03}"
            times = [f'<time id="T{kind}" value="{stamp}"/>' if rng.random() < 0.8 else "" for kind in ("1S", "1E")]
            words = "".join(f"<w>{rng.choice('abcdefg!')}{rng.randrange(30)}</w>" for _ in range(rng.randrange(12)))
            parts.append(f"<s>{times[0]}{words}{times[1]}</s>")
        (folder / f"{number}.xml").write_text(f"<document>{''.join(parts)}</document>")
    shutil.copy(folder / "3.xml", folder / "8.xml")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("corpus", "options"),
    [
        ("reddit", {"pairing": "alternating"}),
        ("opensubtitles", {"split": (3, 1, 1)}),
        ("lines", {"tokenizer": TokenizerSettings("whitespace")}),
        ("dailydialog", {"drop_leaked": True}),
        *(
            pytest.param(*combination, marks=pytest.mark.nightly)
            for combination in (
                ("opensubtitles", {"max_gap": None, "tokenizer": TokenizerSettings("character"), "split": (1, 0, 0)}),
                ("reddit", {"tokenizer": TokenizerSettings("unicode", lowercase=True), "pairing": "alternating"}),
                ("opensubtitles", {"tokenizer": TokenizerSettings("subword"), "split": (3, 1, 1)}),
                ("lines", {}),
                ("dailydialog", {"drop_leaked": True, "pairing": "alternating"}),
            )
        ),
    ],
)
def test_engines_agree(spark: None, tmp_path: Path, corpus: str, options: dict[str, Any]) -> None:
    source = tmp_path / "source"
    source.mkdir()
    if corpus == "lines":
        (source / "one.txt").write_text(
            "".join(f"W{n % 7}  größer?你\U0001f600 <pad> w{n}\n" for n in range(1000)), "utf-8"
        )
        (source / "two.txt").write_text("a\nb\n<<<<<END-CONV>>>>>\nc\nd\n<<<<<END-CONV>>>>>\n")
    elif corpus == "dailydialog":
        texts = ["yes .", "no .", "why ?", "thanks .", "ok"]
        for k, (split, size) in enumerate({"train": 40, "validation": 3, "test": 5}.items(), start=1):
            dialogues = [[texts[(n * k + i) % 5] for i in range(2 + n % 4)] for n in range(size)] + [["only", split]]
            lines = "".join(" __eou__ ".join([*turns, "\n"]) for turns in dialogues)
            (source / f"dialogues_{split}.txt").write_text(lines)
    else:
        (write_comments if corpus == "reddit" else write_films)(source)
    # with characters that must be escaped
    outputs = {"duckdb": tmp_path / "duckdb", "spark": tmp_path / "by [spark] it's 1"}
    for engine, output in outputs.items():
        prepare(PrepareSettings(corpus, engine=engine, vocabulary_size=300, **options), [source], output)
    assert contents(outputs["duckdb"]) == contents(outputs["spark"])
    query_functions: dict[str, Callable[[ir.Table], ir.Table]] = {
        "bigrams": lambda table: queries.most_frequent(ngram_counts(table, 2), 50, "ngram"),
        "lags": lambda table: time_lags(table, "starts"),
        "silences": lambda table: time_lags(table, "silence"),
    }
    results: dict[str, list[Any]] = {name: [] for name in query_functions}
    for name in ("duckdb", "spark"):
        with open_engine(name, tmp_path) as engine:  # type: ignore[arg-type]
            table = engine.table(tmp_path / "duckdb" / "utterances.parquet")
            for query, expression in query_functions.items():
                results[query].append(fetch_rows(engine, expression(table)))
    for query, (first, second) in results.items():
        assert first == second, query
        assert first or query != "bigrams"


@pytest.mark.slow
@pytest.mark.parametrize(
    "corpus",
    [
        "reddit",
        *(pytest.param(name, marks=pytest.mark.nightly) for name in ("opensubtitles", "cornell", "dailydialog")),
    ],
)
def test_engines_agree_on_real_corpora(spark: None, tmp_path: Path, corpus: str) -> None:
    folder = data_folder(corpus)
    for engine in ("duckdb", "spark"):
        prepare(PrepareSettings(corpus, engine=engine, vocabulary_size=1000), [folder], tmp_path / engine)  # type: ignore[arg-type]
    assert contents(tmp_path / "duckdb") == contents(tmp_path / "spark")


def test_result_does_not_depend_on_memory(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    write_comments(source)
    prepare(PrepareSettings("reddit", memory="4GB"), [source], tmp_path / "much")
    prepare(PrepareSettings("reddit", memory="100MB"), [source], tmp_path / "little")
    assert contents(tmp_path / "much") == contents(tmp_path / "little")


@pytest.mark.slow
def test_too_little_memory_is_reported(tmp_path: Path) -> None:
    with (
        pytest.raises(UserError, match=r"100MB of memory is not enough .*--memory"),
        open_engine("duckdb", tmp_path, memory="100MB") as engine,
    ):
        numbers = ibis.range(0, 10_000_000).unnest().name("number").as_table()
        list(engine.rows(numbers.agg(numbers=numbers.number.collect())))
    assert list(tmp_path.iterdir()) == []


def test_memory_sizes() -> None:
    assert memory_bytes("2GB") == 2_000_000_000
    assert memory_bytes(" 1.5 gib ") == 1_610_612_736
    assert memory_bytes("512M") == 512_000_000
    for wrong in ("2 GBs", "much", "", "-1GB", "5MB", "2XB", "99999999T", "9" * 400):
        with pytest.raises(UserError, match="memory"):
            memory_bytes(wrong)
