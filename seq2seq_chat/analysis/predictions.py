"""What a model replies to every sample of a corpus, and what the right replies cost it, kept in a file.

The first line of the file says what it is of; then comes a line for each sample, in their order, as JSON objects.
Lines are added block by block and reach the disk with each, so an evaluation that was stopped goes on where it was.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from seq2seq_chat.analysis.subject import Subject
from seq2seq_chat.config import Decoding, decoding_with
from seq2seq_chat.corpus.buckets import route
from seq2seq_chat.corpus.encoded import EncodedCorpus
from seq2seq_chat.corpus.experiment_data import open_samples
from seq2seq_chat.corpus.samples import iterate_samples, read_tokens
from seq2seq_chat.corpus.text import detokenize
from seq2seq_chat.corpus.vocabulary import EOS
from seq2seq_chat.errors import UserError
from seq2seq_chat.training.batches import configured_buckets
from seq2seq_chat.training.validation import LOGITS_AT_ONCE, spread

BLOCK = 640  # samples that are answered together, and lost when an evaluation is killed
MOST_ROWS = 128  # samples whose loss is computed together


class Prediction(NamedTuple):
    """One sample: the utterance, what the model replies, what it should have replied, and what that cost it."""

    sample: int  # number of the sample in the corpus
    source: str
    reply: str
    expected: str
    score: float  # log-probability of the reply, nats
    nats: float  # loss of the expected reply, summed over its tokens
    tokens: int  # of the expected reply, the end marker included, within the model's steps
    right: int  # of these the model would have said, given the right ones before


class Predictions:
    """A file of predictions that may still be incomplete."""

    def __init__(self, path: Path, samples: int) -> None:
        self.path, self.samples = path, samples

    def __iter__(self) -> Iterator[Prediction]:
        """Every prediction, one after the other; the file may be read any number of times."""
        with open(self.path, encoding="utf-8") as file:
            next(file)
            for line in file:
                yield Prediction(**json.loads(line))

    def in_blocks(self) -> Iterator[list[Prediction]]:
        """The same, some at a time."""
        block: list[Prediction] = []
        for prediction in self:
            block.append(prediction)
            if len(block) == BLOCK:
                yield block
                block = []
        if block:
            yield block


def predict(
    subject: Subject,
    data: str | Path,
    folder: Path,
    *,
    limit: int | None = None,
    decoding: Decoding | None = None,
) -> Predictions:
    """Answer ``limit`` samples of a corpus file, evenly spread, or all; go on with what is in ``folder`` already.

    Raises:
        UserError: the corpus or the folder cannot be used, or another process writes these predictions now.
    """
    settings = subject.config.data
    decoding = decoding or greedy(subject.config.decoding)
    corpus = open_samples(data, subject.vocabulary, settings)
    chosen = spread(len(corpus), limit)
    head = {
        "format": "seq2seq-chat predictions 1",
        "weights": subject.fingerprint(),
        "vocabulary": subject.vocabulary.fingerprint,
        "corpus": corpus.fingerprint,
        "samples": len(chosen),
        "of": len(corpus),
        "reverse_input": settings.reverse_input,
        "decoding": decoding.model_dump(),
    }
    digest = hashlib.sha256(json.dumps(head, sort_keys=True).encode()).hexdigest()[:8]
    stem = re.sub(r"[^A-Za-z0-9._-]", "_", Path(data).name.removesuffix(".gz").removesuffix(".txt"))
    path = folder / f"{subject.label}_{stem}_{decoding.method}_{digest}.jsonl"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _owned(path) as file:
            done = _whole_lines(file, head, chosen)
            if done < len(chosen):
                _predict_rest(subject, corpus, data, chosen, done, decoding, file)
    except OSError as error:
        raise UserError(
            f"{path}: predictions cannot be written: {error.strerror or error}; "
            "what is there is kept, and the same command goes on from it"
        ) from error
    return Predictions(path, len(chosen))


def greedy(decoding: Decoding) -> Decoding:
    """The same choice of words, best word by word."""
    return decoding_with(decoding, method="greedy", n_best=1)


@contextlib.contextmanager
def _owned(path: Path) -> Iterator[IO[bytes]]:
    """The file, to be read and written by this process alone."""
    with open(path, "a+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(f"{path}: another process is writing these predictions; wait until it is done") from None
        yield file


def _whole_lines(file: IO[bytes], head: dict[str, Any], chosen: np.ndarray) -> int:
    """How many samples are done; what is cut or does not belong there is removed, so that one can append."""
    first = (json.dumps(head, sort_keys=True) + "\n").encode()
    file.seek(0)
    done, end, place = 0, 0, len(first)
    if file.readline() == first:
        end = place
        for number, line in enumerate(file, start=1):
            if number > len(chosen) or not _is_of(line, int(chosen[number - 1])):
                break
            place += len(line)
            if number % BLOCK == 0 or number == len(chosen):  # whole blocks only: other blocks round otherwise
                done, end = number, place
    file.truncate(end)
    if not end:
        file.write(first)
        file.flush()
    return done


def _is_of(line: bytes, sample: int) -> bool:
    try:
        values = json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return False
    return isinstance(values, dict) and tuple(values) == Prediction._fields and values["sample"] == sample


def _predict_rest(
    subject: Subject,
    corpus: EncodedCorpus,
    data: str | Path,
    chosen: np.ndarray,
    done: int,
    decoding: Decoding,
    file: IO[bytes],
) -> None:
    scores = SampleScores(subject, corpus)
    texts = _texts(subject, data, chosen[done:])
    with tqdm(
        total=len(chosen),
        initial=done,
        desc=f"{subject.run.config.name}, {subject.label}",
        unit="sample",
        delay=2,
        disable=not sys.stderr.isatty(),
        leave=False,
    ) as bar:
        for start in range(done, len(chosen), BLOCK):
            block = chosen[start : start + BLOCK]
            nats, tokens, right = scores(block)
            replies = _replies(subject, corpus, block, decoding)
            lines = []
            for row, (reply, score) in enumerate(replies):
                source, expected = next(texts)
                prediction = Prediction(
                    int(block[row]),
                    source,
                    reply,
                    expected,
                    score,
                    float(nats[row]),
                    int(tokens[row]),
                    int(right[row]),
                )
                lines.append(json.dumps(prediction._asdict(), ensure_ascii=False) + "\n")
            file.write("".join(lines).encode())
            file.flush()
            os.fsync(file.fileno())
            bar.update(len(block))


def _replies(
    subject: Subject, corpus: EncodedCorpus, block: np.ndarray, decoding: Decoding
) -> Iterator[tuple[str, float]]:
    """The best reply to each sample, and its log-probability."""
    model, data = subject.config.model, subject.config.data
    batch = corpus.batch(
        block, size=len(block), source_steps=model.encoder_steps, target_steps=1, reverse=data.reverse_input
    )
    found = subject.search(decoding)(batch.source, batch.source_length)
    for words, length, score in zip(found.words[:, 0], found.lengths[:, 0], found.scores[:, 0], strict=True):
        said = subject.vocabulary.tokens(int(word) for word in words[:length] if word != EOS)
        yield detokenize(said, data.level), float(score)


def _texts(subject: Subject, data: str | Path, chosen: np.ndarray) -> Iterator[tuple[str, str]]:
    """Source and expected reply of the chosen samples, ascending, in all their words, known or not.

    Of a source of several turns it is the last one, which is what is replied to.
    """
    settings = subject.config.data
    wanted = iter(chosen)
    number = next(wanted, None)
    for sample, pair in enumerate(iterate_samples(read_tokens(data, settings.level), settings.pairing)):
        if sample == number:
            said, answered = (detokenize(words, settings.level) for words in pair)
            yield (answered, said) if settings.swap_samples else (said, answered)
            number = next(wanted, None)


class SampleScores:
    """The exact loss of single samples (full softmax, teacher forcing), compiled once for each bucket."""

    def __init__(self, subject: Subject, corpus: EncodedCorpus) -> None:
        self._corpus, self._config = corpus, subject.config
        self._buckets = configured_buckets(subject.config, corpus)
        self._lengths = corpus.source_lengths(), corpus.target_lengths() + 1
        steps = self._buckets[-1][1]
        self._rows = max(1, min(MOST_ROWS, int(LOGITS_AT_ONCE / subject.model.vocabulary_size / steps)))
        self._graph = tf.function(_score_graph(subject.model), autograph=False)

    def __call__(self, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Summed nats, target tokens and those of them that the model finds most probable, each [samples]."""
        result = np.zeros((3, len(samples)))
        members = route(self._lengths[0][samples], self._lengths[1][samples], self._buckets)
        for (source_steps, target_steps), places in zip(self._buckets, members, strict=True):
            for start in range(0, len(places), self._rows):
                here = places[start : start + self._rows]
                batch = self._corpus.batch(
                    samples[here],
                    size=self._rows,
                    source_steps=source_steps,
                    target_steps=target_steps,
                    reverse=self._config.data.reverse_input,
                )
                nats, right = self._graph(*(tf.constant(part) for part in batch))
                rows = slice(len(here))
                result[:, here] = nats.numpy()[rows], batch.target_length[rows], right.numpy()[rows]
        return result[0], result[1], result[2]


def _score_graph(model: Any) -> Any:
    def score(source: tf.Tensor, source_lengths: tf.Tensor, target: tf.Tensor, target_lengths: tf.Tensor) -> Any:
        hidden, words, rows = model.teacher_forced(source, source_lengths, target, target_lengths)
        logits = model.output.logits(model.output.project(hidden))
        nats = tf.nn.sparse_softmax_cross_entropy_with_logits(words, logits)
        right = tf.cast(tf.equal(tf.argmax(logits, axis=1, output_type=words.dtype), words), tf.float32)
        sums = (tf.math.unsorted_segment_sum(values, rows, tf.shape(target)[0]) for values in (nats, right))
        return tuple(sums)

    return score
