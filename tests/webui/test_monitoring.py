"""The metrics of a server, read by the parser of Prometheus' library, and its log of requests."""

import json
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from prometheus_client.parser import text_string_to_metric_families

from seq2seq_chat.system.errors import UserError
from tests.webui.conftest import MakeClient
from webui.monitoring import log_requests


def read(client: FlaskClient) -> dict[tuple[str, tuple[str, ...]], float]:
    """The values of all samples by names and labels."""
    response = client.get("/metrics")
    assert response.status_code == 200
    assert response.content_type.startswith("text/plain; version=")
    families = text_string_to_metric_families(response.text)
    return {(each.name, tuple(each.labels.values())): each.value for family in families for each in family.samples}


def test_requests_words_and_models_are_counted(tiny_run: Path, make_client: MakeClient) -> None:
    client = make_client(tiny_run.parent)
    before = read(client)
    assert before["seq2seq_chat_models", ()] == before["seq2seq_chat_words_total", ()] == 0
    body = {"run": tiny_run.name, "text": "you see the tree1 ?"}
    replies = [client.post("/api/chat", json=body).get_json() for _ in range(2)]
    client.post("/api/chat/stream", json=body).get_data()
    client.post("/api/chat", json=body | {"run": "missing"})
    after = read(client)
    counted = {labels[1:]: value for (name, labels), value in after.items() if name == "seq2seq_chat_requests_total"}
    assert counted == {
        ("/api/chat", "200"): 2,
        ("/api/chat", "404"): 1,
        ("/api/chat/stream", "200"): 1,
        ("/metrics", "200"): 1,
    }
    assert after["seq2seq_chat_words_total", ()] == 3 * len(replies[0]["reply_words"])
    assert after["seq2seq_chat_first_word_seconds_count", ()] == 3
    assert [after[f"seq2seq_chat_{name}", ()] for name in ("models", "queued", "running")] == [1, 0, 0]


def test_requests_are_logged_without_what_is_said(tiny_run: Path, make_client: MakeClient, tmp_path: Path) -> None:
    client, file = make_client(tiny_run.parent), tmp_path / "requests.jsonl"
    body = {"run": tiny_run.name, "text": "you see the secret ?"}
    with log_requests(client.application, file):
        client.post("/api/chat?q=secret", json=body)
        file.rename(tmp_path / "rotated.jsonl")
        client.get("/runs", headers={"Host": "elsewhere.example"})
    (chat,), (rejected,) = (
        [json.loads(line) for line in path.read_text().splitlines()] for path in (tmp_path / "rotated.jsonl", file)
    )
    assert list(chat) == ["time", "address", "method", "path", "status", "seconds"]
    assert [chat[key] for key in ("address", "method", "path", "status")] == ["127.0.0.1", "POST", "/api/chat", 200]
    assert (rejected["path"], rejected["status"]) == ("/runs", 403)
    with pytest.raises(UserError, match="Is a directory"), log_requests(client.application, tmp_path):
        pass
