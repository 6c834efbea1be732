"""Every corpus with every tokenizer, against the tokens of each utterance and plain counts."""

import json
import random
import re
from collections.abc import Callable
from dataclasses import replace
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from seq2seq_chat.cli.prepare import prepare as prepare_command
from seq2seq_chat.config import load_config
from seq2seq_chat.data.build_codecs import build_codecs
from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.data.samples import read_tokenized_utterances
from seq2seq_chat.prepare import subwords, utterances
from seq2seq_chat.prepare.pipeline import find_inputs, plan_tasks, prepare
from seq2seq_chat.prepare.readers.opus import scan_sentences
from seq2seq_chat.prepare.settings import PrepareSettings
from seq2seq_chat.text.tokenizers import (
    SubwordTokenizer,
    TokenizerError,
    TokenizerName,
    TokenizerSettings,
    create_tokenizer,
)
from seq2seq_chat.text.vocabulary import Vocabulary
from tests.conftest import Cli
from tests.prepare.oracle import Conversations, check, read_corpus_files
from tests.prepare.raw import contents

MARKER = "<<<<<END-CONV>>>>>"
SPLIT = (2, 1, 1)
UTTERANCES = [
    "Hello, nice to meet you!",
    "hello  again ,  you said 10:30 ?",
    "I don't know; it's the O'Neills' café.",
    'it\'s <b>bold</b> & "quoted" AT&T &amp; co',
    "<unknown> <pad> words of a <tag>",
    "Où est-il? Ça va, ça va.",
    "Die Größe beträgt 1.234,5 € – übergroß!",
    "Привет, как дела?",
    "你好，世界。Hello",
    "مرحبا بالعالم",
    "नमस्ते दुनिया",
    "สวัสดีครับ",
    "👩\u200d👩\u200d👧 family 🇩🇪 flag 👍🏽",
    "e\u0301 and é, ﬁ and Å",
    "\u200fright to left\u200e \u202dmarks\u202c",
    "a tab\tand\u00a0a no-break space\u2028 a separator",
    "... !!",
    "\u200b",  # without a token of some tokenizers
    "▁ and <0x0A> and <space> and <U+0301>",
    "the the the the quick quick brown fox",
]
CONTROL = "a bell\x07 and an escape\x1b"


def as_is(text: str) -> str:
    return re.sub("[\n\r\0]", " ", text).replace("\ud83d", "\ufffd").strip()


def write_lines(folder: Path, conversations: list[list[str]]) -> None:
    text = "".join("".join(f"{text}\r\n" for text in texts) + f"{MARKER}\n" for texts in conversations)
    (folder / "chats.txt").write_bytes(b"\xef\xbb\xbf" + text.encode())


def write_tweets(folder: Path, conversations: list[list[str]]) -> None:
    lines = (f"{escape(text, quote=False)}\n" for texts in conversations for text in texts)
    (folder / "tweets.txt").write_text("".join(lines), "utf-8")


def write_dailydialog(folder: Path, conversations: list[list[str]]) -> None:
    lines = ("".join(f"{text} __eou__ " for text in texts) for texts in conversations)
    (folder / "dialogues.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")


def write_cornell(folder: Path, conversations: list[list[str]]) -> None:
    texts, ids = [], []
    for conversation in conversations:
        ids.append([f"L{len(texts) + number}" for number in range(len(conversation))])
        texts += conversation
    lines = (f"L{number} +++$+++ u0 +++$+++ m0 +++$+++ A +++$+++ {text}\n" for number, text in enumerate(texts))
    (folder / "movie_lines.txt").write_text("".join(lines), "utf-8")
    (folder / "movie_conversations.txt").write_text("".join(f"u0 +++$+++ u1 +++$+++ m0 +++$+++ {i}\n" for i in ids))


