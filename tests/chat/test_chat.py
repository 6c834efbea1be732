"""Chatting through pipes, in the terminal, and with :class:`Chatbot`, with arbitrary input."""

import builtins
import json
import math
import shutil
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.chat.replies import Hypothesis, Reply
from seq2seq_chat.cli.conversation import NOT_UTF8, Conversation, ReplyFormat, converse
from seq2seq_chat.config import Config, Data, Decoding, parse_config, set_decoding
from seq2seq_chat.engines.tensorflow.engine import TensorFlowEngine
from seq2seq_chat.runs.find import find_run
from seq2seq_chat.runs.json_lines import read_json_lines
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.text.tokenizers import TokenizerSettings
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, Vocabulary
from tests.conftest import Cli
from tests.random_runs import codec_of_texts, make_codec, random_model, random_run, small_config

pytestmark = pytest.mark.usefixtures("tiny_run", "unoptimized_graphs")

BEAM = Decoding(method="beam", beam_width=6, n_best=6)
STEPS = 8
WORDS = [f"word{number}" for number in range(30)]


@pytest.fixture(scope="module")
def bot(tiny_run: Path) -> Chatbot:
    return Chatbot.load(Run(tiny_run))


def random_bot(*changes: str) -> Chatbot:
    """A model of large random weights, whose replies depend on every input word."""
    config = small_config(*changes)
    codecs = Codecs.shared(make_codec(config.data.tokenizer, WORDS))
    return Chatbot(TensorFlowEngine(random_model(config, codecs)), codecs, config)


@pytest.fixture(scope="module")
def forward() -> Chatbot:
    return random_bot()


@pytest.fixture(scope="module")
def reversed_bot() -> Chatbot:
    """``forward`` with reversed input."""
    return random_bot("data.reverse_input=true")


# pipes

ODD_LINES = {
    "ordinary": b"you see the tree1 ?",
    "empty": b"",
    "spaces": b" \t ",
    "only unread punctuation": b"*** --- ;",
    "only unknown words": b"xylophone quux",
    "ten thousand words": b"tree1 " * 10_000,
    "one very long word": b"a" * 100_000,
    "emoji": "😀 you 👍🏽 see ?".encode(),
    "only emoji": "👩‍👩‍👧".encode(),
    "control characters": b"you\x00 see\x07\x1b[31m the\x7f tree1\x0c?\x0b",
    "Unicode line separators": "you\x85see\u2028the\u2029tree1\x1c?".encode(),
    "not UTF-8": b"you \xff\xfe see \xc3",
    "surrogates": b"\xed\xa0\x80 you",
    "carriage return": b"you see the tree1 ?\r",
    "special words": b"<pad> <go> <eos> <unknown> <<<<<END-CONV>>>>>",
    "a tab and a score": b"-1.0\tyou",
    "a command": b"/quit",
    "right to left": "שלום".encode(),
}


def test_one_reply_per_line(cli: Cli, tiny_run: Path, bot: Chatbot) -> None:
    lines = list(ODD_LINES.values())
    answer = cli("chat", tiny_run, stdin=b"\n".join(lines) + b"\n")
    assert answer.status == 0
    replies = answer.out.split("\n")
    assert len(replies) == len(lines) + 1
    assert replies[-1] == ""
    by_name = dict(zip(ODD_LINES, replies, strict=False))
    alone = {name: bot.reply(line.decode("utf-8", errors="replace")).text for name, line in ODD_LINES.items()}
    assert by_name == alone
    unanswered = {"empty", "spaces", "only unread punctuation", "only emoji", "right to left"}
    assert {name for name, reply in by_name.items() if not reply} == unanswered
    assert by_name["ordinary"] == by_name["carriage return"] == by_name["Unicode line separators"]


