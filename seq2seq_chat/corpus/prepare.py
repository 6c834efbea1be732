"""Make the corpus files, the vocabulary and the statistics from raw data."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from seq2seq_chat.atomic import atomic_write
from seq2seq_chat.corpus.files import CorpusError, write_conversation
from seq2seq_chat.corpus.lines import unreadable
from seq2seq_chat.corpus.readers import Reader
from seq2seq_chat.corpus.samples import Pairing, read_tokens
from seq2seq_chat.corpus.split import (
    DEFAULT_SHARES,
    SPLITS,
    Shares,
    check_shares,
    complete_splits,
    is_complete,
    official_splits,
    split_of,
)
from seq2seq_chat.corpus.statistics import SplitStatistics, corpus_statistics
from seq2seq_chat.corpus.text import Level
from seq2seq_chat.corpus.vocabulary import Vocabulary
from seq2seq_chat.errors import UserError

VOCABULARY_FILE = "vocabulary.txt"
STATISTICS_FILE = "statistics.json"


def prepare(
    reader: Reader,
    inputs: Sequence[str | Path],
    output: str | Path,
    *,
    split: Shares | None = None,
    seed: int = 1,
    vocabulary_size: int = 50_000,
    level: Level = "word",
    pairing: Pairing = "sliding",
    source_steps: int = 30,
    target_steps: int = 30,
) -> dict[str, SplitStatistics]:
    """Write train.txt, validation.txt, test.txt, vocabulary.txt and statistics.json.

    The same inputs and settings give the same files, byte for byte. All are made in a temporary
    folder inside ``output`` and moved to their places once everything is done, the statistics
    last; on an error ``output`` stays as it was.

    Args:
        reader: Turns one input file into conversations.
        inputs: Files, and folders of which all ``.txt`` and ``.txt.gz`` files are taken in the
            order of their names.
        output: The folder to write to; made if need be.
        split: Shares of train, validation and test, by whole conversations. None keeps the
            split that the files' names tell (see ``official_splits``), or if they tell none,
            takes 97, 1 and 2. A corpus of fewer than three conversations is all train.
        seed: Another seed gives another split; it does nothing to an official one.
        vocabulary_size: Greatest number of words, the four special ones included. Only train
            is counted.
        level: Whether the vocabulary and the statistics are of words or of characters.
        pairing: How the statistics count samples.
        source_steps: Longest source the model takes, in words; for the statistics.
        target_steps: Longest target with its EOS, in words; for the statistics.

    Returns:
        The statistics, as in the file.

    Raises:
        CorpusError: An input cannot be read or used.
        UserError: The shares make no sense, or ``output`` cannot be written.
        VocabularyError: ``vocabulary_size`` is too small.
    """
    output = Path(output)
    if split is not None:
        check_shares(split)
    files = _input_files(inputs)
    if any(file.resolve().parent == output.resolve() for file in files):
        raise UserError(f"{output} holds inputs, among which outputs would be lost. Name another.")
    with _workplace(output) as folder:
        _write_splits(reader, files, folder, split, seed)
        paths = {name: folder / f"{name}.txt" for name in SPLITS}
        counts = Vocabulary.count(tokens for _, tokens in read_tokens(paths["train"], level, progress=True))
        vocabulary = Vocabulary.from_counts(counts, vocabulary_size)
        vocabulary.save(folder / VOCABULARY_FILE)
        statistics = corpus_statistics(paths, vocabulary, level, pairing, source_steps, target_steps)
        if not statistics["total"]["samples"]:
            raise CorpusError(
                "There are no two utterances that belong together in what was read. "
                "Each needs a line of its own, ended by a line feed."
            )
        with atomic_write(folder / STATISTICS_FILE) as stream:
            stream.write(json.dumps(statistics, indent=2) + "\n")
    return statistics


def _input_files(inputs: Sequence[str | Path]) -> list[Path]:
    """The files that the inputs name, each once, in an order that the disk has no say in."""
    files: list[Path] = []
    for entry in map(Path, inputs):
        try:
            if not entry.is_dir():
                entry.stat()
                files.append(entry)
                continue
            names = sorted(child.name for child in entry.iterdir() if child.is_file())
        except OSError as fault:
            raise unreadable(entry, fault, CorpusError) from fault
        found = [entry / name for name in names if name.endswith((".txt", ".txt.gz")) and not name.startswith(".")]
        if not found:
            raise CorpusError(f"{entry} holds no .txt or .txt.gz file. Name the files themselves.")
        files += found
    if not files:
        raise CorpusError("There is nothing to prepare. Name at least one file or folder.")
    return list(dict.fromkeys(files))


@contextmanager
def _workplace(output: Path) -> Iterator[Path]:
    """A temporary folder in ``output`` whose files are moved there when all went well."""
    new = not output.exists()
    try:
        output.mkdir(parents=True, exist_ok=True)
        # Inside rather than beside: certainly on the same file system.
        folder = Path(tempfile.mkdtemp(prefix=".preparing-", dir=output))
    except OSError as fault:
        raise UserError(f"{output} cannot be written to: {fault.strerror}. Name another folder.") from fault
    done = False
    try:
        yield folder
        for name in (*(f"{name}.txt" for name in SPLITS), VOCABULARY_FILE, STATISTICS_FILE):
            os.replace(folder / name, output / name)
        done = True
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if new and not done:
            with suppress(OSError):
                output.rmdir()


def _write_splits(reader: Reader, files: list[Path], folder: Path, split: Shares | None, seed: int) -> None:
    official = official_splits(files) if split is None else None
    if official is not None:
        _write(reader, files, folder, lambda file, _: official[file])
        return
    shares = split or DEFAULT_SHARES
    sizes = _write(reader, files, folder, lambda _, number: split_of(number, shares, seed))
    if not is_complete(sizes, shares):
        # Only now is the number of conversations known; so few are soon written again.
        splits = complete_splits(sizes.total(), shares, seed)
        _write(reader, files, folder, lambda _, number: splits[number])


def _write(reader: Reader, files: list[Path], folder: Path, choose: Callable[[Path, int], str]) -> Counter[str]:
    """Write each conversation to the split chosen by its file and its number over all files.

    Returns:
        The number of conversations in each split.
    """
    sizes: Counter[str] = Counter()
    with ExitStack() as stack:
        streams = {name: stack.enter_context(atomic_write(folder / f"{name}.txt")) for name in SPLITS}
        for file in files:
            for conversation in reader(file):
                name = choose(file, sizes.total())
                if write_conversation(streams[name], conversation):
                    sizes[name] += 1
    if not sizes:
        raise CorpusError(
            f"{', '.join(map(str, files))}: cleaning leaves no word of any utterance. "
            "Only the letters a to z, digits and . , ! ? are kept, with or without accents."
        )
    return sizes
