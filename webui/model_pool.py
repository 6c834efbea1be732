"""Trained models in memory, and the people who talk to them.

Each model has a thread of its own, which loads it, takes what waits, decodes together what is to be decoded in the
same way, and lets the model go. So loading one model keeps nobody from talking to another, and no lock is held while
anything is computed. A :class:`Pool` keeps a bounded number of them; what does not fit is refused with :class:`Busy`.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, Optional

from seq2seq_chat.chatbot import Chatbot, Reply
from seq2seq_chat.config import Decoding
from seq2seq_chat.errors import UserError
from seq2seq_chat.runs import Run, RunError
from webui.catalogue import weights_version
from webui.limits import DEFAULTS, Limits

FRESH = 0.25  # seconds for which the newest weights count as the newest

logger = logging.getLogger(__name__)


class Busy(Exception):
    """More waits than is to wait; to be asked again after ``seconds``."""

    def __init__(self, message: str, seconds: int = 1) -> None:
        super().__init__(message)
        self.seconds = seconds


class CannotAnswer(UserError):
    """A model that cannot be loaded, or that failed; what the visitor asked for is not at fault."""


class Utterance(NamedTuple):
    """What somebody says, and what was said before, oldest first: theirs and the model's in turns."""

    text: str
    history: tuple[str, ...] = ()


class Answer(NamedTuple):
    """A reply, and the model it is from."""

    reply: Reply
    step: Optional[int]  # training steps behind the weights
    warnings: list[str]  # what was wrong with the files of the model


class _Job(NamedTuple):
    utterance: Utterance
    decoding: Decoding
    future: Future[Answer]


def answer_together(bot: Chatbot, utterances: Sequence[Utterance], decoding: Decoding) -> list[Reply]:
    """The replies to utterances of several people, decoded in one batch. The one place where a model is asked.

    A model reads as many turns of the history as it was trained with.
    """
    return bot.replies([u.text for u in utterances], decoding, [u.history for u in utterances])


