"""The model pool: batching, loading, eviction, limits, errors."""

from __future__ import annotations

import functools
import gc
import logging
import math
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from seq2seq_chat.chat.joint_replies import Question
from seq2seq_chat.chat.replies import Reply
from seq2seq_chat.config import Decoding, Model
from seq2seq_chat.runs.run import Run, RunError
from seq2seq_chat.search.batches import StepEngine
from seq2seq_chat.system.errors import UserError
from tests.webui.conftest import resident_memory
from webui import model_pool, model_worker
from webui.limits import Limits
from webui.model_pool import ModelPool
from webui.model_worker import Answer, ChatMessage, ModelUnavailable, ModelWorker, ServerBusy

GREEDY, BEAM = Decoding(), Decoding(method="beam", beam_width=3)
TIMEOUT = 120.0


class FakeBot:
    """Replies in capitals once ``may_answer`` is set, and records its batches."""

    engine: object = None
    joint: FakeJointReplies  # the last one

    def __init__(self, name: str) -> None:
        self.name, self.step, self.warnings = name, 7, list[str]()
        self.batches: list[tuple[Decoding, list[str]]] = []
        self.may_answer, self.started = threading.Event(), threading.Semaphore(0)
        self.may_answer.set()

    def replies(self, texts: list[str], decoding: Decoding, histories: Any, seeds: Any, prefixes: Any) -> list[Reply]:
        self.seeds, self.histories = list(seeds), list(map(tuple, histories))
        self.batches.append((decoding, list(texts)))
        self.started.release()
        assert self.may_answer.wait(TIMEOUT)
        if "poison" in texts:
            raise ValueError("poison")
        if "refused" in texts:
            raise UserError("no such lexicon")
        return [Reply(f"{self.name}:{text.upper()}", [], ["word"], [], 0.0) for text in texts]

    def on_step(self, step: int) -> None:
        """Called before each step of replies that grow."""


class FakeJointReplies:
    """Replies of a bot that grow by a letter at each step."""

    def __init__(self, bot: FakeBot) -> None:
        self.bot, bot.joint = bot, self
        self.running: list[tuple[Question, int, Reply]] = []
        self.lengths: list[int] = []  # the number of replies at each step

    def start(self, questions: list[Question], decoding: Decoding) -> None:
        self.bot.batches.append((decoding, [question.text for question in questions]))
        if any("poison" in question.text for question in questions):
            raise ValueError("poison")
        for question in questions:
            reply = Reply(f"{self.bot.name}:{question.text.upper()}", [], ["word"], [], 0.0)
            self.running.append((question, 0, reply))

    def __len__(self) -> int:
        return len(self.running)

    def step(self) -> None:
        self.lengths.append(len(self.running))
        self.bot.on_step(len(self.lengths))
        running, self.running = self.running, []
        for question, length, reply in running:
            text = question.text[: length + 1]
            goes_on = question.on_step is None or question.on_step(lambda text=text: text)  # type: ignore[misc]
            if goes_on and text != question.text:
                self.running.append((question, length + 1, reply))
            else:
                question.on_end(reply)


class FakeRuns:
    """Runs that exist only in memory, the bots loaded from them, and the pools that load them."""

    def __init__(self) -> None:
        self.pools: list[ModelPool] = []
        self.versions: dict[str, int] = {}
        self.bots: dict[str, list[FakeBot]] = {}
        self.may_load: dict[str, threading.Event] = {}
        self.errors: dict[str, Exception] = {}

    def load(self, model_type: type, run: Run, snapshot: str | None, engine: Any = None) -> Any:
        name = run.path.name
        if name in self.may_load:
            assert self.may_load[name].wait(TIMEOUT)
        if name in self.errors:
            raise self.errors[name]
        bot = FakeBot(name)
        self.bots.setdefault(name, []).append(bot)
        return bot

    def pool(self, **limits: int) -> ModelPool:
        """A pool with these limits, which is closed at the end."""
        self.pools.append(ModelPool(Limits(**limits)))
        return self.pools[-1]

    def version(self, run: Run, snapshot: str | None) -> tuple[Any, ...]:
        return (self.versions.get(run.path.name, 0),)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRuns]:
    runs = FakeRuns()
    monkeypatch.setattr(model_pool, "load_model", runs.load)
    monkeypatch.setattr(model_pool, "weights_version", runs.version)
    monkeypatch.setattr(model_pool, "VERSION_TTL", -1.0)
    monkeypatch.setattr(model_worker, "JointReplies", FakeJointReplies)
    yield runs
    for pool in runs.pools:
        pool.close()


def submit(pool: ModelPool, name: str, text: str = "hello", decoding: Decoding = GREEDY) -> Future[Answer]:
    return pool.submit(Run(name), None, ChatMessage(text), decoding)


