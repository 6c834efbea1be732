"""Blind evaluations over HTTP: what a judge sees, what a vote reveals, and what is on the disk."""

import json
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.config import Decoding
from seq2seq_chat.runs.run import Run
from tests.conftest import edit_config, limited_file_size
from tests.webui.conftest import error_of
from webui.evaluation_api import EvaluationResults

pytestmark = pytest.mark.usefixtures("tiny_run", "unoptimized_graphs")

PROMPTS = ["you see the tree1 ?", "i like the song3 ?", "they know the house2 ?", "we want the book9 ?"]
COLUMNS = [
    {"run": "tiny", "snapshot": "10"},
    {"run": "tiny", "decoding": {"method": "sample", "temperature": 4.0, "seed": 5}},
]


@pytest.fixture
def name(client: FlaskClient) -> str:
    """An evaluation of an early snapshot, and of the newest weights at a high temperature."""
    created = client.post("/api/evaluations", json={"name": "test", "columns": COLUMNS, "prompts": PROMPTS})
    assert created.status_code == 200, created.text
    body = created.get_json()
    assert body == {"name": body["name"], "columns": 2, "prompts": 4, "items": 4, "votes": 0, "judges": 0}
    return str(body["name"])


def next_pair(client: FlaskClient, name: str, judge: str = "anna") -> Any:
    response = client.post(f"/api/evaluations/{name}/pair", json={"judge": judge})
    assert response.status_code == 200, response.text
    return response.get_json()


def vote(client: FlaskClient, name: str, item: int, choice: str, judge: str = "anna") -> Any:
    return client.post(f"/api/evaluations/{name}/votes", json={"judge": judge, "item": item, "choice": choice})


def listed(client: FlaskClient, name: str) -> Any:
    return client.get(f"/api/evaluations/{name}/votes").get_json()["votes"]


@pytest.mark.slow
def test_a_judge_votes_until_nothing_is_left(client: FlaskClient, name: str, results: Path) -> None:
    bot, early = Chatbot.load(Run(results / "tiny")), Chatbot.load(Run(results / "tiny"), "10")
    hot = Decoding(method="sample", temperature=4.0, seed=5)
    shown = set()
    while (pair := next_pair(client, name))["item"] is not None:
        assert set(pair) == {"item", "prompt", "left", "right", "voted", "last", "items"}
        assert "tiny" not in json.dumps(pair)
        assert next_pair(client, name) == pair  # until there is a vote
        revealed = vote(client, name, pair["item"], "left").get_json()
        systems = {revealed[side]["step"]: (revealed[side], pair[side]) for side in ("left", "right")}
        assert systems[10][0] == {"run": "tiny", "step": 10, "decoding": "greedy"}
        assert systems[20][0]["decoding"] == "sample, temperature 4.0, seed 5"
        assert systems[10][1] == early.reply(pair["prompt"], Decoding()).text
        assert systems[20][1] == bot.replies([pair["prompt"]], hot)[0].text
        shown.add(pair["prompt"])
    assert shown == set(PROMPTS)
    assert pair["voted"] == pair["items"] == 4
    results = client.get(f"/api/evaluations/{name}").get_json()
    assert EvaluationResults.model_validate(results).model_dump() == results
    statistics = results["statistics"]
    assert (statistics["votes"], statistics["judges"], statistics["left"]["share"]) == (4, {"anna": 4}, 1.0)
    (pair_result,) = statistics["pairs"]
    assert pair_result["wins"] + pair_result["losses"] == 4
    assert next_pair(client, name, "ben")["voted"] == 0


def test_repeated_votes(client: FlaskClient, name: str, results: Path) -> None:
    item = next_pair(client, name)["item"]
    revealed = vote(client, name, item, "left").get_json()
    assert vote(client, name, item, "left").get_json() == revealed  # sent again after a lost response
    assert "already voted" in error_of(vote(client, name, item, "right"), 409)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: vote(client, name, item, "both_good", "ben"), range(16)))
    (file,) = (results / "votes").glob("*/votes.jsonl")
    assert len(file.read_text(encoding="utf-8").splitlines()) == 2
    assert vote(client, name, item, "left", " ben ").status_code == 409  # the same judge


def test_the_last_vote_is_taken_back(client: FlaskClient, name: str, results: Path) -> None:
    def undo(item: int) -> Any:
        return client.post(f"/api/evaluations/{name}/undo", json={"judge": "anna", "item": item})

    first = next_pair(client, name)["item"]
    vote(client, name, first, "left")
    pair = next_pair(client, name)
    second = pair["item"]
    assert pair["last"] == first
    vote(client, name, second, "left")
    vote(client, name, second, "both_bad", "ben")
    assert "voted on other replies since" in error_of(undo(first), 409)
    for _ in range(2):  # sent again after a lost response
        assert undo(second).get_json()["votes"] == 2
    assert [(one["judge"], one["choice"]) for one in listed(client, name)] == [("anna", "left"), ("ben", "both_bad")]
    assert client.get(f"/api/evaluations/{name}").get_json()["statistics"]["judges"] == {"anna": 1, "ben": 1}
    assert next_pair(client, name)["item"] == second
    assert vote(client, name, second, "right").status_code == 200
    assert [one["choice"] for one in listed(client, name)] == ["left", "both_bad", "right"]
    assert len((results / "votes" / name / "votes.jsonl").read_text(encoding="utf-8").splitlines()) == 5


