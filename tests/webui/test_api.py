"""The HTTP interface: what it answers, and what it says to everything that is wrong."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from seq2seq_chat.chatbot import Chatbot
from seq2seq_chat.config import Decoding
from seq2seq_chat.runs import Run
from webui.limits import Limits

QUESTION = "You see the tree1, zebra?"
BEAM = {"method": "beam", "beam_width": 4, "n_best": 3}
FIELDS = {"reply", "alternatives", "unknown_words", "attention", "source_words", "reply_words", "seconds"}


@pytest.fixture
def always_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Newer weights are looked for each time somebody speaks."""
    monkeypatch.setattr("webui.models.FRESH", -1.0)


def say(client: FlaskClient, text: str = QUESTION, **more: Any) -> Any:
    return client.post("/api/chat", json={"run": "tiny", "text": text, **more})


def complaint(response: Any, status: int) -> str:
    """The sentence of a refusal."""
    assert response.status_code == status, response.text
    assert response.mimetype == "application/json"
    body = response.get_json()
    assert set(body) == {"error"}
    message: str = body["error"]
    assert 10 < len(message) < 500
    assert "Traceback" not in message
    return message


def test_a_reply_is_what_the_chatbot_says(shared_client: FlaskClient, shared_results: Path) -> None:
    bot = Chatbot.load(Run(shared_results / "tiny"))
    expected = bot.reply(QUESTION, Decoding(method="beam", beam_width=4, n_best=3))
    response = say(shared_client, decoding=BEAM)
    assert response.status_code == 200, response.text
    body = response.get_json()
    assert set(body) >= FIELDS
    assert body["reply"] == expected.text == body["alternatives"][0]["text"]
    assert [line["text"] for line in body["alternatives"]] == [h.text for h in expected.hypotheses]
    scores = [line["score"] for line in body["alternatives"]]
    assert scores == pytest.approx([h.score for h in expected.hypotheses], abs=1e-3)
    assert body["source_words"] == ["you", "see", "the", "tree1", ",", "zebra", "?"]
    assert body["unknown_words"] == ["zebra"]
    assert " ".join(body["reply_words"]) == body["reply"]
    assert len(body["attention"]) == len(body["reply_words"])
    for row in body["attention"]:
        assert len(row) == len(body["source_words"])
        assert sum(row) == pytest.approx(1, abs=0.01)
    assert 0 < body["seconds"] < 120
    assert (body["step"], body["warnings"]) == (20, [])


def test_without_settings_it_replies_as_configured(shared_client: FlaskClient, shared_results: Path) -> None:
    bot = Chatbot.load(Run(shared_results / "tiny"))
    for more in ({}, {"decoding": {}}, {"snapshot": None}, {"snapshot": "latest"}, {"history": ["hello", "you too"]}):
        assert say(shared_client, **more).get_json()["reply"] == bot.reply(QUESTION).text


def test_a_snapshot_answers_with_its_own_weights(shared_client: FlaskClient) -> None:
    assert say(shared_client, snapshot="10").get_json()["step"] == 10
    assert say(shared_client, snapshot="best").get_json()["step"] == 20
    newest, older = (say(shared_client, snapshot=name, decoding=BEAM).get_json() for name in (None, "10"))
    assert newest["alternatives"] != older["alternatives"]


def test_the_newest_run_is_called_latest(shared_client: FlaskClient) -> None:
    assert say(shared_client, run="latest").get_json()["reply"] == say(shared_client).get_json()["reply"]
    assert shared_client.get("/api/runs/latest").get_json()["name"] == "tiny"


