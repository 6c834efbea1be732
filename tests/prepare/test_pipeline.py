import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from seq2seq_chat.data.corpus_file import CorpusError, read_utterances
from seq2seq_chat.prepare.pipeline import prepare
from seq2seq_chat.prepare.readers.lines import LinesSettings
from seq2seq_chat.prepare.readers.reddit import RedditSettings
from seq2seq_chat.prepare.settings import PrepareSettings
from seq2seq_chat.prepare.split import SPLITS, split_of
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.text.tokenizers import TokenizerSettings
from seq2seq_chat.text.vocabulary import VocabularyError
from tests.conftest import Cli
from tests.prepare.raw import comment, contents, dump, film

Write = Callable[..., Path]

FILES = ["statistics.json", "test.txt", "train.txt", "utterances.parquet", "validation.txt", "vocabulary.txt"]


def conversations(path: Path) -> list[tuple[str, ...]]:
    """The conversations of a corpus file, which may be empty."""
    by_index: dict[int, list[str]] = {}
    if path.stat().st_size:
        for index, utterance in read_utterances(path):
            by_index.setdefault(index, []).append(utterance)
    return [tuple(utterances) for utterances in by_index.values()]


def splits_of(folder: Path) -> list[list[tuple[str, ...]]]:
    """The conversations of train, validation and test."""
    return [conversations(folder / f"{name}.txt") for name in SPLITS]


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """A folder with 300 dialogues ``a0 x / b0 y`` and so on."""
    folder = tmp_path / "raw"
    folder.mkdir()
    lines = [f"A{n} X ! __eou__ B{n} y __eou__\n" for n in range(300)]
    (folder / "one.txt").write_text("".join(lines[:100]))
    (folder / "two.txt.gz").write_bytes(gzip.compress("".join(lines[100:]).encode()))
    (folder / "readme.md").write_text("must be ignored")
    (folder / ".hidden.txt").write_text("must be ignored")
    return folder


def test_conversations_are_not_divided_between_splits(raw: Path, tmp_path: Path) -> None:
    output = tmp_path / "new" / "output"
    prepare(PrepareSettings("dailydialog", split=(3, 1, 2), seed=5), [raw], output)
    assert sorted(contents(output)) == FILES
    expected: dict[str, list[tuple[str, ...]]] = {name: [] for name in SPLITS}
    for n in range(300):
        expected[split_of(n, (3, 1, 2), 5)].append((f"a{n} x !", f"b{n} y"))
    assert splits_of(output) == list(expected.values())


def test_repeatable(raw: Path, tmp_path: Path) -> None:
    """Also with other hashes of strings, inputs that are named twice, and results of an earlier preparation."""
    code = (
        "import sys; from seq2seq_chat.prepare.pipeline import prepare; "
        "from seq2seq_chat.prepare.settings import PrepareSettings; "
        "prepare(PrepareSettings('dailydialog'), [sys.argv[1]], sys.argv[2])"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code, raw, tmp_path / "first"], check=True, env=environment)
    prepare(PrepareSettings("dailydialog", seed=2), [raw], tmp_path / "second")
    assert contents(tmp_path / "first") != contents(tmp_path / "second")
    prepare(PrepareSettings("dailydialog"), [raw / "one.txt", raw], tmp_path / "second")
    assert contents(tmp_path / "first") == contents(tmp_path / "second")


@pytest.fixture
def official(tmp_path: Path) -> Path:
    folder = tmp_path / "official"
    folder.mkdir()
    for name, count in (("train", 5), ("validation", 3), ("test", 2)):
        lines = [f"{name} a{n} __eou__ b __eou__\n" for n in range(count)]
        (folder / f"dialogues_{name}.txt").write_text("".join(lines))
    return folder


def test_official_split_is_kept_unless_shares_are_given(official: Path, tmp_path: Path) -> None:
    statistics = prepare(PrepareSettings("dailydialog"), [official], tmp_path / "output")
    assert [statistics[name]["conversations"] for name in (*SPLITS, "total")] == [5, 3, 2, 10]
    for name, pairs in zip(SPLITS, splits_of(tmp_path / "output"), strict=True):
        assert all(pair[0].startswith(name) for pair in pairs)
    statistics = prepare(PrepareSettings("dailydialog", split=(1, 0, 0)), [official], tmp_path / "output")
    assert statistics["train"]["conversations"] == 10
    assert (tmp_path / "output" / "test.txt").read_bytes() == b""