def reply_text(future: Future[Answer]) -> str:
    return future.result(TIMEOUT).reply.text


def busy_model(runs: FakeRuns, pool: ModelPool, name: str) -> tuple[FakeBot, Future[Answer]]:
    """A model that is busy with an utterance until ``may_answer`` is set."""
    reply_text(submit(pool, name))
    bot = runs.bots[name][-1]
    assert bot.started.acquire(timeout=TIMEOUT)
    bot.may_answer.clear()
    busy = submit(pool, name, "busy")
    assert bot.started.acquire(timeout=TIMEOUT)
    bot.batches.clear()
    return bot, busy


def test_the_conversation_reaches_the_model(runs: FakeRuns) -> None:
    utterance = ChatMessage("c", ("a", "b"), seed=7)
    assert reply_text(runs.pool().submit(Run("x"), None, utterance, GREEDY)) == "x:C"
    assert (runs.bots["x"][0].histories, runs.bots["x"][0].seeds) == ([("a", "b")], [7])


def test_a_reply_is_read_while_it_grows(runs: FakeRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = runs.pool()
    for seconds, readers, texts in [(0.0, 1, ["a", "ab", "abc"]), (60.0, 1, ["a"]), (0.001, 1e-5, ["a"])]:
        monkeypatch.setattr(model_worker, "SECONDS_BETWEEN_TEXTS", seconds)
        monkeypatch.setattr(model_worker, "FREQUENT_READERS", readers)  # for the last, one is 100,000 times too many
        stream = pool.stream(Run("a"), None, ChatMessage("abc"), GREEDY)
        assert [*iter(functools.partial(stream.read, TIMEOUT), None)] == texts
        assert reply_text(stream.future) == "a:ABC"


def test_replies_grow_together_and_end_when_nobody_reads_them(runs: FakeRuns) -> None:
    pool = runs.pool()
    bot, busy = busy_model(runs, pool, "a")
    streams = [pool.stream(Run("a"), None, ChatMessage(text), GREEDY) for text in ("x" * 9, "yyy", "poison", "z" * 99)]
    stopped = pool.stream(Run("a"), None, ChatMessage("w"), GREEDY)
    stopped.stop()
    left = pool.stream(Run("a"), None, ChatMessage("z" * 99), GREEDY)
    left.has_left = lambda: True
    streams[3]._stopped.set()  # as if it had been stopped after the search began
    whole = pool.submit(Run("a"), None, ChatMessage("vv"), GREEDY)  # does not hold up the others
    bot.may_answer.set()
    reply_text(busy)
    assert [reply_text(streams[number].future) for number in (0, 1)] == ["a:XXXXXXXXX", "a:YYY"]
    for failed in (streams[2], left):
        with pytest.raises(ModelUnavailable):
            reply_text(failed.future)
    reply_text(streams[3].future)
    assert (reply_text(whole), reply_text(submit(pool, "a"))) == ("a:VV", "a:HELLO")
    assert bot.joint.lengths == [4, 3, 2, *[1] * 6]


@pytest.mark.parametrize(
    ("running", "more", "are_read", "seconds", "steps"),
    [
        (5, 1, (True, True), math.inf, 1),
        (6, 1, (True, True), math.inf, 2),
        (6, 1, (True, True), 0.0, 1),
        (1, 5, (False, False), math.inf, 4),
        (13, 1, (False, True), math.inf, 2),  # there is room for one that is read
    ],
)
def test_few_replies_start_later(
    running: int,
    more: int,
    are_read: tuple[bool, bool],
    seconds: float,
    steps: int,
    runs: FakeRuns,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fewer than a fifth of the running ones: after two steps here; if nobody reads replies that grow: after four."""
    monkeypatch.setattr(model_worker, "SECONDS_BETWEEN_STARTS", seconds)
    monkeypatch.setattr(model_worker, "STEPS_BETWEEN_STARTS", 2)
    monkeypatch.setattr(model_worker, "STEPS_BETWEEN_BATCHES", 4)
    monkeypatch.setattr(FakeBot, "engine", StepEngine(Model(), True))
    pool, later, runs.may_load["a"] = runs.pool(max_batch_size=13), list[Future[Answer]](), threading.Event()

    def send(text: str, count: int, is_read: bool) -> list[Future[Answer]]:
        messages = [(Run("a"), None, ChatMessage(text), GREEDY)] * count
        return [pool.stream(*message).future if is_read else pool.submit(*message) for message in messages]

    def send_more(bot: FakeBot, step: int) -> None:
        if step == 1:
            later.extend(send("y" * 9, more, are_read[1]))

    monkeypatch.setattr(FakeBot, "on_step", send_more)
    futures = send("x" * 9, running, are_read[0])
    runs.may_load["a"].set()
    assert [*map(reply_text, futures)] == ["a:" + "X" * 9] * running
    assert [*map(reply_text, later)] == ["a:" + "Y" * 9] * more
    assert runs.bots["a"][0].joint.lengths == [running] * steps + [running + more] * (9 - steps) + [more] * steps


def test_queued_utterances_are_decoded_in_batches(runs: FakeRuns) -> None:
    pool = runs.pool(max_batch_size=10)
    bot, busy = busy_model(runs, pool, "a")
    futures = [submit(pool, "a", f"t{number}", (GREEDY, BEAM)[number % 2]) for number in range(12)]
    bot.may_answer.set()
    assert [reply_text(future) for future in futures] == [f"a:T{number}" for number in range(12)]
    assert reply_text(busy) == "a:BUSY"
    full = [(GREEDY, ["t0", "t2", "t4", "t6", "t8"]), (BEAM, ["t1", "t3", "t5", "t7", "t9"])]
    assert bot.batches == [*full, (GREEDY, ["t10"]), (BEAM, ["t11"])]


@pytest.mark.parametrize(("limits", "other"), [({"max_queued": 3}, "a"), ({"max_queued_total": 4}, "b")])
def test_a_full_queue_rejects_utterances_and_loses_none(runs: FakeRuns, limits: dict[str, int], other: str) -> None:
    """That of a model, and that of all models."""
    pool = runs.pool(**limits)
    bot, busy = busy_model(runs, pool, "a")
    futures = [submit(pool, "a", str(number)) for number in range(3)]
    assert pool.queued() == 3
    with pytest.raises(ServerBusy) as error_info:
        submit(pool, other, "one too many")
    assert error_info.value.retry_after >= 1
    bot.may_answer.set()
    assert [reply_text(future) for future in [*futures, busy]] == ["a:0", "a:1", "a:2", "a:BUSY"]
    assert reply_text(submit(pool, other, "now")) == f"{other}:NOW"


def test_the_least_recently_used_model_is_evicted(runs: FakeRuns) -> None:
    pool = runs.pool(max_models=2)
    for name in ("a", "b", "a", "c", "a", "b"):
        assert reply_text(submit(pool, name)) == f"{name}:HELLO"
    assert {name: len(bots) for name, bots in runs.bots.items()} == {"a": 1, "b": 2, "c": 1}
    assert pool.loaded() == ["a (latest)", "b (latest)"]


def test_an_evicted_model_answers_its_queue_first(runs: FakeRuns) -> None:
    pool = runs.pool(max_models=1)
    bot, busy = busy_model(runs, pool, "a")
    waiting = submit(pool, "a", "waiting")
    next_one = submit(pool, "b")
    assert "b" not in runs.bots  # the only permit is still in use
    bot.may_answer.set()
    assert [reply_text(future) for future in (busy, waiting, next_one)] == ["a:BUSY", "a:WAITING", "b:HELLO"]


def test_loading_a_model_does_not_block_others(runs: FakeRuns) -> None:
    pool = runs.pool()
    runs.may_load["slow"] = threading.Event()
    slow = submit(pool, "slow")
    assert reply_text(submit(pool, "fast")) == "fast:HELLO"
    assert not slow.done()
    runs.may_load["slow"].set()
    assert reply_text(slow) == "slow:HELLO"


def test_a_failing_utterance_does_not_fail_its_batch(runs: FakeRuns) -> None:
    pool = runs.pool()
    bot, busy = busy_model(runs, pool, "a")
    before, poison, after = (submit(pool, "a", text) for text in ("before", "poison", "after"))
    bot.may_answer.set()
    assert [reply_text(future) for future in (busy, before, after)] == ["a:BUSY", "a:BEFORE", "a:AFTER"]
    with pytest.raises(ModelUnavailable):
        poison.result(TIMEOUT)
    assert reply_text(submit(pool, "a", "later")) == "a:LATER"


@pytest.mark.parametrize(
    ("text", "logged", "is_bug"),
    [
        ("refused", "model a (latest) could not reply: no such lexicon", False),
        ("poison", "model a (latest) failed", True),
    ],
)
def test_only_bugs_are_logged_with_a_traceback(
    runs: FakeRuns, caplog: pytest.LogCaptureFixture, text: str, logged: str, is_bug: bool
) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(UserError):
        submit(runs.pool(), "a", text).result(TIMEOUT)
    (record,) = [record for record in caplog.records if record.name == "webui.model_worker"]
    assert (record.getMessage(), bool(record.exc_info)) == (logged, is_bug)


@pytest.mark.parametrize("error", [RunError("damaged"), ValueError("a bug"), MemoryError()], ids=repr)
def test_a_model_that_fails_to_load_fails_its_queue(runs: FakeRuns, error: Exception) -> None:
    pool = runs.pool()
    runs.may_load["a"], runs.errors["a"] = threading.Event(), error
    futures = [submit(pool, "a") for _ in range(3)]
    runs.may_load["a"].set()
    cause = {RunError: "damaged", ValueError: "see the server's log", MemoryError: "not enough memory"}[type(error)]
    for future in futures:
        with pytest.raises(RunError if isinstance(error, RunError) else ModelUnavailable, match=cause):
            future.result(TIMEOUT)
    del runs.errors["a"]
    assert reply_text(submit(pool, "a", "fixed")) == "a:FIXED"


def test_a_model_that_fails_before_start_returns_fails_its_first_utterance(
    runs: FakeRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[ModelWorker] = []

    def start(worker: ModelWorker) -> None:
        starts.append(worker)
        assert len(starts) == 1, "the model is loaded again and again"
        threading.Thread.start(worker)
        worker.join(TIMEOUT)

    monkeypatch.setattr(ModelWorker, "start", start)
    runs.errors["a"] = RunError("damaged")
    with pytest.raises(RunError, match="damaged"):
        submit(runs.pool(), "a").result(TIMEOUT)


def test_newer_weights_are_loaded(runs: FakeRuns) -> None:
    pool = runs.pool(max_models=1)
    reply_text(submit(pool, "a"))
    runs.versions["a"] = 1
    reply_text(submit(pool, "a"))
    reply_text(submit(pool, "a"))
    assert len(runs.bots["a"]) == 2


def test_cancelled_utterances_are_not_decoded(runs: FakeRuns) -> None:
    pool = runs.pool()
    bot, busy = busy_model(runs, pool, "a")
    cancelled, kept = submit(pool, "a", "cancelled"), submit(pool, "a", "kept")
    assert cancelled.cancel()
    bot.may_answer.set()
    assert [reply_text(busy), reply_text(kept)] == ["a:BUSY", "a:KEPT"]
    assert [texts for _, texts in bot.batches] == [["kept"]]


def test_a_model_that_nobody_waits_for_is_not_loaded(runs: FakeRuns) -> None:
    pool = runs.pool(max_models=1)
    bot, busy = busy_model(runs, pool, "a")
    assert submit(pool, "b").cancel()
    last = submit(pool, "c")
    bot.may_answer.set()
    assert [reply_text(busy), reply_text(last)] == ["a:BUSY", "c:HELLO"]
    pool.close()
    assert runs.bots.keys() == {"a", "c"}


def test_close_answers_the_queues_and_ends_the_threads(runs: FakeRuns) -> None:
    before = threading.active_count()
    pool = runs.pool()
    futures = [submit(pool, name) for name in ("a", "b", "c")]
    pool.close()
    assert [reply_text(future) for future in futures] == ["a:HELLO", "b:HELLO", "c:HELLO"]
    assert threading.active_count() == before


def test_loading_retries_if_a_checkpoint_was_deleted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    versions = iter([(1,), (2,), (3,), (3,)])  # before and after the first attempt; before the second, which works
    attempts: list[Exception] = [RunError("gone")]

    def load(*_: Any) -> Any:
        if attempts:
            raise attempts.pop()
        return "the model"

    monkeypatch.setattr(model_pool, "weights_version", lambda run, snapshot: next(versions))
    monkeypatch.setattr(model_pool.Chatbot, "load", load)
    assert model_pool.load_model(model_pool.Chatbot, Run(tmp_path), None) == "the model"


@pytest.mark.nightly
def test_switching_models_leaks_neither_memory_nor_graphs(results: Path) -> None:
    """Memory is measured by the system, graphs are counted among Python's objects."""
    import shutil

    from tensorflow.python.framework.func_graph import FuncGraph

    names = ["tiny", "second", "third"]
    for name in names[1:]:
        shutil.copytree(results / "tiny", results / name)
    pool = ModelPool(Limits(max_models=1))
    gc.freeze()  # so that collections skip the objects of earlier tests

    def switch(times: int) -> None:
        for number in range(times):
            run = Run(results / names[number % len(names)])
            pool.submit(run, None, ChatMessage("you see the tree1 ?"), GREEDY).result(60)

    def graphs() -> int:
        gc.collect()
        return sum(isinstance(thing, FuncGraph) for thing in gc.get_objects())

    try:
        switch(12)
        memory, kept = resident_memory(), graphs()
        switch(36)
        grown = resident_memory() - memory
        assert graphs() <= 2 * kept  # the model before may not be released yet
        assert grown < 22e6, f"{grown / 1e6:.0f} MB more than after 12 switches"
        assert sum(thread.name.endswith("(latest)") for thread in threading.enumerate()) <= 2
    finally:
        pool.close()
        gc.unfreeze()
