"""The HTTP API of language models: texts, their probabilities, errors, and stopping."""

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import tensorflow as tf
from flask.testing import FlaskClient

from seq2seq_chat.chat.generator import Alternative, GeneratedToken, Generator
from seq2seq_chat.config import Decoding
from seq2seq_chat.runs.run import Run, RunError
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.hardware import TENSORFLOW
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS
from tests.webui.conftest import MakeClient, Serve, error_of
from webui import model_pool
from webui.app import close_app, create_app
from webui.limits import Limits

TEXT = "the cat sat on a mat.\n"
PROMPT = "the cat"
LENGTH = 70  # more than two blocks
TIMEOUT = 120.0


@pytest.fixture(scope="module")
def results(writers: Path) -> Path:
    return writers


@pytest.fixture(scope="module")
def client(results: Path) -> Iterator[FlaskClient]:
    app = create_app(results, Limits())
    yield app.test_client()
    close_app(app)


@pytest.fixture(scope="module")
def generator(results: Path) -> Generator:
    return Generator.load(Run(results / "writer"), engine=TENSORFLOW)


def write(client: FlaskClient, **body: Any) -> Any:
    return client.post("/api/generate", json={"run": "writer", "prompt": PROMPT, "length": LENGTH, "seed": 5} | body)


def lines_of(response: Any) -> list[Any]:
    assert response.status_code == 200, response.text
    assert response.mimetype == "application/x-ndjson"
    return [json.loads(line) for line in response.text.splitlines()]


def tokens_of(response: Any) -> list[Any]:
    *blocks, end = lines_of(response)
    assert set(end) == {"seed", "step", "warnings", "seconds"}
    return [token for block in blocks for token in block["tokens"]]


def text_of(response: Any) -> str:
    return "".join(token["text"] for token in tokens_of(response))


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.5}, {"top_k": 2}, {"top_p": 0.6}], ids=str)
def test_the_text_is_that_of_the_generator(client: FlaskClient, generator: Generator, settings: dict[str, Any]) -> None:
    expected = "".join(generator.stream(PROMPT, LENGTH, Decoding(method="sample", **settings), 5))
    assert len(expected) == LENGTH
    assert text_of(write(client, **settings)) == expected


def test_snapshots_write_different_texts(client: FlaskClient, results: Path) -> None:
    first, last = Run(results / "writer").snapshots()
    assert text_of(write(client, snapshot=first)) != text_of(write(client, snapshot=last))
    assert text_of(write(client, snapshot=last)) == text_of(write(client)) == text_of(write(client, snapshot="latest"))


def test_the_end_names_the_step_which_gives_the_text_again(client: FlaskClient, results: Path) -> None:
    early = write(client, snapshot=Run(results / "writer").snapshots()[0])
    assert (lines_of(early)[-1]["step"], lines_of(write(client))[-1]["step"]) == (3, 7)
    assert text_of(write(client, step=3)) == text_of(early)
    assert "no weights of step 5" in error_of(write(client, step=5), 404)


def test_tokens_of_the_prompt_that_the_model_does_not_know_are_named(client: FlaskClient) -> None:
    assert lines_of(write(client))[-1]["warnings"] == []
    (warning,) = lines_of(write(client, prompt="the Ω∀ cat"))[-1]["warnings"]
    assert warning == "the prompt has tokens that the model does not know: Ω, ∀"


def test_without_a_seed_texts_differ_and_the_seed_repeats_them(client: FlaskClient) -> None:
    responses = [write(client, seed=None, temperature=5) for _ in range(2)]  # so that no token is very probable
    first, second = map(text_of, responses)
    assert first != second
    seed = lines_of(responses[0])[-1]["seed"]
    assert text_of(write(client, seed=seed, temperature=5)) == first


