"""Models in memory: decoded together, loaded once, let go in time, and nobody kept waiting by somebody else's."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Optional

import pytest

from seq2seq_chat.chatbot import Hypothesis, Reply
from seq2seq_chat.config import Decoding
from seq2seq_chat.runs import Run, RunError
from webui import models
from webui.limits import Limits
from webui.models import Answer, Busy, CannotAnswer, Pool, Utterance

GREEDY, BEAM = Decoding(), Decoding(method="beam", beam_width=3)
PATIENCE = 120.0


class FakeBot:
    """Answers in capitals, as soon as it may; notes what it was asked together."""

    def __init__(self, name: str) -> None:
        self.name, self.step = name, 7
        self.batches: list[tuple[Decoding, list[str]]] = []
        self.may_answer, self.asked = threading.Event(), threading.Semaphore(0)
        self.may_answer.set()

    def replies(self, texts: Sequence[str], decoding: Decoding, histories: Sequence[Sequence[str]]) -> list[Reply]:
        assert len(histories) == len(texts)
        self.batches.append((decoding, list(texts)))
        self.asked.release()
        assert self.may_answer.wait(PATIENCE)
        if "poison" in texts:
            raise ValueError("poison")
        return [_reply(f"{self.name}:{text.upper()}") for text in texts]


def _reply(text: str) -> Reply:
    return Reply(text, [Hypothesis(text, [text], -1.0, True, [], -1.0)], ["word"], [], 0.0)


class World:
    """Runs that exist in memory only, and what happened to them."""

    def __init__(self) -> None:
        self.versions: dict[str, int] = {}
        self.bots: dict[str, list[FakeBot]] = {}
        self.may_load: dict[str, threading.Event] = {}
        self.faults: dict[str, Exception] = {}

    def load(self, run: Run, snapshot: Optional[str]) -> tuple[Any, list[str]]:
        name = run.path.name
        if name in self.may_load:
            assert self.may_load[name].wait(PATIENCE)
        if name in self.faults:
            raise self.faults[name]
        bot = FakeBot(name)
        self.bots.setdefault(name, []).append(bot)
        return bot, []

    def version(self, run: Run, snapshot: Optional[str]) -> tuple[Any, ...]:
        return (self.versions.get(run.path.name, 0),)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    monkeypatch.setattr(models, "load_chatbot", world.load)
    monkeypatch.setattr(models, "weights_version", world.version)
    monkeypatch.setattr(models, "FRESH", -1.0)
    return world


@pytest.fixture
def make_pool() -> Iterator[Callable[..., Pool]]:
    pools: list[Pool] = []

    def make(**limits: Any) -> Pool:
        pools.append(Pool(Limits(**limits)))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


def ask(pool: Pool, name: str, text: str = "hello", decoding: Decoding = GREEDY) -> Future[Answer]:
    return pool.ask(Run(name), None, Utterance(text), decoding)


def said(future: Future[Answer]) -> str:
    return future.result(PATIENCE).reply.text


def hold(world: World, pool: Pool, name: str) -> tuple[FakeBot, Future[Answer]]:
    """A model that is busy with an utterance until it may answer."""
    said(ask(pool, name))
    bot = world.bots[name][-1]
    assert bot.asked.acquire(timeout=PATIENCE)
    bot.may_answer.clear()
    busy = ask(pool, name, "busy")
    assert bot.asked.acquire(timeout=PATIENCE)
    bot.batches.clear()
    return bot, busy


def test_a_model_is_loaded_once(world: World, make_pool: Callable[..., Pool]) -> None:
    pool = make_pool()
    assert [said(ask(pool, "a", text)) for text in ("x", "y", "z")] == ["a:X", "a:Y", "a:Z"]
    assert len(world.bots["a"]) == 1


def test_what_waits_is_decoded_together(world: World, make_pool: Callable[..., Pool]) -> None:
    pool = make_pool(batch=10)
    bot, busy = hold(world, pool, "a")
    asked = [ask(pool, "a", f"t{number}", (GREEDY, BEAM)[number % 2]) for number in range(12)]
    bot.may_answer.set()
    assert [said(future) for future in asked] == [f"a:T{number}" for number in range(12)]
    assert said(busy) == "a:BUSY"
    assert bot.batches == [
        (GREEDY, ["t0", "t2", "t4", "t6", "t8"]),
        (BEAM, ["t1", "t3", "t5", "t7", "t9"]),
        (GREEDY, ["t10"]),
        (BEAM, ["t11"]),
    ]


def test_a_full_queue_is_told_and_loses_nobody(world: World, make_pool: Callable[..., Pool]) -> None:
    pool = make_pool(waiting=3)
    bot, busy = hold(world, pool, "a")
    asked = [ask(pool, "a", str(number)) for number in range(3)]
    with pytest.raises(Busy) as refusal:
        ask(pool, "a", "one too many")
    assert refusal.value.seconds >= 1
    bot.may_answer.set()
    assert [said(future) for future in [*asked, busy]] == ["a:0", "a:1", "a:2", "a:BUSY"]
    assert said(ask(pool, "a", "now")) == "a:NOW"


def test_all_models_together_have_a_bound_as_well(world: World, make_pool: Callable[..., Pool]) -> None:
    pool = make_pool(waiting=3, waiting_in_all=2)
    bot, busy = hold(world, pool, "a")
    other = ask(pool, "a")
    with pytest.raises(Busy):
        ask(pool, "b")
    bot.may_answer.set()
    said(busy)
    said(other)
    assert said(ask(pool, "b")) == "b:HELLO"


def test_the_least_recently_used_model_goes(world: World, make_pool: Callable[..., Pool]) -> None:
    pool = make_pool(models=2)
    for name in ("a", "b", "a", "c", "a", "b"):
        assert said(ask(pool, name)) == f"{name}:HELLO"
    assert {name: len(bots) for name, bots in world.bots.items()} == {"a": 1, "b": 2, "c": 1}
    assert pool.loaded() == ["a (latest)", "b (latest)"]


def test_a_model_that_has_to_go_answers_what_waits_first(world: World, make_pool: Callable[..., Pool]) -> None:
    pool = make_pool(models=1)
    bot, busy = hold(world, pool, "a")
    waiting = ask(pool, "a", "waiting")
    next_one = ask(pool, "b")
    assert "b" not in world.bots  # there is room for one model, and it is still in use
    bot.may_answer.set()
    assert [said(future) for future in (busy, waiting, next_one)] == ["a:BUSY", "a:WAITING", "b:HELLO"]


def test_loading_a_model_keeps_nobody_from_talking_to_another(world: World, make_pool: Callable[..., Pool]) -> None:
    pool = make_pool()
    world.may_load["slow"] = threading.Event()
    slow = ask(pool, "slow")
    assert said(ask(pool, "fast")) == "fast:HELLO"
    assert not slow.done()
    world.may_load["slow"].set()
    assert said(slow) == "slow:HELLO"


def test_an_utterance_that_fails_spoils_no_other(world: World, make_pool: Callable[..., Pool]) -> None:
    pool = make_pool()
    bot, busy = hold(world, pool, "a")
    before, poison, after = (ask(pool, "a", text) for text in ("before", "poison", "after"))
    bot.may_answer.set()
    assert [said(future) for future in (busy, before, after)] == ["a:BUSY", "a:BEFORE", "a:AFTER"]
    with pytest.raises(CannotAnswer):
        poison.result(PATIENCE)
    assert said(ask(pool, "a", "later")) == "a:LATER"


@pytest.mark.parametrize("fault", [RunError("damaged"), ValueError("a bug"), MemoryError()], ids=repr)
def test_a_model_that_cannot_be_loaded_is_told_to_all_who_wait(
    world: World, make_pool: Callable[..., Pool], fault: Exception
) -> None:
    pool = make_pool()
    world.may_load["a"], world.faults["a"] = threading.Event(), fault
    asked = [ask(pool, "a") for _ in range(3)]
    world.may_load["a"].set()
    for future in asked:
        with pytest.raises(RunError if isinstance(fault, RunError) else CannotAnswer):
            future.result(PATIENCE)
    del world.faults["a"]
    assert said(ask(pool, "a", "mended")) == "a:MENDED"


def test_newer_weights_are_loaded(world: World, make_pool: Callable[..., Pool]) -> None:
    pool = make_pool(models=1)
    said(ask(pool, "a"))
    world.versions["a"] = 1
    said(ask(pool, "a"))
    said(ask(pool, "a"))
    assert len(world.bots["a"]) == 2


def test_whoever_has_gone_is_not_answered(world: World, make_pool: Callable[..., Pool]) -> None:
    pool = make_pool()
    bot, busy = hold(world, pool, "a")
    gone, here = ask(pool, "a", "gone"), ask(pool, "a", "here")
    assert gone.cancel()
    bot.may_answer.set()
    assert [said(busy), said(here)] == ["a:BUSY", "a:HERE"]
    assert [texts for _, texts in bot.batches] == [["here"]]


def test_close_answers_what_waits_and_ends_the_threads(world: World, make_pool: Callable[..., Pool]) -> None:
    before = threading.active_count()
    pool = make_pool()
    asked = [ask(pool, name) for name in ("a", "b", "c")]
    pool.close()
    assert [said(future) for future in asked] == ["a:HELLO", "b:HELLO", "c:HELLO"]
    assert threading.active_count() == before


def test_a_checkpoint_that_was_deleted_meanwhile_is_looked_for_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    versions = iter([(1,), (2,), (3,), (3,)])  # before and after the first attempt; before the second, which works
    attempts: list[Exception] = [RunError("gone")]

    def load(run: Run, snapshot: Optional[str], warn: object) -> Any:
        if attempts:
            raise attempts.pop()
        return "the model"

    monkeypatch.setattr(models, "weights_version", lambda run, snapshot: next(versions))
    monkeypatch.setattr(models.Chatbot, "load", load)
    assert models.load_chatbot(Run(tmp_path), None) == ("the model", [])


@pytest.mark.slow
def test_a_hundred_switches_leave_nothing_behind(results: Path) -> None:
    """Memory is told by the system, graphs by Python's own list of objects."""
    import shutil

    from tensorflow.python.framework.func_graph import FuncGraph

    names = ["tiny", "second", "third"]
    for name in names[1:]:
        shutil.copytree(results / "tiny", results / name)
    pool = Pool(Limits(models=1))
    gc.freeze()  # what earlier tests left is not looked through at every switch

    def switch(times: int) -> None:
        for number in range(times):
            run = Run(results / names[number % len(names)])
            pool.ask(run, None, Utterance("you see the tree1 ?"), GREEDY).result(60)

    def graphs() -> int:
        gc.collect()
        return sum(isinstance(thing, FuncGraph) for thing in gc.get_objects())

    try:
        switch(12)
        memory, kept = _resident(), graphs()
        switch(100)
        grown = _resident() - memory
        assert graphs() <= kept + 5  # a model has a handful
        assert grown < 60e6, f"{grown / 1e6:.0f} MB more than after 12 switches"
        assert sum(thread.name.endswith("(latest)") for thread in threading.enumerate()) <= 2
    finally:
        pool.close()
        gc.unfreeze()


def _resident() -> int:
    """Bytes of this process in memory."""
    fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * 4096
