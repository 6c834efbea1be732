"""The tokenizers in JavaScript return the tokens and texts of those in Python."""

from collections.abc import Iterable
from typing import Any, Literal

import pytest

from seq2seq_chat.export.html.model_file import describe_tokenizer
from seq2seq_chat.text.tokenizers import SubwordTokenizer, Tokenizer, TokenizerSettings, create_tokenizer
from tests.export.html.conftest import Evaluate
from tests.text.test_unicode import ENCODED, SCRIPTS

TEXTS = [
    *(text for text, _ in [*SCRIPTS.values(), *ENCODED]),
    "",
    " \t\n",
    "It's 10:30, isn't it?  Yes!  (Café, naïve, ﬁne, ｗｏｒｄ５)",
    "tabs\tand\nlines\r\nno\u00a0break\u2003spaces\x1cseparators\x85here\ufeff.",
    "<pad> <unknown> <turn> <0x0A> ▁start <U+0041> <space>",
    "see https://example.com/a?b=c. or www.example.org/, (http://x.y/)",
    "İSTANBUL ΟΔΥΣΣΕΥΣ ΟΔΟΣ. Straße ẞ",
    "a . m . and p.m. A. B. Smith — 3–4 days, $5, #tag, 50 % “quoted” 'single' \"double\" it''s",
    "\ud800 lone \udc00 surrogates",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 🇨🇭🇩🇪 👨\u200d👩\u200d👧 zero\u200bwidth co\u00adoperate",
]
ROUND_TRIP = """
const tokenizer = modules.tokenizers.createTokenizer(input.tokenizer);
return input.texts.map((text) => tokenizer.encode(text)).map((tokens) => ({ tokens, text: tokenizer.decode(tokens) }));
"""
NOUNS = ["old", "house", "garden", "tree"]
CORPUS = [f"the {word} we saw in the {word}, über alle Straßen: café and 10:30!" for word in NOUNS]


def results(tokenizer: Tokenizer, texts: Iterable[str]) -> list[dict[str, Any]]:
    tokens = [tokenizer.encode(text) for text in texts]
    return [{"tokens": each, "text": tokenizer.decode(each)} for each in tokens]


def check(javascript: Evaluate, tokenizer: Tokenizer) -> None:
    # texts with surrogates cannot be sent to the browser as they are; its own escapes can
    texts = [text for text in TEXTS if not any("\ud800" <= character <= "\udfff" for character in text)]
    output = javascript(ROUND_TRIP, {"tokenizer": describe_tokenizer(tokenizer), "texts": texts})
    for text, ours, theirs in zip(texts, results(tokenizer, texts), output, strict=True):
        assert theirs == ours, text


@pytest.mark.parametrize("settings", [(False, False), (True, False), (True, True)])
def test_unicode(javascript: Evaluate, settings: tuple[bool, bool]) -> None:
    lowercase, apostrophes = settings
    check(javascript, create_tokenizer(TokenizerSettings("unicode", lowercase, normalize_apostrophes=apostrophes)))


@pytest.mark.parametrize("name", ["english", "english_character", "thesis", "whitespace", "character"])
def test_tokenizers_without_a_file(javascript: Evaluate, name: Any) -> None:
    check(javascript, create_tokenizer(TokenizerSettings(name)))


@pytest.mark.parametrize("model", ["unigram", "bpe"])
def test_subwords(javascript: Evaluate, model: Literal["unigram", "bpe"]) -> None:
    tokenizer = SubwordTokenizer.train(CORPUS * 5, 340, model)
    assert describe_tokenizer(tokenizer)["model"] == model
    check(javascript, tokenizer)


def test_surrogates_without_a_partner(javascript: Evaluate) -> None:
    text = r"'a\ud800 \udc00b'"
    characters = ["a", "<U+D800>", "<space>", "<U+DC00>", "b"]
    for name, tokens in (("character", characters), ("whitespace", ["a\ufffd", "\ufffdb"])):
        tokenizer = describe_tokenizer(create_tokenizer(TokenizerSettings(name)))  # type: ignore[arg-type]
        encode = f"return modules.tokenizers.createTokenizer(input).encode({text});"
        assert javascript(encode, tokenizer) == tokens