def test_a_missing_split_is_taken_from_train(official: Path, tmp_path: Path) -> None:
    """The files that are named test stay out of train, and out of validation, which takes one of the five dialogues."""
    (official / "dialogues_validation.txt").rename(official / "dialogues_tst2012.txt")
    statistics = prepare(PrepareSettings("dailydialog"), [official], tmp_path / "output")
    train, validation, test = splits_of(tmp_path / "output")
    assert [len(train), len(validation), len(test)] == [4, 1, 5]
    assert sorted(pair[0] for pair in train + validation) == [f"train a{n}" for n in range(5)]
    assert statistics["split"] == (
        "as the names of the files say: train 1 file, test 2 files; taken from train: validation (1.02 % of train)"
    )


def test_folders_named_after_splits(tmp_path: Path) -> None:
    """They are searched even if other folders are not."""
    for name in ("train", "Dev", "test", "more", "test_more"):
        (folder := tmp_path / "test" / name / "en").mkdir(parents=True)
        (folder / "a.txt").write_text(f"{name}\n" * 4)
    prepare(PrepareSettings("lines"), [tmp_path / "test"], tmp_path / "output")
    assert splits_of(tmp_path / "output") == [[(name,) * 4] for name in ("train", "dev", "test")]


def test_an_official_split_that_is_empty_is_a_warning(
    official: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (official / "dialogues_test.txt").write_text("")
    prepare(PrepareSettings("dailydialog"), [official], tmp_path / "output")
    assert caplog.messages[-2] == f"{official / 'dialogues_test.txt'} is empty"
    assert caplog.messages[-1].startswith("test has no samples: there are none in the files of this name.")


def test_official_splits_of_dumps_and_films(tmp_path: Path) -> None:
    """A reply to a comment in a file of another split is in none."""
    dumps, films = tmp_path / "dumps", tmp_path / "films"
    for name, numbers in (("train.json", range(1, 300)), ("dev.json", range(300, 400)), ("test.json", range(400, 500))):
        dump((dumps.mkdir(exist_ok=True) or dumps) / name, numbers)
    statistics = prepare(PrepareSettings("reddit", pairing="alternating"), [dumps], tmp_path / "output")
    assert [statistics[name]["samples"] for name in SPLITS] == [249, 50, 50]
    for name in ("train", "dev", "test"):
        (films / name).mkdir(parents=True)
        (films / name / "1.xml").write_bytes(film(f"{name} / one"))
    prepare(PrepareSettings("opensubtitles"), [films], tmp_path / "output")
    assert splits_of(tmp_path / "output") == [[(name, "one")] for name in ("train", "dev", "test")]


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("".join(f"w{n}\n" for n in range(160)), [128, 16, 16]),
        ("".join(f"w{n}\n" for n in range(250)), [198, 26, 26]),
        ("".join(f"w{n}\n" + "<<<<<END-CONV>>>>>\n" * (n == 30) for n in range(62)), [42, 10, 10]),
        ("".join(f"w{n}\n" for n in range(29)), [29, 0, 0]),
    ],
)
def test_small_corpora_are_split_in_smaller_blocks(
    tmp_path: Path, text: str, sizes: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "chat.txt").write_text(text)
    statistics = prepare(PrepareSettings("lines", split=(80, 10, 10)), [tmp_path / "chat.txt"], tmp_path / "output")
    assert [statistics[name]["utterances"] for name in SPLITS] == sizes
    warned = [message.startswith("validation and test have no samples") for message in caplog.messages]
    assert warned == ([] if sizes[1] else [True])
    blocks = list(chain(*splits_of(tmp_path / "output")))
    assert sorted(word for block in blocks for word in block) == sorted(re.findall(r"w\d+", text))
    assert not any({"w30", "w31"} <= set(block) for block in blocks if "END" in text)
    numbers = [[int(word[1:]) for word in block] for block in blocks]
    assert all(block == list(range(block[0], block[0] + len(block))) for block in numbers)
    assert len(blocks) <= 6, "neighbors in the same split are one conversation"