def test_input_that_is_not_utf8_gives_one_warning(cli: Cli, tiny_run: Path) -> None:
    answer = cli("chat", tiny_run, stdin="hello\ncafé\nnaïve\n".encode("latin-1"))
    assert (answer.status, answer.out.count("\n")) == (0, 3)
    assert answer.err == (
        "seq2seq-chat: warning: line 2 of stdin is not UTF-8, so some of its letters are lost; convert the input, for "
        "example with: iconv -f latin1 -t utf-8\n"
    )


def test_terminal_shows_that_the_model_is_loading(cli: Cli, tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(import_module("seq2seq_chat.cli.chat"), "sys", terminal)
    answer = cli("chat", tiny_run, stdin=b"/quit\n")
    assert answer.err == f"loading {tiny_run.name}…\n"
    assert answer.out.startswith("You are talking to tiny.")


def test_a_single_text_is_no_list_of_texts(bot: Chatbot) -> None:
    with pytest.raises(TypeError, match=r"for a single one, write \[text\]"):
        bot.replies("hello")


def test_sample_replies_of_a_training_run(tiny_run: Path, bot: Chatbot, corpora: Path) -> None:
    """Utterances of the validation corpus, the last time with the replies of the trained model."""
    text = (corpora / "validation.txt").read_text(encoding="utf-8").replace("<<<<<END-CONV>>>>>\n", "")
    lines = [line.replace(" ,", ",").replace(" ?", "?").replace(" !", "!") for line in text.splitlines()]
    pairs = list(zip(*[iter(lines)] * 2, strict=True))
    samples = list(read_json_lines(tiny_run / "samples.jsonl"))
    assert [(sample["source"], sample["target"]) for sample in samples] == [pairs[0], pairs[5]] * 2
    assert [sample["reply"] for sample in samples[2:]] == [bot.reply(pairs[n][0]).text for n in (0, 5)]


@pytest.mark.parametrize(
    ("beam_width", "n_best", "expected"), [(None, 3, (5, 3)), (None, 7, (7, 7)), (4, None, (4, 1)), (4, 2, (4, 2))]
)
def test_beam_of_the_options(beam_width: int | None, n_best: int | None, expected: tuple[int, int]) -> None:
    """Without --beam-width, the beam has the configured width or, if that is too narrow, the width of --n-best."""
    config = small_config().model_copy(update={"decoding": Decoding(beam_width=5)})
    decoding = import_module("seq2seq_chat.cli.chat")._decoding(config, (), beam_width, n_best)
    assert (decoding.method, decoding.beam_width, decoding.n_best) == ("beam", *expected)


def test_n_best(cli: Cli, tiny_run: Path, bot: Chatbot) -> None:
    answer = cli("chat", tiny_run, "--n-best", 3, stdin=b"you see the tree1 ?\n\nwe like it")
    assert answer.status == 0
    first, empty, last, end = reply_blocks(answer.out)
    assert (empty, end) == ([], [])
    for text, block in (("you see the tree1 ?", first), ("we like it", last)):
        pairs = [line.split("\t") for line in block]
        scores = [float(score) for score, _ in pairs]
        assert len(pairs) == 3
        assert scores == sorted(scores, reverse=True)
        assert max(scores) < 0
        expected = bot.reply(text, Decoding(method="beam", beam_width=5, n_best=3)).hypotheses
        assert [reply for _, reply in pairs] == [hypothesis.text for hypothesis in expected]
        assert scores == pytest.approx([hypothesis.score for hypothesis in expected], abs=1e-4)


def reply_blocks(out: str) -> list[list[str]]:
    """The replies of ``--n-best``, each ended by an empty line, and any output after the last one."""
    blocks: list[list[str]] = [[]]
    for line in out.splitlines():
        if line:
            blocks[-1].append(line)
        else:
            blocks.append([])
    return blocks


def test_beam_width_alone_prints_no_scores(cli: Cli, tiny_run: Path, bot: Chatbot) -> None:
    answer = cli("chat", tiny_run, "--beam-width", 4, stdin=b"you see the tree1 ?\nwe like it\n")
    beam = Decoding(method="beam", beam_width=4)
    assert answer.out.splitlines() == [bot.reply(text, beam).text for text in ("you see the tree1 ?", "we like it")]


def test_settings_of_the_search(cli: Cli, tiny_run: Path, bot: Chatbot) -> None:
    settings = ["method=beam", "beam_width=3", "minimum_length=9"]  # the last one by its old name
    options = [option for setting in settings for option in ("--set", f"decoding.{setting}")]
    answer = cli("chat", tiny_run, *options, stdin=b"you see the tree1 ?\n")
    expected = bot.reply("you see the tree1 ?", Decoding(method="beam", beam_width=3, min_length=9)).text
    assert (answer.status, answer.out) == (0, f"{expected}\n")
    assert expected != bot.reply("you see the tree1 ?", Decoding(method="beam", beam_width=3)).text
    assert answer.err == (
        "seq2seq-chat: warning: --set decoding.minimum_length=9: decoding.minimum_length was renamed to "
        "decoding.min_length\n"
    )
    answer = cli("chat", tiny_run, "--n-best", 2, "--set", "decoding.beam_width=2", stdin=b"you see the tree1 ?\n")
    assert len(answer.out.splitlines()) == 3


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("decoding.top_p=0.5", "--set decoding.top_p=0.5: decoding: top_p applies to method sample only"),
        ("model.hidden_size=3", "--set model.hidden_size=3: only the search can be changed here, with decoding."),
    ],
)
def test_invalid_settings_of_the_search(cli: Cli, tiny_run: Path, setting: str, message: str) -> None:
    assert message in cli("chat", tiny_run, "--set", setting, stdin=b"hi\n").error_message


