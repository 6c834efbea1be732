"""The thread of a model in memory: loads it, computes what is queued, and releases it."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from seq2seq_chat.chat.chatbot import Chatbot, Question
from seq2seq_chat.chat.replies import Reply
from seq2seq_chat.config import Decoding
from seq2seq_chat.search.batches import random_seed
from seq2seq_chat.search.joint import JointSearches
from seq2seq_chat.system.errors import UserError
from webui.limits import Limits
from webui.model_stream import ModelStream, Stream
from webui.monitoring import Metrics

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_TEXTS = 0.05  # of a growing reply; more for many readers, as sending takes time from all of them
FREQUENT_READERS = 20  # at once, who get texts that often
FAILED = "The model failed on this utterance."
STREAM_FAILED = "The model failed on this text."


class ServerBusy(Exception):
    """Too many utterances are queued; try again after ``retry_after`` seconds."""

    def __init__(self, message: str, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ModelUnavailable(UserError):
    """A model could not be loaded or failed, through no fault of the request."""


class ChatMessage(NamedTuple):
    """An utterance and the conversation before it."""

    text: str
    history: tuple[str, ...] = ()  # oldest first, user and model in turns
    seed: int | None = None  # of sampling; None: the seed of the decoding settings
    prefix: str | tuple[str, ...] = ""  # a text or tokens that the reply starts with


class Answer(NamedTuple):
    """A reply and information about its model."""

    reply: Reply
    step: int | None  # training steps of the weights
    warnings: list[str]  # about damaged checkpoints that were skipped, and text that cannot be read
    loading: float  # seconds for which it waited until the model was loaded


class ReplyStream(Stream[str]):
    """The text of a reply, again and again as it grows; ``future`` belongs to its :class:`Answer`."""

    def __init__(self) -> None:
        super().__init__()
        self._written = -math.inf  # when, in seconds
        self.is_loading = False  # whether the model was not in memory when the utterance was queued

    @property
    def has_text(self) -> bool:
        """Whether there was a first word."""
        return self._written > -math.inf

    def grow(self, text: Callable[[], str], interval: float) -> bool:
        """Write the text so far, unless one was written within ``interval`` seconds; whether anyone still reads."""
        now = time.monotonic()
        if now - self._written >= interval:
            self._written = now
            self.write(text())
        return not self.is_stopped


class ChatJob(NamedTuple):
    """An utterance and the future of its reply."""

    utterance: ChatMessage
    decoding: Decoding
    future: Future[Answer]
    submitted: float  # when, by the monotonic clock in seconds
    stream: ReplyStream | None = None  # if the text is to be read while it grows

    @property
    def is_streamed(self) -> bool:
        """Whether its steps are computed together with other requests'; a reply with a prefix is sent at once."""
        return self.stream is not None and not self.utterance.prefix


Job: TypeAlias = ChatJob | ModelStream[Any]


