"""What is read from pipes and printed, also for models that know every character."""

import io
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.chat.replies import Hypothesis, Reply, notes
from seq2seq_chat.cli.conversation import ReplyFormat, answer_lines, available_lines, explain
from seq2seq_chat.config import Decoding
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.tables import one_line
from seq2seq_chat.text.codec import Codecs
from tests.conftest import Cli
from tests.random_runs import make_codec, random_run, small_config

CHARACTERS = ["n", "<newline>", "<return>", "<U+001B>", "<U+D800>", "<U+2028>"]


class Recorder:
    """A chatbot that records what it reads, and has one reply for everything."""

    def __init__(self, text: str = "ok") -> None:
        self.read: list[str] = []
        self._text = text

    def reply(self, text: str, decoding: Decoding) -> Reply:
        return self.replies([text], decoding)[0]

    def replies(self, texts: list[str], decoding: Decoding, prefixes: object = ()) -> list[Reply]:
        self.read += texts
        hypothesis = Hypothesis(self._text, ["o", "k"], -1.0, True, [], -1.0)
        return [Reply(self._text, [hypothesis], [], [], 0.1) for _ in texts]


def answer(bot: Any, stdin: bytes, reply_format: ReplyFormat = ReplyFormat()) -> str:  # noqa: B008  immutable
    out = io.StringIO()
    answer_lines(bot, Decoding(), reply_format, io.BytesIO(stdin), out)
    return out.getvalue()


def test_line_ends_and_a_byte_order_mark_are_not_part_of_an_utterance() -> None:
    bot = Recorder()
    answer(bot, "\ufeff one\n\ufefftwo \r\nth\rree\u2028\x85\n\nlast".encode())
    assert bot.read == [" one", "\ufefftwo ", "th\rree\u2028\x85", "", "last"]


@settings(deadline=None)
@given(st.binary())
def test_one_line_for_each_line_of_any_bytes(stdin: bytes) -> None:
    bot = Recorder()
    out = answer(bot, stdin)
    assert out == "ok\n" * len(bot.read)
    assert len(bot.read) == stdin.count(b"\n") + (stdin != b"" and not stdin.endswith(b"\n"))
    "".join(bot.read).encode()


@given(st.text())
def test_any_reply_is_one_line(text: str) -> None:
    line = one_line(text)
    assert len(line) == len(text)
    assert "".join(line.splitlines()) == line
    assert all(new == old or (new, old.isprintable()) == (" ", False) for new, old in zip(line, text, strict=True))
    assert answer(Recorder(text), b"x") == line + "\n"
    assert answer(Recorder(text), b"x", ReplyFormat(scores=True)) == f"-1.0000\t{line}\n\n"
    assert answer(Recorder(text), b"x", ReplyFormat(tokens=True)) == "o k\n"
    assert line in explain(Recorder(text).reply("x", Decoding())).splitlines()[1]


