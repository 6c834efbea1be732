"""The workbench of runs over HTTP: events, comparisons, notes and learning curves."""

import json
import math
import shutil
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from flask.testing import FlaskClient

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.config import flat_settings
from seq2seq_chat.runs.run import Run
from seq2seq_chat.runs.summary import Notes, read_notes, write_notes
from seq2seq_chat.system.errors import UserError
from tests.conftest import edit_config
from tests.webui.conftest import MakeClient, Serve, error_of
from webui.api import queue_all, wait_for_answer
from webui.app import close_app
from webui.limits import Limits
from webui.model_worker import Answer, ModelUnavailable, ServerBusy
from webui.run_registry import RunWatch

TIMEOUT = 120.0
Cli = Callable[..., Any]


def test_events_tell_what_has_changed(client: FlaskClient, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webui.run_registry.INTERVAL", 0.01)
    monkeypatch.setattr("webui.run_registry.LISTING_TTL", 0.0)
    response = client.get("/api/events", buffered=False)
    assert response.mimetype == "text/event-stream"
    chunks = iter(response.response)

    def next_event() -> Any:
        for chunk in chunks:
            text = chunk.decode() if isinstance(chunk, bytes) else chunk
            if text.startswith("event: runs\ndata: "):
                assert text.endswith("\n\n")
                return json.loads(text.split("\ndata: ", 1)[1])
        raise AssertionError("the stream has ended")

    first = next_event()
    assert first == {"runs": client.get("/api/runs").get_json()["runs"], "removed": []}
    with open(results / "tiny" / "metrics.jsonl", "a", encoding="utf-8") as file:
        file.write('{"step": 25, "kind": "train", "loss": 1.5}\n')
    (changed,) = next_event()["runs"]
    assert (changed["name"], changed["step"]) == ("tiny", 25)
    shutil.copytree(results / "tiny", results / "new")
    assert [run["name"] for run in next_event()["runs"]] == ["new"]
    shutil.rmtree(results / "new")
    assert next_event() == {"runs": [], "removed": ["new"]}
    response.close()


def test_streams_end_with_the_server(make_client: MakeClient) -> None:
    client = make_client()
    response = client.get("/api/events", buffered=False)
    chunks = iter(response.response)
    next(chunks)
    close_app(client.application)
    assert list(chunks) == []
    response.close()


def test_pages_that_follow_the_runs_leave_threads_for_others(serve: Serve, results: Path) -> None:
    with serve(results, limits=Limits(max_queued=1, max_queued_total=2)) as address, ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(urlopen(f"{address}/api/events", timeout=TIMEOUT))
        with urlopen(f"{address}/healthz", timeout=TIMEOUT) as response:
            assert response.status == 200


def test_many_readers_share_one_look_at_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webui.run_registry.INTERVAL", 60.0)
    looks = iter([[{"name": "one"}]])
    watch = RunWatch(lambda: next(looks))
    assert all(watch.changes() == (1, {"runs": [{"name": "one"}], "removed": []}) for _ in range(50))
    assert watch.changes(1) == (1, {"runs": [], "removed": []})


def test_comparison_of_runs(client: FlaskClient, results: Path) -> None:
    shutil.copytree(results / "tiny", results / "other")
    edit_config(results / "other", "model", hidden_size=24)
    body = client.get("/api/comparison?run=tiny&run=other&run=tiny").get_json()
    assert body["runs"] == ["tiny", "other"]
    assert body["settings"] == {"model.hidden_size": [16, 24]}
    assert body["figures"]["steps"] == [20, 20]
    assert body["curves"]["other"] == client.get("/api/runs/other").get_json()["curves"]


def test_settings_of_all_runs(client: FlaskClient, results: Path) -> None:
    shutil.copytree(results / "tiny", results / "damaged")
    (results / "damaged" / "config.json").write_text("{", encoding="utf-8")
    settings = client.get("/api/settings").get_json()["settings"]
    assert settings == {"damaged": {}, "tiny": flat_settings(Run(results / "tiny").config)}


def test_invalid_comparisons(client: FlaskClient, results: Path) -> None:
    assert "run" in error_of(client.get("/api/comparison"), 400)
    assert "20" in error_of(client.get("/api/comparison?" + "run=tiny&" * 21), 400)
    assert "no run" in error_of(client.get("/api/comparison?run=missing"), 404)
    (results / "tiny" / "config.json").write_text("{", encoding="utf-8")
    assert "leave this run out" in error_of(client.get("/api/comparison?run=tiny"), 400)


def test_curves_have_all_quantities(client: FlaskClient, results: Path) -> None:
    lines = [
        {"step": 5, "kind": "train", "loss": 4.0, "learning_rate": 0.1, "gradient_norm": 2.5},
        {"step": 5, "kind": "validation", "loss": 3.5, "bleu": 12.25},
        {"step": 10, "kind": "train", "loss": None, "learning_rate": 0.05},
        {"step": 10, "kind": "validation", "loss": 3.25},
    ]
    (results / "tiny" / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert client.get("/api/runs/tiny").get_json()["curves"] == {
        "train": {"step": [5, 10], "loss": [4.0, None], "learning_rate": [0.1, 0.05], "gradient_norm": [2.5, None]},
        "validation": {"step": [5, 10], "loss": [3.5, 3.25], "bleu": [12.25, None]},
    }


def test_long_curves_keep_the_first_the_last_and_the_best_validation(client: FlaskClient, results: Path) -> None:
    losses = [3 + math.sin(step / 150) for step in range(2_000)]
    lines = [{"step": step, "kind": "validation", "loss": loss} for step, loss in enumerate(losses)]
    (results / "tiny" / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    curve = client.get("/api/runs/tiny").get_json()["curves"]["validation"]
    assert len(curve["step"]) <= 400 and curve["step"] == sorted(curve["step"])
    assert {0, 1_999, losses.index(min(losses))} <= set(curve["step"])
    assert curve["loss"] == pytest.approx([losses[step] for step in curve["step"]], rel=1e-5)


def test_notes_are_stored_in_the_run(client: FlaskClient, results: Path, cli: Cli) -> None:
    stored = {"star": True, "hidden": False, "text": "the best one\n👍"}
    assert client.get("/api/runs/tiny").get_json()["notes"] == {"star": False, "hidden": False, "text": ""}
    assert client.put("/api/runs/tiny/notes", json=stored).get_json() == stored
    assert client.get("/api/runs").get_json()["runs"][0]["notes"] == stored
    assert json.loads((results / "tiny" / "notes.json").read_text(encoding="utf-8")) == stored
    listed = json.loads(cli("experiments", "list", "--json", "--results", results).out)
    assert listed["notes"] == stored
    assert "text" in error_of(client.put("/api/runs/tiny/notes", json={"text": "a" * 10_001}), 400)
    assert "star" in error_of(client.put("/api/runs/tiny/notes", json={"star": "yes"}), 400)
    error_of(client.put("/api/runs/missing/notes", json=stored), 404)


DAMAGED_NOTES = ["", "[]", "{", '{"star": 1}', '{"color": "red"}', '{"text": null}', "\x00", "[" * 100_000]


@pytest.mark.parametrize("content", DAMAGED_NOTES, ids=range(len(DAMAGED_NOTES)))
def test_damaged_notes_are_empty(tmp_path: Path, content: str) -> None:
    assert read_notes(tmp_path) == Notes()
    (tmp_path / "notes.json").write_text(content, encoding="utf-8")
    assert read_notes(tmp_path) == Notes()
    write_notes(tmp_path, Notes(star=True))
    assert read_notes(tmp_path) == Notes(star=True)


QUESTIONS = ["you see the tree1 ?", "i like the song3 ?", "you see the tree1 ?"]


@pytest.mark.slow
def test_checkpoints_answer_questions_once(client: FlaskClient, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(results / "tiny")
    run.checkpoint_path(20).rename(run.checkpoint_path(15))  # not a snapshot, so training will delete it

    def answers(**body: Any) -> Any:
        return client.post("/api/runs/tiny/answers", json={"questions": QUESTIONS} | body).get_json()

    def replies(snapshot: str) -> list[str]:
        return [bot.reply(question).text for bot in [Chatbot.load(run, snapshot)] for question in QUESTIONS]

    assert answers() == {"answers": [], "unanswered": [15, 20, 10]}
    early, late = {"step": 10, "replies": replies("10")}, {"step": 15, "replies": replies("20")}
    assert answers(step=15) == {"answers": [late], "unanswered": [20, 10]}
    assert answers(step=10) == {"answers": [early, late], "unanswered": [20]}
    lines = [json.loads(line) for line in run.answers_file.read_text(encoding="utf-8").splitlines()]
    expected = [(step, question) for step in (15, 10) for question in QUESTIONS[:2]]
    assert [(line["step"], line["question"]) for line in lines] == expected
    monkeypatch.setattr("webui.model_pool.ModelPool.submit", None)  # the replies are read from the run
    run.checkpoint_path(15).unlink()
    assert answers(step=10) == {"answers": [early, late], "unanswered": [20]}
    more = answers(questions=["we like it", QUESTIONS[1]])
    assert more["answers"][0] == {"step": 10, "replies": [None, early["replies"][1]]}
    assert more["unanswered"] == [20, 10]


def test_questions_wait_for_room_in_the_queue() -> None:
    queue, futures = list[int](), [Future[Answer]() for _ in range(5)]

    def submit(key: int) -> Future[Answer]:
        if len(queue) == 2:
            raise ServerBusy("busy")
        queue.append(key)
        return futures[key]

    for key, future in queue_all(range(5), submit):
        assert future is futures[key]
        queue.remove(key)
    queue.extend([7, 8])  # of others
    with pytest.raises(ServerBusy):
        next(queue_all(range(5), submit))


def test_after_an_error_the_remaining_questions_are_cancelled(client: FlaskClient) -> None:
    futures = [Future[Answer]() for _ in range(3)]
    futures[0].set_exception(UserError("damaged"))
    with client.application.app_context(), pytest.raises(ModelUnavailable, match="damaged"):
        for _, future in queue_all(range(3), futures.__getitem__):
            wait_for_answer(future)
    assert [future.cancelled() for future in futures] == [False, True, True]


def test_invalid_questions(client: FlaskClient) -> None:
    def error(step: int, questions: list[str], status: int) -> str:
        body = {"step": step, "questions": questions}
        return error_of(client.post("/api/runs/tiny/answers", json=body), status)

    assert "no weights of step 16" in error(16, QUESTIONS, 404)
    assert "step" in error(-1, QUESTIONS, 400)
    assert "questions" in error(10, [], 400)
    assert "10,000" in error(10, ["a" * 10_001], 413)
