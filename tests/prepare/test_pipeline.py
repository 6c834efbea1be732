from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from seq2seq_chat.corpus import (
    CorpusError,
    EncodedCorpus,
    Vocabulary,
    VocabularyError,
    prepare,
    read_utterances,
)
from seq2seq_chat.corpus.split import split_of
from seq2seq_chat.errors import UserError

Write = Callable[..., Path]

FILES = ["statistics.json", "test.txt", "train.txt", "utterances.parquet", "validation.txt", "vocabulary.txt"]


def conversations(path: Path) -> list[tuple[str, ...]]:
    """The conversations of a corpus file, none for a file of no bytes."""
    found: dict[int, list[str]] = {}
    if path.stat().st_size:
        for index, utterance in read_utterances(path):
            found.setdefault(index, []).append(utterance)
    return [tuple(utterances) for utterances in found.values()]


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() if file.is_file() else b"" for file in folder.iterdir()}


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """300 dialogues, ``a0 x / b0 y`` and so on, in a folder."""
    folder = tmp_path / "raw"
    folder.mkdir()
    lines = [f"A{n} X ! __eou__ B{n} y __eou__\n" for n in range(300)]
    (folder / "one.txt").write_text("".join(lines[:100]))
    (folder / "two.txt.gz").write_bytes(gzip.compress("".join(lines[100:]).encode()))
    (folder / "readme.md").write_text("not to be read")
    (folder / ".hidden.txt").write_text("not to be read")
    return folder


def test_split_by_whole_conversations(raw: Path, tmp_path: Path) -> None:
    output = tmp_path / "new" / "output"
    prepare("dailydialog", [raw], output, split=(3, 1, 2), seed=5)
    assert sorted(contents(output)) == FILES
    expected: dict[str, list[tuple[str, ...]]] = {"train": [], "validation": [], "test": []}
    for n in range(300):
        expected[split_of(n, (3, 1, 2), 5)].append((f"a{n} x !", f"b{n} y"))
    for name, wanted in expected.items():
        assert conversations(output / f"{name}.txt") == wanted


def test_vocabulary_is_of_train_alone_and_statistics_of_all(raw: Path, tmp_path: Path) -> None:
    output = tmp_path / "output"
    statistics = prepare("dailydialog", [raw], output, split=(1, 1, 1), source_steps=2, target_steps=3)
    assert json.loads((output / "statistics.json").read_text()) == statistics
    train = conversations(output / "train.txt")
    words = Vocabulary.load(output / "vocabulary.txt").words
    own = sorted(word for pair in train for word in (pair[0].split()[0], pair[1].split()[0]))
    assert words == ["<pad>", "<go>", "<eos>", "<unknown>", "!", "x", "y", *own]
    assert statistics["train"]["coverage_percent"] == 100
    assert statistics["test"]["coverage_percent"] == 60  # of 5 words 2 are of one dialogue only
    assert statistics["total"]["conversations"] == statistics["total"]["samples"] == 300
    assert statistics["total"]["words"] == 1500
    assert statistics["total"]["too_long_percent"] == 100
    corpus = EncodedCorpus.open(output / "train.txt", Vocabulary(words))
    assert len(corpus) == len(train)


def test_vocabulary_size(raw: Path, tmp_path: Path) -> None:
    prepare("dailydialog", [raw], tmp_path / "output", vocabulary_size=6)
    assert Vocabulary.load(tmp_path / "output" / "vocabulary.txt").words[4:] == ["!", "x"]


def test_character_level(raw: Path, tmp_path: Path) -> None:
    prepare("dailydialog", [raw], tmp_path / "output", level="character")
    words = Vocabulary.load(tmp_path / "output" / "vocabulary.txt").words
    assert set(words[4:]) == {"<space>", *"abxy!0123456789"}


def test_repeatable(raw: Path, tmp_path: Path) -> None:
    prepare("dailydialog", [raw], tmp_path / "first")
    prepare("dailydialog", [raw / "one.txt", raw], tmp_path / "second")
    prepare("dailydialog", [raw], tmp_path / "second")
    assert contents(tmp_path / "first") == contents(tmp_path / "second")
    prepare("dailydialog", [raw], tmp_path / "second", seed=2)
    assert contents(tmp_path / "first") != contents(tmp_path / "second")