@pytest.fixture(scope="module")
def characters_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that replies with line breaks, control characters and surrogates."""
    codecs = Codecs.shared(make_codec("character", CHARACTERS))
    return random_run(tmp_path_factory.mktemp("characters"), small_config("data.tokenizer=character"), codecs)


@pytest.mark.slow
def test_replies_with_line_breaks_and_surrogates(cli: Cli, characters_run: Run) -> None:
    lines = ["n", "nn\u2028", "\x1b\x00", "\u202eשלום", "👩\u200d👧", "", "\ufeff", "\rn"]
    stdin = "\n".join(lines).encode() + b"\n\xed\xa0\x80\xff\n"
    replies = Chatbot.load(characters_run).replies([*lines, "\ufffd" * 4])
    answer = cli("chat", characters_run.path, stdin=stdin)
    assert answer.status == 0
    assert "seq2seq-chat: warning: line 9 of stdin is not UTF-8" in answer.err
    assert answer.out.split("\n") == [*(one_line(reply.text) for reply in replies), ""]
    texts = {character for reply in replies for character in reply.text}
    assert {"\n", "\x1b", "\ufffd"} & texts, "the replies have such characters"
    tokens = cli("chat", characters_run.path, "--tokens", stdin=stdin).out.splitlines()
    words = [reply.hypotheses[0].words if reply.hypotheses else [] for reply in replies]
    assert [line.split() for line in tokens] == words


ENGLISH = make_codec("unicode", ["where", "is", "the", "station", "?"])
OTHER_SCRIPT = "hardly any known words ({} % are not in the vocabulary); it may be in another language or script"


@pytest.fixture(scope="module")
def english_bot(tmp_path_factory: pytest.TempPathFactory) -> Chatbot:
    changes = "task=translation", "data.tokenizer=unicode", "data.train=train.tsv", "data.shared_vocabulary=true"
    folder = tmp_path_factory.mktemp("english")
    return Chatbot.load(random_run(folder, small_config(*changes), Codecs(ENGLISH, ENGLISH)))


def test_lines_that_a_translation_model_cannot_read_stay_aligned(
    english_bot: Chatbot, caplog: pytest.LogCaptureFixture
) -> None:
    lines = ["where is the station ?", "", "  ", "\u202e", "Где вокзал, где?", "Куда идёт этот поезд?", "\u200b"]
    lines += ["the " * 9] * 2
    out = answer(english_bot, "\n".join(lines).encode()).split("\n")
    assert len(out) == len(lines) + 1
    assert [line == "" for line in out] == [False, True, True, True, False, False, True, False, False, True]
    assert caplog.messages == [
        "line 4 of stdin gets an empty line instead of a translation: there is nothing to read in this text",
        f"line 5 of stdin has {OTHER_SCRIPT.format(100)}",
        "line 8 of stdin is too long: the model reads only the last 8 of 9 tokens",
    ]


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("Wer wohnt ?", 0),  # two words, which may be names
        ("Где station ?", 0),
        ("Где вокзал ?", 1),  # two words in letters that the vocabulary does not have
        ("?", 0),
        ("where is Zürich ? 1 2 3 4 5 6 7 8", 1 / 3),  # numbers and punctuation marks do not count
        ("where is вокзал где этот поезд", 4 / 6),
        ("is вокзал где этот поезд ,", 4 / 5),
    ],
)
def test_share_of_unknown_words(english_bot: Chatbot, text: str, share: float) -> None:
    reply = english_bot.reply(text)
    assert reply.unknown_share == pytest.approx(share)
    expected = [f"the text has {OTHER_SCRIPT.format(round(100 * share))}"] if share >= 0.8 else []
    assert [note for note in notes(reply) if "last" not in note] == expected


def test_what_is_said_of_text_without_tokens(characters_run: Run, tmp_path: Path) -> None:
    assert Chatbot.load(characters_run).unreadable == "There is nothing to read in this text"
    bot = Chatbot.load(random_run(tmp_path, small_config(), Codecs.shared(make_codec("english", ["a"]))))
    assert bot.unreadable == "This model reads only the letters a to z, digits and . , ! ?"


class Chunks(io.BytesIO):
    """A stream of which each read returns one of these chunks."""

    def __init__(self, chunks: list[bytes]) -> None:
        super().__init__()
        self.chunks = chunks

    def read1(self, size: int | None = -1) -> bytes:
        return self.chunks.pop(0) if self.chunks else b""


@given(st.lists(st.binary(min_size=1)), st.integers(1, 5))
def test_lines_are_those_of_the_whole(chunks: list[bytes], limit: int) -> None:
    whole = b"".join(chunks)
    blocks = list(available_lines(Chunks(list(chunks)), limit))
    assert [line for block in blocks for line in block] == [line.removesuffix(b"\n") for line in io.BytesIO(whole)]
    assert all(1 <= len(block) <= limit for block in blocks)


def test_lines_of_one_read_are_a_block() -> None:
    chunks = [b"one\ntwo\nth", b"ree\n", b"a long ", b"line", b"\nlast"]
    assert list(available_lines(Chunks(chunks), 10)) == [[b"one", b"two"], [b"three"], [b"a long line"], [b"last"]]


def test_a_line_in_a_pipe_is_read_before_the_next_is_written() -> None:
    reading, writing = os.pipe()
    read: list[list[bytes]] = []
    with open(reading, "rb") as stream:
        is_read = threading.Semaphore(0)

        def read_all() -> None:
            for block in available_lines(stream, 10):
                read.append(block)
                is_read.release()

        thread = threading.Thread(target=read_all)
        thread.start()
        with open(writing, "wb", buffering=0) as pipe:
            for text in (b"one\n", b"two\nthree\n"):
                pipe.write(text)
                assert is_read.acquire(timeout=60)
        thread.join(60)
    assert read == [[b"one"], [b"two", b"three"]]