def test_a_small_corpus_is_split_by_other_shares_than_a_large_one(corpus_file: Write, tmp_path: Path) -> None:
    """Of 8,000 utterances validation and test have 400 each; 40,000 are split as ever, and so are others on demand."""
    conversation = " / ".join(f"w{n}" for n in range(20))
    small, large = (corpus_file(*[conversation] * size, name=f"{size}.txt") for size in (400, 2000))
    statistics = prepare(PrepareSettings("lines"), [small], tmp_path / "output")
    assert [statistics[name]["utterances"] for name in SPLITS] == [7200, 400, 400]
    assert "train 90 %, validation 5 %, test 5 %; of a small corpus, 1 % and 2 % would" in statistics["split"]
    statistics = prepare(PrepareSettings("lines", split=(97, 1, 2)), [small], tmp_path / "output")
    assert statistics["split"] == "at random: train 97 %, validation 1 %, test 2 %"
    for split in (None, (97.0, 1.0, 2.0)):
        prepare(PrepareSettings("lines", split=split), [large], tmp_path / f"{split}")
    assert contents(tmp_path / "None") == contents(tmp_path / "(97.0, 1.0, 2.0)")


def test_film_name_that_is_not_utf8(tmp_path: Path) -> None:
    film = "<document><s><w>hello</w></s><s><w>you</w></s></document>"
    try:
        (tmp_path / os.fsdecode(b"\xe9t\xe9.xml")).write_text(film)
    except OSError:
        pytest.skip("the file system does not allow this name")
    statistics = prepare(PrepareSettings("opensubtitles", vocabulary_size=50), [tmp_path], tmp_path / "out")
    assert statistics["total"]["utterances"] == 2


def test_file_without_markers_is_split_by_blocks(tmp_path: Path) -> None:
    path = tmp_path / "plain.txt"
    path.write_text("".join(f"w{n}\n" for n in range(1000)))
    prepare(PrepareSettings("lines", split=(1, 1, 1)), [path], tmp_path / "output")
    for blocks in splits_of(tmp_path / "output"):
        assert blocks
        for block in blocks:
            start = int(block[0][1:])
            assert start % 100 == 0
            assert block == tuple(f"w{n}" for n in range(start, start + 100))


def test_error_leaves_the_output_unchanged(raw: Path, tmp_path: Path) -> None:
    output = tmp_path / "output"
    with pytest.raises(VocabularyError, match="size 4"):
        prepare(PrepareSettings("dailydialog", vocabulary_size=4), [raw], output)
    assert not output.exists()
    prepare(PrepareSettings("dailydialog"), [raw], output)
    (output / "notes").write_text("mine")
    before = contents(output)
    (raw / "zzz.txt").write_bytes(b"good __eou__\n" + b"bad \xff __eou__\n" * 4)
    message = r"zzz\.txt, line 2: byte 4 of the line is not UTF-8.* 4 of 305 lines.* WINDOWS-1252 "
    with pytest.raises(CorpusError, match=message):
        prepare(PrepareSettings("dailydialog"), [raw], output)
    assert contents(output) == before
    statistics = prepare(PrepareSettings("dailydialog", max_bad=2), [raw], output)
    assert statistics["reading"]["damaged"] == 4
    assert statistics["total"]["conversations"] == 301
    assert sorted(contents(output)) == sorted([*FILES, "notes"])


