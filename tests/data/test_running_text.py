"""Running text: read in pieces, encoded, decoded, and divided into parallel streams."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.config import Data
from seq2seq_chat.data import running_text
from seq2seq_chat.data.build_codecs import build_codecs
from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.data.running_text import RunningText, Streams, TextDecoder, encode_text, read_text
from seq2seq_chat.text.codec import TextCodec
from seq2seq_chat.text.tokenizers.subword import SubwordTokenizer
from seq2seq_chat.text.tokenizers.tokenizer import CharacterTokenizer, WhitespaceTokenizer
from seq2seq_chat.text.tokenizers.unicode import UnicodeTokenizer
from seq2seq_chat.text.vocabulary import EOS, PAD, SPECIAL_WORDS, UNKNOWN, Vocabulary


def codec(tokenizer: WhitespaceTokenizer | CharacterTokenizer | UnicodeTokenizer, *words: str) -> TextCodec:
    return TextCodec(tokenizer, Vocabulary([*SPECIAL_WORDS, *words]))


@given(
    text=st.text(st.sampled_from("ab é\u20ac\U0001f600\n"), max_size=60),
    block=st.integers(1, 7),
    longest=st.integers(1, 9),
)
def test_pieces_are_the_text_wherever_blocks_end(
    text: str, block: int, longest: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Also inside characters, and whatever length of a line is too long to wait for its end."""
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text(text.replace("\n", "\r\n"), encoding="utf-8", newline="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running_text, "_BLOCK_BYTES", block)
        patch.setattr(running_text, "_MAX_LINE", longest)
        pieces = list(read_text(path))
    assert "".join(pieces) == text
    for piece, following in itertools.pairwise(pieces):
        assert piece.endswith("\n") or len(piece + following) > longest


def test_a_byte_that_is_not_utf8_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_text, "_BLOCK_BYTES", 4)
    path = tmp_path / "latin1.txt"
    path.write_bytes("aébc".encode() + b"\xe9 d")
    with pytest.raises(CorpusError, match=r"latin1.txt: byte 5 of the text is not UTF-8. Convert the file to UTF-8"):
        list(read_text(path))


def test_words_have_an_end_of_line_and_characters_a_line_break() -> None:
    """A token of the text that looks like the end marker is an unknown word."""
    words = codec(WhitespaceTokenizer(), "a", "b")
    assert encode_text("a b\n\nb <eos>\na", words) == [4, 5, EOS, EOS, 5, UNKNOWN, EOS, 4]
    characters = codec(CharacterTokenizer(), "a", "<newline>")
    assert encode_text("a\n\nb", characters) == [4, 5, 5, UNKNOWN]


@pytest.mark.parametrize("tokenizer", [CharacterTokenizer(), UnicodeTokenizer(), WhitespaceTokenizer()])
def test_decoding_piece_by_piece_gives_the_text(
    tokenizer: WhitespaceTokenizer | CharacterTokenizer | UnicodeTokenizer,
) -> None:
    text = "Is this it? Yes, it is.\nIt is!\n\nNo more"
    words = dict.fromkeys(token for line in text.split("\n") for token in tokenizer.encode(line))
    known = codec(tokenizer, *words, *(["<newline>"] if tokenizer.keeps_line_breaks else []))
    ids = encode_text(text, known)
    for size in (1, 3, len(ids)):
        decoder = TextDecoder(known)
        assert "".join(decoder.add(ids[first : first + size]) for first in range(0, len(ids), size)) == text
    split = len(ids) // 2
    first, second = TextDecoder(known).add(ids[:split]), TextDecoder(known, ids[:split]).add(ids[split:])
    assert first + second == text


def test_characters_of_several_bytes_are_shown_when_they_are_complete() -> None:
    text = "zü 😂\n€ä"
    tokenizer = SubwordTokenizer.train(["a"], 263, "bpe")
    known = TextCodec(tokenizer, Vocabulary([*SPECIAL_WORDS, *tokenizer.tokens]))
    decoder, shown = TextDecoder(known), ""
    for index in encode_text(text, known):
        shown += decoder.add([index])
        assert text.startswith(shown)
    assert shown == text


def test_the_vocabulary_of_a_text_and_its_ids(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("b a\nb c", encoding="utf-8")
    data = Data(train=str(path), tokenizer="whitespace", vocabulary_size=6)
    codecs = build_codecs(data, running_text=True)
    assert codecs.source.vocabulary.words == [*SPECIAL_WORDS, "b", "a"]
    for _ in range(2):  # encoded, and from the cache
        text = RunningText.open(str(path), codecs, data)
        np.testing.assert_array_equal(text.tokens, [4, 5, EOS, 4, UNKNOWN])
        assert len(text) == 5
        assert text.unknown_share() == 0.2
    fingerprint = text.fingerprint
    path.write_text("b a\nb b", encoding="utf-8")
    changed = RunningText.open(str(path), codecs, data)
    np.testing.assert_array_equal(changed.tokens, [4, 5, EOS, 4, 4])
    assert changed.fingerprint != fingerprint


def test_a_text_without_two_tokens_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("a", encoding="utf-8")
    data = Data(train=str(path), tokenizer="character")
    with pytest.raises(CorpusError, match="has fewer than two tokens"):
        RunningText.open(str(path), build_codecs(data, running_text=True), data)


@given(
    length=st.integers(1, 40),
    count=st.integers(1, 4),
    forward=st.integers(1, 12),
    backward=st.integers(1, 24),
    rest=st.data(),
)
def test_every_token_of_a_stream_is_new_once_in_a_pass(
    length: int, count: int, forward: int, backward: int, rest: st.DataObject
) -> None:
    """In order, each with its successor as the target; before them are the tokens that precede them in the stream."""
    steps = max(forward, backward)
    if length < steps:
        return
    tokens = np.arange(4, 4 + length * count + 1 + rest.draw(st.integers(0, count - 1)))
    streams = Streams(tokens, count, forward, backward)
    new: list[np.ndarray] = []
    for step in range(streams.batches_per_pass):
        batch = streams.batch(step)
        assert batch.inputs.shape == batch.targets.shape == (count, steps)
        exists = slice(int(batch.start), int(batch.end))
        np.testing.assert_array_equal(batch.targets[:, exists], batch.inputs[:, exists] + 1)
        assert np.all(np.diff(batch.inputs[:, exists], axis=1) == 1)
        outside = np.delete(batch.inputs, np.arange(exists.start, exists.stop), axis=1)
        assert np.all(outside == PAD)
        assert bool(batch.is_first) == (step == 0)
        assert exists.start == max(0, steps - (step + 1) * forward)
        new.append(batch.inputs[:, max(steps - forward, exists.start) : exists.stop])
    missing = length - sum(part.shape[1] for part in new)  # at the end, where no gradient would reach them
    assert 0 <= missing <= max(0, forward - backward)
    expected = tokens[: length * count].reshape(count, length)[:, : length - missing]
    np.testing.assert_array_equal(np.concatenate(new, axis=1), expected)
    again = streams.batch(streams.batches_per_pass)
    for one, other in zip(again, streams.batch(0), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_stream_shorter_than_a_batch_is_rejected() -> None:
    Streams(np.arange(21), 2, 10, 10)
    with pytest.raises(ValueError, match="2 streams of 9 tokens are shorter than 10 steps"):
        Streams(np.arange(20), 2, 10, 10)