def write_reddit(folder: Path, conversations: list[list[str]]) -> None:
    lines = []
    for thread, texts in enumerate(conversations):
        for number, text in enumerate(texts):
            fields = {"id": f"c{thread}_{number}", "link_id": f"t3_{thread}", "subreddit": "films"}
            fields["parent_id"] = f"t1_c{thread}_{number - 1}" if number else f"t3_{thread}"
            lines.append(json.dumps(fields | {"body": escape(text, quote=False)}))
    (folder / "RC_2010-01").write_text("\n".join(lines))


def write_opensubtitles(folder: Path, conversations: list[list[str]]) -> None:
    for number, texts in enumerate(conversations):
        mark = ' id="1"' if number % 2 else ' unusual="1"'  # the second form is read by an XML parser
        sentences = "".join(
            f'<s id="1">{"".join(f"<w{mark}>{escape(word)}</w>" for word in text.split())}</s>' for text in texts
        )
        content = f"<document>{sentences.replace('&#x27;', '&apos;')}</document>".encode()
        assert (scan_sentences(content) is not None) == bool(number % 2)
        (film := folder / "2001" / f"{number:03}").mkdir(parents=True)
        (film / "1.xml").write_bytes(content)


WRITERS: dict[str, Callable[[Path, list[list[str]]], None]] = {
    "lines": write_lines,
    "tweets": write_tweets,
    "dailydialog": write_dailydialog,
    "cornell": write_cornell,
    "reddit": write_reddit,
    "opensubtitles": write_opensubtitles,
}


def raw_conversations(corpus: str) -> list[list[str]]:
    rng = random.Random(1)
    pool = [*UTTERANCES, *([] if corpus == "opensubtitles" else [CONTROL])]
    pool += ["line\nbreaks\r\n in it", "NUL\0", "half an emoji \ud83d"] * (corpus == "reddit")
    longest = 2 if corpus == "tweets" else 4
    return [
        [rng.choice(pool), *(rng.choice(pool) for _ in range(rng.randrange(1, longest))), f"number {number}"][-longest:]
        for number in range(40)
    ]


def _without_markup(corpus: str, text: str) -> str:
    if corpus == "cornell":
        return re.sub("</?[A-Za-z]+>", "", text)
    if corpus == "reddit":
        return text.replace("\u200b", "").replace("\u00a0", " ")
    return " ".join(text.split()) if corpus == "opensubtitles" else text


def expected_conversations(corpus: str, raw: list[list[str]], write: Callable[[str], str]) -> Conversations:
    """The texts of the corpus files by construction; ``write`` returns that of an utterance."""
    conversations: Conversations = []
    for number, conversation in enumerate(raw):
        texts = [write(_without_markup(corpus, text)) for text in conversation]
        if corpus == "reddit":
            pairs = [[first, second] for first, second in pairwise(texts) if first and second]
            conversations += [(f"t3_{number}", pair) for pair in pairs]
        elif corpus == "opensubtitles":
            conversations.append((f"2001/{number:03}/1", list(filter(None, texts))))
        elif any(texts) and (corpus != "tweets" or all(texts)):
            conversations.append((str(len(conversations)), list(filter(None, texts))))
    return conversations


NAMES: tuple[TokenizerName, ...] = ("english", "thesis", "unicode", "whitespace", "character", "subword")
CASES: list[Any] = [
    *((corpus, TokenizerSettings(name)) for corpus, name in zip(WRITERS, reversed(NAMES), strict=True)),
    ("reddit", TokenizerSettings("unicode", lowercase=True)),
    ("opensubtitles", TokenizerSettings("subword", subword_model="bpe")),
]
CASES += [
    pytest.param(corpus, TokenizerSettings(name), marks=pytest.mark.nightly)
    for corpus in WRITERS
    for name in NAMES
    if (corpus, TokenizerSettings(name)) not in CASES
]


