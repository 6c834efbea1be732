"""What a lexicon file means, and what is said about a bad one."""

from pathlib import Path

import pytest

from seq2seq_chat.text.lexicon import Lexicon, LexiconError
from seq2seq_chat.text.tokenizers import TokenizerName, TokenizerSettings, create_tokenizer

UNICODE = create_tokenizer(TokenizerSettings("unicode"))


def write(folder: Path, content: str) -> Path:
    path = folder / "words.tsv"
    path.write_bytes(content.encode())
    return path


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("cat\tchat", {"cat": "chat"}),
        ("cat\tchat\t0.2\ncat\tminou\t0.7\ncat\tmatou\t0.1", {"cat": "minou"}),
        ("cat\tchat\t12\ncat\tminou\t12\n", {"cat": "chat"}),  # equally probable: the first
        ("cat\tminou\t0.9\ncat\tchat", {"cat": "chat"}),  # no number counts as 1
        ("\ufeff cat \t chat noir \r\n\n \t \ndog\tchien\t1e-3\r\n", {"cat": "chat noir", "dog": "chien"}),
        ("hot dog\thot-dog\ncat\tchat\n", {"cat": "chat", "hot dog": None}),  # two tokens of the source
    ],
)
def test_entries(tmp_path: Path, rows: str, expected: dict[str, str | None]) -> None:
    lexicon = Lexicon.load(write(tmp_path, rows), UNICODE)
    assert {word: lexicon.find(word) for word in expected} == expected
    assert len(lexicon) == sum(target is not None for target in expected.values())


def test_the_exact_entry_comes_before_that_in_lower_case(tmp_path: Path) -> None:
    lexicon = Lexicon.load(write(tmp_path, "Polish\tpolonais\npolish\tpolir\ncat\tchat\n"), UNICODE)
    found = [lexicon.find(word) for word in ("Polish", "polish", "POLISH", "Cat", "dog")]
    assert found == ["polonais", "polir", "polir", "chat", None]


@pytest.mark.parametrize(("tokenizer", "token"), [("english", "ou"), ("unicode", "Où"), ("whitespace", "Où")])
def test_words_are_read_like_the_source(tmp_path: Path, tokenizer: TokenizerName, token: str) -> None:
    lexicon = Lexicon.load(write(tmp_path, "Où\twhere\n"), create_tokenizer(TokenizerSettings(tokenizer)))
    assert lexicon.find(token) == "where"


@pytest.mark.parametrize(("weight", "expected"), [(1, "chat"), (2, "chat"), (3, "minou")])
def test_spellings_of_one_token(tmp_path: Path, weight: int, expected: str) -> None:
    """The most probable entry counts; of equally probable ones, the first."""
    rows = f"Cat\tchat\t2\nCAT\tminou\t{weight}\ncat\tmatou\t1\n"
    assert Lexicon.load(write(tmp_path, rows), create_tokenizer(TokenizerSettings("english"))).find("cat") == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("cat\tchat\ndog\n", "words.tsv, line 2: 1 column instead of a source word, a target word and, if known, its"),
        ("cat\tchat\t1\tx\n", "line 1: 4 columns instead of"),
        ("cat\t\n", "line 1: the target word is empty"),
        ("\tchat\t2\n", "line 1: the source word is empty"),
        ("cat\tchat\tnoun\n", "line 1: 'noun' is not a probability or count"),
        ("cat\tchat\t-1\n", "line 1: '-1' is not a probability"),
        ("cat\tchat\tnan\n", "line 1: 'nan' is not a probability"),
        ("cat\tchat\tinf\n", "line 1: 'inf' is not a probability"),
        ("\n \n", "words.tsv has no entries"),
    ],
)
def test_a_bad_file(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(LexiconError) as error:
        Lexicon.load(write(tmp_path, content), UNICODE)
    assert message in str(error.value)
