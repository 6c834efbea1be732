"""The HTTP API: replies, runs, and errors."""

import json
import shutil
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.config import Decoding
from seq2seq_chat.runs.run import Run
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.text.tokenizers.english import EnglishTokenizer
from seq2seq_chat.text.tokenizers.tokenizer import CharacterTokenizer
from seq2seq_chat.text.vocabulary import TURN
from tests.conftest import edit_checkpoints, edit_config
from tests.random_runs import make_codec, random_run, small_config
from tests.webui.conftest import MakeClient, error_of
from webui.app import close_app, create_app
from webui.limits import Limits
from webui.run_registry import strip_paths

pytestmark = pytest.mark.usefixtures("tiny_run", "unoptimized_graphs")

QUESTION = "You see the tree1, zebra?"
BEAM = {"method": "beam", "beam_width": 4, "n_best": 3}
FIELDS = {"reply", "alternatives", "unknown_words", "attention", "source_words", "reply_words", "seconds"}
ODD_TEXTS = [
    *("\ud800", "\udfff", "a\udc00\ud800b", "\x00", "\x1b[2J", "\ufeff", "\u202e\u2067", "👩\u200d👩\u200d👧"),
    *("e\u0301" * 50, "\u2028\u2029\x85", "\uffff\ufdd0", "<pad><eos>", "\U0010ffff"),
]


@pytest.fixture(scope="module")
def odd_client(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlaskClient]:
    """A client of the run ``tiny``, and of ``characters``, whose tokenizer loses nothing."""
    results = tmp_path_factory.mktemp("odd")
    shutil.copytree(tiny_run, results / "tiny")
    words = (["s", "e", "y", "o", "u", "<space>", "<U+0000>"], ["n", "<U+D800>", "<newline>"])
    codecs = Codecs(*(make_codec("character", side) for side in words))
    config = small_config("data.tokenizer=character", "data.target_vocabulary_size=7")
    random_run(results / "new", config, codecs).path.rename(results / "characters")
    app = create_app(results, Limits())
    yield app.test_client()
    close_app(app)


