"""What is a token, and what holds for all tokenizers. All expected tokens are written by hand."""

import pickle
import re
import subprocess
import sys
import unicodedata
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.text.tokenizers import SubwordTokenizer, Tokenizer, TokenizerName, TokenizerSettings, create_tokenizer
from seq2seq_chat.text.tokenizers.english import ThesisTokenizer, clean, clean_block, clean_lines, words_with_marks

TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=())),
    st.text("aéZ0 Σ.,'!▁<>工กक\n\t\x1c\x85\u3000\x00\u0301\u200d👍\ud83d"),
    st.sampled_from(["<pad>", "<eos>", "<unknown>", "<turn> x", "a  b ", ""]),
)
SETTINGS = [
    *(TokenizerSettings(name) for name in get_args(TokenizerName)),
    TokenizerSettings("unicode", lowercase=True),
]
ENCODED: dict[TokenizerName, list[tuple[str, str]]] = {  # text, the expected tokens
    "whitespace": [
        (" do n't\u3000<unk> Été\n.", "do n't <unk> Été ."),
        ("a\ud800b \ud83d\ude00", "a\ufffdb \ufffd\ufffd"),
    ],
    "character": [
        ("Hi, Bo", "H i , <space> B o"),
        ("a\tb\r\nc", "a <tab> b <return> <newline> c"),
        ("e\u0301", "e <U+0301>"),
        ("é你👍", "é 你 👍"),
        ("\ufeff\u200d\x00\x7f", "<U+FEFF> <U+200D> <U+0000> <U+007F>"),
        ("\u00a0\u3000\u2028", "<U+00A0> <U+3000> <U+2028>"),
        ("\ud83d\ude00", "<U+D83D> <U+DE00>"),
        ("\u3164\uffff\U0010ffff", "<U+3164> <U+FFFF> <U+10FFFF>"),
        ("<eos>", "< e o s >"),
        ("", ""),
    ],
    "english": [
        ("Tae Gong Sil was the 'big sun', and you're it.", "tae gong sil was the big sun , and you re it ."),
        ("café cafe\u0301", "cafe cafe"),
        ("ÀÉÎÕÜ ñ Ç İstanbul \u212a", "aeiou n c istanbul k"),  # the last one is the Kelvin sign
        ("wait…what?!", "wait . . . what ? !"),
        ("\ufb01ne １２", "fine 12"),
        ("it\u2019s straße", "it s stra e"),
        ("a\u20ddb\ufe0fc", "abc"),  # marks of combining class 0
        ("a\u2028b\x00c\u00a0d\te\r\n", "a b c d e"),
        ("3.5%", "3 . 5"),
        ("<eos> __eou__", "eos eou"),
        ("?¿ ", "?"),
        ("你好 -- ", ""),
        ("", ""),
    ],
    "english_character": [("Hi, Bo!", "h i <space> , <space> b o <space> !")],
    "thesis": [
        ("Hello,you!!", "Hello , you ! !"),
        ("Don't tell John's café , OK?", "tell , OK ?"),
        ("3.5% of 3.5", "of 3 . 5"),
        (" - ", ""),
        ("a\nb\u3000c\x1cd", "a b c d"),
        ("", ""),
    ],
}
DECODED: dict[TokenizerName, tuple[str, str]] = {  # tokens, the expected text
    "whitespace": ("do n't .", "do n't ."),
    "character": ("<U+110000> <U+41> <U+0041> <unknown> a <space> < >", "<U+110000><U+41>A<unknown>a <>"),
    "english": ("hello , bo ! ! 3 . 5", "hello, bo!! 3. 5"),
    "thesis": ("Hello , Bo ! ! 3 . 5", "Hello, Bo!! 3. 5"),
}


@pytest.mark.parametrize(("name", "text", "tokens"), [(name, *row) for name, rows in ENCODED.items() for row in rows])
def test_encode(name: TokenizerName, text: str, tokens: str) -> None:
    assert create_tokenizer(TokenizerSettings(name)).encode(text) == tokens.split()


@pytest.mark.parametrize("name", DECODED)
def test_decode(name: TokenizerName) -> None:
    tokens, text = DECODED[name]
    tokenizer = create_tokenizer(TokenizerSettings(name))
    assert (tokenizer.decode(tokens.split()), tokenizer.decode([])) == (text, "")


@pytest.fixture(scope="module", params=SETTINGS, ids=lambda settings: "_".join(map(str, settings[:2])))
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    if request.param.name == "subword":
        return SubwordTokenizer.train(["hello <pad> <eos> you é工", "hello <turn>"], 300, request.param.subword_model)
    return create_tokenizer(request.param)


