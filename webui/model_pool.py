"""Trained models in memory, shared by all users.

Each model has its own worker thread, which loads it, decodes queued utterances with equal decoding settings in one
batch, and releases the model. So loading one model never blocks another, and no lock is held during computation. A
:class:`ModelPool` limits the number of models and of queued utterances; beyond that it raises :class:`ServerBusy`.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple

from seq2seq_chat.config import Decoding
from seq2seq_chat.inference.chatbot import Chatbot, Reply
from seq2seq_chat.runs.run import Run, RunError
from seq2seq_chat.system.errors import UserError
from webui.limits import Limits
from webui.run_registry import weights_version

VERSION_TTL = 0.25  # seconds for which the version of a run's weights is cached

logger = logging.getLogger(__name__)


class ServerBusy(Exception):
    """Too many utterances are queued; try again after ``retry_after`` seconds."""

    def __init__(self, message: str, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ModelUnavailable(UserError):
    """A model could not be loaded or failed, through no fault of the request."""


class Utterance(NamedTuple):
    """An utterance and the conversation before it."""

    text: str
    history: tuple[str, ...] = ()  # oldest first, user and model in turns


class Answer(NamedTuple):
    """A reply and information about its model."""

    reply: Reply
    step: int | None  # training steps of the weights
    warnings: list[str]  # about damaged checkpoints that were skipped, and text that cannot be read


class _Job(NamedTuple):
    utterance: Utterance
    decoding: Decoding
    future: Future[Answer]


class ModelWorker(threading.Thread):
    """The thread of one model: waits for a permit, loads the model, replies until it is closed, releases the memory.

    Args:
        name: Name of the model in the log.
        load: Returns the model; raises UserError.
        version: Version of the weights, see ``weights_version``.
        permits: A semaphore with one permit for each model that may be in memory.
        limits: Limits the queue and the batch size.
    """

    def __init__(
        self,
        name: str,
        load: Callable[[], Chatbot],
        version: tuple[Any, ...],
        permits: threading.Semaphore,
        limits: Limits,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.version = version
        self._load, self._permits, self._limits = load, permits, limits
        self._queue: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def submit(self, utterance: Utterance, decoding: Decoding) -> Future[Answer] | None:
        """Queue an utterance. Returns None if the worker is closed and the model must be loaded again.

        Raises:
            ServerBusy: The queue is full.
        """
        with self._changed:
            if self._closed:
                return None
            if len(self._queue) >= self._limits.max_queued:
                raise ServerBusy("This model is busy. Please try again in a moment.")
            future: Future[Answer] = Future()
            self._queue.append(_Job(utterance, decoding, future))
            self._changed.notify()
            return future

    def close(self) -> None:
        """Stop accepting utterances, reply to the queued ones and end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    @property
    def is_open(self) -> bool:
        """Whether the worker accepts utterances."""
        return not self._closed and self.is_alive()

    def run(self) -> None:
        """Load the model and reply until closed."""
        with self._permits:
            try:
                self._serve_queue()
            except UserError as error:
                self._fail_queue(error)
            except Exception:
                logger.exception("model %s failed", self.name)
                self._fail_queue(ModelUnavailable("Could not load the model; see the server's log."))
            release_memory()

    def _serve_queue(self) -> None:
        bot = self._load()
        while jobs := self._next_jobs():
            for decoding in dict.fromkeys(job.decoding for job in jobs):
                self._reply(bot, decoding, [job for job in jobs if job.decoding == decoding])

    def _next_jobs(self) -> list[_Job]:
        """Wait for the next jobs, oldest first; empty when the worker is closed and its queue is empty."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closed)
                count = min(len(self._queue), self._limits.max_batch_size)
                jobs = [self._queue.popleft() for _ in range(count)]
            running = [job for job in jobs if job.future.set_running_or_notify_cancel()]  # others were cancelled
            if running or not jobs:
                return running

    def _reply(self, bot: Chatbot, decoding: Decoding, jobs: list[_Job]) -> None:
        try:
            utterances = [job.utterance for job in jobs]
            replies = bot.replies([u.text for u in utterances], decoding, [u.history for u in utterances])
        except Exception as error:
            if len(jobs) > 1:  # retry one by one, so that a bad utterance does not fail the others
                for job in jobs:
                    self._reply(bot, decoding, [job])
                return
            logger.exception("model %s could not reply", self.name)
            jobs[0].future.set_exception(
                error if isinstance(error, UserError) else ModelUnavailable("The model failed on this utterance.")
            )
            return
        for job, reply in zip(jobs, replies, strict=True):
            unreadable = [] if reply.source_words else [bot.unreadable]
            job.future.set_result(Answer(reply, bot.step, bot.warnings + unreadable))

    def _fail_queue(self, error: UserError) -> None:
        with self._changed:
            self._closed = True
            jobs, self._queue = list(self._queue), deque()
        for job in jobs:
            if job.future.set_running_or_notify_cancel():
                job.future.set_exception(error)


class ModelPool:
    """The models in memory by run and snapshot; the least recently used one is evicted."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._lock = threading.Lock()
        self._workers: OrderedDict[tuple[str, str | None], ModelWorker] = OrderedDict()
        self._permits = threading.Semaphore(limits.max_models)
        self._versions: dict[tuple[str, str | None], tuple[float, tuple[Any, ...]]] = {}
        self._pending = 0  # utterances without a reply, including those of evicted models

    def submit(self, run: Run, snapshot: str | None, utterance: Utterance, decoding: Decoding) -> Future[Answer]:
        """Queue an utterance for a model, which is loaded if it is not in memory.

        Raises:
            ServerBusy: Too many utterances are queued.
            RunError: The run has no such weights.
        """
        version = self._version(run, snapshot)
        with self._lock:
            if self._pending >= self.limits.max_queued_total:
                raise ServerBusy("The server is busy. Please try again in a moment.")
            future = None
            while future is None:
                future = self._worker(run, snapshot, version).submit(utterance, decoding)
            self._pending += 1
        future.add_done_callback(self._on_done)
        return future

    def loaded(self) -> list[str]:
        """The names of models that are loaded or loading, least recently used first."""
        with self._lock:
            return [worker.name for worker in self._workers.values() if worker.is_open]

    def close(self, timeout: float = 10.0) -> None:
        """Reply to all queued utterances and release all models."""
        with self._lock:
            workers = list(self._workers.values())
            self._workers.clear()
        for worker in workers:
            worker.close()
        deadline = time.monotonic() + timeout
        for worker in workers:
            worker.join(max(0.0, deadline - time.monotonic()))

    def _version(self, run: Run, snapshot: str | None) -> tuple[Any, ...]:
        """The version of a run's weights, cached because listing the folder takes longer than a short reply."""
        key, now = (str(run.path), snapshot), time.monotonic()
        cached = self._versions.get(key)
        if cached is None or now - cached[0] > VERSION_TTL:
            if len(self._versions) > 1000:
                self._versions.clear()
            cached = self._versions[key] = (now, weights_version(run, snapshot))
        return cached[1]

    def _on_done(self, future: Future[Answer]) -> None:
        with self._lock:
            self._pending -= 1

    def _worker(self, run: Run, snapshot: str | None, version: tuple[Any, ...]) -> ModelWorker:
        """The open worker of a model, which becomes the most recently used one."""
        key = (str(run.path), snapshot)
        worker = self._workers.pop(key, None)
        if worker is not None and (worker.version != version or not worker.is_open):
            worker.close()  # newer weights were saved
            worker = None
        if worker is None:
            name = f"{run.path.name} ({snapshot or 'latest'})"
            worker = ModelWorker(name, lambda: load_chatbot(run, snapshot), version, self._permits, self.limits)
            worker.start()
        self._workers[key] = worker
        while len(self._workers) > self.limits.max_models:
            _, evicted = self._workers.popitem(last=False)
            evicted.close()
        return worker


def load_chatbot(run: Run, snapshot: str | None, attempts: int = 3) -> Chatbot:
    """Load a run's model.

    Training deletes old checkpoints. If one disappears between listing and reading, there are newer ones: try again.

    Raises:
        UserError: All weights are missing or damaged.
    """
    while True:
        attempts -= 1
        version = weights_version(run, snapshot)
        try:
            return Chatbot.load(run, snapshot)
        except RunError:
            if attempts == 0 or weights_version(run, snapshot) == version:
                raise


def release_memory() -> None:
    """Free the memory of a released model: its graphs are reference cycles, and the C library keeps freed pages."""
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):  # not the GNU C library
        ctypes.CDLL(None).malloc_trim(0)