def test_changing_the_method_resets_options_of_the_other_one() -> None:
    beam = {"method": "beam", "length_penalty": 1, "min_length": 2}
    config = parse_config({"name": "x", "data": {"train": "x"}, "decoding": beam}, "x")
    decoding = set_decoding(config, ["decoding.method=sample", "decoding.top_k=3"])
    assert decoding == Decoding(method="sample", top_k=3, min_length=2)


@pytest.mark.slow
def test_chat_with_a_snapshot(cli: Cli, tiny_run: Path) -> None:
    def scores(*options: str) -> str:
        answer = cli("chat", tiny_run, "--n-best", 2, *options, stdin=b"you see the tree1 ?\n")
        assert (answer.status, answer.err) == (0, "")
        return str(answer.out)

    latest = scores()
    assert scores("--snapshot", "20") == scores("--snapshot", "latest") == latest
    assert scores("--snapshot", "10") != latest
    assert scores("--snapshot", "best") == latest  # the loss was lowest at the end


def test_each_reply_is_flushed_before_the_next_line_is_read(bot: Chatbot) -> None:
    from seq2seq_chat.cli.conversation import answer_lines

    class Pipe:
        """Requires a flushed reply before the next line is read."""

        def __init__(self) -> None:
            self.lines, self.flushed, self.unflushed = 0, 0, ""

        def read1(self, size: int) -> bytes:
            assert self.flushed == self.lines
            self.lines += 1
            return b"you see\n" if self.lines < 4 else b""

        def isatty(self) -> bool:
            return False

        def write(self, text: str) -> None:
            self.unflushed += text

        def flush(self) -> None:
            self.flushed += self.unflushed.count("\n")
            self.unflushed = ""

    pipe: Any = Pipe()
    answer_lines(bot, bot.config.decoding, ReplyFormat(), pipe, pipe)
    assert pipe.lines == 4


# in the terminal