@pytest.mark.parametrize(("corpus", "settings"), CASES)
def test_equals_oracle(tmp_path: Path, corpus: str, settings: TokenizerSettings) -> None:
    (folder := tmp_path / "raw").mkdir()
    raw = raw_conversations(corpus)
    WRITERS[corpus](folder, raw)
    size = 500 if settings.name == "subword" else 40
    options = PrepareSettings(corpus, tokenizer=settings, split=SPLIT, vocabulary_size=size, keep_copies=True)
    statistics = prepare(options, [folder], tmp_path / "out")
    if settings.name == "subword":
        texts = [text for texts in read_corpus_files(tmp_path / "out")["train"] for text in texts]
        tokenizer = SubwordTokenizer.train(texts, size, settings.subword_model)
        assert (tmp_path / "out" / "tokenizer.json").read_bytes() == tokenizer.file_content
    else:
        tokenizer = create_tokenizer(settings)
        assert not (tmp_path / "out" / "tokenizer.json").exists()
        assert len(Vocabulary.load(tmp_path / "out" / "vocabulary.txt")) == size

    def write(text: str) -> str:
        if tokenizer.cleans:
            return " ".join(tokenizer.encode(text))
        return as_is(text) if tokenizer.encode(as_is(text)) else ""

    expected = expected_conversations(corpus, raw, write)
    check(tmp_path / "out", expected, SPLIT, tokenizer=None if tokenizer.cleans else tokenizer)
    assert statistics["tokenizer"] == settings.name


def test_every_choice_is_covered() -> None:
    assert set(prepare_command.commands) - {"chats", "pairs", "text"} == set(WRITERS)  # these have tests of their own
    for command in prepare_command.commands.values():
        types: dict[str | None, Any] = {parameter.name: parameter.type for parameter in command.params}
        assert tuple(types["tokenizer"].choices) == NAMES


def write_comments(path: Path, bodies: list[str]) -> Path:
    """Write pairs of a comment and its reply, ``ok``."""
    comments = []
    for number, body in enumerate(bodies):
        fields = {"subreddit": "films", "link_id": f"t3_{number}"}
        comments.append(fields | {"id": f"q{number}", "parent_id": f"t3_{number}", "body": body})
        comments.append(fields | {"id": f"a{number}", "parent_id": f"t1_q{number}", "body": "ok"})
    path.write_text("".join(json.dumps(comment) + "\n" for comment in comments))
    return path


def test_losses_are_counted(tmp_path: Path, cli: Cli) -> None:
    bodies = ["a\nb\r\nc", "nul\0", "half \ud83d", "\ufeffmarked\u200b", "it's gro\u00df, yes", "bell\x07"]
    path = write_comments(tmp_path / "RC_1", bodies)
    texts = ["a b  c", "nul", "half \ufffd", "marked", "it's gro\u00df, yes", "bell\x07"]
    expected: dict[str, tuple[dict[str, int], list[str]]] = {
        "english": ({}, ["a b c", "nul", "half", "marked", "it s gro , yes", "bell"]),
        "thesis": ({"removed_words": 5}, ["a b c", "half", "marked", "yes"]),
        # The byte order mark and the zero-width space are no part of the text.
        "unicode": ({"removed_characters": 1, "replaced_characters": 5}, texts),
        "character": ({"replaced_characters": 5}, texts),
    }
    for name, (losses, lines) in expected.items():
        options = ["--output", tmp_path / name, "--split", "1,0,0", "--tokenizer", name]
        answer = cli("prepare", "reddit", path, *options)
        assert answer.status == 0, answer
        reading = json.loads((tmp_path / name / "statistics.json").read_text())["reading"]
        assert {key: reading[key] for key in reading if key.startswith(("removed", "replaced"))} == losses
        assert sorted(first for first, _ in read_corpus_files(tmp_path / name)["train"]) == sorted(lines)
        for value in losses.values():
            assert re.search(f" re(moved|placed): {value}\n", answer.out)


