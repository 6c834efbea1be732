from pathlib import Path

import pytest

from seq2seq_chat.config import Data
from seq2seq_chat.data.build_codecs import build_codecs
from seq2seq_chat.text.tokenizers import TokenizerError
from seq2seq_chat.text.vocabulary import TURN, UNKNOWN, Vocabulary, VocabularyError

SPECIAL = ["<pad>", "<go>", "<eos>", "<unknown>"]


@pytest.mark.parametrize(
    ("size", "words"), [(7, ["a", "b", TURN]), (8, ["a", "b", "c", TURN]), (9, ["a", "b", "c", TURN])]
)
@pytest.mark.parametrize("from_file", [False, True])
def test_the_marker_between_turns_is_the_last_word(
    tmp_path: Path, size: int, words: list[str], from_file: bool
) -> None:
    """And one of ``vocabulary_size``."""
    (tmp_path / "corpus.txt").write_text("a a a b b\nc\n")
    Vocabulary([*SPECIAL, "a", "b", "c"]).save(tmp_path / "words.txt")
    file = str(tmp_path / "words.txt") if from_file else None
    data = Data(train=str(tmp_path / "corpus.txt"), vocabulary=file, vocabulary_size=size, context_turns=2)
    assert build_codecs(data).source.vocabulary.words == [*SPECIAL, *words]


@pytest.mark.parametrize(
    ("sizes", "setting"),
    [
        ({"vocabulary_size": 100}, "data.vocabulary_size"),
        ({"vocabulary_size": 400, "target_vocabulary_size": 100}, "data.target_vocabulary_size"),
    ],
)
def test_a_vocabulary_that_is_too_small_for_subwords(tmp_path: Path, sizes: dict[str, int], setting: str) -> None:
    (tmp_path / "train.tsv").write_text("a b\tc d\n" * 9, encoding="utf-8")
    data = Data(train=str(tmp_path / "train.tsv"), tokenizer="subword", shared_vocabulary=False, **sizes)
    with pytest.raises(TokenizerError, match=rf"size 100 is too small .* Raise {setting}, or use"):
        build_codecs(data)


def test_subwords_and_the_marker_fit_into_the_vocabulary(tmp_path: Path) -> None:
    """A text with any bytes is encoded without unknown words."""
    corpus, file = tmp_path / "corpus.txt", tmp_path / "tokenizer.json"
    corpus.write_text("where are you now ?\nover there by the door !\n" * 9)
    data = Data(train=str(corpus), tokenizer="subword", vocabulary_size=300, context_turns=2)
    codec = build_codecs(data).source
    assert codec.vocabulary.words == [*SPECIAL, *(codec.tokenizer.tokens or []), TURN]
    assert len(codec.vocabulary) <= 300
    assert UNKNOWN not in codec.encode("".join(map(chr, range(300))))
    file.write_bytes(codec.tokenizer.file_content or b"")
    for size, fits in ((len(codec.vocabulary), True), (len(codec.vocabulary) - 1, False)):
        given = data.model_copy(update={"tokenizer_file": str(file), "vocabulary_size": size})
        if fits:
            assert build_codecs(given).source.vocabulary.words == codec.vocabulary.words
        else:
            message = f"requires a vocabulary of {size + 1} words, but .* {size}; raise"
            with pytest.raises(VocabularyError, match=message):
                build_codecs(given)


def test_a_vocabulary_that_does_not_fit_the_tokenizer(tmp_path: Path) -> None:
    corpus, words = tmp_path / "corpus.txt", tmp_path / "words.txt"
    corpus.write_text("hello there\nhello you\n" * 9)
    Vocabulary([*SPECIAL, "hello", "there", "you"]).save(words)
    data = Data(train=str(corpus), vocabulary=str(words), vocabulary_size=300)
    assert len(build_codecs(data).source.vocabulary) == 7
    for tokenizer in ("subword", "character"):
        with pytest.raises(VocabularyError, match=f"words.txt does not match the {tokenizer} tokenizer, whose"):
            build_codecs(data.model_copy(update={"tokenizer": tokenizer}))
