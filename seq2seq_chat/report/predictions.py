"""Replies and exact losses for every sample of a corpus, kept in a file.

The first line of the file identifies the weights, the corpus and the settings; each further line is the JSON object of
a sample, in the order of the samples, with a checksum. Lines are flushed to disk block by block, so an interrupted
evaluation resumes; after a damaged line, it predicts the samples again.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import json
import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from seq2seq_chat.chat.corpus import decode_corpus
from seq2seq_chat.config import Config, Decoding, override_decoding, set_decoding
from seq2seq_chat.data.batches import choose_buckets, evenly_spaced
from seq2seq_chat.data.corpus_file import Corpus, bundled_questions, corpus_paths
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.report.loaded_run import LoadedRun
from seq2seq_chat.report.votes.evaluation import describe_decoding
from seq2seq_chat.runs.json_lines import is_intact, read_json_lines, with_checksum
from seq2seq_chat.runs.run import Run, snapshot_name
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import as_user_error
from seq2seq_chat.system.lines import numbered_lines
from seq2seq_chat.system.tables import pluralize

BLOCK = 640  # samples decoded together, and again after an interruption
SAMPLES_PER_BUCKET = 2500  # on average: scoring so many takes longer than building another graph
MAX_BUCKETS = 8
PROMPTS = 3  # of a report on language models

logger = logging.getLogger(__name__)


class Prediction(NamedTuple):
    """A sample with the model's reply and the loss of the expected reply."""

    sample: int  # index in the corpus
    source: str  # as it is in the corpus
    reply: str  # as people write it
    expected: str  # as it is in the corpus
    source_words: int
    reply_tokens: str  # separated by spaces
    expected_tokens: str  # separated by spaces
    score: float  # log-probability of the reply, nats
    nats: float  # loss of the expected reply, summed over its tokens
    tokens: int  # of the expected reply, end marker included, up to the model's step limit
    right: int  # tokens that are the most probable ones under teacher forcing


class Predictions:
    """The predictions in a file, or some of them."""

    def __init__(self, path: Path, samples: int, selected: npt.NDArray[np.bool_] | None = None) -> None:
        """``samples`` predictions of a file: those ``selected``, [in the file], or all if that is None."""
        self.path, self.samples, self._selected = path, samples, selected

    def __iter__(self) -> Iterator[Prediction]:
        with open(self.path, encoding="utf-8") as file:
            next(file)
            for line in file if self._selected is None else itertools.compress(file, self._selected):
                values = json.loads(line)
                values.pop("crc32", None)
                yield Prediction(**values)

    def select(self, selected: npt.NDArray[np.bool_]) -> Predictions:
        """Some of the predictions in the file."""
        return Predictions(self.path, int(selected.sum()), selected)

    def in_blocks(self) -> Iterator[list[Prediction]]:
        """Read the predictions in lists of up to ``BLOCK``."""
        predictions = iter(self)
        while block := list(itertools.islice(predictions, BLOCK)):
            yield block


def predict(
    loaded: LoadedRun, data: Corpus, folder: Path, *, limit: int | None = None, decoding: Decoding | None = None
) -> Predictions:
    """Predict ``limit`` evenly spaced samples of a corpus file, or all, resuming from a file in ``folder``.

    Args:
        decoding: decoding settings; None for the run's.

    Raises:
        UserError: The corpus cannot be read, the file cannot be written, or another process is writing it.
    """
    settings = loaded.config.data
    decoding = decoding or evaluation_decoding(loaded.config)
    corpus = Dataset.open(data, loaded.codecs, settings)
    samples = evenly_spaced(len(corpus), limit)
    header = {
        "format": "seq2seq-chat predictions 2",
        "weights": loaded.chatbot.engine.fingerprint(),
        **loaded.codecs.fingerprints(),
        "corpus": corpus.fingerprint,
        "samples": len(samples),
        "of": len(corpus),
        "reverse_input": settings.reverse_input,
        "decoding": decoding.model_dump(),
    }
    if (lexicon := loaded.chatbot.reader(decoding).lexicon) is not None:
        header["lexicon"] = lexicon.fingerprint
    if decoding.rerank == "bidirectional":
        header["backward_weights"] = loaded.chatbot.backward_bot(decoding).engine.fingerprint()
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()[:8]
    stem = re.sub(r"[^A-Za-z0-9._-]", "_", corpus_paths(data)[0].name.removesuffix(".gz").removesuffix(".txt"))
    path = folder / f"{snapshot_name(loaded.step)}_{stem}_{decoding.method}_{digest}.jsonl"
    with as_user_error(folder):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        with _open_exclusively(path) as file:
            done = _truncate_to_complete(file, header, samples)
            if done < len(samples):
                _predict_remaining(loaded, corpus, samples, done, decoding, file)
    except OSError as error:
        raise UserError(
            f"{path}: could not write predictions: {error.strerror or error}; "
            "run the same command again to continue from the ones written so far"
        ) from error
    return Predictions(path, len(samples))