@pytest.fixture
def talk(bot: Chatbot, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """A conversation: typed lines, or exceptions → the printed lines."""

    def talk(
        *typed: str | BaseException, bot: Any = bot, you: str = "you", scores: bool = False, tokens: bool = False
    ) -> list[str]:
        remaining: Iterator[str | BaseException] = iter(typed)

        def fake_input(prompt: str) -> str:
            assert prompt == f"{you}: "
            event = next(remaining)
            if isinstance(event, BaseException):
                raise event
            return event

        monkeypatch.setattr(builtins, "input", fake_input)
        converse(bot, Decoding(method="beam", beam_width=3, n_best=3 if scores else 1), ReplyFormat(scores, tokens))
        assert next(remaining, None) is None  # all input was read
        return capsys.readouterr().out.splitlines()

    return talk


def test_a_conversation(talk: Callable[..., list[str]], bot: Chatbot) -> None:
    lines = talk("you see the tree1 ?", "", "  we like it ", "/quit")
    assert "You are talking to tiny. /quit or Ctrl-D ends the conversation" in lines[0]
    beam = Decoding(method="beam", beam_width=3)
    assert lines[2:] == [f"bot: {bot.reply(text, beam).text}" for text in ("you see the tree1 ?", "we like it")]


@pytest.mark.parametrize("end", ["/quit", "quit", "Exit", "bye !", EOFError(), KeyboardInterrupt()], ids=repr)
def test_ways_to_end_a_conversation(talk: Callable[..., list[str]], end: str | BaseException) -> None:
    assert talk(end)[1:] == ([""] if isinstance(end, str) else ["", ""])


def test_unusual_input_in_a_conversation(talk: Callable[..., list[str]]) -> None:
    broken = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
    lines = talk("/why", "/nonsense", "😀", broken, "\udcff", "you \udcff see", "/quit")[2:]
    assert lines[0] == "no reply yet"
    assert lines[1].startswith("/quit or Ctrl-D")
    unreadable = "(This model reads only the letters a to z, digits and . , ! ?)"
    assert lines[2:5] == [unreadable, NOT_UTF8, unreadable]
    assert len(lines) == 6


def test_settings_are_changed_while_talking(talk: Callable[..., list[str]], bot: Chatbot) -> None:
    question = "you see the tree1 ?"
    commands = [
        ":set beam_width 5",
        question,
        ":set n_best 2",
        question,
        ":set temperature=0.5",
        ":set seed 7",
        question,
    ]
    lines = talk(*commands, "/quit")[2:]
    beam = Decoding(method="beam", beam_width=5)
    pair = bot.reply(question, beam.model_copy(update={"n_best": 2}))
    sampled = bot.reply(question, Decoding(method="sample", n_best=2, temperature=0.5, seed=7))
    assert lines[0].startswith('decoding: method "beam"') and "beam_width 5" in lines[0]
    assert lines[1] == f"bot: {bot.reply(question, beam).text}"
    assert lines[3:5] == [f"bot: {h.score:.4f}\t{h.text}" for h in pair.hypotheses]
    assert lines[5].startswith('decoding: method "sample"') and "temperature 0.5" in lines[5]
    assert lines[7:] == [f"bot: {h.score:.4f}\t{h.text}" for h in sampled.hypotheses]


def test_mistakes_in_commands(talk: Callable[..., list[str]], tmp_path: Path) -> None:
    existing = tmp_path / "existing.txt"
    existing.write_text("mine", encoding="utf-8")
    mistakes = [":set beam_width 0", ":set beem_width 3", ":set", f":save {existing}", ":save", ":nonsense"]
    lines = talk(*mistakes, f":save {tmp_path / 'missing' / 'file.txt'}", ":set beam_width", ":quit")[2:]
    assert "beam_width" in lines[0] and "0" in lines[0]
    assert "beam_width" in lines[1]  # the nearest valid key
    assert "beam_width 3" in lines[2]  # unchanged
    assert "already exists" in lines[3] and existing.read_text(encoding="utf-8") == "mine"
    assert "name of the file" in lines[4]
    assert lines[5].startswith("/quit or Ctrl-D")
    assert "could not be written" in lines[6]
    assert lines[7] == "beam_width 3"


def test_an_error_of_a_reply_does_not_end_the_conversation(
    talk: Callable[..., list[str]], bot: Chatbot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bot, "reply", Mock(side_effect=UserError("no run typo in results")))
    assert talk("hello", "/set beam_width", "/quit")[2:] == ["(no run typo in results)", "beam_width 3"]


def test_saving_odd_texts_and_to_odd_files(talk: Callable[..., list[str]], tmp_path: Path) -> None:
    lines = talk(f"/save {'x' * 300}", "/save ~nobody/missing/file.txt", "/quit")[2:]
    assert len(lines) == 2 and all("could not be written" in line for line in lines)
    file = tmp_path / "talk.txt"
    assert talk("you \udcff see", f"/save {file}", "/quit")[-1] == f"saved 1 turn to {file}"
    assert file.read_text(encoding="utf-8").startswith("you: you \ufffd see\n")


def test_a_setting_that_the_model_does_not_support(tmp_path: Path) -> None:
    config = small_config("model.attention_query=previous")
    codecs = Codecs.shared(codec_of_texts(TokenizerSettings("english"), ["you see the tree ."]))
    conversation = Conversation(
        Chatbot.load(random_run(tmp_path / "run", config, codecs)), config.decoding, ReplyFormat()
    )
    refused = conversation.command("set", "unrolling dynamic")
    assert refused.startswith("(decoding.unrolling dynamic ")
    assert conversation.command("set", "unrolling") == "unrolling null"


def test_a_conversation_is_saved(talk: Callable[..., list[str]], bot: Chatbot, tmp_path: Path) -> None:
    text, data = tmp_path / "talk.txt", tmp_path / "talk.json"
    question = "you see the tree1 ?"
    lines = talk(question, f":save {text}", question, f":save {text}", f":save {data}", ":)", ":help", ":why", ":quit")[
        2:
    ]
    reply = bot.reply(question, Decoding(method="beam", beam_width=3)).text
    assert lines[1] == f"saved 1 turn to {text}"
    assert text.read_text(encoding="utf-8") == f"you: {question}\nbot: {reply}\n" * 2
    saved = json.loads(data.read_text(encoding="utf-8"))
    assert [(turn["text"], turn["reply"], turn["decoding"]["beam_width"]) for turn in saved["turns"]] == [
        (question, reply, 3)
    ] * 2
    assert lines[5].startswith("(This model reads only")  # a smiley is no command
    assert lines[6].split() == ["/set", "show", "the", "decoding", "settings"]
    assert any(line.startswith("tokens read: ") for line in lines)


def test_why_explains_the_last_reply(talk: Callable[..., list[str]], bot: Chatbot) -> None:
    lines = talk("you frobnicate the tree1 ?", "/why", "/quit", scores=True)[2:]
    reply = bot.reply("you frobnicate the tree1 ?", Decoding(method="beam", beam_width=3, n_best=3))
    assert lines[:3] == [f"bot: {hypothesis.score:.4f}\t{hypothesis.text}" for hypothesis in reply.hypotheses]
    assert lines[3:5] == ["tokens read: you frobnicate the tree1 ?", "not in the vocabulary: frobnicate"]
    assert [line.split(maxsplit=1)[1] for line in lines[5:8]] == [hypothesis.text for hypothesis in reply.hypotheses]
    words, attended = zip(
        *(pair.split(" ← ") for pair in lines[8].removeprefix("attention: ").split("   ")), strict=True
    )
    assert list(words) == reply.hypotheses[0].words
    assert set(attended) <= set(reply.source_words)
    assert len(lines) == 9


# replies


def test_what_is_read_of_an_utterance(forward: Chatbot) -> None:
    reply = forward.reply("Word1 blah, WORD2 blah fnord!", BEAM)
    assert reply.source_words == ["word1", "blah", ",", "word2", "blah", "fnord", "!"]
    assert reply.unknown_words == ["blah", ",", "fnord", "!"]  # each once, in the order they were written
    assert reply.text == reply.hypotheses[0].text
    assert reply.seconds > 0
    reply = forward.reply(" ".join([*WORDS, "fnord"]), BEAM)
    assert reply.source_words == [*WORDS[-STEPS + 1 :], "fnord"]
    assert reply.unknown_words == ["fnord"]
    alone = forward.reply(" ".join(reply.source_words), BEAM)
    assert same_reply(reply, alone)
    for text in ("", "  ", "😀", "\x00", "\udcff"):
        reply = forward.reply(text)
        assert (reply.text, reply.hypotheses, reply.source_words, reply.unknown_words) == ("", [], [], [])
    assert forward.replies([]) == []


def test_hypotheses_are_distinct_and_end(forward: Chatbot) -> None:
    for text in ("word1", "word2 word3 word4", " ".join(WORDS[:STEPS])):
        hypotheses = forward.reply(text, BEAM).hypotheses
        assert len({tuple(hypothesis.words) for hypothesis in hypotheses}) == len(hypotheses) == 6
        for hypothesis in hypotheses:
            assert hypothesis.text == " ".join(hypothesis.words)  # without punctuation marks
            assert not set(hypothesis.words) & set(SPECIAL_WORDS)
            assert hypothesis.ended == (len(hypothesis.words) < 6)


def same_reply(one: Reply, other: Reply) -> bool:
    """Whether two replies are equal except for time and rounding."""

    def close(numbers: Any, others: Any) -> bool:
        return bool(np.allclose(np.array(numbers), np.array(others), atol=1e-4))

    one_text, other_text = ((reply.text, reply.source_words, reply.unknown_words) for reply in (one, other))
    return one_text == other_text and all(
        (a.words, a.ended) == (b.words, b.ended) and close(a.score, b.score) and close(a.attention, b.attention)
        for a, b in zip(one.hypotheses, other.hypotheses, strict=True)
    )


@pytest.mark.parametrize("decoding", [Decoding(), BEAM], ids=["greedy", "beam"])
@pytest.mark.parametrize("which", ["forward", "reversed_bot"])
def test_batched_and_single_replies_agree(which: str, decoding: Decoding, request: pytest.FixtureRequest) -> None:
    bot: Chatbot = request.getfixturevalue(which)
    texts = ["word1 word2", "", "word3", " ".join(WORDS), "fnord", "😀", "word1 word2"]
    together = bot.replies(texts, decoding)
    assert all(same_reply(reply, bot.reply(text, decoding)) for reply, text in zip(together, texts, strict=True))
    scores = [reply.hypotheses[0].score for reply in together if reply.hypotheses]
    assert len(scores) == 5
    assert len({round(score, 3) for score in scores}) == 4  # "word1 word2" occurs twice


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([*WORDS, "fnord"]), min_size=1, max_size=STEPS + 4))
def test_attention_covers_the_source_words(forward: Chatbot, reversed_bot: Chatbot, words: list[str]) -> None:
    for bot in (forward, reversed_bot):
        reply = bot.reply(" ".join(words), BEAM)
        assert reply.source_words == words[-STEPS:]
        for hypothesis in reply.hypotheses:
            assert len(hypothesis.attention) == len(hypothesis.words)
            for row in hypothesis.attention:
                assert len(row) == len(reply.source_words)
                assert math.isclose(sum(row), 1, abs_tol=1e-5)
                assert min(row) >= 0


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=STEPS))
def test_reverse_input_equals_reversed_words(forward: Chatbot, reversed_bot: Chatbot, words: list[str]) -> None:
    reversed_reply = reversed_bot.reply(" ".join(words), BEAM)
    expected_reply = forward.reply(" ".join(reversed(words)), BEAM)
    assert reversed_reply.source_words == words == expected_reply.source_words[::-1]
    for actual, expected in zip(reversed_reply.hypotheses, expected_reply.hypotheses, strict=True):
        assert actual.words == expected.words
        assert actual.score == pytest.approx(expected.score, abs=1e-4)
        np.testing.assert_allclose(actual.attention, [row[::-1] for row in expected.attention], atol=1e-5)


