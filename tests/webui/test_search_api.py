"""The HTTP interface of a search that is watched: its lines, its result, forced words, limits, and stopping."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flask.testing import FlaskClient

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.config import Decoding
from seq2seq_chat.export.onnx import export_onnx
from seq2seq_chat.runs.run import Run
from tests.webui.conftest import MakeClient, error_of
from webui.schemas import ChatReply
from webui.search_api import SearchEnd, SearchStart, SearchStepLine

pytestmark = pytest.mark.usefixtures("unoptimized_graphs")

QUESTION = "You see the tree1, zebra?"
BEAM = {"beam_width": 4, "n_best": 3}
TIMEOUT = 120.0


def post(client: FlaskClient, **body: Any) -> Any:
    return client.post("/api/search", json={"run": "tiny", "text": QUESTION, "decoding": BEAM} | body)


def lines_of(response: Any) -> tuple[SearchStart, list[SearchStepLine], SearchEnd]:
    assert response.status_code == 200, response.text
    assert response.mimetype == "application/x-ndjson"
    start, *steps, end = map(json.loads, response.text.splitlines())
    return SearchStart(**start), [SearchStepLine(**step) for step in steps], SearchEnd(**end)


def words_of(steps: list[SearchStepLine]) -> dict[int, list[str]]:
    """The words of each hypothesis that was kept, by its number."""
    words: dict[int, list[str]] = {0: []}
    for step in steps:
        for expansion in step.expansions:
            for candidate in expansion.candidates:
                assert (candidate.node is not None) == (candidate.fate == "kept")
                if candidate.node is not None:
                    words[candidate.node] = [*words[expansion.node], candidate.word]
    return words


@pytest.mark.parametrize("settings", [{}, {"length_penalty": 1.0, "no_repeat_ngram_size": 2, "min_length": 3}], ids=str)
def test_the_result_is_the_reply_of_a_chat(shared_client: FlaskClient, settings: dict[str, Any]) -> None:
    decoding = BEAM | settings
    body = {"run": "tiny", "text": QUESTION, "decoding": decoding | {"method": "beam"}}
    reply = ChatReply(**shared_client.post("/api/chat", json=body).get_json())
    start, steps, end = lines_of(post(shared_client, decoding=decoding))
    assert start.source_words == reply.source_words
    assert start.unknown_words == reply.unknown_words == ["zebra"]
    assert (start.beam_width, start.n_best, start.step) == (4, 3, reply.step)
    best = end.ranking[:3]
    assert [one.text for one in best] == [one.text for one in reply.alternatives]
    assert [one.score for one in best] == pytest.approx([one.score for one in reply.alternatives], abs=1e-3)
    assert [one.rank for one in end.ranking] == sorted((one.rank for one in end.ranking), reverse=True)
    words = words_of(steps)
    assert [word for word in words[best[0].node] if word != "<eos>"] == reply.reply_words
    assert [one.node for one in end.ranking] == steps[-1].beam
    for one in end.ranking:
        assert one.rank == pytest.approx(one.score / one.divisor, abs=1e-3)
        count = len(words[one.node]) - one.ended
        assert one.divisor == pytest.approx(((5 + count) / 6) ** decoding.get("length_penalty", 0), abs=1e-4)


def test_probabilities_and_attention_are_those_of_the_model(shared_client: FlaskClient) -> None:
    """A score is the sum of the logarithms along the tree; the attention along the best reply is that of a chat."""
    body = {"run": "tiny", "text": QUESTION, "decoding": BEAM | {"method": "beam"}}
    reply = shared_client.post("/api/chat", json=body).get_json()
    _, steps, end = lines_of(post(shared_client))
    scores: dict[int, float] = {0: 0.0}
    attention: dict[int, list[list[float]]] = {0: []}
    for step in steps:
        assert sum(one.fate == "kept" for expansion in step.expansions for one in expansion.candidates) <= 4
        for expansion in step.expansions:
            probabilities = [one.probability for one in expansion.candidates]
            assert probabilities == sorted(probabilities, reverse=True)
            assert sum(probabilities) <= 1.001
            assert len(probabilities) >= 10
            assert sum(expansion.attention) == pytest.approx(1, abs=1e-3)
            for one in expansion.candidates:
                assert one.score == pytest.approx(scores[expansion.node] + math.log(one.probability), abs=2e-3)
                if one.node is not None:
                    scores[one.node] = one.score
                    attention[one.node] = [*attention[expansion.node], expansion.attention]
    best = attention[end.ranking[0].node]
    np.testing.assert_allclose(best[: len(reply["attention"])], reply["attention"], atol=1e-3)


def test_what_settings_forbid_is_named(shared_client: FlaskClient) -> None:
    decoding = {"beam_width": 4, "min_length": 8, "no_repeat_ngram_size": 1}
    _, steps, _ = lines_of(post(shared_client, decoding=decoding))
    candidates = [one for step in steps for expansion in step.expansions for one in expansion.candidates]
    assert all((one.setting is not None) == (one.fate == "forbidden") for one in candidates)
    assert {one.setting for one in candidates if one.word == "<eos>"} == {"min_length"}
    assert "no_repeat_ngram_size" in {one.setting for one in candidates}


def test_forced_words_start_every_hypothesis(shared_client: FlaskClient) -> None:
    _, steps, _ = lines_of(post(shared_client))
    second = next(one for one in steps[1].expansions[0].candidates if one.fate == "outranked")
    prefix = [*words_of(steps)[steps[1].expansions[0].node], second.word, "nonsense"]
    _, forced, end = lines_of(post(shared_client, prefix=prefix))
    words = words_of(forced)
    for one in end.ranking:
        assert words[one.node][:3] == [*prefix[:2], "<unknown>"]
    known = prefix[:2]
    _, of_text, end_of_text = lines_of(post(shared_client, prefix=" ".join(known)))
    assert words_of(of_text)[end_of_text.ranking[0].node][:2] == known
    (again,) = [one for one in forced[1].expansions[0].candidates if one.fate == "kept"]
    assert (again.word, again.score) == (second.word, pytest.approx(second.score, abs=1e-3))
    assert {one.fate for one in forced[1].expansions[0].candidates} == {"kept", "not_forced"}
    for known_prefix in (" ".join(known), known):  # the chat, too
        decoding = BEAM | {"method": "beam"}
        body = {"run": "tiny", "text": QUESTION, "prefix": known_prefix, "decoding": decoding}
        reply = shared_client.post("/api/chat", json=body).get_json()
        assert reply["reply"] == end_of_text.ranking[0].text
        events = shared_client.post("/api/chat/stream", json=body).text
        assert json.loads(events.partition("event: reply\ndata: ")[2])["alternatives"] == reply["alternatives"]
    _, ended, end = lines_of(post(shared_client, prefix=["<eos>"]))
    assert len(ended) == 1
    assert [(one.text, one.ended) for one in end.ranking] == [("", True)]


@pytest.mark.parametrize("step", [10, 20])
def test_a_text_without_tokens_and_the_weights_of_a_step(shared_client: FlaskClient, step: int) -> None:
    start, steps, end = lines_of(post(shared_client, text="¿ ≠", step=step))
    assert (start.step, start.source_words, steps, end.ranking) == (step, [], [], [])


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"run": "nobody"}, 404, "no run 'nobody'"),
        ({"snapshot": "9M"}, 404, "9M"),
        ({"step": 7}, 404, "run tiny has no weights of step 7 any more; its newest are of step 20"),
        ({"step": 20, "snapshot": "10"}, 404, "run tiny has no weights of step 20 any more; these are of step 10"),
        ({"text": "a" * 10_001}, 413, "10,000 characters"),
        ({"prefix": "nonsense"}, 400, "the prefix has nonsense, which the model cannot write"),
        ({"prefix": [3]}, 400, "prefix"),
        ({"decoding": {"method": "sample"}}, 400, "only beam search can be watched"),
        ({"decoding": {"beam_width": 101}}, 400, "at most 100"),
        ({"decoding": {"beam_width": 3, "n_best": 4}}, 400, "n_best"),
        ({"words": []}, 400, "words"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_errors(shared_client: FlaskClient, body: dict[str, Any], status: int, message: str) -> None:
    assert message in error_of(post(shared_client, **body), status)


def test_an_exported_model_is_a_finished_run(make_client: MakeClient, tiny_run: Path, tmp_path: Path) -> None:
    export_onnx(Run(tiny_run), tmp_path / "exported" / "tiny")
    (run,) = make_client(tmp_path / "exported").get("/api/runs").get_json()["runs"]
    step = Run(tiny_run).newest_step
    assert (run["state"], run["step"], run["newest_step"]) == ("finished", step, step)


def test_the_search_of_an_exported_model_is_that_of_its_run(
    shared_client: FlaskClient, make_client: MakeClient, tiny_run: Path, tmp_path: Path
) -> None:
    export_onnx(Run(tiny_run), tmp_path / "exported" / "tiny")
    _, _, expected = lines_of(post(shared_client))
    start, steps, found = lines_of(post(make_client(tmp_path / "exported")))
    assert (start.step, len(steps[0].expansions)) == (20, 1)
    assert [one.text for one in found.ranking] == [one.text for one in expected.ranking]
    assert [one.score for one in found.ranking] == pytest.approx([one.score for one in expected.ranking], abs=1e-3)


@pytest.mark.slow
def test_a_reversed_source_gets_its_attention_in_the_order_of_the_text(tiny_run: Path) -> None:
    """The same weights with data.reverse_input: the encoder's first step reads the last word."""
    bot = Chatbot.load(Run(tiny_run))
    bot.config = bot.config.model_copy(update={"data": bot.config.data.model_copy(update={"reverse_input": True})})
    decoding = Decoding(method="beam", beam_width=2)
    search = bot.watch(QUESTION, decoding)
    first = next(iter(search)).expansions[0]
    assert search.attention(first.attention) == pytest.approx(bot.reply(QUESTION, decoding).hypotheses[0].attention[0])
    assert search.attention(first.attention) == pytest.approx(first.attention[: len(search.source.tokens)][::-1])
