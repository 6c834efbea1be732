"""What is stored of tokenizers and vocabularies, of one side or both, and whether they fit."""

from pathlib import Path

import pytest

from seq2seq_chat.config import Data
from seq2seq_chat.text.codec import Codecs, ensure_fit
from seq2seq_chat.text.tokenizers import TokenizerSettings, create_tokenizer
from seq2seq_chat.text.vocabulary import VocabularyError
from tests.random_runs import codec_of_texts, make_codec


@pytest.mark.parametrize(
    ("changes", "files"),
    [
        ({"tokenizer": "subword"}, ["tokenizer.json", "vocabulary.txt"]),
        (
            {"tokenizer": "unicode", "target_tokenizer": "subword", "shared_vocabulary": False},
            ["target_tokenizer.json", "target_vocabulary.txt", "vocabulary.txt"],
        ),
    ],
    ids=["one", "two"],
)
def test_both_sides_are_stored_and_described(changes: dict[str, object], files: list[str], tmp_path: Path) -> None:
    target = codec_of_texts(TokenizerSettings("subword"), ["hello you", "hello there"])
    codecs = Codecs.shared(target) if len(files) == 2 else Codecs(make_codec("unicode", ["a", "b"]), target)
    settings = Data.model_validate({"train": "train.txt"} | changes)
    codecs.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == files
    assert sorted(codecs.fingerprints()) == [name.partition(".")[0] for name in files]
    for copy in (Codecs.load(tmp_path, settings), Codecs.from_json(codecs.to_json(), settings, "a worker")):
        assert copy.fingerprints() == codecs.fingerprints()
        for one, other in zip(copy, codecs, strict=True):
            assert one.vocabulary.words == other.vocabulary.words
            assert one.tokenizer.encode("hello a") == other.tokenizer.encode("hello a")
    (tmp_path / files[0]).unlink()
    with pytest.raises(VocabularyError, match=files[0]):
        Codecs.load(tmp_path, settings)


def test_a_vocabulary_fits_unless_most_of_its_words_are_no_tokens() -> None:
    """The English tokenizer returns no capitals."""
    for words in ("abcd", "abcD", "abCD"):
        ensure_fit(make_codec("english", words), "words.txt")
    with pytest.raises(VocabularyError, match=r"words\.txt does not match the english tokenizer.* 'B', 'C', 'D'"):
        ensure_fit(make_codec("english", "aBCD"), "words.txt")


def test_subwords_need_a_file() -> None:
    with pytest.raises(ValueError, match="no tokenizer subword without a file"):
        create_tokenizer(TokenizerSettings("subword"))