def test_models_without_attention_and_of_characters() -> None:
    reply = random_bot("model.attention=none").reply("word1 word2", BEAM)
    assert reply.text
    assert all(hypothesis.attention == [] for hypothesis in reply.hypotheses)
    bot = random_bot("data.tokenizer=english_character", "data.reverse_input=true")
    reply = bot.reply("ab c", BEAM)
    assert reply.source_words == ["a", "b", "<space>", "c"]
    assert reply.hypotheses[0].text == "".join(reply.hypotheses[0].words)
    assert all(len(row) == 4 for row in reply.hypotheses[0].attention)


# conversation history


def two_turn_bot(turns: int = 2) -> Chatbot:
    """A model of large random weights that reads several turns."""
    bot = random_bot(f"data.context_turns={turns}")
    codec = bot.codecs.source
    vocabulary = Vocabulary([*codec.vocabulary.words[:-1], "<turn>"])
    return Chatbot(bot.engine, Codecs.shared(codec._replace(vocabulary=vocabulary)), bot.config)


def test_history_is_read_with_markers_between_turns() -> None:
    bot = two_turn_bot()
    plain, after, longer = (
        bot.reply("word1 word2", BEAM, history)
        for history in ([], ["word3", "word4 ?"], ["word9", "word3", "word4 ?", " "])
    )
    assert plain.source_words == ["word1", "word2"]
    assert after.source_words == ["word4", "?", "<turn>", "word1", "word2"]
    assert longer.source_words == after.source_words  # only one previous turn; blank turns do not count
    assert plain.hypotheses != after.hypotheses == longer.hypotheses
    assert "?" not in after.unknown_words
    together = bot.replies(["word1 word2"] * 2, BEAM, [[], ["word3", "word4 ?"]])
    assert [reply.text for reply in together] == [plain.text, after.text]


