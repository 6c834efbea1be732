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

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.chat.joint_replies import NEVER, JointReplies, Question, StopRule
from seq2seq_chat.chat.replies import Reply
from seq2seq_chat.config import Decoding
from seq2seq_chat.search.batches import StepEngine, random_seed
from seq2seq_chat.system.errors import UserError
from webui.limits import Limits
from webui.model_stream import ModelStream, Stream
from webui.monitoring import Metrics

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_TEXTS = 0.05  # of a growing reply; more for many readers, as sending takes time from all of them
FREQUENT_READERS = 20  # at once, who get texts that often
STEPS_BETWEEN_STARTS = 5  # of few jobs while many others run, as starts take time
SECONDS_BETWEEN_STARTS = 0.05  # at most, where a step takes longer than a start
STEPS_BETWEEN_BATCHES = 30  # if nobody reads replies while they grow
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
    is_certain: bool = False  # whether a stream has only the beginning of the reply that cannot change any more
    stop: StopRule = NEVER  # of a stream


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


Job: TypeAlias = ChatJob | ModelStream[Any]


class JobQueue(deque[Job]):
    """Jobs that wait."""

    last_step = 0  # of the worker, at which some have started
    last_time = 0.0  # the same by the monotonic clock, in seconds


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
        self._stream_queue, self._batch_queue = JobQueue(), JobQueue()
        self._changed = threading.Condition()
        self._closed = False
        self._loaded = math.inf  # when, by the monotonic clock in seconds
        self._replies: JointReplies | None = None  # what is computed a step at a time
        self._readers = 0  # of these, those that are read while they grow
        self._streams: list[ModelStream[Any]] = []  # what is computed a block at a time
        self._steps = 0  # that were computed
        self._text_interval = SECONDS_BETWEEN_TEXTS

    def submit(self, job: Job) -> bool:
        """Queue a job. Returns False if the worker is closed and the model must be loaded again.

        Raises:
            ServerBusy: The queue is full.
        """
        with self._changed:
            if self._closed:
                return False
            if self.queued >= self._limits.max_queued:
                raise ServerBusy("This model is busy. Please try again in a moment.")
            if isinstance(job, ChatJob) and job.stream:
                job.stream.is_loading = math.isinf(self._loaded)
            (self._stream_queue if _is_streamed(job) else self._batch_queue).append(job)
            self._changed.notify()
            return True

    @property
    def queued(self) -> int:
        """The number of jobs that wait."""
        return len(self._stream_queue) + len(self._batch_queue)

    @property
    def _is_busy(self) -> bool:
        return bool(self._replies or self._streams)

    def close(self) -> None:
        """Stop accepting utterances, reply to the queued ones and end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def run(self) -> None:
        """Load the model and reply until closed."""
        with self._permits:
            with self._changed:
                jobs = [*self._stream_queue, *self._batch_queue]
                if self._closed and all(job.future.cancelled() for job in jobs):  # nobody waits for it any more
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
        while (jobs := self._next_jobs()) or self._is_busy:
            chats = [job for job in jobs if isinstance(job, ChatJob)]
            for decoding in dict.fromkeys(job.decoding for job in chats):
                together = [job for job in chats if job.decoding == decoding]
                in_steps = self._readers or any(map(_is_streamed, chats)) or isinstance(model.engine, StepEngine)
                self._try(self._start if in_steps else self._reply, model, decoding, together)
            self._streams += [job for job in jobs if isinstance(job, ModelStream)]
            self._streams = [stream for stream in self._streams if self._goes_on(model, stream)]
            if self._replies:
                self._text_interval = SECONDS_BETWEEN_TEXTS * max(1.0, self._readers / FREQUENT_READERS)
                self._replies.step()
            self._steps += 1

    def _next_jobs(self) -> list[Job]:
        """The next jobs that there is room for, oldest first. Waits if nothing is running, until it is closed."""
        while not self._is_busy or self.queued:
            with self._changed:
                self._changed.wait_for(lambda: self.queued or self._closed or self._is_busy)
                jobs = [*self._take(self._stream_queue), *self._take(self._batch_queue)]
            running = [job for job in jobs if _is_running(job.future)]  # others were cancelled
            for job in [job for job in running if isinstance(job, ChatJob) and job.stream and job.stream.has_left()]:
                job.future.set_exception(ModelUnavailable("The client has left."))
                running.remove(job)
            if running or not jobs:
                return running
        return []

    def _take(self, queue: JobQueue) -> list[Job]:
        """What is to start now from a queue; often none, as others may come soon, and starts take time."""
        replies, streamed = len(self._replies or ()), self._readers + len(self._streams)
        running = streamed if queue is self._stream_queue else replies - self._readers
        count, busy = min(len(queue), self._limits.max_batch_size - running), replies + len(self._streams)
        now, steps = time.monotonic(), self._steps - queue.last_step
        if streamed or queue is self._stream_queue:
            is_early = steps < STEPS_BETWEEN_STARTS and now - queue.last_time < SECONDS_BETWEEN_STARTS
            waits = 5 * count < busy and is_early
        else:
            waits = busy > 0 and steps < STEPS_BETWEEN_BATCHES
        if waits or not count:
            return []
        queue.last_step, queue.last_time = self._steps, now
        return [queue.popleft() for _ in range(count)]

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
        """Compute replies in a graph, which is faster than steps, but makes all others wait."""
        texts, histories, seeds, prefixes = map(list, zip(*(job.utterance[:4] for job in jobs), strict=True))
        seeds = [random_seed(decoding) if seed is None else seed for seed in seeds]
        replies = bot.replies(texts, decoding, histories, seeds, prefixes if any(prefixes) else ())
        for job, reply in zip(jobs, replies, strict=True):
            self._end(bot, job, reply)

    def _start(self, bot: Chatbot, decoding: Decoding, jobs: list[ChatJob]) -> None:
        """Start replies, which join those that are running."""
        if self._replies is None:
            self._replies = JointReplies(bot)
        before = self._readers
        self._readers += sum(job.stream is not None for job in jobs)
        try:
            self._replies.start([self._question(bot, job) for job in jobs], decoding)
        except Exception:  # none has started
            self._readers = before
            raise

    def _question(self, bot: Chatbot, job: ChatJob) -> Question:
        text, history, seed, prefix, is_certain, stop = job.utterance
        seed = random_seed(job.decoding) if seed is None else seed
        on_step = partial(self._grow, job, job.stream) if job.stream else None
        return Question(text, history, seed, partial(self._end, bot, job), on_step, prefix, is_certain, stop)

    def _grow(self, job: ChatJob, stream: ReplyStream, text: Callable[[], str]) -> bool:
        """Send the text so far; whether anyone still reads."""
        if not stream.has_text:
            self._metrics.first_word.observe(time.monotonic() - job.submitted)
        return stream.grow(text, self._text_interval)

    def _end(self, bot: Chatbot, job: ChatJob, reply: Reply | Exception) -> None:
        """Send the reply or the error."""
        self._readers -= job.stream is not None
        if isinstance(reply, Exception):
            job.future.set_exception(self._logged(reply, FAILED))
            return
        if job.stream is None or not job.stream.has_text:
            self._metrics.first_word.observe(time.monotonic() - job.submitted)
        self._metrics.words.inc(sum(len(hypothesis.words) for hypothesis in reply.hypotheses[:1]))
        unreadable = [] if reply.source_words else [bot.unreadable]
        loading = max(0.0, self._loaded - job.submitted)
        job.future.set_result(Answer(reply, bot.step, bot.warnings + unreadable, loading))

    def _goes_on(self, model: Any, stream: ModelStream[Any]) -> bool:
        """Compute a block of a stream; whether there are more."""
        try:
            return not stream.compute_block(model)
        except Exception as error:
            stream.future.set_exception(self._logged(error, STREAM_FAILED))
            return False

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
            jobs = [*self._stream_queue, *self._batch_queue, *self._streams]
            self._stream_queue, self._batch_queue, self._streams = JobQueue(), JobQueue(), []
        for job in jobs:
            if _is_running(job.future):
                job.future.set_exception(error)


def _is_streamed(job: Job) -> bool:
    """Whether somebody reads the result while it grows."""
    return not isinstance(job, ChatJob) or job.stream is not None


def _is_running(future: Future[Any]) -> bool:
    """Mark a future as running; False if it was cancelled."""
    return future.running() or future.set_running_or_notify_cancel()


def release_memory() -> None:
    """Free the memory of a released model: its graphs are reference cycles, and the C library keeps freed pages."""
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):  # not the GNU C library
        ctypes.CDLL(None).malloc_trim(0)
