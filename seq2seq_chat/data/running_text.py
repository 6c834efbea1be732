"""Running text: read, encoded, and divided into parallel streams."""

from __future__ import annotations

import codecs as text_codecs
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from seq2seq_chat.config import Data
from seq2seq_chat.data.cache import TEXT, open_cache
from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.data.encoding import array_writer, id_dtype
from seq2seq_chat.system.compressed import DamagedFile, open_decompressed, read_start
from seq2seq_chat.system.lines import BINARY_CHECK_BYTES, UTF8_REMEDY, read_error, why_not_text
from seq2seq_chat.text.codec import Codecs, TextCodec
from seq2seq_chat.text.tokenizers import Tokenizer
from seq2seq_chat.text.vocabulary import EOS, PAD, UNKNOWN

_BLOCK_BYTES = 1 << 18
_MAX_LINE = 1 << 20  # characters; longer lines are divided


class RunningText:
    """The token ids of a text, mapped from a cache on disk; EOS ends each line if the tokenizer has no line breaks.

    Attributes:
        tokens: [n] The ids.
    """

    def __init__(self, tokens: npt.NDArray[Any]) -> None:
        self.tokens = tokens

    @classmethod
    def open(cls, file: str, codecs: Codecs, settings: Data) -> RunningText:
        """Open a text. It is encoded first unless there is an up-to-date cache; memory does not grow with its length.

        Raises:
            CorpusError: The file cannot be read, is not UTF-8 or has fewer than two tokens.
            UserError: No folder can hold the encoded text.
        """
        cache = open_cache(file, codecs, settings, TEXT, lambda folder: _encode(file, codecs.source, folder))
        return cls(cache.arrays["tokens"][:])

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def fingerprint(self) -> str:
        """A hash of the length and the first and last million tokens, which identifies a moved file."""
        digest = hashlib.sha256(str(len(self.tokens)).encode())
        for part in (self.tokens[:1_000_000], self.tokens[-1_000_000:]):
            digest.update(np.asarray(part, np.int32).tobytes())
        return digest.hexdigest()

    def unknown_share(self) -> float:
        """Fraction of the first million tokens that are not in the vocabulary, 0 to 1."""
        return float(np.mean(self.tokens[:1_000_000] == UNKNOWN))


def encode_text(text: str, codec: TextCodec) -> list[int]:
    """The ids of a text. EOS stands for line breaks unless the tokenizer keeps them; unknown tokens are UNKNOWN."""
    ids: list[int] = []
    for tokens, line_ends in _tokenize(text, codec.tokenizer):
        ids += codec.vocabulary.ids(tokens)
        if line_ends:
            ids.append(EOS)
    return ids


class TextDecoder:
    """Turns token ids into text, as they come.

    Args:
        codec: What encoded the ids.
        context: Ids before the first ones, which are not returned.
    """

    def __init__(self, codec: TextCodec, context: Sequence[int] = ()) -> None:
        self._codec = codec
        self._line: list[str] = []  # tokens since the last line break
        self._shown = ""  # the part of their text that was returned
        self.add(context)

    def add(self, ids: Iterable[int]) -> str:
        """The text that further ids add."""
        if self._codec.tokenizer.keeps_line_breaks:
            return self._codec.tokenizer.decode(self._codec.vocabulary.tokens(ids))
        text = ""
        for index in ids:
            if index == EOS:
                text += self._new_text() + "\n"
                self._line, self._shown = [], ""
            else:
                self._line += self._codec.vocabulary.tokens([index])
        return text + self._new_text()

    def _new_text(self) -> str:
        """What the tokens of the line add to what was returned; an incomplete character is held back."""
        text = self._codec.tokenizer.decode(self._line).rstrip("\ufffd")
        added = text[len(self._shown) :]
        self._shown = text
        return added


def _tokenize(text: str, tokenizer: Tokenizer) -> Iterator[tuple[list[str], bool]]:
    """Yield (tokens of a line, whether it ends after them); of the whole text if the tokenizer keeps line breaks."""
    if tokenizer.keeps_line_breaks:
        yield tokenizer.encode(text), False
        return
    *lines, rest = text.split("\n")
    for line in lines:
        yield tokenizer.encode(line), True
    if rest:
        yield tokenizer.encode(rest), False


def read_tokens(file: str | Path, tokenizer: Tokenizer) -> Iterator[list[str]]:
    """Yield the tokens of a text, line by line or in pieces.

    Raises:
        CorpusError: While iterating: the file cannot be read or is not UTF-8.
    """
    for piece in read_text(file):
        yield from (tokens for tokens, _ in _tokenize(piece, tokenizer))