def test_how_many_turns_are_read(forward: Chatbot) -> None:
    assert forward.reply("word1", BEAM, ["word2"]).hypotheses == forward.reply("word1", BEAM).hypotheses
    bot = two_turn_bot(3)
    history = ["word9", "word1 word2", " ", "word3"]
    assert bot.reply("word4", BEAM, history).source_words == ["word1", "word2", "<turn>", "word3", "<turn>", "word4"]


def test_reset_clears_the_history(talk: Callable[..., list[str]]) -> None:
    bot, beam = two_turn_bot(3), Decoding(method="beam", beam_width=3)  # it reads what both said before
    lines = talk("word1", "word2", "/reset", "word2", "/quit", bot=bot)
    first = bot.reply("word1", beam).text
    expected = [first, bot.reply("word2", beam, ["word1", first]).text, bot.reply("word2", beam).text]
    assert [line for line in lines if line.startswith("bot: ")] == [f"bot: {text}" for text in expected]


# decoding settings


def test_sampling_depends_on_the_seed_only(forward: Chatbot) -> None:
    decoding = Decoding(method="sample", seed=5, temperature=1.5, n_best=3)
    texts = [f"word{n}" for n in range(6)]
    together = [reply.hypotheses for reply in forward.replies(texts, decoding)]
    for text, expected in zip(texts, together, strict=True):
        alone = forward.reply(text, decoding).hypotheses
        assert [h.words for h in alone] == [h.words for h in expected]
    other = forward.replies(texts, decoding.model_copy(update={"seed": 6}))
    assert any(reply.hypotheses[0].words != one[0].words for reply, one in zip(other, together, strict=True))
    unseeded = decoding.model_copy(update={"seed": None})
    first, second = ([h.words for r in forward.replies(texts, unseeded) for h in r.hypotheses] for _ in range(2))
    assert first != second, "without a seed, replies differ each time"