def test_repeatable_under_hash_randomisation(raw: Path, tmp_path: Path) -> None:
    found = []
    for seed in ("1", "2"):
        output = tmp_path / f"output{seed}"
        code = "import sys; from seq2seq_chat.corpus import prepare;prepare('dailydialog', [sys.argv[1]], sys.argv[2])"
        subprocess.run(
            [sys.executable, "-c", code, raw, output],
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        found.append(contents(output))
    assert found[0] == found[1]


@pytest.fixture
def official(tmp_path: Path) -> Path:
    folder = tmp_path / "official"
    folder.mkdir()
    for name, count in (("train", 5), ("validation", 3), ("test", 2)):
        lines = [f"{name} a{n} __eou__ b __eou__\n" for n in range(count)]
        (folder / f"dialogues_{name}.txt").write_text("".join(lines))
    return folder


def test_official_split_is_kept(official: Path, tmp_path: Path) -> None:
    statistics = prepare("dailydialog", [official], tmp_path / "output")
    assert {name: statistics[name]["conversations"] for name in ("train", "validation", "test", "total")} == {
        "train": 5,
        "validation": 3,
        "test": 2,
        "total": 10,
    }
    for name in ("train", "validation", "test"):
        found = conversations(tmp_path / "output" / f"{name}.txt")
        assert all(pair[0].startswith(name) for pair in found)


def test_shares_overrule_the_official_split(official: Path, tmp_path: Path) -> None:
    statistics = prepare("dailydialog", [official], tmp_path / "output", split=(1, 0, 0))
    assert statistics["train"]["conversations"] == 10
    assert (tmp_path / "output" / "test.txt").read_bytes() == b""


@pytest.mark.parametrize("count", [1, 2, 3, 4, 10])
@pytest.mark.parametrize("seed", range(5))
def test_tiny_corpora(corpus_file: Write, tmp_path: Path, count: int, seed: int) -> None:
    path = corpus_file(*(f"a{n} / b{n}" for n in range(count)))
    statistics = prepare("lines", [path], tmp_path / "output", seed=seed)
    sizes = [statistics[name]["conversations"] for name in ("train", "validation", "test")]
    assert sum(sizes) == count
    assert sizes == [count, 0, 0] if count < 3 else min(sizes) >= 1
    found = [
        conversation
        for name in ("train", "validation", "test")
        for conversation in conversations(tmp_path / "output" / f"{name}.txt")
    ]
    assert sorted(found) == sorted((f"a{n}", f"b{n}") for n in range(count))


def test_a_film_whose_name_is_not_utf8(tmp_path: Path) -> None:
    film = "<document><s><w>hello</w></s><s><w>you</w></s></document>"
    try:
        (tmp_path / os.fsdecode(b"\xe9t\xe9.xml")).write_text(film)
    except OSError:
        pytest.skip("this file system takes no such name")
    statistics = prepare("opensubtitles", [tmp_path], tmp_path / "out", vocabulary_size=50)
    assert statistics["total"]["utterances"] == 2


def test_a_time_too_large_for_a_number_is_damage(tmp_path: Path) -> None:
    comments = [
        {"id": "a", "link_id": "t3_x", "parent_id": "t3_x", "subreddit": "s", "body": "hello", "created_utc": 1},
        {"id": "b", "link_id": "t3_x", "parent_id": "t1_a", "subreddit": "s", "body": "you", "created_utc": 2},
        {"id": "c", "link_id": "t3_x", "parent_id": "t1_a", "subreddit": "s", "body": "no", "created_utc": 10**400},
    ]
    (tmp_path / "RC_2011-01").write_text("".join(json.dumps(comment) + "\n" for comment in comments))
    statistics = prepare("reddit", [tmp_path], tmp_path / "out", vocabulary_size=50, max_bad=50)
    assert (statistics["reading"]["damaged"], statistics["total"]["utterances"]) == (1, 2)


def test_a_file_without_markers_is_split_by_blocks(tmp_path: Path) -> None:
    path = tmp_path / "plain.txt"
    path.write_text("".join(f"w{n}\n" for n in range(1000)))
    prepare("lines", [path], tmp_path / "output", split=(1, 1, 1))
    for name in ("train", "validation", "test"):
        found = conversations(tmp_path / "output" / f"{name}.txt")
        assert found
        for block in found:
            start = int(block[0][1:])
            assert start % 100 == 0
            assert block == tuple(f"w{n}" for n in range(start, start + 100))


def test_an_error_leaves_the_output_as_it_was(raw: Path, tmp_path: Path) -> None:
    output = tmp_path / "output"
    with pytest.raises(VocabularyError, match="size 4"):
        prepare("dailydialog", [raw], output, vocabulary_size=4)
    assert not output.exists()
    prepare("dailydialog", [raw], output)
    (output / "notes").write_text("mine")
    before = contents(output)
    (raw / "zzz.txt").write_bytes(b"good __eou__\n" + b"bad \xff __eou__\n" * 4)
    with pytest.raises(CorpusError, match=r"zzz\.txt, line 2: byte 4 of the line is not UTF-8.* 4 of 305 lines"):
        prepare("dailydialog", [raw], output)
    # Beside what the next attempt will not read again.
    assert {name: data for name, data in contents(output).items() if not name.startswith(".")} == before
    statistics = prepare("dailydialog", [raw], output, max_bad=2)
    assert statistics["reading"]["damaged"] == 4
    assert statistics["total"]["conversations"] == 301
    assert sorted(contents(output)) == sorted([*FILES, "notes"])


def test_errors(raw: Path, tmp_path: Path) -> None:
    output = tmp_path / "output"
    with pytest.raises(CorpusError, match="does not exist"):
        prepare("lines", [raw / "none"], output)
    with pytest.raises(CorpusError, match="nothing to prepare"):
        prepare("lines", [], output)
    (tmp_path / "empty").mkdir()
    with pytest.raises(CorpusError, match=r"holds no \.txt"):
        prepare("lines", [tmp_path / "empty"], output)
    (tmp_path / "foreign.txt").write_text("你好\n再见\n", encoding="utf-8")
    with pytest.raises(CorpusError, match="cleaning leaves no word"):
        prepare("lines", [tmp_path / "foreign.txt"], output)
    with pytest.raises(UserError, match="cannot be split by"):
        prepare("dailydialog", [raw], output, split=(0, 1, 1))
    with pytest.raises(UserError, match="holds inputs"):
        prepare("dailydialog", [raw], raw)
    assert not output.exists()
    with pytest.raises(UserError, match="cannot be written to"):
        prepare("dailydialog", [raw], tmp_path / "foreign.txt")