@pytest.mark.parametrize("text", ["", " \n\t", "*** ---", "😀", "שלום"])
def test_what_cannot_be_read_is_no_error(shared_client: FlaskClient, text: str) -> None:
    body = say(shared_client, text=text).get_json()
    assert (body["reply"], body["alternatives"], body["source_words"]) == ("", [], [])


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "JSON"),
        (b"{", "JSON"),
        (b"\xff\xfe", "JSON"),
        (b"[" * 100_000, "JSON"),
        (b"[]", "JSON object"),
        (b"null", "JSON object"),
        (b'{"text": "x"}', "run"),
        (b'{"run": "tiny"}', "text"),
        (b'{"run": "tiny", "text": 5}', "text"),
        (b'{"run": "tiny", "text": null}', "text"),
        (b'{"run": "tiny", "text": "x", "history": "x"}', "history"),
        (b'{"run": "tiny", "text": "x", "history": [1]}', "history.0"),
        (b'{"run": "tiny", "text": "x", "snapshot": 10}', "snapshot"),
        (b'{"run": "tiny", "text": "x", "decoding": []}', "decoding"),
        (b'{"run": "tiny", "text": "x", "decoding": {"beam_with": 3}}', "beam_width"),
        (b'{"run": "tiny", "text": "x", "decoding": {"method": "magic"}}', "method"),
        (b'{"run": "tiny", "text": "x", "decoding": {"beam_width": 0}}', "beam_width"),
        (b'{"run": "tiny", "text": "x", "decoding": {"beam_width": "3"}}', "beam_width"),
        (b'{"run": "tiny", "text": "x", "decoding": {"beam_width": 101}}', "at most 100"),
        (b'{"run": "tiny", "text": "x", "decoding": {"method": "beam", "beam_width": 2, "n_best": 3}}', "n_best"),
        (b'{"run": "tiny", "text": "x", "txet": "y"}', "txet"),
    ],
)
def test_a_request_that_makes_no_sense(shared_client: FlaskClient, body: bytes, said: str) -> None:
    response = shared_client.post("/api/chat", data=body, content_type="application/json")
    assert said in complaint(response, 400)


def test_what_is_no_json_is_refused(shared_client: FlaskClient) -> None:
    body = json.dumps({"run": "tiny", "text": "x"})
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert "Content-Type" in complaint(shared_client.post("/api/chat", data=body, content_type=kind), 400)


HOSTILE_NAMES = [
    *("missing", "..", ".", "../results/tiny", "tiny/", "/etc", "tin", "TINY", "tiny\0", "", "~", "%2e%2e", "a" * 255),
    *("<script>alert(1)</script>", "\u202etiny", "tiny\n"),
]


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=repr)
def test_a_name_is_never_a_path(shared_client: FlaskClient, shared_results: Path, name: str) -> None:
    message = complaint(shared_client.post("/api/chat", json={"run": name, "text": "x"}), 404)
    assert str(shared_results) not in message
    assert shared_client.post("/api/chat", json={"run": str(shared_results / "tiny"), "text": "x"}).status_code == 404


@pytest.mark.parametrize("name", ["missing", "..", "../best", "../../tiny/snapshots/10", "10/", "\0", ""], ids=repr)
def test_a_snapshot_that_is_not_there(shared_client: FlaskClient, name: str) -> None:
    assert "snapshot" in complaint(say(shared_client, snapshot=name), 404)


def test_a_run_that_is_not_there(shared_client: FlaskClient) -> None:
    for path in ("/api/runs/missing", "/api/runs/..%2f..%2fetc", "/api/runs/%00", "/api/runs/%ff", "/api/nothing"):
        complaint(shared_client.get(path), 404)
    complaint(shared_client.get("/api/chat"), 405)
    complaint(shared_client.delete("/api/runs"), 405)


def test_too_much_is_refused(make_client: Callable[..., FlaskClient]) -> None:
    client = make_client(limits=Limits(text=100, history=3, body=2000))
    assert say(client, text="a" * 100).status_code == 200
    assert "101" in complaint(say(client, text="a" * 101), 413)
    assert "history" in complaint(say(client, history=["a"] * 4), 413)
    complaint(say(client, history=["a" * 101]), 413)
    complaint(say(client, text="a" * 3000), 413)


def test_a_run_without_weights_is_told(client: FlaskClient, results: Path) -> None:
    shutil.rmtree(results / "tiny" / "checkpoints")
    shutil.rmtree(results / "tiny" / "snapshots")
    assert "no checkpoint" in complaint(say(client), 404)