class Model(threading.Thread):
    """One model: waits for its turn to be in memory, loads, answers until it is closed, and is forgotten.

    Args:
        name: what it is called, in the log.
        load: the model and what was wrong with its files; raises UserError.
        version: of the weights.
        permits: holds one for each model that may be in memory.
        limits: how much may wait, and how much is decoded together.
    """

    def __init__(
        self,
        name: str,
        load: Callable[[], tuple[Chatbot, list[str]]],
        version: tuple[Any, ...],
        permits: threading.Semaphore,
        limits: Limits,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.version = version
        self._load, self._permits, self._limits = load, permits, limits
        self._waiting: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def submit(self, utterance: Utterance, decoding: Decoding) -> Optional[Future[Answer]]:
        """Ask; None when the model is being let go, so that it has to be loaded again.

        Raises:
            Busy: too many are waiting.
        """
        with self._changed:
            if self._closed:
                return None
            if len(self._waiting) >= self._limits.waiting:
                raise Busy("Too many people are waiting for this model. Please try again in a moment.")
            future: Future[Answer] = Future()
            self._waiting.append(_Job(utterance, decoding, future))
            self._changed.notify()
            return future

    def close(self) -> None:
        """Answer what waits, take nothing more, and go."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    @property
    def is_usable(self) -> bool:
        """Whether it takes utterances."""
        return not self._closed and self.is_alive()

    def run(self) -> None:
        """The thread."""
        with self._permits:
            try:
                self._answer_all()
            except UserError as error:
                self._give_up(error)
            except Exception:
                logger.exception("model %s failed", self.name)
                self._give_up(CannotAnswer("The model could not be loaded; the server's log says more."))
            release_memory()

    def _answer_all(self) -> None:
        bot, warnings = self._load()
        while jobs := self._take():
            for decoding in dict.fromkeys(job.decoding for job in jobs):
                self._answer(bot, warnings, decoding, [job for job in jobs if job.decoding == decoding])

    def _take(self) -> list[_Job]:
        """What waits, the oldest first; nothing when the model is to go."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                count = min(len(self._waiting), self._limits.batch)
                jobs = [self._waiting.popleft() for _ in range(count)]
            begun = [job for job in jobs if job.future.set_running_or_notify_cancel()]  # whoever asked may have gone
            if begun or not jobs:
                return begun

    def _answer(self, bot: Chatbot, warnings: list[str], decoding: Decoding, jobs: list[_Job]) -> None:
        try:
            replies = answer_together(bot, [job.utterance for job in jobs], decoding)
        except Exception as error:
            if len(jobs) > 1:  # nobody's utterance is to spoil another's
                for job in jobs:
                    self._answer(bot, warnings, decoding, [job])
                return
            logger.exception("model %s could not answer", self.name)
            fault = error if isinstance(error, UserError) else CannotAnswer("The model failed on this utterance.")
            jobs[0].future.set_exception(fault)
            return
        for job, reply in zip(jobs, replies, strict=True):
            job.future.set_result(Answer(reply, bot.step, warnings))

    def _give_up(self, error: UserError) -> None:
        with self._changed:
            self._closed = True
            jobs, self._waiting = list(self._waiting), deque()
        for job in jobs:
            if job.future.set_running_or_notify_cancel():
                job.future.set_exception(error)


class Pool:
    """The models in memory, by run and snapshot; the least recently used goes when there are too many."""

    def __init__(self, limits: Limits = DEFAULTS) -> None:
        self.limits = limits
        self._lock = threading.Lock()
        self._models: OrderedDict[tuple[str, Optional[str]], Model] = OrderedDict()
        self._permits = threading.Semaphore(limits.models)
        self._versions: dict[tuple[str, Optional[str]], tuple[float, tuple[Any, ...]]] = {}
        self._asked = 0  # utterances that are not answered yet, of models that are being let go as well

    def ask(self, run: Run, snapshot: Optional[str], utterance: Utterance, decoding: Decoding) -> Future[Answer]:
        """Put an utterance in the queue of a model, which is loaded where it is not in memory.

        Raises:
            Busy: too many are waiting.
            RunError: the run has no such weights.
        """
        version = self._version(run, snapshot)
        with self._lock:
            if self._asked >= self.limits.waiting_in_all:
                raise Busy("Too many people are talking. Please try again in a moment.")
            future = None
            while future is None:
                future = self._model(run, snapshot, version).submit(utterance, decoding)
            self._asked += 1
        future.add_done_callback(self._answered)
        return future

    def loaded(self) -> list[str]:
        """The names of the models in memory, or about to be, the least recently used first."""
        with self._lock:
            return [model.name for model in self._models.values() if model.is_usable]

    def close(self, seconds: float = 10.0) -> None:
        """Let all models go, after they have answered what waits."""
        with self._lock:
            models = list(self._models.values())
            self._models.clear()
        for model in models:
            model.close()
        deadline = time.monotonic() + seconds
        for model in models:
            model.join(max(0.0, deadline - time.monotonic()))

    def _version(self, run: Run, snapshot: Optional[str]) -> tuple[Any, ...]:
        """The version of a run's weights, looked for again after FRESH seconds: to look takes longer than to ask."""
        key, now = (str(run.path), snapshot), time.monotonic()
        known = self._versions.get(key)
        if known is None or now - known[0] > FRESH:
            if len(self._versions) > 1000:
                self._versions.clear()
            known = self._versions[key] = (now, weights_version(run, snapshot))
        return known[1]

    def _answered(self, future: Future[Answer]) -> None:
        with self._lock:
            self._asked -= 1

    def _model(self, run: Run, snapshot: Optional[str], version: tuple[Any, ...]) -> Model:
        key = (str(run.path), snapshot)
        model = self._models.pop(key, None)
        if model is not None and (model.version != version or not model.is_usable):
            model.close()  # newer weights were saved
            model = None
        if model is None:
            name = f"{run.path.name} ({snapshot or 'latest'})"
            model = Model(name, lambda: load_chatbot(run, snapshot), version, self._permits, self.limits)
            model.start()
        self._models[key] = model
        while len(self._models) > self.limits.models:
            _, oldest = self._models.popitem(last=False)
            oldest.close()
        return model


def load_chatbot(run: Run, snapshot: Optional[str], attempts: int = 3) -> tuple[Chatbot, list[str]]:
    """A run's model, and what was wrong with its files.

    A trainer deletes old checkpoints; where that happened between looking and reading, there are newer ones to be had.

    Raises:
        UserError: there are no weights, or none that are whole.
    """
    for _ in range(attempts - 1):
        warnings: list[str] = []
        version = weights_version(run, snapshot)
        try:
            return Chatbot.load(run, snapshot, warnings.append), warnings
        except RunError:
            if weights_version(run, snapshot) == version:
                raise
    warnings = []
    return Chatbot.load(run, snapshot, warnings.append), warnings


def release_memory() -> None:
    """Free what a model leaves behind: its graphs are cycles of objects, and the C library keeps what was freed."""
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):  # where it is not the GNU C library
        ctypes.CDLL(None).malloc_trim(0)
