"""`prepare text`: consecutive splits, vocabulary, statistics."""

import gzip
import json
from pathlib import Path
from unittest.mock import Mock

import pytest

from seq2seq_chat.config import load_config
from seq2seq_chat.prepare.pipeline import publish
from seq2seq_chat.prepare.running_text import _write_splits
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS
from tests.conftest import run_command

TEXT = "".join(f"Line {number}, an äußerst short one.\r\n" for number in range(200))
PLAIN = TEXT.replace("\r\n", "\n")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress(TEXT.encode()))
    return path


def prepare(source: Path, *options: object) -> dict[str, str]:
    output = source.parent / "output"
    result = run_command("prepare", "text", source, "--output", output, *options)
    assert result.status == 0, result
    return {path.name: path.read_text(encoding="utf-8") for path in output.iterdir()}


def test_characters_are_divided_at_exact_positions(source: Path) -> None:
    files = prepare(source, "--split", "90,10,0")
    end = int(0.9 * len(PLAIN))
    assert files["train.txt"] == PLAIN[:end]
    assert files["validation.txt"] == PLAIN[end:]
    assert files["test.txt"] == ""
    words = files["vocabulary.txt"].splitlines()
    assert words[:4] == list(SPECIAL_WORDS)
    assert sorted(words[4:]) == sorted({"<space>", "<newline>", *PLAIN[:end]} - {" ", "\n"})
    statistics = json.loads(files["statistics.json"])
    assert statistics["train"] == {
        "characters": end,
        "lines": PLAIN[:end].count("\n") + 1,
        "tokens": end,
        "unknown_tokens": 0,
    }


def test_words_are_divided_between_lines(source: Path) -> None:
    files = prepare(source, "--tokenizer", "unicode", "--split", "50,25,25", "--vocabulary-size", 11)
    splits = [files[f"{name}.txt"] for name in ("train", "validation", "test")]
    assert "".join(splits) == PLAIN
    assert all(split.endswith("one.\n") for split in splits)
    assert [len(split) / len(PLAIN) for split in splits] == pytest.approx([0.5, 0.25, 0.25], abs=0.01)
    assert len(files["vocabulary.txt"].splitlines()) == 11
    statistics = json.loads(files["statistics.json"])["train"]
    lines = splits[0].count("\n")
    assert statistics["tokens"] == 9 * lines  # Line N , an äußerst short one . and the end
    assert statistics["unknown_tokens"] == lines


def test_subwords_can_be_trained_on(source: Path) -> None:
    files = prepare(source, "--tokenizer", "subword", "--vocabulary-size", 300)
    assert {"tokenizer.json", "vocabulary.txt", "train.txt"} <= files.keys()


def test_only_files_of_others_are_kept(source: Path) -> None:
    """Not the files of a killed preparation."""
    output = source.parent / "output"
    staging = output / ".preparing" / "new"
    staging.mkdir(parents=True)
    (output / "train.tsv").write_text("mine", encoding="utf-8")
    for name in ("utterances.parquet", "train.tsv", "tokenizer.json"):
        (staging / name).write_text("of another corpus", encoding="utf-8")
    files = prepare(source)
    assert files.pop("train.tsv") == "mine"
    splits = {"train.txt", "validation.txt", "test.txt"}
    assert files.keys() == splits | {"vocabulary.txt", "statistics.json", "experiment.json"}


def test_statistics_do_not_describe_other_files(tmp_path: Path) -> None:
    output = tmp_path / "output"
    staging = output / ".preparing" / "new"
    staging.mkdir(parents=True)
    for file in (staging / "train.txt", staging / "vocabulary.txt", output / "train.txt", output / "train.tsv"):
        file.touch()
    (output / "statistics.json").touch()
    (output / "vocabulary.txt").mkdir()  # cannot be replaced
    with pytest.raises(IsADirectoryError):
        publish(output, {})
    assert {path.name for path in output.iterdir()} == {".preparing", "train.txt", "vocabulary.txt"}