def test_errors(raw: Path, tmp_path: Path) -> None:
    output = tmp_path / "output"
    with pytest.raises(CorpusError, match="does not exist"):
        prepare(PrepareSettings("lines"), [raw / "none"], output)
    with pytest.raises(CorpusError, match="no input files"):
        prepare(PrepareSettings("lines"), [], output)
    (tmp_path / "empty").mkdir()
    with pytest.raises(CorpusError, match=r"contains no \.txt"):
        prepare(PrepareSettings("lines"), [tmp_path / "empty"], output)
    (tmp_path / "symbols.txt").write_text("♪♪♪\n***\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"2 lines \(nothing that the tokenizer keeps, such as “♪♪♪” and “\*\*\*”\)"):
        prepare(PrepareSettings("lines"), [tmp_path / "symbols.txt"], output)
    (tmp_path / "nothing.txt").touch()
    with pytest.raises(CorpusError, match=r"nothing\.txt is empty\."):
        prepare(PrepareSettings("lines"), [tmp_path / "nothing.txt"], output)
    with pytest.raises(UserError, match="contains input files"):
        prepare(PrepareSettings("dailydialog"), [raw], raw)
    assert not output.exists()
    with pytest.raises(UserError, match="could not be written"):
        prepare(PrepareSettings("dailydialog"), [raw], tmp_path / "symbols.txt")


LINES = "a\n\nb\n<<<<<END-CONV>>>>>\n♪\nc\n<<<<END-CONV>>>>\n \nd\n\xff\n".encode().replace(b"\xc3\xbf", b"\xff")
REDDIT = "".join(
    comment(number, parent).replace(f"comment {number}", body) + "\n"
    for number, parent, body in [
        (1, None, "hello"),
        (2, 1, "well"),
        (3, 1, "[deleted]"),
        (4, 99, "alone"),
        (5, 1, "♪"),
        (6, 1, " "),
        (7, 1, "so many words"),
    ]
)


MISSING = "the other line of the pair is missing"
REMOVED = "nothing that the tokenizer keeps"
LEFT_OUT_COMMENTS = dict.fromkeys(
    [
        *("deleted or removed", "empty", "in other subreddits", "more than --max-words", REMOVED),
        "without a parent or reply among the others",
    ],
    1,
)


@pytest.mark.parametrize(
    ("settings", "text", "damaged", "left_out", "used"),
    [
        (PrepareSettings("lines"), LINES, 2, {"empty": 2, "ends of conversations": 1, REMOVED: 1}, 4),
        (PrepareSettings("tweets"), b"a\nb\nc\n", 0, {MISSING: 1}, 2),
        (
            PrepareSettings("pairs", tokenizer=TokenizerSettings("english"), pairing="alternating"),
            *("a\tb\n♪\tc\nd\n".encode(), 1, {"without tokens on one side": 1}, 1),
        ),
        (
            PrepareSettings("reddit", RedditSettings(("movies",), 2)),
            *(REDDIT.encode() + comment(8, None).replace("movies", "films").encode(), 0, LEFT_OUT_COMMENTS, 2),
        ),
    ],
)
def test_every_line_is_accounted_for(
    tmp_path: Path, settings: PrepareSettings, text: bytes, damaged: int, left_out: dict[str, int], used: int
) -> None:
    path = tmp_path / ("pairs.tsv" if settings.corpus == "pairs" else "corpus.txt")
    path.write_bytes(text)
    reading = prepare(replace(settings, max_bad=100), [path], tmp_path / "output")["reading"]
    assert (reading["damaged"], reading["left_out"], reading["used"]) == (damaged, left_out, used)
    assert reading["records"] == len(text.splitlines()) == damaged + sum(left_out.values()) + used
    if settings.corpus == "lines":
        assert reading["examples"] == {REMOVED: ["♪"]}


def test_many_lines_that_are_left_out_are_a_warning(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "chat.txt").write_text("hi\nho\n" * 40 + "♪\n" * 8 + "\n" * 50)
    result = cli("prepare", "lines", tmp_path / "chat.txt", "--output", tmp_path / "output")
    assert "left out: 8 lines (nothing that the tokenizer keeps)\n  ♪\n" in result.out
    assert "left out: 50 lines (empty)" in result.out
    (tmp_path / "chat.txt").write_text("hi\nho\n" * 40 + "♪\n" * 17)
    result = cli("prepare", "lines", tmp_path / "chat.txt", "--output", tmp_path / "output")
    assert "warning: left out: 17 lines (nothing that the tokenizer keeps), more than a tenth of 97" in result.err


@pytest.mark.parametrize(
    ("settings", "text", "message"),
    [
        (PrepareSettings("reddit", RedditSettings(min_score=1000)), REDDIT, r"7 comments \(below --min-score\)"),
        (
            PrepareSettings("lines", LinesSettings("odd-even"), max_bad=100),
            LINES.decode(errors="surrogateescape"),  # a, empty; b, ♪; c, empty; d, damaged
            r"4 lines \(the other line of the pair is missing\)",
        ),
        (
            PrepareSettings("opensubtitles"),
            '<document><s id="1"><time id="T1S" value="00:00:01,000"/>Hello .</s><s id="2">You</s></document>',
            r"2 sentences \(without <w>, such as “Hello \.” and “You”\)\. This is the `raw` archive .* take the `xml`",
        ),
    ],
)
def test_nothing_left(tmp_path: Path, settings: PrepareSettings, text: str, message: str) -> None:
    (tmp_path / "corpus.xml").write_text(text, errors="surrogateescape")
    with pytest.raises(CorpusError, match=message):
        prepare(settings, [tmp_path / "corpus.xml"], tmp_path / "output")


RUSSIAN = "Привет , как дела ?", "Хорошо , спасибо !"


@pytest.mark.parametrize(
    ("corpus", "name", "text"),
    [
        ("lines", "chats.txt", "\n".join(RUSSIAN)),
        ("dailydialog", "dialogues.txt", " __eou__ ".join(RUSSIAN)),
        ("opensubtitles", "film.xml", film("/".join(RUSSIAN)).decode()),
        ("reddit", "RC_2010-01", "\n".join(comment(n, n - 1).replace("comment", RUSSIAN[n % 2]) for n in range(1, 5))),
    ],
)
def test_a_corpus_whose_letters_are_removed_is_refused(tmp_path: Path, corpus: str, name: str, text: str) -> None:
    """Its punctuation marks would be left."""
    (tmp_path / name).write_text(text, encoding="utf-8")
    message = r"The english tokenizer removes [\d.]+ % of the letters in the inputs\. Use the unicode tokenizer"
    with pytest.raises(CorpusError, match=message):
        prepare(PrepareSettings(corpus), [tmp_path / name], tmp_path / "output")
    assert not (tmp_path / "output").exists()


@pytest.mark.parametrize("name", ["~", "it's [a] %2a * ? ü", '"quoted"', "new\nline", "p*n"])
def test_folder_names(months: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Those that look like a pattern, too, even one that matches another folder."""
    monkeypatch.chdir(tmp_path)
    prepare(PrepareSettings("reddit"), [months], "plain")
    (tmp_path / name).mkdir()
    prepare(PrepareSettings("reddit"), [months], name)
    assert contents(tmp_path / "plain") == contents(tmp_path / name)


def test_imports_that_take_long_are_deferred() -> None:
    """Reading starts, in every reader process, before the engine and the configuration are imported."""
    code = (
        "import sys, seq2seq_chat.prepare.pipeline; "
        "print(sorted({'ibis', 'duckdb', 'pandas', 'pydantic', 'tensorflow'} & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", code], check=True, env=environment, capture_output=True, text=True)
    assert run.stdout == "[]\n"


def test_counts_by_hand(corpus_file: Write, tmp_path: Path) -> None:
    path = corpus_file("a b / c d e / ** / f", "*", "a / x y", "z")
    settings = PrepareSettings("lines", split=(1, 0, 0), vocabulary_size=11, encoder_steps=2, decoder_steps=3)
    statistics = prepare(settings, [path], tmp_path / "output")
    train = {
        "conversations": 3,
        "utterances": 6,
        "samples": 3,
        "words": 10,
        "distinct_words": 9,
        "coverage_percent": 80.0,  # the vocabulary has a, which occurs twice, and b to f and x
        # "c d e" as a target has no room for EOS, as a source it has one word too many; "x y" with EOS just fits.
        "too_long_percent": 66.67,
    }
    written = json.loads((tmp_path / "output" / "statistics.json").read_text())
    assert written | {"files": None} == {**statistics, "files": None}
    empty = dict.fromkeys(train, 0)
    assert [statistics[name] for name in (*SPLITS, "total")] == [train, empty, empty, train]


def test_characters_and_alternating_pairs(corpus_file: Write, tmp_path: Path) -> None:
    options = {"tokenizer": TokenizerSettings("character"), "pairing": "alternating", "vocabulary_size": 8}
    settings = PrepareSettings("lines", split=(1, 0, 0), **options)  # type: ignore[arg-type]
    statistics = prepare(settings, [corpus_file("a b / c / d")], tmp_path / "output")["train"]
    assert (statistics["samples"], statistics["words"]) == (1, 5)  # the space counts as a character
    assert statistics["coverage_percent"] == 80.0