@pytest.fixture
def no_version_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for newer weights at every request."""
    monkeypatch.setattr("webui.model_pool.VERSION_TTL", -1.0)


def chat(client: FlaskClient, text: str | list[Any] = QUESTION, **more: Any) -> Any:
    return client.post("/api/chat", json={"run": "tiny", "text": text, **more})


def test_a_decoding_setting_without_effect_is_a_warning(shared_client: FlaskClient) -> None:
    setting = {"rerank_weight": 0.7}
    (warning,) = chat(shared_client, decoding={**BEAM, **setting}).get_json()["warnings"]
    assert warning == "decoding.rerank_weight has no effect, because decoding.rerank is none"
    reranked = chat(shared_client, decoding={**BEAM, **setting, "rerank": "anti_language_model"})
    assert reranked.get_json()["warnings"] == []


def test_reply_equals_that_of_the_chatbot(shared_client: FlaskClient, chatbot: Chatbot) -> None:
    expected = chatbot.reply(QUESTION, Decoding(method="beam", beam_width=4, n_best=3))
    response = chat(shared_client, decoding=BEAM)
    assert response.status_code == 200, response.text
    body = response.get_json()
    assert set(body) >= FIELDS
    assert body["reply"] == expected.text == body["alternatives"][0]["text"]
    assert [line["text"] for line in body["alternatives"]] == [h.text for h in expected.hypotheses]
    scores = [line["score"] for line in body["alternatives"]]
    assert scores == pytest.approx([h.score for h in expected.hypotheses], abs=1e-3)
    assert body["source_words"] == ["you", "see", "the", "tree1", ",", "zebra", "?"]
    assert body["unknown_words"] == ["zebra"]
    assert body["reply_words"] == expected.hypotheses[0].words
    assert len(body["attention"]) == len(body["reply_words"])
    for row in body["attention"]:
        assert len(row) == len(body["source_words"])
        assert sum(row) == pytest.approx(1, abs=0.01)
    assert 0 < body["seconds"] < 120
    assert (body["step"], body["warnings"]) == (20, [])


def test_default_decoding_is_that_of_the_run(shared_client: FlaskClient, chatbot: Chatbot) -> None:
    for more in ({}, {"decoding": {}}, {"snapshot": None}, {"snapshot": "latest"}, {"history": ["hello", "you too"]}):
        assert chat(shared_client, **more).get_json()["reply"] == chatbot.reply(QUESTION).text


def test_snapshots_have_their_own_weights(shared_client: FlaskClient) -> None:
    assert chat(shared_client, snapshot="10").get_json()["step"] == 10
    assert chat(shared_client, snapshot="best").get_json()["step"] == 20
    newest, older = (chat(shared_client, snapshot=name, decoding=BEAM).get_json() for name in (None, "10"))
    assert newest["alternatives"] != older["alternatives"]


def test_names_of_runs(client: FlaskClient, results: Path) -> None:
    newest = (results / "tiny").rename(results / "2026-05-04_17-03-22_tiny")
    for name in ("tint", "tins"):
        shutil.copytree(newest, results / name)
    for name in ("2026", "tiny", "latest"):
        assert client.get(f"/api/runs/{name}").get_json()["name"] == newest.name
        assert chat(client, run=name).get_json()["run"] == newest.name
    message = error_of(client.get("/api/runs/tin"), 400)
    assert message.startswith("'tin' is ambiguous: it matches 3 runs (")


@pytest.mark.parametrize("text", ["", " \n\t", "*** ---", "😀", "שלום", "\ufeff\u202e\x00"])
def test_unreadable_text_gets_an_empty_reply(shared_client: FlaskClient, text: str) -> None:
    body = chat(shared_client, text=text).get_json()
    assert (body["reply"], body["alternatives"], body["source_words"]) == ("", [], [])
    assert body["warnings"] == ["This model reads only the letters a to z, digits and . , ! ?"]
    *others, warning = chat(shared_client, text=f"Ich sehe den Baum! {text}").get_json()["warnings"]
    assert warning.startswith("the text has hardly any known words (100 % are not in the vocabulary)")
    assert others == (["the model cannot read some letters: שלום"] if text == "שלום" else [])


@pytest.mark.parametrize("text", ODD_TEXTS, ids=ascii)
@pytest.mark.parametrize("run", ["tiny", "characters"])
def test_odd_characters(odd_client: FlaskClient, run: str, text: str) -> None:
    """In the text, in the history, and as escapes in JSON that is otherwise ASCII."""
    text = f"see {text} you"
    response = chat(odd_client, run=run, text=text, history=[text, text], decoding={**BEAM, "min_length": 3})
    assert response.status_code == 200, response.text
    body = json.loads(response.get_data())
    json.dumps(body, ensure_ascii=False).encode()  # no surrogates, which strict programs refuse
    tokenizer = CharacterTokenizer() if run == "characters" else EnglishTokenizer()
    read = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert body["source_words"] == tokenizer.encode(read)[-8:]
    assert body["reply"]
    assert [len(row) for row in body["attention"]] == [len(body["source_words"])] * len(body["reply_words"])


@pytest.mark.parametrize(
    ("body", "message"),
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
        (b'{"run": "\\ud800", "text": "x"}', "run"),
        (b'{"run": "tiny", "text": "x", "snapshot": "\\ud800"}', "snapshot"),
        (b'{"run": "tiny", "text": "x", "snapshot": 10}', "snapshot"),
        (b'{"run": "tiny", "text": "x", "decoding": []}', "decoding"),
        (b'{"run": "tiny", "text": "x", "decoding": {"beam_with": 3}}', "beam_width"),
        (b'{"run": "tiny", "text": "x", "decoding": {"method": "\\ud800"}}', "method"),
        (b'{"run": "tiny", "text": "x", "decoding": {"\\u0000": 1}}', "decoding"),
        (b'{"run": "tiny", "text": "x", "decoding": {"beam_width": "3"}}', "beam_width"),
        (b'{"run": "tiny", "text": "x", "decoding": {"beam_width": 101}}', "at most 100"),
        (b'{"run": "tiny", "text": "x", "decoding": {"seed": %s}}' % (b"[" * 600 + b"]" * 600), "seed"),
        (b'{"run": "tiny", "text": "x", "txet": "y"}', "txet"),
    ],
)
def test_invalid_requests(shared_client: FlaskClient, body: bytes, message: str) -> None:
    response = shared_client.post("/api/chat", data=body, content_type="application/json")
    assert message in error_of(response, 400)


def test_other_content_types_are_rejected(shared_client: FlaskClient) -> None:
    body = json.dumps({"run": "tiny", "text": "x"})
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert "Content-Type" in error_of(shared_client.post("/api/chat", data=body, content_type=kind), 400)


HOSTILE_NAMES = [
    *("missing", "..", ".", "../results/tiny", "tiny/", "/etc", "ny", "TINY", "tiny\0", "", "~", "%2e%2e", "a" * 255),
    *("<script>alert(1)</script>", "\u202etiny", "tiny\n", "\ufeff"),
]


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=ascii)
def test_run_names_are_never_paths(shared_client: FlaskClient, shared_results: Path, name: str) -> None:
    message = error_of(shared_client.post("/api/chat", json={"run": name, "text": "x"}), 404)
    assert str(shared_results) not in message
    assert shared_client.post("/api/chat", json={"run": str(shared_results / "tiny"), "text": "x"}).status_code == 404


@pytest.mark.parametrize("name", ["missing", "..", "../../tiny/snapshots/10", "10/", "\0", ""], ids=ascii)
def test_missing_snapshots(shared_client: FlaskClient, name: str) -> None:
    assert "snapshot" in error_of(chat(shared_client, snapshot=name), 404)


@pytest.mark.parametrize(
    ("folder", "message", "shown"),
    [
        ("results", "{cwd}/results/tiny and results/tiny are in {cwd}/results.", "tiny and tiny are in results."),
        ("results", "{cwd}/results-2, {cwd}/results.old, other/results/tiny", None),
        (".", "{cwd}/tiny is damaged. Try 0.5.", "tiny is damaged. Try 0.5."),
        ("/", "Use /api/chat or 1/2.", None),
        ("s", "s/tiny is not results/tiny.", "tiny is not results/tiny."),
    ],
)
def test_only_the_paths_of_folders_are_removed_from_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, message: str, shown: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    message = message.format(cwd=tmp_path)
    assert strip_paths(message, Path(folder)) == (message if shown is None else shown)


def test_missing_runs_and_addresses(shared_client: FlaskClient) -> None:
    for path in ("/api/runs/missing", "/api/runs/..%2f..%2fetc", "/api/runs/%00", "/api/runs/%ff", "/api/nothing"):
        error_of(shared_client.get(path), 404)
    error_of(shared_client.get("/api/chat"), 405)
    error_of(shared_client.delete("/api/runs"), 405)


def test_limits(make_client: MakeClient, shared_client: FlaskClient) -> None:
    client = make_client(limits=Limits(max_text_length=100, max_body_bytes=2000))
    assert chat(client, text="a" * 100).status_code == 200
    assert "101" in error_of(chat(client, text="a" * 101), 413)
    error_of(chat(client, text="a" * 3000), 413)
    assert chat(shared_client, history=["you see " * 1250] * 100).status_code == 200
    error_of(chat(shared_client, history=["😀" * 2_500_000]), 413)


@pytest.mark.parametrize(
    ("history", "used"),
    [
        (["a", "b", "c"], 3),
        (["a", "b", "c", "d"], 3),
        (["a", "b" * 48, "c", "d"], 3),
        (["b" * 49, "c", "d"], 2),
        (["c", "d" * 51], 0),
        (["you see"] * 20_000, 3),
    ],
)
@pytest.mark.parametrize("turns", [1, 5])
def test_the_oldest_turns_of_a_long_history_are_left_out(
    make_client: MakeClient, monkeypatch: Any, tmp_path: Path, history: list[str], used: int, turns: int
) -> None:
    """A warning says so if the model would read them."""
    codecs = Codecs.shared(make_codec("english", ["you", "see", TURN]))
    random_run(tmp_path / "results", small_config(f"data.context_turns={turns}"), codecs)
    read: list[Sequence[str]] = []
    original = Chatbot.read
    monkeypatch.setattr(Chatbot, "read", lambda *args: read.append(args[2]) or original(*args))
    client = make_client(tmp_path / "results", limits=Limits(max_history=3, max_history_length=50))
    response = chat(client, run="latest", text="you see", history=history)
    assert response.status_code == 200, response.text
    assert read == [tuple(history[len(history) - used :])]
    message = f"the conversation is too long; only its last {used} turns were sent to the model"
    is_cut = turns > 1 and used < min(len(history), turns - 1)
    single = "history: ignored, as this model reads a single turn (data.context_turns)"
    assert response.get_json()["warnings"] == ([single] if turns == 1 else [message] * is_cut)


def test_a_sampled_reply_names_its_seed_which_gives_it_again(shared_client: FlaskClient) -> None:
    """The reply is the first sample, also where another one is more probable."""
    settings = {"method": "sample", "temperature": 5.0}
    first, other = (chat(shared_client, decoding=settings | {"n_best": 5}).get_json() for _ in range(2))
    assert first["seed"] != other["seed"]
    again = chat(shared_client, decoding=settings | {"seed": first["seed"]}).get_json()
    assert first["alternatives"][0]["text"] == first["reply"] == again["reply"]
    assert again["seed"] == first["seed"]
    several = [chat(shared_client, decoding=settings | {"n_best": 5, "seed": n}).get_json() for n in range(8)]
    scores = [[alternative["score"] for alternative in reply["alternatives"]] for reply in several]
    assert any(max(row) > row[0] for row in scores)
    assert chat(shared_client, decoding=BEAM).get_json()["seed"] is None


def test_several_texts_get_their_replies_in_order(client: FlaskClient, results: Path) -> None:
    """Those that arrive together are decoded together; one without a reply has an error of its own."""
    texts = ["you see the tree1 ?", "a" * 10_001, "", "i like the song3 ?", *map(str, range(6))]
    replies = chat(client, texts, decoding=BEAM).get_json()["replies"]
    bot = Chatbot.load(Run(results / "tiny"))
    expected = [reply.text for reply in bot.replies(texts, Decoding(method="beam", beam_width=4, n_best=3))]
    assert [one.get("reply", one.get("error")) for one in replies] == [
        expected[0],
        "A text may have at most 10,000 characters, not 10,001.",
        *expected[2:],
    ]
    assert replies[0]["alternatives"] == chat(client, texts[0], decoding=BEAM).get_json()["alternatives"]


def test_invalid_lists_of_texts(shared_client: FlaskClient) -> None:
    assert "text: may have at most 256 items, not 257." in error_of(chat(shared_client, ["x"] * 257), 400)
    assert "text" in error_of(chat(shared_client, []), 400)
    assert "text.1" in error_of(chat(shared_client, ["x", 5]), 400)
    assert "no run" in error_of(chat(shared_client, ["x"], run="missing"), 404)
    assert "snapshot" in error_of(chat(shared_client, ["x"], snapshot="9M"), 404)
    streamed = shared_client.post("/api/chat/stream", json={"run": "tiny", "text": ["x"]})
    assert "only one text" in error_of(streamed, 400)


@pytest.mark.slow
def test_a_reply_of_the_weights_of_a_step(client: FlaskClient) -> None:
    assert chat(client, step=20).get_json()["step"] == 20
    assert chat(client, step=10, snapshot="latest").get_json()["step"] == 10  # kept as a snapshot
    assert chat(client, step=15).get_json()["step"] == 15  # a checkpoint that is not the newest
    for snapshot, step in ((None, 16), ("best", 16), ("10", 20)):
        message = error_of(chat(client, step=step, snapshot=snapshot), 404)
        assert message.startswith(f"run tiny has no weights of step {step} any more")


@pytest.mark.usefixtures("no_version_cache")
def test_damaged_weights_are_reported_and_do_not_affect_other_runs(client: FlaskClient, results: Path) -> None:
    shutil.copytree(results / "tiny", results / "undamaged")
    newest = results / "tiny" / "checkpoints" / "0000000020.npz"
    content = newest.read_bytes()
    newest.write_bytes(content[:1000])
    (results / "tiny" / "snapshots" / "20" / "weights.npz").write_bytes(b"")
    body = chat(client).get_json()
    assert body["step"] == 15  # of the previous checkpoint
    assert len(body["warnings"]) == 2
    for warning in body["warnings"]:
        assert "damaged" in warning
        assert str(results) not in warning
    for path in (results / "tiny").rglob("*.npz"):
        path.write_bytes(b"not an archive")
    response = chat(client)
    message = error_of(response, 503)
    assert "damaged" in message and str(results) not in message
    assert int(response.headers["Retry-After"]) > 0
    assert chat(client, run="undamaged").get_json()["warnings"] == []
    newest.write_bytes(content)
    assert (chat(client).get_json()["step"], chat(client).get_json()["warnings"]) == (20, [])


def test_the_lexicon_of_a_run_is_missing(client: FlaskClient, results: Path) -> None:
    edit_config(results / "tiny", "decoding", allow_unknown=True, replace_unknown=True, lexicon="words.tsv")
    message = error_of(chat(client), 503)
    assert message.startswith("decoding.lexicon: tiny/lexicon.tsv does not exist")
    assert str(Path.cwd()) not in message
    assert chat(client, decoding={"replace_unknown": False}).status_code == 200


@pytest.mark.parametrize("address", ["/api/chat", "/api/search"])
def test_a_model_that_the_dynamic_decoder_does_not_support(client: FlaskClient, results: Path, address: str) -> None:
    edit_config(results / "tiny", "model", attention_query="previous")
    body = {"run": "tiny", "text": QUESTION, "decoding": {"unrolling": "dynamic"}}
    message = error_of(client.post(address, json=body), 400)
    assert message == "decoding.unrolling dynamic does not support model.attention_query previous; use built_in"


@pytest.mark.usefixtures("no_version_cache")
def test_a_translation_has_no_history(client: FlaskClient, results: Path) -> None:
    edit_config(results / "tiny", "data", train="x.tsv", validation=None, test=None, shared_vocabulary=True)
    edit_config(results / "tiny", "", task="translation")
    edit_checkpoints(results / "tiny", lambda metadata: metadata.pop("settings"))
    assert "history: a translation has no earlier turns" in error_of(chat(client, history=["hello"]), 400)
    assert chat(client, history=[]).status_code == 200


def test_damaged_configuration_and_vocabulary_are_reported(client: FlaskClient, results: Path) -> None:
    shutil.copytree(results / "tiny", results / "undamaged")
    edit_config(results / "tiny", "model", decoder_steps=9)
    message = error_of(chat(client), 503)
    assert message.startswith("tiny/config.json differs from the settings that 0000000020.npz was trained with: model")
    (results / "tiny" / "vocabulary.txt").write_text("no vocabulary", encoding="utf-8")
    assert str(results) not in error_of(chat(client), 503)
    (results / "tiny" / "config.json").write_text("{", encoding="utf-8")
    error_of(chat(client), 503)
    body = client.get("/api/runs/tiny").get_json()
    assert (body["state"], body["config"], body["decoding"]["defaults"]) == ("failed", None, {})
    assert str(results) not in body["reason"]
    assert chat(client, run="undamaged").status_code == 200


def test_a_deleted_run_disappears_and_never_becomes_one_with_a_longer_name(
    client: FlaskClient, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webui.run_registry.LISTING_TTL", 0.0)
    shutil.copytree(results / "tiny", results / "tiny-2")
    assert chat(client).get_json()["run"] == "tiny"
    shutil.rmtree(results / "tiny")
    assert "no run 'tiny'" in error_of(chat(client), 404)
    assert "no run 'tiny'" in error_of(client.get("/api/runs/tiny"), 404)
    assert chat(client, run="tin").get_json()["run"] == chat(client, run="latest").get_json()["run"] == "tiny-2"
    assert [run["name"] for run in client.get("/api/runs").get_json()["runs"]] == ["tiny-2"]


def test_a_run_names_the_step_of_its_newest_weights(client: FlaskClient, results: Path) -> None:
    run = results / "tiny"
    for hidden, newest in ((), 20), ((run / "checkpoints", run / "snapshots" / "20"), 10), ((run / "snapshots",), None):
        for folder in hidden:
            shutil.rmtree(folder)
        assert client.get("/api/runs").get_json()["runs"][0]["newest_step"] == newest
        assert client.get("/api/runs/tiny").get_json()["newest_step"] == newest
    assert "no checkpoint" in error_of(chat(client), 404)


def test_list_of_runs(client: FlaskClient, results: Path) -> None:
    (results / ".new-abc").mkdir()
    (results / "checks").mkdir()
    (line,) = client.get("/api/runs").get_json()["runs"]
    assert (line["name"], line["state"], line["step"], line["steps"]) == ("tiny", "finished", 20, 20)
    assert line["best_perplexity"] > 1
    assert line["best_step"] in (10, 20)


def test_empty_or_missing_results_folder(make_client: MakeClient, tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        client = make_client(folder)
        assert client.get("/api/runs").get_json() == {"runs": []}
        error_of(client.post("/api/chat", json={"run": "latest", "text": "x"}), 404)


def test_details_of_a_run(client: FlaskClient, results: Path) -> None:
    checks = results / "checks" / "2026-05-04_17-03-22_tiny"
    checks.mkdir(parents=True)
    check = {"check": "memory", "passed": True, "figure": "4 GB", "threshold": "5 GB", "detail": "", "seconds": 1}
    (checks / "checks.json").write_text(json.dumps({"passed": True, "checks": [check]}))
    body = client.get("/api/runs/tiny").get_json()
    assert body["config"] == json.loads((results / "tiny" / "config.json").read_text("utf-8"))
    assert body["snapshots"] == ["latest", "best", "10", "20"]
    assert {line["step"] for line in body["samples"]} == {10, 20}
    assert body["checks"]["passed"] is True
    assert body["checks"]["checks"][0]["check"] == "memory"
    assert body["files"] == []


def test_long_curves_are_downsampled(client: FlaskClient, results: Path) -> None:
    lines = ({"step": step, "kind": "train", "loss": float(step % 2)} for step in range(1, 5001))
    (results / "tiny" / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    curve = client.get("/api/runs/tiny").get_json()["curves"]["train"]
    assert 200 < len(curve["loss"]) <= 400
    assert curve["step"][-1] == 5000
    assert sum(curve["loss"]) / len(curve["loss"]) == pytest.approx(0.5, abs=0.05)


def test_files_of_a_report(client: FlaskClient, results: Path) -> None:
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


def test_timeout(make_client: MakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()
    load = Chatbot.load

    def load_slowly(*arguments: Any) -> Chatbot:
        done.wait(60)
        return load(*arguments)

    monkeypatch.setattr("webui.model_pool.Chatbot.load", load_slowly)
    client = make_client(limits=Limits(timeout=0.05))
    response = chat(client)
    done.set()
    error_of(response, 503)
    assert int(response.headers["Retry-After"]) > 0


def test_internal_errors_hide_details(make_client: MakeClient, monkeypatch: Any) -> None:
    monkeypatch.setattr("webui.chat_answers.notes", lambda *_: 1 / 0)
    assert "zero" not in error_of(chat(make_client()), 500)


def test_health_check(shared_client: FlaskClient) -> None:
    assert shared_client.get("/healthz").get_json()["status"] == "ok"
