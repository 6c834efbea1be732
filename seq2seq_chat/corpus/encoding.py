"""Turn a corpus file into the three arrays of an encoded corpus."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from seq2seq_chat.corpus.files import CorpusError
from seq2seq_chat.corpus.npy import NpyWriter
from seq2seq_chat.corpus.samples import Pairing, iterate_samples, read_tokens
from seq2seq_chat.corpus.text import Level
from seq2seq_chat.corpus.vocabulary import TURN, Vocabulary

_UINT16_IDS = 1 << 16


def encode(
    path: Path, vocabulary: Vocabulary, level: Level, pairing: Pairing, turns: int, folder: Path
) -> dict[str, int]:
    """Write ``tokens.npy``, ``offsets.npy`` and ``samples.npy`` into ``folder``.

    * tokens [n_tokens]: the ids of all utterances one after the other, each utterance once;
      uint16 if the vocabulary allows, else int32.
    * offsets [n_utterances + 1], int64: utterance u is tokens[offsets[u]:offsets[u + 1]].
    * samples [n_samples, 2], int64: first utterance of the source, and the target utterance t.
      The source is utterances first .. t - 1, at most ``turns`` of them.

    With several turns each utterance is stored with the marker ``TURN`` before its words.

    The corpus streams through: memory does not grow with its length.

    Returns:
        The length of each array, by name.

    Raises:
        CorpusError: The corpus cannot be read or has no sample.
        OSError: The arrays cannot be written.
    """
    dtype: Literal["H", "i"] = "H" if len(vocabulary) <= _UINT16_IDS else "i"
    with (
        NpyWriter(folder / "tokens.npy", dtype) as tokens,
        NpyWriter(folder / "offsets.npy", "q") as offsets,
        NpyWriter(folder / "samples.npy", "q", columns=2) as samples,
    ):
        offsets.extend([0])
        marker = vocabulary.ids([TURN]) if turns > 1 else []
        begun = (-1, 0)  # the conversation that is read, and its first utterance

        def stored() -> Iterator[tuple[int, int]]:
            """Store each utterance; yield (conversation index, utterance index)."""
            nonlocal begun
            lines = read_tokens(path, level, progress=True)
            for index, (conversation, words) in enumerate(lines):
                if conversation != begun[0]:
                    begun = (conversation, index)
                tokens.extend([*marker, *vocabulary.ids(words)])
                offsets.extend([tokens.items])
                yield conversation, index

        for _, target in iterate_samples(stored(), pairing):
            samples.extend((max(begun[1], target - turns), target))

        if not samples.rows:
            raise CorpusError(
                f"{path} has no sample: with {pairing} pairing, none of its {offsets.rows - 1} "
                "usable utterance(s) answers another of the same conversation. "
                "It needs a conversation of two utterances or more."
            )
        return {"tokens": tokens.rows, "offsets": offsets.rows, "samples": samples.rows}