def test_invalid_votes(client: FlaskClient, name: str) -> None:
    assert "not been shown" in error_of(vote(client, name, 0, "left"), 400)
    next_pair(client, name)
    assert "less than 4" in error_of(vote(client, name, 4, "left"), 400)
    assert "choice" in error_of(vote(client, name, 0, "up"), 400)
    assert "judge" in error_of(vote(client, name, 0, "left", "  "), 400)
    assert "no such evaluation" in error_of(vote(client, "tiny", 0, "left"), 404)
    assert "no such evaluation" in error_of(client.get("/api/evaluations/other"), 404)


def test_invalid_evaluations(client: FlaskClient) -> None:
    def error(columns: Any, prompts: Any = ("hello",), status: int = 400) -> str:
        return error_of(client.post("/api/evaluations", json={"columns": columns, "prompts": prompts}), status)

    assert "columns" in error(COLUMNS[:1])
    assert "equal" in error([{"run": "tiny"}, {"run": "tin", "decoding": {"method": "greedy"}}])
    assert "no snapshot 'x'" in error([*COLUMNS, {"run": "tiny", "snapshot": "x"}])
    assert "no run 'x'" in error([*COLUMNS, {"run": "x"}], status=404)
    assert "prompts" in error(COLUMNS, [])
    assert "empty" in error(COLUMNS, ["a", " "])
    assert "10,000" in error(COLUMNS, ["a" * 10_001], 413)
    assert "width" in error([*COLUMNS, {"run": "tiny", "decoding": {"method": "beam", "beam_width": 0}}])


def test_voting_works_without_the_packages_of_statistics(
    client: FlaskClient, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "choix", None)  # cannot be imported
    assert vote(client, name, next_pair(client, name)["item"], "left").status_code == 200
    assert "needs the package choix" in error_of(client.get(f"/api/evaluations/{name}"), 503)


def test_equal_replies_are_left_out(client: FlaskClient) -> None:
    columns = [{"run": "tiny"}, {"run": "tiny", "snapshot": "20"}]  # the same weights
    created = client.post("/api/evaluations", json={"columns": columns, "prompts": PROMPTS}).get_json()
    assert next_pair(client, created["name"])["item"] is None


def test_damaged_evaluations_are_listed_by_name(client: FlaskClient, name: str, results: Path) -> None:
    (results / "votes" / "damaged").mkdir()
    (results / "votes" / "damaged" / "evaluation.json").write_text("{", encoding="utf-8")
    answer = client.get("/api/evaluations").get_json()
    assert ([one["name"] for one in answer["evaluations"]], answer["damaged"]) == ([name], ["damaged"])
    assert "damaged" in error_of(client.get("/api/evaluations/damaged"), 400)


def test_an_evaluation_is_deleted_completely_or_not_at_all(
    client: FlaskClient, name: str, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, folder = f"/api/evaluations/{name}", results / "votes"
    error_of(client.delete(address, headers={"Origin": "http://evil.example"}), 403)
    vote(client, name, next_pair(client, name)["item"], "left")
    files = sorted(file.name for file in (folder / name).iterdir())
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", lambda *_: os.open("/missing", os.O_RDONLY))
        assert "could not be written" in error_of(client.delete(address), 400)
        assert sorted(file.name for file in (folder / name).iterdir()) == files
        patch.undo()
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)  # as if the process were killed before it
        assert client.delete(address).get_json() == {"evaluations": [], "damaged": []}
    error_of(client.delete(address), 404)
    other = client.post("/api/evaluations", json={"columns": COLUMNS, "prompts": PROMPTS}).get_json()["name"]
    assert client.delete(f"/api/evaluations/{other}").status_code == 200
    assert list(folder.iterdir()) == []


def test_prompts_of_the_validation_corpus(client: FlaskClient, corpora: Path) -> None:
    lines = (corpora / "validation.txt").read_text(encoding="utf-8").splitlines()
    questions = [line for line in lines if line.endswith("?")]
    prompts = client.get("/api/runs/tiny/prompts?count=3").get_json()["prompts"]
    assert len(prompts) == 3
    assert [questions.index(prompt) for prompt in prompts] == [0, 3, 6]
    assert client.get("/api/runs/tiny/prompts").get_json()["prompts"] == list(dict.fromkeys(questions))
    for count in ("0", "null", "-1", "1e2", "1001", "5&count=6"):
        assert "count" in error_of(client.get(f"/api/runs/tiny/prompts?count={count}"), 400)


def test_a_run_without_a_corpus_has_no_prompts(client: FlaskClient, results: Path) -> None:
    edit_config(results / "tiny", "data", validation=None)
    assert "neither a test nor a validation corpus" in error_of(client.get("/api/runs/tiny/prompts"), 404)


def test_a_full_disk_is_not_the_fault_of_the_client(client: FlaskClient, name: str, results: Path) -> None:
    item = next_pair(client, name)["item"]
    with limited_file_size(10):
        response = vote(client, name, item, "left")
        created = client.post("/api/evaluations", json={"name": "b", "columns": COLUMNS, "prompts": PROMPTS})
    message = error_of(response, 507)
    assert "disk is full" in message
    assert str(results) not in message
    error_of(created, 507)
    assert vote(client, name, item, "left").status_code == 200