@given(st.lists(TEXTS, max_size=4))
def test_all_tokenizers(tokenizer: Tokenizer, texts: list[str]) -> None:
    encoded = [tokenizer.encode(text) for text in texts]
    assert tokenizer.encode_lines(texts) == [" ".join(tokens) for tokens in encoded]
    for text, tokens in zip(texts, encoded, strict=True):
        assert all(token.split() == [token] and token.encode().decode() == token for token in tokens)
        if tokenizer.lossless:
            assert tokenizer.decode(tokens) == text
        if tokenizer.cleans:
            assert tokenizer.encode(" ".join(tokens)) == tokens
        if tokenizer.name == "whitespace":
            assert tokenizer.decode(tokens) == re.sub("[\ud800-\udfff]", "\ufffd", " ".join(text.split()))
        else:
            assert not {"<pad>", "<go>", "<eos>", "<unknown>", "<turn>"} & set(tokens)
        if tokenizer.name == "english_character":
            assert tokenizer.decode(tokens) == clean(text)
    assert 0 <= tokenizer.count_removed(texts) <= sum(map(len, texts))


def test_pickle(tokenizer: Tokenizer) -> None:
    text = "Hello <pad> É工 you's 3.5\n"
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert type(copy) is type(tokenizer)
    assert (copy.encode(text), copy.file_content) == (tokenizer.encode(text), tokenizer.file_content)


def test_libraries_are_imported_where_needed() -> None:
    program = (
        "import sys; import seq2seq_chat.text.tokenizers as t\n"
        "t.create_tokenizer(t.TokenizerSettings('unicode')).encode('only ASCII')\n"
        "print([name for name in ('regex', 'sentencepiece', 'tensorflow') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout == b"[]\n"


def test_characters_of_all_blocks() -> None:
    tokenizer = create_tokenizer(TokenizerSettings("character"))
    text = "".join(map(chr, [*range(0x3100), *range(0x3100, 0x110000, 29)]))
    tokens = tokenizer.encode(text)
    assert tokenizer.decode(tokens) == text
    assert len(set(tokens)) == len(tokens) == len(text)
    assert " ".join(tokens).encode().decode().split() == tokens  # can be written


def cleaned(text: str) -> str:
    """The definition: decomposed, without marks, lower case, words and punctuation marks."""
    decomposed = unicodedata.normalize("NFKD", text)
    kept = "".join(c for c in decomposed if not unicodedata.category(c).startswith("M"))
    return " ".join(re.findall(r"[a-z0-9]+|[.,!?]", kept.lower()))


def test_clean_every_character() -> None:
    for code in range(0x110000):
        text = chr(code)
        if code < 0x3000 or code % 101 == 0 or unicodedata.decomposition(text) or unicodedata.combining(text):
            assert clean(f"a{text}B") == cleaned(f"a{text}B"), hex(code)


@given(st.lists(st.one_of(st.text(), st.text("a .,\n\u0130\u0301\u0323\u212b\uac01\ud800")), max_size=5))
def test_clean_lines_and_blocks(texts: list[str]) -> None:
    assert clean_lines(texts) == [cleaned(text) for text in texts] == [clean(text) for text in texts]
    lines = [text.replace("\n", " ").encode(errors="ignore") for text in texts] or [b""]
    assert clean_block(b"\n".join(lines)) == b"\n".join(cleaned(line.decode()).encode() for line in lines)


def test_words_that_lose_marks_are_whole_and_named_once() -> None:
    texts = ["I don't, and don't know", "It’s naïve at a cafe\u0301 😂❤", "we're Zoë", "hers' 😂 ☺"]
    words = {"apostrophes": ["don't", "It’s", "we're"], "accents": ["naïve", "cafe\u0301", "Zoë"], "emoji": [*"😂❤☺"]}
    for count in (1, 2, 9):
        assert words_with_marks(texts, count) == {name: some[:count] for name, some in words.items()}


@given(st.lists(TEXTS, max_size=5))
def test_words_that_the_thesis_removes(texts: list[str]) -> None:
    """One character at a time."""
    words = [word for text in texts for word in text.split()]
    valid = [word for word in words if re.fullmatch("[a-zA-Z0-9.,!?]+", word)]
    spaced = "".join(f" {c} " if c in ".,!?" else c for c in " ".join(valid))
    assert [token for text in texts for token in ThesisTokenizer().encode(text)] == spaced.split()
    assert ThesisTokenizer().count_removed(texts) == len(words) - len(valid)