def evaluation_decoding(config: Config, overrides: Sequence[str] = ()) -> Decoding:
    """The decoding settings of a run for a single reply, with a seed of sampling.

    Args:
        overrides: ``decoding.key=value`` strings that change the settings.

    Raises:
        ConfigError: An override is about another section, or the settings are not valid.
    """
    single = config.model_copy(update={"decoding": override_decoding(config.decoding, n_best=1)})
    decoding = override_decoding(set_decoding(single, overrides), n_best=1)
    if decoding.method == "sample" and decoding.seed is None:
        decoding = override_decoding(decoding, seed=config.seed)
    return decoding


_SEARCHES = {"greedy": "greedy search", "beam, beam_width": "beam search, width", "sample": "sampling"}


def name_search(decoding: Decoding) -> str:
    """What captions call a search, with the settings that differ from their defaults: "beam search, width 5"."""
    return re.sub(f"^({'|'.join(_SEARCHES)})", lambda match: _SEARCHES[match[0]], describe_decoding(decoding))


@contextlib.contextmanager
def _open_exclusively(path: Path) -> Iterator[IO[bytes]]:
    with open(path, "a+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"{path}: another process is writing these predictions; wait for it to finish") from None
        yield file


def _truncate_to_complete(file: IO[bytes], header: dict[str, Any], samples: np.ndarray) -> int:
    """Truncate the file to the complete blocks of these predictions and return their number of samples.

    Only complete blocks are kept, because losses are rounded differently with other block boundaries.
    """
    first_line = (json.dumps(header, sort_keys=True) + "\n").encode()
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    done, end, position = 0, 0, len(first_line)
    if file.readline() == first_line:
        end = position
        for number, line in enumerate(file, start=1):
            if number > len(samples) or not _is_prediction(line, int(samples[number - 1])):
                break
            position += len(line)
            if number % BLOCK == 0 or number == len(samples):
                done, end = number, position
    if size and done < len(samples):
        logger.info("continuing after the first %s undamaged predictions in %s", f"{done:,}", file.name)
    file.truncate(end)
    if not end:
        file.write(first_line)
        file.flush()
    return done


def _is_prediction(line: bytes, sample: int) -> bool:
    if not is_intact(line):
        return False
    try:
        values = json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return False
    if isinstance(values, dict):
        values.pop("crc32", None)
    return isinstance(values, dict) and tuple(values) == Prediction._fields and values["sample"] == sample


def _predict_remaining(
    loaded: LoadedRun, corpus: Dataset, samples: np.ndarray, done: int, decoding: Decoding, file: IO[bytes]
) -> None:
    """Append the predictions of ``samples[done:]`` block by block."""
    scorer = loaded.chatbot.engine.sample_scorer
    model, reverse = loaded.config.model, loaded.config.data.reverse_input
    buckets = choose_buckets(
        corpus.source_lengths(samples),
        corpus.target_lengths(samples) + 1,
        (model.encoder_steps, model.decoder_steps),
        min(MAX_BUCKETS, 1 + len(samples) // SAMPLES_PER_BUCKET),
    )
    title = f"{loaded.config.name}, {loaded.label}"
    with tqdm(total=len(samples), initial=done, desc=title, unit="sample", delay=2, disable=None, leave=False) as bar:
        for start in range(done, len(samples), BLOCK):
            block = samples[start : start + BLOCK]
            losses = zip(*scorer.score_samples(corpus, buckets, reverse, block), strict=True)
            replies = decode_corpus(loaded.chatbot, corpus, decoding, block)
            lines = []
            results = zip(block, corpus.samples(block), replies, losses, strict=True)
            for number, sample, reply, (nats, tokens, right) in results:
                prediction = Prediction(
                    int(number),
                    sample.source,
                    reply.text,
                    sample.target,
                    len(sample.source_tokens),
                    " ".join(reply.words),
                    " ".join(sample.target_tokens),
                    reply.score,
                    float(nats),
                    int(tokens),
                    int(right),
                )
                lines.append(with_checksum(prediction._asdict(), ensure_ascii=False))
            file.write(b"".join(lines))
            file.flush()
            os.fsync(file.fileno())
            bar.update(len(block))


class ReplyColumn(NamedTuple):
    """The replies of a run at a snapshot, or of a transcript."""

    label: str
    replies: Sequence[str | None]  # in the order of the questions; None: not asked


def read_questions(path: str | Path) -> list[str]:
    """Read questions from a text file, one per line. Raises UserError if there are none."""
    questions = [line.strip() for _, line in numbered_lines(path, UserError) if line.strip()]
    if not questions:
        raise UserError(f"{path} contains no questions; write one per line")
    return questions


def default_questions(run: Run, data: str | None = None) -> list[str]:
    """What a report asks a run, or has it continue.

    For a translation, the first sources of ``data`` or else of its test corpus; for a language model, the first prompts
    of the samples that training wrote.
    """
    settings = run.config.data
    if run.config.task == "language_model":
        prompts = (line["source"] for line in read_json_lines(run.samples_file) if "source" in line)
        return list(dict.fromkeys(prompts))[:PROMPTS] or [""]
    if run.config.task == "translation":
        with suppress(UserError):  # the corpus is missing; the report says so
            files = data or settings.test or settings.validation or settings.train
            corpus = Dataset.open(files, run.codecs, settings)
            return list(dict.fromkeys(corpus.text(n).source for n in range(min(len(corpus), len(bundled_questions())))))
    return list(bundled_questions())


class Transcript(NamedTuple):
    """Questions, and what another system replied to them."""

    path: str
    questions: list[str]
    replies: list[str]

    def column(self, questions: Sequence[str]) -> ReplyColumn:
        """The replies to some questions. Raises UserError if there are none."""
        by_text = dict(zip(self.questions[::-1], self.replies[::-1], strict=True))  # of equal ones, the first counts
        by_words = {_words(question): reply for question, reply in by_text.items()}
        replies = [by_text.get(question, by_words.get(_words(question))) for question in questions]
        if all(reply is None for reply in replies):
            raise UserError(f"{self.path} replies to none of the questions, which are: {'; '.join(questions[:5])} …")
        return ReplyColumn(Path(self.path).stem, replies)


def read_transcript(path: str, questions: Sequence[str]) -> Transcript:
    """Read replies of another system: lines of ``question<TAB>reply``, or a reply to each of ``questions``, in order.

    Raises:
        UserError: The file cannot be read or does not match the questions.
    """
    lines = [(number, line) for number, line in numbered_lines(path, UserError) if line.strip()]
    if not any("\t" in line for _, line in lines):
        if len(lines) != len(questions):
            raise UserError(
                f"{path} has {pluralize(len(lines), 'line')} for {pluralize(len(questions), 'question')}; write one "
                "reply per line in the order of the questions, or lines of question<TAB>reply"
            )
        return Transcript(path, list(questions), [line.strip() for _, line in lines])
    transcript = Transcript(path, [], [])
    for number, line in lines:
        question, tab, reply = line.partition("\t")
        if not tab:
            raise UserError(f"{path}, line {number}: missing tab; write question<TAB>reply")
        transcript.questions.append(question.strip())
        transcript.replies.append(reply.strip())
    return transcript


def further_questions(transcripts: Sequence[Transcript], questions: Sequence[str]) -> list[str]:
    """The questions of transcripts that are not among ``questions``."""
    texts = {_words(text): text for text in questions}
    for text in itertools.chain(*(transcript.questions for transcript in transcripts)):
        texts.setdefault(_words(text), text)
    return list(texts.values())[len(set(map(_words, questions))) :]


def _words(question: str) -> str:
    """The words of a question, by which questions are matched: without case, punctuation marks and extra spaces.

    A question without words, such as a smiley, is matched as it is.
    """
    return " ".join(re.findall(r"\w+", question.casefold())) or question