def read_text(file: str | Path) -> Iterator[str]:
    """Yield the text of a UTF-8 file, plain or compressed, in pieces of whole lines; only very long lines are divided.

    Line ends become ``\\n``, also carriage returns in a file that begins with those alone. A byte order mark at the
    start is dropped. A bar is shown if stderr is a terminal and reading takes longer than two seconds.

    Raises:
        CorpusError: While iterating: the file cannot be read or is not UTF-8.
    """
    path, held, is_first, has_returns = Path(file), "", True, False
    try:
        if reason := why_not_text(read_start(path, BINARY_CHECK_BYTES)):
            raise CorpusError(f"{path} {reason}")
        with tqdm(total=path.stat().st_size, desc=path.name, unit="B", unit_scale=True, delay=2, disable=None) as bar:
            for text in _decoded(path, bar):
                if is_first and text:
                    has_returns = "\r" in text[:-1] and "\n" not in text  # instead of line feeds
                held += text.removeprefix("\ufeff") if is_first else text
                is_first = is_first and not text
                held = held.replace("\r", "\n") if has_returns else held
                end = held.rfind("\n") + 1
                if not end and len(held) > _MAX_LINE:
                    end = held.rfind(" ") + 1 or len(held) - held.endswith("\r")
                if end:
                    yield held[:end].replace("\r\n", "\n")
                    held = held[end:]
        if held:
            yield held
    except (OSError, DamagedFile) as cause:
        raise read_error(path, cause, CorpusError) from cause


def _decoded(path: Path, bar: Any) -> Iterator[str]:
    """The text of a file in blocks. Raises CorpusError if it is not UTF-8."""
    decoder = text_codecs.getincrementaldecoder("utf-8")()
    buffer, offset = memoryview(bytearray(_BLOCK_BYTES)), 0
    with open_decompressed(path) as read_into:
        while True:
            result = read_into(buffer)
            filled, consumed = result or (0, 0)
            bar.update(consumed)
            pending = len(decoder.getstate()[0])
            try:
                yield decoder.decode(bytes(buffer[:filled]), final=result is None)
            except UnicodeDecodeError as error:
                position = offset - pending + error.start
                raise CorpusError(f"{path}: byte {position} of the text is not UTF-8. {UTF8_REMEDY}.") from None
            if result is None:
                return
            offset += filled


def _encode(file: str, codec: TextCodec, folder: Path) -> None:
    """Write the token ids into ``folder``: tokens [n], uint16 if the vocabulary allows, else int32."""
    with array_writer(folder / "tokens.npy", id_dtype(len(codec.vocabulary))) as tokens:
        for piece in read_text(file):
            tokens.extend(encode_text(piece, codec))
        if tokens.rows < 2:
            raise CorpusError(f"{file} has fewer than two tokens; a language model needs a longer text.")


IntArray = npt.NDArray[np.int32]


class TextBatch(NamedTuple):
    """Consecutive tokens of some streams.

    Attributes:
        inputs: [streams, steps] Token ids.
        targets: [streams, steps] The token after each.
        start: [] The first step; those before it, at the start of a stream, do not exist.
        end: [] The step after the last one; those from it on, at the end of a stream, do not exist.
        is_first: Whether a pass over the text begins, so that there is no state from before.
    """

    inputs: IntArray
    targets: IntArray
    start: np.int32
    end: np.int32
    is_first: np.bool_


class Streams:
    """Divides a text into streams of equal length, which a model reads in parallel, ``forward`` tokens at a time.

    Fewer than ``count`` tokens at the end of the text may belong to no stream. Every pass over the text is the same;
    the last batch of a pass may have fewer tokens, but at least one from which gradients go back ``backward`` tokens.

    Args:
        tokens: [n] The ids of the text.
        count: Number of streams.
        forward: Tokens of each stream from batch to batch.
        backward: Tokens of each stream that gradients go back. A batch begins with tokens of the one before if these
            are more than ``forward``.

    Raises:
        ValueError: A stream is shorter than a batch.
    """

    def __init__(self, tokens: npt.NDArray[Any], count: int, forward: int, backward: int) -> None:
        self._tokens, self._forward, self._steps = tokens, forward, max(forward, backward)
        self.length = max(0, len(tokens) - 1) // count
        if self.length < self._steps:
            raise ValueError(f"{count} streams of {self.length} tokens are shorter than {self._steps} steps")
        self._starts = np.arange(count)[:, np.newaxis] * self.length
        unreached = max(0, forward - backward)  # tokens at the beginning of a batch
        self.batches_per_pass = -(-(self.length - unreached) // forward)

    @property
    def state(self) -> dict[str, int]:
        """What else maps step numbers to batches than the settings: nothing."""
        return {}

    def resume_at(self, step: int, state: Mapping[str, int]) -> bool:
        """The batch of a step is always the same."""
        return True

    def batch(self, step: int) -> TextBatch:
        """The tokens of a training step; a pass begins where ``step`` is a multiple of ``batches_per_pass``."""
        number = step % self.batches_per_pass
        positions = np.arange((number + 1) * self._forward - self._steps, (number + 1) * self._forward)
        exists = (positions >= 0) & (positions < self.length)
        indices = self._starts + np.where(exists, positions, 0)
        inputs, targets = (np.where(exists, self._tokens[indices + shift], PAD).astype(np.int32) for shift in (0, 1))
        start = max(0, -int(positions[0]))
        end = min(self._steps, self.length - int(positions[0]))
        return TextBatch(inputs, targets, np.int32(start), np.int32(end), np.bool_(number == 0))
