"""Chat completions in OpenAI's protocol, as its documentation describes requests, answers and chunks."""

import json
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from seq2seq_chat.chat.chatbot import Chatbot, Reply
from seq2seq_chat.config import Decoding
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.text.vocabulary import TURN
from tests.random_runs import make_codec, random_run, small_config
from tests.webui.conftest import MakeClient, Serve
from webui import model_worker
from webui.model_pool import ModelPool
from webui.model_worker import ReplyStream, ServerBusy

pytestmark = pytest.mark.usefixtures("tiny_run", "unoptimized_graphs")

QUESTION = "you see the tree1 ?"
SAMPLED = {"temperature": 5.0, "seed": 3}


def complete(client: FlaskClient, text: str = QUESTION, **more: Any) -> Any:
    body = {"model": "tiny", "messages": [{"role": "user", "content": text}]} | more
    return client.post("/v1/chat/completions", json=body)


def contents(response: Any) -> list[str]:
    assert response.status_code == 200, response.text
    return [choice["message"]["content"] for choice in response.get_json()["choices"]]


def chunks(response: Any) -> list[Any]:
    """The chunks of a stream, which [DONE] ends."""
    assert response.mimetype == "text/event-stream"
    *events, done, rest = response.text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    return [json.loads(event.removeprefix("data: ")) for event in events]


def streamed(response: Any) -> str:
    return "".join(choice["delta"].get("content", "") for chunk in chunks(response) for choice in chunk["choices"])


def sample(chatbot: Chatbot, seed: int) -> Reply:
    return chatbot.replies([QUESTION], Decoding(method="sample", temperature=5.0), seeds=[seed])[0]


def test_a_completion_is_the_reply_of_the_run(shared_client: FlaskClient, chatbot: Chatbot) -> None:
    response = complete(shared_client)
    body, reply = response.get_json(), chatbot.reply(QUESTION)
    read, written = len(reply.source_words), len(reply.hypotheses[0].words)
    assert body.pop("id").startswith("chatcmpl-") and body.pop("created") > 1e9
    assert body == {
        "object": "chat.completion",
        "model": "tiny",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": reply.text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written},
    }
    assert "X-Ignored-Parameters" not in response.headers
    parts = [{"type": "text", "text": "you see"}, {"type": "text", "text": "the tree1 ?"}]
    assert contents(complete(shared_client, messages=[{"role": "user", "content": parts}])) == [reply.text]


def test_sampling_takes_temperature_seed_and_n(shared_client: FlaskClient, chatbot: Chatbot) -> None:
    expected = [sample(chatbot, seed).text for seed in (3, 4, 5)]
    assert contents(complete(shared_client, **SAMPLED, n=3)) == expected
    assert contents(complete(shared_client, temperature=0)) == [chatbot.reply(QUESTION).text]
    likely = Decoding(method="sample", top_p=0.01)
    assert contents(complete(shared_client, top_p=0.01)) == [chatbot.reply(QUESTION, likely).text]


def test_a_reply_ends_after_max_tokens_and_before_stop(shared_client: FlaskClient, chatbot: Chatbot) -> None:
    reply = sample(chatbot, 3)
    words = reply.hypotheses[0].words
    assert len(words) > 3
    expected = chatbot.codecs.target.text(words[:2])
    for limit in ({"max_tokens": 2}, {"max_completion_tokens": 2}):
        body = complete(shared_client, **SAMPLED, **limit).get_json()
        (choice,) = body["choices"]
        assert body["usage"]["completion_tokens"] == 2
        assert (choice["message"]["content"], choice["finish_reason"]) == (expected, "length")
        assert streamed(complete(shared_client, **SAMPLED, **limit, stream=True)) == expected
    for stop in (reply.text[6:9], ["\n", reply.text[6:9]], [reply.text[6], reply.text[4:9]]):  # the last two overlap
        cut = reply.text[: min(reply.text.find(one) % 1000 for one in ([stop] if isinstance(stop, str) else stop))]
        assert contents(complete(shared_client, **SAMPLED, stop=stop)) == [cut]
        assert streamed(complete(shared_client, **SAMPLED, stop=stop, stream=True)) == cut


def test_a_stream_has_the_same_text_in_chunks(
    shared_client: FlaskClient, chatbot: Chatbot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_worker, "SECONDS_BETWEEN_TEXTS", 0.0)
    found = chunks(complete(shared_client, **SAMPLED, stream=True, n=2, stream_options={"include_usage": True}))
    about = {(chunk["object"], chunk["model"], chunk["id"]) for chunk in found}
    assert about == {("chat.completion.chunk", "tiny", found[0]["id"])}
    usage = {"prompt_tokens", "completion_tokens", "total_tokens"}
    assert (found[-1]["choices"], set(found[-1]["usage"])) == ([], usage)
    for index in (0, 1):
        choices = [choice for chunk in found for choice in chunk["choices"] if choice["index"] == index]
        assert choices[0]["delta"] == {"role": "assistant", "content": ""}
        reason = "stop" if sample(chatbot, 3 + index).hypotheses[0].ended else "length"
        assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + [reason]
        texts = [choice["delta"].get("content", "") for choice in choices]
        assert "".join(texts) == sample(chatbot, 3 + index).text
        assert sum(map(bool, texts)) > 2  # word by word
    beam = chunks(complete(shared_client, stream=True))  # the beginning that all hypotheses share is sent at once
    texts = [chunk["choices"][0]["delta"].get("content", "") for chunk in beam]
    assert "".join(texts) == chatbot.reply(QUESTION).text
    assert sum(map(bool, texts)) > 1