def test_utterances_that_a_corpus_file_cannot_hold_are_damage(tmp_path: Path) -> None:
    long = "<document><s><w>" + "w\u00e4 " * 400_000 + "</w></s><s><w>a</w></s><s><w>b</w></s></document>"
    (tmp_path / "1.xml").write_text(long, "utf-8")
    for name in ("unicode", "english"):
        settings = PrepareSettings("opensubtitles", tokenizer=TokenizerSettings(name), max_bad=100)
        statistics = prepare(settings, [tmp_path / "1.xml"], tmp_path / name)
        assert statistics["reading"]["damages"] == [f"{tmp_path / '1.xml'}: an utterance is longer than 1 MiB"]
        assert read_corpus_files(tmp_path / name)["train"] == [["a", "b"]]
    path = write_comments(tmp_path / "RC_1", [f" {MARKER} ", "yes"])
    settings = PrepareSettings("reddit", tokenizer=TokenizerSettings("character"), max_bad=50)
    statistics = prepare(settings, [path], tmp_path / "reddit")
    (damage,) = statistics["reading"]["damages"]
    assert damage.endswith("an utterance reads like the line that ends a conversation")
    assert read_corpus_files(tmp_path / "reddit")["train"] == [["yes", "ok"]]


def test_tokenizer_of_an_earlier_preparation_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "chats.txt"
    path.write_text("".join(f"w{n} x\n" for n in range(100)))
    output = tmp_path / "out"
    subword = PrepareSettings("lines", tokenizer=TokenizerSettings("subword"), vocabulary_size=300)
    prepare(subword, [path], output)
    first = contents(output)
    prepare(PrepareSettings("lines"), [path], output)
    prepare(PrepareSettings("lines"), [path], tmp_path / "english")
    assert contents(output) == contents(tmp_path / "english")
    prepare(subword, [path], output)
    assert contents(output) == first
    (output / "train.txt").write_text("mine")
    with pytest.raises(TokenizerError, match=r"size 265 is too small.* Raise --vocabulary-size"):
        prepare(replace(subword, vocabulary_size=265), [path], output)
    assert contents(output) == first | {"train.txt": b"mine"}
    with pytest.raises(TokenizerError, match=r"size 260 is too small .* Choose a larger size"):
        replace(subword, vocabulary_size=260)


def test_subwords_do_not_depend_on_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "chats.txt"
    path.write_text("".join(f"w{n} x{n % 7}\n" for n in range(1000)))
    settings = PrepareSettings("lines", tokenizer=TokenizerSettings("subword"), vocabulary_size=300, jobs=1)
    monkeypatch.setattr(utterances, "_ROWS_PER_GROUP", 64)
    prepare(settings, [path], tmp_path / "one")
    monkeypatch.setattr(subwords, "_MIN_PARALLEL_GROUPS", 2)
    prepare(replace(settings, jobs=2), [path], tmp_path / "processes")
    assert contents(tmp_path / "one") == contents(tmp_path / "processes")
    monkeypatch.undo()
    prepare(settings, [path], tmp_path / "large_groups")
    tables = [pq.read_table(tmp_path / name / "utterances.parquet") for name in ("one", "large_groups")]
    assert tables[0].equals(tables[1])


def test_shards_depend_on_what_readers_use(tmp_path: Path) -> None:
    (path := tmp_path / "chats.txt").write_text("a\nb\n")
    tokenizers = [TokenizerSettings(name) for name in ("english", "unicode", "subword")]
    tokenizers += [TokenizerSettings("unicode", lowercase=True), TokenizerSettings("subword", subword_model="bpe")]
    keys = []
    for tokenizer in tokenizers:
        settings = PrepareSettings("lines", tokenizer=tokenizer).shard_settings
        (task,) = plan_tasks("lines", settings, find_inputs("lines", [path]))
        keys.append(task.key())
    assert len(set(keys)) == 4
    assert keys[2] == keys[4]  # the text is the same


