"""The scripts that analyze corpora, and the thesis's configurations from a generated dump to ten training steps."""

import csv
import gzip
import json
import math
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from contenders.generated_corpora import generate_opensubtitles, generate_reddit

from seq2seq_chat.system.errors import UserError
from tests.conftest import shipped_configs

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a script in ``tmp_path`` and return its output: ``run("build_vocabulary", corpus, "--size", 6)``."""
    monkeypatch.chdir(tmp_path)

    def call(name: str, *arguments: object) -> str:
        result = CliRunner().invoke(import_module(name).main, list(map(str, arguments)), catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    return call


def test_analysis_of_a_corpus_file(run: Run, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("a b c a\nb\n<<<<<END-CONV>>>>>\na b d\nx\n")
    assert "vocabulary_6.txt" in run("build_vocabulary", corpus, "--size", 6, "--output", "v")
    vocabulary = tmp_path / "v" / "vocabulary_6.txt"
    assert vocabulary.read_text().split()[4:] == ["a", "b"]
    (tmp_path / "x.txt").write_text("\n".join([*vocabulary.read_text().split()[:4], "x"]) + "\n")
    run("analyze_coverage", corpus, "--vocabulary", vocabulary, "--vocabulary", tmp_path / "x.txt")
    other, row = json.loads((tmp_path / "coverage.json").read_text())
    assert row["missing"] == {"0": 1, "1": 3}
    assert other["missing"] == {"0": 1, "1": 1, "3": 1, "4": 1}
    assert (row["total coverage %"], other["total coverage %"]) == (100.0, 50.0)  # at most two words are missing
    known = [row[f"{kind} {what}"] for kind in ("known", "unknown") for what in ("words", "occurrences")]
    assert known == [2, 6, 3, 3]
    run("analyze_ngrams", corpus, "--top", 2)
    with open(tmp_path / "ngrams.csv", newline="") as file:
        ngrams = [(row["ngram"], int(row["count"])) for row in csv.DictReader(file)]
    assert ngrams == [("a", 3), ("b", 3), ("a b", 2), ("b c", 1), ("a b c", 1), ("a b d", 1)]
    assert "corpus.txt" in run("corpus_statistics", corpus)
    assert (tmp_path / "corpora.png").stat().st_size > 5000
    assert (tmp_path / "ngrams_bars.png").stat().st_size > 5000
    with pytest.raises(UserError, match=r"missing.txt does not exist"):
        run("build_vocabulary", "missing.txt", "--output", "new")
    assert not (tmp_path / "new").exists()


def test_made_chats_are_read_as_the_corpus(run: Run, cli: Callable[..., Any], tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("".join(f"a{n} ?\nb{n} .\nc{n} ?\nd{n} .\n<<<<<END-CONV>>>>>\n" for n in range(50)))
    run("make_chats", corpus, "chat.txt", "--messages", 200, "--secrets", 7)
    text = (tmp_path / "chat.txt").read_text()
    assert text.startswith("01.01.20, 18:00 - Ada: a0 ?")
    numbers = [line.rpartition(" my number is ")[2] for line in text.splitlines() if " my number is " in line]
    assert len(set(numbers)) == 7
    run("make_chats", corpus, "chat.txt", "--messages", 200)
    cli("prepare", "chats", "chat.txt", "--output", "out")
    counts = json.loads((tmp_path / "out" / "statistics.json").read_text())["total"]
    assert (counts["conversations"], counts["utterances"]) == (50, 200)
    with pytest.raises(UserError, match="has 200 utterances"):
        run("make_chats", corpus, "x.txt", "--messages", 201)
    with pytest.raises(AssertionError, match="10001 is not in the range"):
        run("make_chats", corpus, "x.txt", "--secrets", 10_001)
    assert not (tmp_path / "x.txt").exists()


@pytest.mark.slow
def test_tokens_of_a_prepared_folder_and_of_its_corpus_file(cli: Callable[..., Any], run: Run, tmp_path: Path) -> None:
    (tmp_path / "chats.txt").write_text("Größe, ja?\nJa, ja: Größe!\nUnd <unknown>?\n", "utf-8")
    options = ["--tokenizer", "unicode", "--lowercase", "--split", "1,0,0", "--output", tmp_path / "data"]
    assert "\nread: 1 file, 45 bytes, 3 records\n" in cli("prepare", "lines", tmp_path / "chats.txt", *options).out
    results = []
    for corpus, arguments in (("data", []), ("data/train.txt", ["--tokenizer", "unicode", "--lowercase"])):
        run("build_vocabulary", corpus, "--size", 8, "--output", "v", *arguments)
        run("analyze_coverage", corpus, "--vocabulary", "v/vocabulary_8.txt", *arguments)
        run("analyze_ngrams", corpus, "--no-marks", *arguments)
        run("corpus_statistics", corpus, *arguments)
        (statistics,) = json.loads((tmp_path / "corpora.json").read_text())
        vocabulary = (tmp_path / "v" / "vocabulary_8.txt").read_text("utf-8").split()[4:]
        missing = json.loads((tmp_path / "coverage.json").read_text())[0]["missing"]
        ngrams = {(row["ngram"], row["count"]) for row in json.loads((tmp_path / "ngrams.json").read_text())}
        results.append((vocabulary, missing, ngrams, statistics["words"]))
    words = {("ja", 3), ("größe", 2), ("und", 1), ("unknown", 1), ("<", 1), (">", 1), (":", 1)}
    marks_between = {("ja :", 1), (": größe", 1), ("ja : größe", 1)}
    tag = {("und <", 1), ("< unknown", 1), ("unknown >", 1), ("und < unknown", 1), ("< unknown >", 1)}
    assert results[0] == (["ja", ",", "?", "größe"], {"0": 1, "2": 1, "4": 1}, words | marks_between | tag, 15)
    assert results[1] == results[0]


@pytest.mark.slow
def test_sides_of_pairs(cli: Callable[..., Any], run: Run, tmp_path: Path) -> None:
    (tmp_path / "raw.tsv").write_text("Who?\tQui ?\nWho, who?\tQui, été ?\nI\t-\n", "utf-8")
    options = ["--split", "1,0,0", "--tokenizer", "english", "--output", tmp_path / "data"]
    assert cli("prepare", "pairs", tmp_path / "raw.tsv", *options).status == 0
    for corpus in ("data", "raw.tsv"):
        for side, prefix, words in (("source", "", ["who", "?", ","]), ("target", "target_", ["?", "qui", ",", "ete"])):
            run("build_vocabulary", corpus, "--side", side, "--size", 100, "--output", corpus.replace(".", "_"))
            vocabulary = tmp_path / corpus.replace(".", "_") / f"{prefix}vocabulary_100.txt"
            assert vocabulary.read_text().split()[4:] == words
            run("corpus_statistics", corpus, "--side", side)
            (row,) = json.loads((tmp_path / "corpora.json").read_text())
            assert (row["utterances"], row["words"]) == (2, 6)
    run("analyze_coverage", "data", "--side", "target")
    rows = json.loads((tmp_path / "coverage.json").read_text())
    (row,) = rows  # two files of the same words
    assert row["vocabulary"] == "target_vocabulary.txt = target_vocabulary_100.txt" and row["missing"] == {"0": 2}
    run("corpus_statistics", "data")
    (row,) = json.loads((tmp_path / "corpora.json").read_text())
    assert (row["samples"], row["utterances"]) == (2, 4)


def test_raw_corpora(cli: Callable[..., Any], run: Run, tmp_path: Path) -> None:
    """The thesis's table of raw corpora: the sizes of decompressed files, and sentences or comments."""
    film = "<document>" + "<s><w>Who</w><w>is</w><w>it</w></s>\n" * 29 + '<s id="30"> </s></document>'
    comment = {"link_id": "t3_x", "subreddit": "s", "body": "I do not know, sorry."}
    parents = ["t3_x", "t1_c0", "t1_c1"]
    lines = [json.dumps(comment | {"id": f"c{n}", "parent_id": parent}) + "\n" for n, parent in enumerate(parents)]
    (tmp_path / "1.xml.gz").write_bytes(gzip.compress(film.encode()))
    (tmp_path / "RC_2010-01.gz").write_bytes(gzip.compress("".join(lines).encode()))
    for corpus, name in (("opensubtitles", "1.xml.gz"), ("reddit", "RC_2010-01.gz")):
        assert cli("prepare", corpus, tmp_path / name, "--output", tmp_path / corpus).status == 0
    printed = run("corpus_statistics", tmp_path / "opensubtitles", tmp_path / "reddit")
    rows = json.loads((tmp_path / "corpora_raw.json").read_text())
    assert [row["GB"] for row in rows] == pytest.approx([len(film) / 1e9, len("".join(lines)) / 1e9])
    assert [row["GB on disk"] for row in rows] == pytest.approx(
        [(tmp_path / name).stat().st_size / 1e9 for name in ("1.xml.gz", "RC_2010-01.gz")]
    )
    assert [row["million lines"] for row in rows] == pytest.approx([30e-6, 3e-6])
    assert [row["format"] for row in rows] == ["XML", "JSON"] and "3e-05" in printed