def test_no_choice_is_streamed_if_another_cannot_be_queued(
    shared_client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams: list[ReplyStream] = []

    def stream(*_: Any) -> ReplyStream:
        if len(streams) == 2:
            raise ServerBusy("busy")
        streams.append(ReplyStream())
        return streams[-1]

    monkeypatch.setattr(ModelPool, "stream", stream)
    assert complete(shared_client, **SAMPLED, stream=True, n=3).status_code == 503
    assert [one.is_stopped for one in streams] == [True, True]


def test_earlier_messages_are_the_history(make_client: MakeClient, tmp_path: Path) -> None:
    codecs = Codecs.shared(make_codec("english", ["you", "see", "me", TURN]))
    random_run(tmp_path / "results", small_config("data.context_turns=3"), codecs)
    client = make_client(tmp_path / "results")
    said = [("system", "be nice"), ("user", "me"), ("assistant", "see"), ("user", "you")]
    messages = [{"role": role, "content": text} for role, text in said]
    messages[2:2] = [{"role": "assistant", "content": None}, {"role": "assistant", "tool_calls": []}]  # say nothing
    response = complete(client, model="latest", messages=messages)
    body = {"run": "latest", "text": "you", "history": ["me", "see"]}
    expected = client.post("/api/chat", json=body).get_json()
    assert contents(response) == [expected["reply"]]
    assert response.get_json()["usage"]["prompt_tokens"] == len(expected["source_words"]) == 5
    assert response.headers["X-Ignored-Parameters"] == "messages.system"


def test_a_model_of_single_turns_ignores_earlier_messages(shared_client: FlaskClient, chatbot: Chatbot) -> None:
    earlier = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    response = complete(shared_client, messages=[*earlier, {"role": "user", "content": QUESTION}])
    assert contents(response) == [chatbot.reply(QUESTION).text]
    assert response.headers["X-Ignored-Parameters"] == "messages.history"


def test_other_parameters_are_ignored_and_named(shared_client: FlaskClient) -> None:
    more = {"presence_penalty": 0.5, "tools": [], "new\r\nline": 1}
    assert complete(shared_client, **more).headers["X-Ignored-Parameters"] == "presence_penalty, tools"


def test_models_are_runs_and_their_snapshots(shared_client: FlaskClient) -> None:
    body = shared_client.get("/v1/models").get_json()
    assert body["object"] == "list"
    names = [model["id"] for model in body["data"]]
    assert names == [f"{run}{end}" for run in ("tiny", "other") for end in ("", ":best", ":10", ":20")]
    assert {(model["object"], model["owned_by"]) for model in body["data"]} == {("model", "seq2seq-chat")}
    for model in body["data"]:
        assert shared_client.get(f"/v1/models/{model['id']}").get_json() == model
    assert shared_client.get("/v1/models/latest").get_json()["id"] == "latest"
    early = shared_client.post("/api/chat", json={"run": "tiny", "text": QUESTION, "snapshot": "10"}).get_json()
    assert contents(complete(shared_client, model="tiny:10")) == [early["reply"]]


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"model": "missing"}, 404, "no run 'missing'"),
        ({"model": "tiny:9M"}, 404, "9M"),
        ({"messages": []}, 400, "messages: must have a length of at least 1, not 0."),
        ({"messages": [{"role": "assistant", "content": "hello"}]}, 400, "must have the role user"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "type 'image_url'"),
        ({"messages": [{"role": "user", "content": "a" * 10_001}]}, 413, "10,000 characters"),
        ({"temperature": -1}, 400, "temperature"),
        ({"n": 33}, 400, "n"),
        ({"stream": "yes please"}, 400, "stream"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_errors_are_objects(shared_client: FlaskClient, body: dict[str, Any], status: int, message: str) -> None:
    response = complete(shared_client, **body)
    error = response.get_json()["error"]
    assert (response.status_code, set(error)) == (status, {"message", "type", "param", "code"})
    assert message in error["message"]
    assert (error["param"] or "").partition(".")[0] == ("".join(body) if status == 400 else "")
    assert error["code"] == ("model_not_found" if status == 404 else None)
    if status == 404:
        assert shared_client.get(f"/v1/models/{body['model']}").get_json() == {"error": error}


def test_the_token_is_the_key(make_client: MakeClient) -> None:
    client = make_client(token="open-sesame")
    for response in (complete(client), client.get("/v1/models")):
        assert response.status_code == 401
        assert response.get_json()["error"]["type"] == "authentication_error"
    headers = {"Authorization": "Bearer open-sesame"}
    assert client.get("/v1/models", headers=headers).status_code == 200
    assert client.get("/v1/nothing", headers=headers).get_json()["error"]["type"] == "not_found_error"


def test_the_client_of_openai(serve: Serve, shared_results: Path, chatbot: Chatbot) -> None:
    openai = pytest.importorskip("openai", reason="the client is tried where it is installed")
    messages = [{"role": "user", "content": QUESTION}]
    with serve(shared_results, token="key") as address, openai.OpenAI(base_url=f"{address}/v1", api_key="key") as api:
        assert api.models.retrieve("tiny:10") in [*api.models.list()]
        answer = api.chat.completions.create(model="tiny", messages=messages)
        assert answer.choices[0].message.content == chatbot.reply(QUESTION).text
        stream = api.chat.completions.create(model="tiny", messages=messages, stream=True, **SAMPLED)
        assert "".join(part.choices[0].delta.content or "" for part in stream) == sample(chatbot, 3).text
        with pytest.raises(openai.NotFoundError, match="no run"):
            api.chat.completions.create(model="missing", messages=messages)