def test_each_input_begins_a_line(tmp_path: Path) -> None:
    texts = {"a.txt": "the end", "b.txt": "", "c.txt": "once upon\n", "d.txt": "a time"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    result = run_command("prepare", "text", *(tmp_path / name for name in texts), "--output", tmp_path / "output")
    assert result.status == 0, result
    splits = [tmp_path / "output" / f"{name}.txt" for name in ("train", "validation", "test")]
    assert "".join(split.read_text(encoding="utf-8") for split in splits) == "the end\nonce upon\na time"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("ptb.train.txt ptb.valid.txt ptb.test.txt", ["ptb.train.txt", "ptb.valid.txt", "ptb.test.txt"]),
        ("a.txt wiki.test.tokens", ["a.txt", "a.txt", "wiki.test.tokens"]),
    ],
)
@pytest.mark.parametrize("as_folder", [False, True])
def test_official_split(tmp_path: Path, names: str, expected: list[str], as_folder: bool) -> None:
    """A missing validation is the end of train; ``--split`` ignores the names."""
    folder, output = tmp_path / "texts", tmp_path / "output"
    folder.mkdir()
    for name in names.split():
        (folder / name).write_text(f"{name}\n" * 100, encoding="utf-8")
    inputs = [folder] if as_folder else sorted(folder.iterdir())
    options = ("--tokenizer", "whitespace", "--output", output)
    result = run_command("prepare", "text", *inputs, *options)
    assert result.status == 0, result
    splits = [(output / f"{name}.txt").read_text().split() for name in ("train", "validation", "test")]
    assert [set(words) for words in splits] == [{name} for name in expected]
    assert len(splits[0]) == (100 if len(set(expected)) == 3 else 95)
    assert ("taken from train: validation (5.26 % of train)" in result.out) == (len(splits[0]) == 95)
    assert run_command("prepare", "text", *inputs, *options, "--split", "60,0,40").status == 0
    assert len(set((output / "train.txt").read_text().split())) == 2


def test_what_is_appended_while_a_text_is_read_is_part_of_the_test_split(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("aaabbcccc", encoding="utf-8")
    _write_splits([tmp_path / "log.txt"], [3, 5, 6], whole_lines=False, folder=tmp_path, named={})
    assert [(tmp_path / f"{name}.txt").read_text() for name in ("train", "validation", "test")] == ["aaa", "bb", "cccc"]


def test_the_experiment_has_room_for_a_large_vocabulary(source: Path) -> None:
    options = ("--tokenizer", "unicode", "--output", source.parent / "output", "--vocabulary-size", 60_000)
    assert run_command("prepare", "text", source, *options).status == 0
    assert load_config(source.parent / "output" / "experiment.json").data.vocabulary_size == 60_000


def test_an_interruption_leaves_nothing(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr("seq2seq_chat.prepare.running_text._build_codec", interrupt)
    assert run_command("prepare", "text", source, "--output", source.parent / "output").status == 130
    assert not (source.parent / "output").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seed", 3], "No such option '--seed'"),
        (["--split", "1,2"], "not three numbers, such as 97,1,2"),
        (["--split", "0,50,50"], "is not a valid split"),
        (["--split", "0.0001,50,50"], "train.txt would be empty"),
        (["--tokenizer", "subword", "--vocabulary-size", 100], "--vocabulary-size"),
        (["--lowercase"], "--lowercase applies to the unicode tokenizer only"),
    ],
)
def test_options_that_do_not_fit(source: Path, options: list[object], message: str) -> None:
    output = source.parent / "output"
    result = run_command("prepare", "text", source, "--output", output, *options)
    assert message in result.error_message
    assert not output.exists()


def test_a_file_that_is_no_text_is_refused_unless_it_is_to_be_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text('{"text": "hello"}\n' * 20)
    command = ("prepare", "text", tmp_path / "a.txt", "--output", tmp_path / "output")
    assert "a.txt looks like JSON: extract the texts" in run_command(*command).error_message
    assert not (tmp_path / "output").exists()
    assert run_command(*command, "--as-is").status == 0


def test_unreadable_inputs(source: Path, tmp_path: Path) -> None:
    (tmp_path / "latin1.txt").write_bytes(b"caf\xe9")
    for name, message in (("latin1.txt", "byte 3 of the text is not UTF-8"), ("missing.txt", "does not exist")):
        result = run_command("prepare", "text", source, tmp_path / name, "--output", tmp_path / "output")
        assert message in result.error_message
        assert not (tmp_path / "output").exists()
    result = run_command("prepare", "text", source, "--output", tmp_path)
    assert "contains input files" in result.error_message