def test_rerank_anti_language_model(forward: Chatbot) -> None:
    """By the formula: log p(T|S) minus the weighted log p of the first words given an empty source."""
    decoding = Decoding(method="beam", beam_width=6, n_best=6, rerank="anti_language_model", rerank_weight=0.7)
    decoding = decoding.model_copy(update={"rerank_prefix_length": 2})
    plain = forward.reply("word1 word2 word3", BEAM).hypotheses
    reranked = forward.reply("word1 word2 word3", decoding).hypotheses
    assert {h.text for h in reranked} == {h.text for h in plain}
    model, ranks = forward.engine.model, []
    for hypothesis in reranked:
        ids = [*forward.codecs.source.vocabulary.ids(hypothesis.words), *([2] if hypothesis.ended else [])]
        target = np.zeros([1, 6], np.int32)
        target[0, : len(ids)] = ids
        empty_source = np.zeros([1, STEPS], np.int32), np.zeros(1, np.int32)
        log_p = -float(model.loss(*empty_source, target, np.array([min(2, len(ids))], np.int32)).nats)
        ranks.append(hypothesis.score - 0.7 * log_p)
        assert hypothesis.rank == pytest.approx(ranks[-1], abs=1e-3)
    assert ranks == sorted(ranks, reverse=True)
    texts = [f"word{n} word2 word3" for n in range(12)]
    plain_best, all_reranked, best = (
        [[h.words for h in reply.hypotheses] for reply in forward.replies(texts, settings)]
        for settings in (BEAM, decoding, decoding.model_copy(update={"n_best": 1}))
    )
    assert best == [words[:1] for words in all_reranked], "the entire beam is reranked, whatever n_best is"
    assert any(first[0] != words[0] for first, words in zip(plain_best, all_reranked, strict=True))