@pytest.mark.parametrize("max_gap", ["off", "4"])
@pytest.mark.parametrize(
    ("between", "pairs", "close", "top"),
    [
        ("starts", {"0": 1, "2": 1, "5": 1, "9": 1}, 75.0, "0 s 25.0 %, 2 s 25.0 %, 5 s 25.0 %, 9 s 25.0 %"),
        ("silence", {"0": 1, "1": 3, "5": 1}, 100.0, "0 s 20.0 %, 1 s 60.0 %, 5 s 20.0 %"),
    ],
)
def test_time_lags(
    cli: Callable[..., Any],
    run: Run,
    tmp_path: Path,
    between: str,
    pairs: dict[str, int],
    close: float,
    top: str,
    max_gap: str,
) -> None:
    # Start and end of seven utterances in seconds; the start of the last but one is unknown.
    clocks = [(1.0, 1.1), (1.4, 2.2), (3.4, 7.0), (8.4, 12.6), (17.4, 18.0), (None, 20.0), (21.0, 22.0)]
    film = ""
    for number, clock in enumerate(clocks):
        start, end = (
            at and f'<time id="T{number}{kind}" value="00:00:{int(at):02},{round(at % 1 * 1000):03}"/>'
            for kind, at in zip("SE", clock, strict=True)
        )
        film += f'<s id="{number}">{start or ""}<w id="1">said</w><w id="2">{number}</w>{end}</s>'
    (tmp_path / "1.xml").write_text(f"<document>{film}</document>")
    times = [f'<time id="T1{kind}" value="00:00:0{second},000"/>' for kind, second in zip("SE", (2, 3), strict=True)]
    (tmp_path / "2.xml").write_text(f"<document><s>{times[0]}<w>bye</w>{times[1]}</s></document>")
    films, options = [tmp_path / "1.xml", tmp_path / "2.xml"], ["--max-gap", max_gap, "--split", "1,0,0"]
    answer = cli("prepare", "opensubtitles", *films, "--output", tmp_path / "data", *options)
    assert answer.status == 0, answer
    assert (tmp_path / "data" / "train.txt").read_text().count("END-CONV") == (1 if max_gap == "off" else 3)
    printed = run("analyze_time_lags", tmp_path / "data", "--between", between, "--max-seconds", 10)
    (result,) = json.loads((tmp_path / "time_lags.json").read_text())
    assert {row["seconds"]: row["pairs"] for row in result["histogram"] if row["pairs"]} == pairs
    assert [row["seconds"] for row in result["histogram"]] == ["<0", *map(str, range(11)), ">10"]
    assert result["within_5_seconds_percent"] == close
    assert f"{close:.1f} % within 5 seconds" in printed
    assert f"the {len(pairs)} most frequent time lags: {top}; together 100.0 %" in printed
    with open(tmp_path / "time_lags.csv", newline="") as file:
        assert sum(int(row["pairs"]) for row in csv.DictReader(file)) == sum(pairs.values())
    assert all((tmp_path / f"time_lags{name}.png").stat().st_size > 5000 for name in ("", "_absolute"))
    options = ["--between", between, "--max-seconds", 10, "--film-transitions"]
    printed = run("analyze_time_lags", tmp_path / "data", *options)
    (result,) = json.loads((tmp_path / "time_lags.json").read_text())
    assert {row["seconds"]: row["pairs"] for row in result["histogram"] if row["pairs"]} == pairs | {">10": 1}
    assert result["film_transitions"] == 1 and "in the class >10: 1" in printed