def test_letters_and_empty_corpora(tmp_path: Path) -> None:
    (russian := tmp_path / "russian.txt").write_text("Привет, как дела?\nХорошо, спасибо!\n", "utf-8")
    (invisible := tmp_path / "invisible.txt").write_text("\u200b\n\u200b\u200b\n", "utf-8")
    for name, text, message in (
        ("thesis", russian, "The thesis tokenizer removes 100 % .* Use the unicode tokenizer"),
        ("thesis", invisible, r"2 lines \(nothing .*such as “\\u200b”.*a tokenizer other than thesis"),
        ("unicode", invisible, "Use a tokenizer other than unicode"),
    ):
        with pytest.raises(CorpusError, match=message):
            prepare(PrepareSettings("lines", tokenizer=TokenizerSettings(name)), [text], tmp_path / "out")


@pytest.mark.parametrize("name", ["unicode", "subword"])
def test_training_reads_the_same_tokens(tmp_path: Path, cli: Cli, name: TokenizerName) -> None:
    """With the experiment that the command writes."""
    write_lines(tmp_path, raw_conversations("lines"))
    options = ["--tokenizer", name, "--vocabulary-size", 500, "--output", tmp_path / "my corpus"]
    assert cli("prepare", "lines", tmp_path / "chats.txt", *options).status == 0
    data = load_config(tmp_path / "my corpus" / "experiment.json").data
    assert data.train == str(tmp_path / "my corpus" / "train.txt")
    assert {Path(str(data.validation)).name, Path(str(data.test)).name} == {"validation.txt", "test.txt"}
    codecs = build_codecs(data)
    assert codecs.source.vocabulary.words == Vocabulary.load(tmp_path / "my corpus" / "vocabulary.txt").words
    read = [utterance.source_tokens for utterance in read_tokenized_utterances(data.train, codecs.tokenizers)]
    table = pq.read_table(tmp_path / "my corpus" / "utterances.parquet").to_pylist()
    assert read == [row["tokens"].split(" ") for row in table if row["split"] == "train"]


@pytest.mark.parametrize("command", ["lines", "text"])
def test_marks_that_the_english_tokenizer_removes(tmp_path: Path, cli: Cli, command: str) -> None:
    text = "I don't know\nIt’s 'quoted'\ncafe\u0301 and naïve\nfine 😂\nwe're\n"
    (tmp_path / "chat.txt").write_text(text * 20, "utf-8")
    options = ("prepare", command, tmp_path / "chat.txt", "--output", tmp_path / "out", "--tokenizer")
    assert (
        "warning: the english tokenizer removes apostrophes (don't becomes don t, It’s becomes it s) and "
        "accents (cafe\u0301 becomes cafe, naïve becomes naive) and emoji (😂); --tokenizer unicode keeps them"
    ) in cli(*options, "english").err
    assert "removes" not in cli(*options, "unicode").err


def test_apostrophes_of_phones_and_typewriters_are_one_character(tmp_path: Path, cli: Cli) -> None:
    """The experiment of the corpus reads them in the same way, and the corpus file has them as they were."""
    (tmp_path / "chat.txt").write_text("I’m fine\nI'm not\ndon’t\n" * 20, "utf-8")
    options = ("prepare", "lines", tmp_path / "chat.txt", "--split", "1,0,0", "--tokenizer", "unicode", "--output")
    for name, option, words in (("one", (), {"I'm"}), ("two", ("--keep-apostrophes",), {"I'm", "I’m"})):
        assert cli(*options, tmp_path / name, *option).status == 0
        vocabulary = Vocabulary.load(tmp_path / name / "vocabulary.txt").words
        assert {word for word in vocabulary if word.startswith("I")} == words
        config = load_config(tmp_path / name / "experiment.json")
        assert config.data.normalize_apostrophes == (name == "one")
        codec = build_codecs(config.data).source
        assert codec.tokenizer.encode("don’t") == (["don't"] if name == "one" else ["don’t"])
        assert "I’m fine" in (tmp_path / name / "train.txt").read_text("utf-8")