class ModelWorker(threading.Thread):
    """The thread of one model: waits for a permit, loads the model, works until it is closed, releases the memory.

    Args:
        name: Name of the model in the log.
        load: Returns the chatbot, or the generator of a language model; raises UserError.
        version: Version of the weights, see ``weights_version``.
        permits: A semaphore with one permit for each model that may be in memory.
        limits: Limits the queue and the batch size.
        metrics: Counts words and the seconds to the first one.
    """

    def __init__(
        self,
        name: str,
        load: Callable[[], Any],
        version: tuple[Any, ...],
        permits: threading.Semaphore,
        limits: Limits,
        metrics: Metrics,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.version, self._metrics = version, metrics
        self._load, self._permits, self._limits = load, permits, limits
        self._queue: deque[Job] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._loaded = math.inf  # when, by the monotonic clock in seconds
        self._searches: JointSearches | None = None  # of replies that are read while they grow
        self._text_interval = SECONDS_BETWEEN_TEXTS

    def submit(self, job: Job) -> bool:
        """Queue a job. Returns False if the worker is closed and the model must be loaded again.

        Raises:
            ServerBusy: The queue is full.
        """
        with self._changed:
            if self._closed:
                return False
            if len(self._queue) >= self._limits.max_queued:
                raise ServerBusy("This model is busy. Please try again in a moment.")
            if isinstance(job, ChatJob) and job.stream:
                job.stream.is_loading = math.isinf(self._loaded)
            self._queue.append(job)
            self._changed.notify()
            return True

    def close(self) -> None:
        """Stop accepting utterances, reply to the queued ones and end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def run(self) -> None:
        """Load the model and reply until closed."""
        with self._permits:
            with self._changed:
                if self._closed and all(job.future.cancelled() for job in self._queue):  # nobody waits for it any more
                    return
            try:
                self._serve_queue()
            except UserError as error:
                self._fail_queue(error)
            except Exception as error:
                logger.exception("model %s failed", self.name)
                cause = "there is not enough memory" if isinstance(error, MemoryError) else "see the server's log"
                self._fail_queue(ModelUnavailable(f"Could not load the model; {cause}."))
            release_memory()

    def _serve_queue(self) -> None:
        model = self._load()
        self._loaded = time.monotonic()
        while (jobs := self._next_jobs()) or self._searches:
            chats = [job for job in jobs if isinstance(job, ChatJob)]
            for decoding, is_streamed in dict.fromkeys((job.decoding, job.is_streamed) for job in chats):
                group = [job for job in chats if (job.decoding, job.is_streamed) == (decoding, is_streamed)]
                self._try(self._start_streams if is_streamed else self._reply, model, decoding, group)
            self._compute(model, [job for job in jobs if isinstance(job, ModelStream)])
            if self._searches:
                self._text_interval = SECONDS_BETWEEN_TEXTS * max(1.0, len(self._searches) / FREQUENT_READERS)
                self._searches.step()

    def _next_jobs(self) -> list[Job]:
        """The next jobs, oldest first. Waits unless a search is running; empty also when the worker is closed."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closed or self._searches)
                count = min(len(self._queue), self._limits.max_batch_size)
                jobs = [self._queue.popleft() for _ in range(count)]
            running = [job for job in jobs if _is_running(job.future)]  # others were cancelled
            for job in [job for job in running if isinstance(job, ChatJob) and job.stream and job.stream.has_left()]:
                job.future.set_exception(ModelUnavailable("The client has left."))
                running.remove(job)
            if running or not jobs:
                return running

    def _try(self, start: Callable[..., None], bot: Chatbot, decoding: Decoding, jobs: list[ChatJob]) -> None:
        """Start some jobs together, or else one by one, so that a bad utterance does not fail the others."""
        try:
            start(bot, decoding, jobs)
        except Exception as error:
            if len(jobs) == 1:
                jobs[0].future.set_exception(self._logged(error, FAILED))
                return
            for job in jobs:
                self._try(start, bot, decoding, [job])

    def _reply(self, bot: Chatbot, decoding: Decoding, jobs: list[ChatJob]) -> None:
        texts, histories, seeds, prefixes = map(list, zip(*(job.utterance for job in jobs), strict=True))
        seeds = [random_seed(decoding) if seed is None else seed for seed in seeds]
        replies = bot.replies(texts, decoding, histories, seeds, prefixes if any(prefixes) else ())
        for job, reply in zip(jobs, replies, strict=True):
            self._answer(bot, job, reply)

    def _answer(self, bot: Chatbot, job: ChatJob, reply: Reply) -> None:
        if job.stream is None or not job.stream.has_text:
            self._metrics.first_word.observe(time.monotonic() - job.submitted)
        self._metrics.words.inc(sum(len(hypothesis.words) for hypothesis in reply.hypotheses[:1]))
        unreadable = [] if reply.source_words else [bot.unreadable]
        loading = max(0.0, self._loaded - job.submitted)
        job.future.set_result(Answer(reply, bot.step, bot.warnings + unreadable, loading))

    def _start_streams(self, bot: Chatbot, decoding: Decoding, jobs: list[ChatJob]) -> None:
        """Start replies that are read while they grow; they join the searches that are running."""

        def grow(job: ChatJob, text: Callable[[], str]) -> bool:
            assert job.stream is not None
            if not job.stream.has_text:
                self._metrics.first_word.observe(time.monotonic() - job.submitted)
            return job.stream.grow(text, self._text_interval)

        def on_end(job: ChatJob, reply: Reply | Exception) -> None:
            if isinstance(reply, Exception):
                job.future.set_exception(self._logged(reply, FAILED))
            else:
                self._answer(bot, job, reply)

        if self._searches is None:
            self._searches = bot.joint_searches(self._limits.max_batch_size)
        questions = []
        for job in jobs:
            text, history, seed, _ = job.utterance
            seed = random_seed(decoding) if seed is None else seed
            questions.append(Question(text, history, seed, partial(grow, job), partial(on_end, job)))
        bot.start_replies(self._searches, questions, decoding)

    def _compute(self, model: Any, streams: list[ModelStream[Any]]) -> None:
        """Compute a block of each stream; those that are not complete are queued again, behind all others."""
        for stream in streams:
            try:
                is_complete = stream.compute_block(model)
            except Exception as error:
                stream.future.set_exception(self._logged(error, STREAM_FAILED))
                continue
            if not is_complete:
                with self._changed:
                    self._queue.append(stream)

    def _logged(self, error: Exception, message: str) -> UserError:
        """Log an error, a bug with its traceback, and return the error for the request: for a bug, this message."""
        if isinstance(error, UserError):
            logger.warning("model %s could not reply: %s", self.name, error)
            return error
        logger.error("model %s failed", self.name, exc_info=error)
        return ModelUnavailable(message)

    def _fail_queue(self, error: UserError) -> None:
        with self._changed:
            self._closed = True
            jobs, self._queue = list(self._queue), deque()
        for job in jobs:
            if _is_running(job.future):
                job.future.set_exception(error)


def _is_running(future: Future[Any]) -> bool:
    """Mark a future as running; False if it was cancelled."""
    return future.running() or future.set_running_or_notify_cancel()


def release_memory() -> None:
    """Free the memory of a released model: its graphs are reference cycles, and the C library keeps freed pages."""
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):  # not the GNU C library
        ctypes.CDLL(None).malloc_trim(0)