def test_a_backward_run_was_trained_on_swapped_pairs(tiny_run: Path, tmp_path: Path) -> None:
    """It is found by its name beside the run."""
    shutil.copytree(tiny_run, tmp_path / "forward")
    decoding = BEAM.model_copy(update={"rerank": "bidirectional", "backward_run": "forward"})
    with pytest.raises(UserError, match=r"was not trained with data\.swap_source_target"):
        Chatbot.load(find_run("forward", tmp_path)).reply("you see the tree1 ?", decoding)


# a translation model in the terminal


class Shouting:
    """Translates into capitals, and reads four words."""

    config = Config(name="loud", task="translation", data=Data(train="x.tsv"))

    def reply(self, text: str, decoding: Decoding, history: list[str], prefix: str = "") -> Reply:
        assert history == []
        words = text.split()
        unread = max(0, len(words) - 4)
        read = words[unread:]
        attention = [[float(row == column) for column in range(len(read))] for row in range(len(read))]
        best = Hypothesis(" ".join(read).upper(), [word.upper() for word in read], -0.5, True, attention, -0.5)
        return Reply(best.text, [best], read, [], 0.0, unread)


def test_lines_are_translated_without_a_history(talk: Callable[..., list[str]]) -> None:
    typed = ["/why", "bye", "a b", "/why", "a b c d e f", "/reset", "quit !", "/quit"]
    title, _, *lines = talk(*typed, bot=Shouting(), you="source")
    assert "history" not in title
    assert lines == [
        "no translation yet",
        "translation: BYE",
        "translation: A B",
        "tokens read: a b",
        "   -0.50  A B",
        "attention: A ← a   B ← b",
        "translation: C D E F",
        "(the model reads only the last 4 of 6 tokens)",
        "/quit or Ctrl-D ends, /why explains the last translation, /help lists all commands",
        "translation: QUIT !",
    ]
