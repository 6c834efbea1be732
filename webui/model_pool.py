"""Trained models in memory, shared by all users.

Each model has its own worker thread, which loads it, decodes queued utterances with equal decoding settings in one
batch (step by step while a reply is read as it grows), computes its texts and watched searches in turns, a block at a
time, and releases the model. So loading one model never blocks another, and no lock is held during computation. A
:class:`ModelPool` limits the number of models and of queued utterances and streams; beyond that it raises
:class:`ServerBusy`.
"""

from __future__ import annotations

import functools
import threading
import time
from collections import OrderedDict
from concurrent.futures import Future
from typing import Any

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.chat.generator import Generator
from seq2seq_chat.config import Decoding
from seq2seq_chat.runs.run import Run, RunError
from seq2seq_chat.system.hardware import AUTO, EngineOptions
from webui.limits import Limits
from webui.model_stream import ModelStream
from webui.model_worker import Answer, ChatJob, ChatMessage, Job, ModelWorker, ReplyStream, ServerBusy
from webui.monitoring import Metrics
from webui.run_registry import weights_version

VERSION_TTL = 0.25  # seconds for which the version of a run's weights is cached


class ModelPool:
    """The models in memory by run and snapshot; the least recently used one is evicted."""

    def __init__(self, limits: Limits, engine: EngineOptions = AUTO) -> None:
        self.limits, self._engine = limits, engine
        self._lock = threading.Lock()
        self._workers: OrderedDict[tuple[str, str | None], ModelWorker] = OrderedDict()
        self._permits = threading.Semaphore(limits.max_models)
        self._versions: dict[tuple[str, str | None], tuple[float, tuple[Any, ...]]] = {}
        self._pending = 0  # utterances without a reply, also of evicted models
        self.metrics = Metrics(self.queued, self.running, lambda: len(self.loaded()))

    def submit(self, run: Run, snapshot: str | None, utterance: ChatMessage, decoding: Decoding) -> Future[Answer]:
        """Queue an utterance for a model, which is loaded if it is not in memory.

        Raises:
            ServerBusy: Too many utterances are queued.
            RunError: The run has no such weights.
        """
        job = ChatJob(utterance, decoding, Future(), time.monotonic())
        self.queue(run, snapshot, job)
        return job.future

    def stream(self, run: Run, snapshot: str | None, utterance: ChatMessage, decoding: Decoding) -> ReplyStream:
        """Queue an utterance, whose reply can be read while it grows; see :meth:`submit`."""
        stream = ReplyStream()
        self.queue(run, snapshot, ChatJob(utterance, decoding, stream.future, time.monotonic(), stream))
        return stream

    def queue(self, run: Run, snapshot: str | None, job: Job) -> None:
        """Queue an utterance, a text or a search; see :meth:`submit`."""
        version = self._version(run, snapshot)
        key = (str(run.path), snapshot)
        with self._lock:
            if self._pending >= self.limits.max_queued_total:
                raise ServerBusy("The server is busy. Please try again in a moment.")
            worker = self._workers.get(key)
            if worker is not None and worker.version != version:  # perhaps newer, loaded for another request
                version = self._version(run, snapshot)
            if worker is None or worker.version != version or not worker.submit(job):
                if worker is not None:
                    worker.close()
                model_type = job.model_type if isinstance(job, ModelStream) else Chatbot
                name = f"{run.path.name} ({snapshot or 'latest'})"
                load = functools.partial(load_model, model_type, run, snapshot, self._engine)
                worker = ModelWorker(name, load, version, self._permits, self.limits, self.metrics)
                worker.submit(job)  # before the start: if the model cannot be loaded, its jobs fail and it is closed
                worker.start()
                self._workers[key] = worker
            self._workers.move_to_end(key)
            while len(self._workers) > self.limits.max_models:
                _, evicted = self._workers.popitem(last=False)
                evicted.close()
            self._pending += 1
        job.future.add_done_callback(self._on_done)

    def queued(self) -> int:
        """The number of utterances, texts and searches that wait."""
        with self._lock:
            return sum(worker.queued for worker in self._workers.values())

    def running(self) -> int:
        """The number of those that are being computed."""
        return max(0, self._pending - self.queued())  # what was cancelled stays in a queue for a while

    def loaded(self) -> list[str]:
        """The names of models that are loaded or loading, least recently used first."""
        with self._lock:
            return [worker.name for worker in self._workers.values() if worker.is_alive()]

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

    def _on_done(self, future: Future[Any]) -> None:
        with self._lock:
            self._pending -= 1


def load_model(
    model_type: type[Chatbot] | type[Generator],
    run: Run,
    snapshot: str | None,
    engine: EngineOptions = AUTO,
) -> Chatbot | Generator:
    """Load a run's model.

    Training deletes old checkpoints. If one disappears between listing and reading, there are newer ones: try again.

    Raises:
        UserError: All weights are missing or damaged.
    """
    for _ in range(2):
        version = weights_version(run, snapshot)
        try:
            return model_type.load(run, snapshot, engine)
        except RunError:
            if weights_version(run, snapshot) == version:
                raise
    return model_type.load(run, snapshot, engine)
