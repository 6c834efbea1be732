"""Replies of models whose source and target have tokenizers and vocabularies of their own."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.cli.conversation import explain
from seq2seq_chat.config import Decoding
from seq2seq_chat.engines.tensorflow.engine import TensorFlowEngine
from seq2seq_chat.search.engine import Hypotheses
from seq2seq_chat.system.hardware import TENSORFLOW
from seq2seq_chat.text.codec import Codecs, TextCodec, convert_tokens
from seq2seq_chat.text.tokenizers import SubwordTokenizer
from seq2seq_chat.text.vocabulary import EOS, SPECIAL_WORDS, TURN, UNKNOWN, Vocabulary
from tests.random_runs import make_codec, random_model, random_run, small_config

pytestmark = pytest.mark.usefixtures("unoptimized_graphs")

SOURCE_WORDS = ["Où", "est", "le", "chat", "?", "Je", "l'aime", "."]
TARGET_WORDS = ["where", "is", "the", "cat", "?", "i", "like", "it", ".", "<turn>"]
BEAM = Decoding(method="beam", beam_width=6, n_best=6)


def make_bot(source: TextCodec, target: TextCodec, *changes: str) -> Chatbot:
    names = f"data.tokenizer={source.tokenizer.name}", f"data.target_tokenizer={target.tokenizer.name}"
    config = small_config(*names, *changes)
    return Chatbot(TensorFlowEngine(random_model(config, Codecs(source, target))), Codecs(source, target), config)


@pytest.fixture(scope="module")
def bot() -> Chatbot:
    """French words to English ones."""
    return make_bot(make_codec("unicode", SOURCE_WORDS), make_codec("english", TARGET_WORDS))


def fixed_search(words: list[int], attention: list[list[float]]) -> Any:
    """A search that finds one hypothesis, with given attention, for every utterance."""
    padded = np.zeros([1, 1, len(words) + 1, 8])
    for row, weights in zip(padded[0, 0], attention, strict=False):
        row[: len(weights)] = weights
    one = (np.array([[[*words, EOS]]]), [[len(words) + 1]], [[-1.0]], [[True]], padded, [[-1.0]])
    return lambda source, *_: Hypotheses(*(np.repeat(field, len(source), axis=0) for field in one))


def test_each_side_has_its_vocabulary(bot: Chatbot, monkeypatch: pytest.MonkeyPatch) -> None:
    attention = [[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1], [0.25] * 4, [0.0, 1.0, 0.0, 0.0]]
    search = fixed_search([4, 5, 6, 8], attention)  # where is the ?
    read: list[Any] = []
    monkeypatch.setattr(bot.engine, "search", lambda decoding: lambda *inputs: read.append(inputs) or search(*inputs))
    reply = bot.reply("Où est it?")
    ((ids, lengths, *_),) = read
    assert (ids[0].tolist(), lengths.tolist()) == ([4, 5, UNKNOWN, 8, 0, 0, 0, 0], [4])
    assert (reply.source_words, reply.unknown_words) == (["Où", "est", "it", "?"], ["it"])  # it is known to the target
    assert (reply.text, reply.hypotheses[0].words) == ("where is the?", ["where", "is", "the", "?"])
    np.testing.assert_allclose(reply.hypotheses[0].attention, attention)
    assert explain(reply).splitlines() == [
        "tokens read: Où est it ?",
        "not in the vocabulary: it",
        "   -1.00  where is the?",
        "attention: where ← ?   is ← Où   the ← Où   ? ← est",
    ]


@pytest.mark.parametrize(
    ("text", "attended", "words", "expected"),
    [
        ("Où est", 0, ["the", "ou", "."], "the ou."),  # as the tokenizer of the target spells it
        ("l'aime est", 0, ["the", "l", "aime", "."], "the l aime."),  # two tokens
        ("chat 字", 1, ["the", "."], "the."),  # none
        ("<unknown>", 1, ["the", "unknown", "."], "the unknown."),  # a word that somebody wrote
    ],
)
def test_unknown_words_become_tokens_of_the_target(
    bot: Chatbot, monkeypatch: pytest.MonkeyPatch, text: str, attended: int, words: list[str], expected: str
) -> None:
    source = bot.codecs.source.tokenizer.encode(text)
    attention = [[float(column == attended) for column in range(len(source))]] * 3
    monkeypatch.setattr(bot.engine, "search", lambda decoding: fixed_search([6, UNKNOWN, 12], attention))
    (hypothesis,) = bot.reply(text, Decoding(allow_unknown=True, replace_unknown=True)).hypotheses
    assert (hypothesis.words, hypothesis.text) == (words, expected)
    assert [len(row) for row in hypothesis.attention] == [len(source)] * len(words)
    (unreplaced,) = bot.reply(text, Decoding(allow_unknown=True)).hypotheses
    assert (unreplaced.words, unreplaced.text) == (["the", "<unknown>", "."], "the <unknown>.")


def test_a_turn_marker_is_not_copied() -> None:
    bot = make_bot(
        *(make_codec("unicode", [*SOURCE_WORDS, TURN]), make_codec("english", TARGET_WORDS)),
        *("data.context_turns=2", "decoding.allow_unknown=true", "decoding.replace_unknown=true"),
    )
    bot.engine.search = lambda decoding: fixed_search([6, UNKNOWN], [[0, 1, 0], [0, 1, 0]])  # type: ignore[assignment,method-assign]
    reply = bot.reply("chat", history=["Où"])
    assert (reply.source_words, reply.text) == (["Où", TURN, "chat"], "the")


def test_the_history_is_read_as_source(bot: Chatbot) -> None:
    """What the model said too, although it said it with the vocabulary of the target."""
    source, target = make_codec("character", [*"abc", "<space>", TURN]), make_codec("unicode", ["Hi", "!"])
    bot = make_bot(source, target, "data.context_turns=3")
    reply = bot.reply("c", BEAM, ["b a", "Hi!"])
    assert reply.source_words == ["<space>", "a", TURN, "H", "i", "!", TURN, "c"]  # the last eight
    assert reply.unknown_words == []
    assert set(reply.hypotheses[0].words) <= {"Hi", "!"}
    assert reply.text == target.text(reply.hypotheses[0].words)


def test_subwords_and_characters() -> None:
    tokenizer = SubwordTokenizer.train(["ein Haus und noch ein Haus", "großes Haus"], 300, "unigram")
    assert tokenizer.tokens
    source = TextCodec(tokenizer, Vocabulary([*SPECIAL_WORDS, *tokenizer.tokens]))
    bot = make_bot(source, make_codec("character", [*"Haus", "<space>", "<U+0301>"]))
    reply = bot.reply("ein groß😀", BEAM)
    assert reply.unknown_words == []
    assert tokenizer.decode(bot.reply("ein Haus", BEAM).source_words) == "ein Haus"
    assert tokenizer.decode(["▁", *reply.source_words]).endswith("😀")
    characters = {"<space>": " ", "<U+0301>": "\u0301"}
    for hypothesis in reply.hypotheses:
        assert hypothesis.text == "".join(characters.get(word, word) for word in hypothesis.words)


def test_converted_tokens() -> None:
    english, unicode = (make_codec(name, []).tokenizer for name in ("english", "unicode"))
    tokens = ["don't", "<unknown>", "stop", ",", "Zoë"]
    assert convert_tokens(tokens, unicode, english) == ["don", "t", "<unknown>", "stop", ",", "zoe"]
    assert convert_tokens(tokens, unicode, unicode) == tokens


@pytest.mark.parametrize("backward_source", ["english", "character"])
def test_bidirectional_reranking_with_other_tokenizers(tmp_path: Path, backward_source: Any) -> None:
    """log P(utterance | reply) of a backward run that has the tokenizers swapped, or others."""
    source, target = make_codec("unicode", SOURCE_WORDS), make_codec("english", TARGET_WORDS)
    names = ("data.tokenizer=unicode", "data.target_tokenizer=english", "model.encoder_steps=12")
    forward_run = random_run(tmp_path / "forward", small_config(*names), Codecs(source, target))
    replies = target if backward_source == "english" else make_codec("character", [*"adehikltw?.", "<space>"])
    names = (f"data.tokenizer={backward_source}", "data.target_tokenizer=unicode", "model.encoder_steps=12")
    backward_codecs = Codecs(replies, make_codec("unicode", SOURCE_WORDS[::-1]))
    backward_run = random_run(
        tmp_path / "backward", small_config(*names, "data.swap_source_target=true", "seed=2"), backward_codecs
    )
    forward, backward = (Chatbot.load(str(run.path), engine=TENSORFLOW) for run in (forward_run, backward_run))
    options = {"rerank": "bidirectional", "backward_run": str(backward_run.path), "rerank_weight": 0.8}
    hypotheses = forward.reply("Où est le chien?", BEAM.model_copy(update=options)).hypotheses
    target_ids = [11, 10, 9, UNKNOWN, 7, EOS]  # Où est le chien ? by the reversed vocabulary
    for hypothesis in hypotheses:
        read = hypothesis.words if backward_source == "english" else replies.tokenizer.encode(hypothesis.text)
        ids = replies.vocabulary.ids(read)[-12:]
        batch = np.zeros([1, 12], np.int32), np.zeros([1, 6], np.int32)
        batch[0][0, : len(ids)], batch[1][0] = ids, target_ids
        loss = backward.engine.model.loss(batch[0], np.array([len(ids)]), batch[1], np.array([6]))
        expected = 0.2 * hypothesis.score - 0.8 * float(loss.nats)
        assert hypothesis.rank == pytest.approx(expected, abs=1e-3)
    ranks = [hypothesis.rank for hypothesis in hypotheses]
    assert ranks == sorted(ranks, reverse=True)
    assert len(set(ranks)) == len(ranks) == 6