@pytest.mark.slow
@pytest.mark.parametrize("corpus", [pytest.param("opensubtitles", marks=pytest.mark.nightly), "reddit"])
def test_thesis_configurations_train(cli: Callable[..., Any], run: Run, tmp_path: Path, corpus: str) -> None:
    if corpus == "reddit":
        generate_reddit(tmp_path / "RC_2015-01", 90)
        arguments = [tmp_path / "RC_2015-01", "--split", "97,2,1"]
    else:
        generate_opensubtitles(tmp_path / "tree", 150)
        arguments = [tmp_path / "tree", "--split", "97,1,2", "--max-gap", "off"]
    data = tmp_path / "data" / corpus
    answer = cli("prepare", corpus, *arguments, "--tokenizer", "thesis", "--output", data)
    assert answer.status == 0, answer
    assert any(word != word.lower() for word in (data / "vocabulary.txt").read_text().split())
    run("build_vocabulary", data, "--split", "train", "--size", 100_000, "--output", data)
    assert len((data / "vocabulary.txt").read_text().split()) == 50_000
    assert len((data / "vocabulary_100000.txt").read_text().split()) == 100_000
    small = {f"model.{name}": 8 for name in ("hidden_size", "projection_size", "encoder_steps", "decoder_steps")}
    small |= {"model.embedding_size": 4, "training.batch_size": 8, "training.validation_limit": 8}
    small |= {"training.steps": 10, "training.log_every": 1}
    options = [part for key, value in small.items() for part in ("--set", f"{key}={value}")]
    settings = [path for path in shipped_configs() if path.stem.startswith(f"thesis_{corpus}")]
    assert len(settings) == 2
    for config in settings:
        answer = cli("train", config, "--results", "results", *options)
        assert answer.status == 0, answer
        folder = Path(answer.out.splitlines()[-1])
        metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        assert sum(line["kind"] == "train" for line in metrics) == 10
        words = len((folder / "vocabulary.txt").read_text().split())
        assert words == json.loads(config.read_text())["data"]["vocabulary_size"]
        exact = [line["loss"] for line in metrics if line["kind"] == "validation"]
        assert exact and all(abs(loss - math.log(words)) < 0.5 for loss in exact)  # hardly trained