@pytest.mark.usefixtures("always_looked_for")
def test_damaged_weights_are_told_and_harm_no_other(client: FlaskClient, results: Path) -> None:
    shutil.copytree(results / "tiny", results / "whole")
    newest = results / "tiny" / "checkpoints" / "0000000020.npz"
    newest.write_bytes(newest.read_bytes()[:1000])
    (results / "tiny" / "snapshots" / "20" / "weights.npz").write_bytes(b"")
    body = say(client).get_json()
    assert body["step"] == 15  # of the checkpoint before
    assert len(body["warnings"]) == 2
    for warning in body["warnings"]:
        assert "damaged" in warning
        assert str(results) not in warning
    for path in (results / "tiny").rglob("*.npz"):
        path.write_bytes(b"not an archive")
    response = say(client)
    message = complaint(response, 503)
    assert "damaged" in message and str(results) not in message
    assert int(response.headers["Retry-After"]) > 0
    assert say(client, run="whole").get_json()["warnings"] == []


@pytest.mark.usefixtures("always_looked_for")
def test_weights_that_were_being_copied_are_loaded_when_they_are_whole(client: FlaskClient, results: Path) -> None:
    weights = results / "tiny" / "snapshots" / "10" / "weights.npz"
    content = weights.read_bytes()
    weights.write_bytes(content[: len(content) // 2])
    complaint(say(client, snapshot="10"), 503)
    weights.write_bytes(content)
    assert say(client, snapshot="10").get_json()["step"] == 10


@pytest.mark.usefixtures("always_looked_for")
def test_newer_weights_are_used_while_a_training_goes_on(client: FlaskClient, results: Path) -> None:
    run = results / "tiny"
    newest = run / "checkpoints" / "0000000020.npz"
    aside = newest.rename(run / "aside.npz")
    shutil.rmtree(run / "snapshots" / "20")
    assert say(client).get_json()["step"] == 15
    aside.rename(newest)
    assert say(client).get_json()["step"] == 20


def test_damaged_settings_and_words_are_told(client: FlaskClient, results: Path) -> None:
    shutil.copytree(results / "tiny", results / "whole")
    (results / "tiny" / "vocabulary.txt").write_text("no vocabulary", encoding="utf-8")
    assert str(results) not in complaint(say(client), 503)
    (results / "tiny" / "config.json").write_text("{", encoding="utf-8")
    complaint(say(client), 503)
    body = client.get("/api/runs/tiny").get_json()
    assert (body["state"], body["config"], body["decoding"]["defaults"]) == ("failed", None, {})
    assert str(results) not in body["reason"]
    assert say(client, run="whole").status_code == 200


def test_a_run_that_was_deleted_is_no_longer_answered(
    client: FlaskClient, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert say(client).status_code == 200
    shutil.rmtree(results / "tiny")
    complaint(say(client), 404)
    monkeypatch.setattr("webui.catalogue.KEPT", 0.0)
    assert client.get("/api/runs").get_json() == {"runs": []}
    complaint(client.get("/api/runs/tiny"), 404)


def test_the_list_of_runs(client: FlaskClient, results: Path) -> None:
    (results / ".new-abc").mkdir()
    (results / "checks").mkdir()
    (line,) = client.get("/api/runs").get_json()["runs"]
    assert (line["name"], line["state"], line["step"], line["steps"]) == ("tiny", "finished", 20, 20)
    assert line["best_perplexity"] > 1
    assert line["best_step"] in (10, 20)


def test_an_empty_or_missing_folder(make_client: Callable[..., FlaskClient], tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        client = make_client(folder)
        assert client.get("/api/runs").get_json() == {"runs": []}
        complaint(client.post("/api/chat", json={"run": "latest", "text": "x"}), 404)


def test_the_page_of_a_run(client: FlaskClient, results: Path) -> None:
    metrics = [json.loads(line) for line in (results / "tiny" / "metrics.jsonl").read_text("utf-8").splitlines()]
    checks = results / "checks" / "2026-05-04_17-03-22_tiny"
    checks.mkdir(parents=True)
    verdict = {"check": "memory", "passed": True, "figure": "4 GB", "threshold": "5 GB", "detail": "", "seconds": 1}
    (checks / "checks.json").write_text(json.dumps({"passed": True, "checks": [verdict]}))
    body = client.get("/api/runs/tiny").get_json()
    for kind in ("train", "validation"):
        expected = [[line["step"], pytest.approx(line["loss"], abs=1e-4)] for line in metrics if line["kind"] == kind]
        assert body["curves"][kind] == expected
    assert body["config"] == json.loads((results / "tiny" / "config.json").read_text("utf-8"))
    assert body["snapshots"] == ["latest", "best", "10", "20"]
    assert {line["step"] for line in body["samples"]} == {10, 20}
    assert body["checks"]["passed"] is True
    assert body["checks"]["checks"][0]["check"] == "memory"
    assert body["files"] == []


def test_long_curves_are_thinned(client: FlaskClient, results: Path) -> None:
    lines = ({"step": step, "kind": "train", "loss": float(step % 2)} for step in range(1, 5001))
    (results / "tiny" / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    points = client.get("/api/runs/tiny").get_json()["curves"]["train"]
    assert 200 < len(points) <= 400
    assert points[-1][0] == 5000
    assert sum(loss for _, loss in points) / len(points) == pytest.approx(0.5, abs=0.05)


def test_pictures_of_a_report(client: FlaskClient, results: Path) -> None:
    run = results / "tiny"
    (run / "report").mkdir()
    (run / "report" / "attention.png").write_bytes(b"\x89PNG")
    (run / "report.html").write_text("<script>alert(1)</script>")
    (run / "report" / "secret.txt").write_text("secret")
    (run / "report" / "link.png").symlink_to(results.parent / "elsewhere.png")
    (results.parent / "elsewhere.png").write_bytes(b"elsewhere")
    assert client.get("/api/runs/tiny").get_json()["files"] == ["report--attention.png", "report.html"]
    picture = client.get("/files/tiny/report--attention.png")
    assert (picture.data, picture.mimetype) == (b"\x89PNG", "image/png")
    page = client.get("/files/tiny/report.html")
    assert "sandbox" in page.headers["Content-Security-Policy"]
    assert "script" not in page.headers["Content-Security-Policy"]
    for name in ("config.json", "report--secret.txt", "report--link.png", "..%2f..%2felsewhere.png", "%00"):
        assert client.get(f"/files/tiny/{name}").status_code == 404


def test_people_who_talk_at_once_get_their_own_replies(shared_client: FlaskClient, shared_results: Path) -> None:
    bot = Chatbot.load(Run(shared_results / "tiny"))
    questions = [
        f"{one} {two} the {thing} ?" for one in ("i", "you") for two in ("see", "like") for thing in ("tree1", "song2")
    ]
    expected = {question: bot.reply(question) for question in questions}
    found: dict[str, Any] = {}

    def person(question: str) -> None:
        found[question] = say(shared_client.application.test_client(), text=question).get_json()

    threads = [threading.Thread(target=person, args=(question,)) for question in questions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for question in questions:
        assert found[question]["reply"] == expected[question].text
        assert found[question]["source_words"] == expected[question].source_words


def test_a_reply_that_takes_too_long(make_client: Callable[..., FlaskClient], monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()
    load = Chatbot.load

    def slowly(*arguments: Any) -> Chatbot:
        done.wait(60)
        return load(*arguments)

    monkeypatch.setattr("webui.models.Chatbot.load", slowly)
    client = make_client(limits=Limits(patience=0.05))
    response = say(client)
    done.set()
    complaint(response, 503)
    assert int(response.headers["Retry-After"]) > 0


def test_a_bug_is_told_without_its_traceback(make_client: Callable[..., FlaskClient], monkeypatch: Any) -> None:
    monkeypatch.setattr("webui.api.describe", lambda *_: 1 / 0)
    assert "zero" not in complaint(say(make_client()), 500)


def test_health(shared_client: FlaskClient) -> None:
    assert shared_client.get("/healthz").get_json()["status"] == "ok"