def test_probabilities_are_those_of_the_model(client: FlaskClient, generator: Generator) -> None:
    """Step by step with the model's own step function, and softmax by NumPy; temperature and top_k do not matter."""
    tokens = tokens_of(write(client, temperature=0.7, top_k=4))
    vocabulary = generator.codec.vocabulary
    names = enumerate(vocabulary.tokens(range(len(vocabulary))))
    words = {index: {"<newline>": "\n", "<space>": " "}.get(name, name) for index, name in names}
    ids = {word: index for index, word in words.items()}
    states = generator.engine.model.start(1)
    text = PROMPT + "".join(token["text"] for token in tokens)
    for position, character in enumerate(text[:-1]):
        logits, states = generator.engine.model.step(tf.constant([ids[character]]), states)
        if position < len(PROMPT) - 1:
            continue
        token = tokens[position - len(PROMPT) + 1]
        allowed = np.exp(logits.numpy()[0].astype(float))
        allowed[: len(SPECIAL_WORDS)] = 0
        expected = allowed / allowed.sum()
        assert token["probability"] == pytest.approx(expected[ids[token["text"]]], abs=2e-4)
        best = np.argsort(-expected)[:5]
        assert [one["text"] for one in token["alternatives"]] == [words[index] for index in best]
        probabilities = [one["probability"] for one in token["alternatives"]]
        assert probabilities == pytest.approx(expected[best], abs=2e-4)
        assert sum(probabilities) <= 1.001


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"run": "nobody"}, 404, "no run 'nobody'"),
        ({"snapshot": "9M"}, 404, "9M"),
        ({"length": 0}, 400, "length"),
        ({"length": 5_001}, 413, "5,000 tokens"),
        ({"prompt": "a" * 10_001}, 413, "10,000 characters"),
        ({"prompt": None}, 400, "prompt"),
        ({"temperature": 0}, 400, "temperature"),
        ({"seed": 2**31}, 400, "seed"),
        ({"text": "hello"}, 400, "text"),
        ({"run": "tiny"}, 400, "its task is conversation; use /api/chat"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_errors(client: FlaskClient, body: dict[str, Any], status: int, message: str) -> None:
    assert message in error_of(write(client, **body), status)


def test_chat_with_a_language_model_is_an_error(client: FlaskClient) -> None:
    message = error_of(client.post("/api/chat", json={"run": "writer", "text": "hello"}), 400)
    assert message == "run writer is a language model and does not reply; choose another or /api/generate."


def test_unknown_and_empty_prompts_are_continued(client: FlaskClient) -> None:
    assert len(text_of(write(client, prompt=""))) == LENGTH
    assert len(text_of(write(client, prompt="Ω\ud800"))) == LENGTH


class FakeGenerator:
    """Writes "word " without end, a block for each release of ``may_write``; ``stopped`` is set when a text ends."""

    def __init__(self, blocks: int = 0, error: Exception | None = None) -> None:
        self.may_write, self.stopped, self.error = threading.Semaphore(blocks), threading.Event(), error
        self.step = 7

    def notes(self, prompt: str) -> list[str]:
        return []

    def explained_stream(self, *request: Any) -> Iterator[list[GeneratedToken]]:
        try:
            while True:
                assert self.may_write.acquire(timeout=TIMEOUT)
                yield [GeneratedToken("word ", 0.5, [Alternative("word", 0.5)])] * 100
                if self.error:
                    raise self.error
        finally:
            self.stopped.set()


@pytest.fixture
def fake_client(make_client: MakeClient, monkeypatch: pytest.MonkeyPatch) -> MakeClient:
    """``fake_client(load, max_queued=3)``: a client of an application whose models are what ``load`` returns."""

    def make(load: Callable[[], Any], **limits: int) -> FlaskClient:
        monkeypatch.setattr(model_pool, "load_model", lambda *_: load())
        return make_client(limits=Limits(**limits))

    return make


def test_closing_the_connection_stops_the_text(results: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text has no end, so the worker is free only if it stopped."""
    generator = FakeGenerator(blocks=1_000_000)
    monkeypatch.setattr(model_pool, "load_model", lambda *_: generator)
    with serve(results) as address:
        connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=TIMEOUT)
        body = json.dumps({"run": "writer", "prompt": "a"})
        connection.request("POST", "/api/generate", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        assert json.loads(response.readline())["tokens"][0]["text"] == "word "
        assert not generator.stopped.is_set()
        response.close()
        connection.close()
        assert generator.stopped.wait(TIMEOUT)


def test_texts_of_a_model_are_written_in_turns(fake_client: MakeClient) -> None:
    """A text without end does not keep others waiting."""
    client = fake_client(lambda: FakeGenerator(blocks=1_000_000))
    for response in [client.post("/api/generate", json={"run": "writer"}, buffered=False) for _ in range(2)]:
        assert "word " in next(response.iter_encoded()).decode()
        response.close()


@pytest.mark.parametrize("error", [UserError("damaged"), ValueError("a bug")], ids=repr)
def test_an_error_after_the_first_block_is_the_last_line(fake_client: MakeClient, error: Exception) -> None:
    block, last = lines_of(write(fake_client(lambda: FakeGenerator(2, error))))
    assert len(block["tokens"]) == 100
    assert last == {"error": "The model failed on this text."}


def test_a_model_that_cannot_be_loaded_is_503(fake_client: MakeClient) -> None:
    response = write(fake_client(Mock(side_effect=RunError("all weights are damaged"))))
    assert error_of(response, 503) == "all weights are damaged"
    assert int(response.headers["Retry-After"]) > 0


def test_texts_are_bounded(fake_client: MakeClient) -> None:
    generator = FakeGenerator(blocks=1)
    client = fake_client(lambda: generator, max_queued_total=1)
    first = client.post("/api/generate", json={"run": "writer"}, buffered=False)
    busy = write(client)
    error_of(busy, 503)
    assert int(busy.headers["Retry-After"]) > 0
    first.close()
    generator.may_write.release()  # what the worker was waiting for
    assert generator.stopped.wait(TIMEOUT)
