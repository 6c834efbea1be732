"""An exported model says in plain TensorFlow what the chat bot of its run says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.chatbot import Chatbot
from seq2seq_chat.config import Decoding, parse_config
from seq2seq_chat.corpus.vocabulary import SPECIAL_WORDS, TURN, UNKNOWN, Vocabulary
from seq2seq_chat.exporting.folder import export_run, exported_searches
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.runs import Run, create_run
from seq2seq_chat.training.checkpoints import save_variables

Cli = Callable[..., Any]

PLAIN = """
import json, sys
import tensorflow as tf

def ask(signature, **inputs):
    found = signature(**{name: tf.constant(value) for name, value in inputs.items()})
    named = {name: value.numpy().tolist() for name, value in found.items()}
    texts = named.get("reply", named.get("replies"))
    named["texts"] = [[t.decode() for t in row] if isinstance(row, list) else row.decode() for row in texts]
    return named["texts"], named.get("score", named.get("scores"))

answers = []
for job in json.load(sys.stdin):
    model = tf.saved_model.load(job["folder"])
    text = [bytes.fromhex(one) for one in job["texts"]]
    told = {"history": job["history"]} if job["history"] else {}
    alone = [{name: [value[row]] for name, value in {"text": text, **told}.items()} for row in range(len(text))]
    answers.append({
        name: {"together": ask(model.signatures[name], text=text, **told),
               "alone": [ask(model.signatures[name], **one) for one in alone]}
        for name in ("greedy", "beam")
    })
ours = [name for name in sys.modules if name.split(".")[0] in ("seq2seq_chat", "tensorflow_addons", "tensorflow_text")]
assert not ours, ours
json.dump(answers, sys.stdout)
"""

TEXTS = [
    b"word1 word2 ?",
    b"",
    b" *** ",
    b"xylophone WORD3, quux!",
    ("Wörd4\u0301 ﬁ ｗｏｒｄ５ 😀 w\u0301ord6…").encode(),
    b"word7 " * 50 + b"word8 word9",
    b"word1\xff\xfeword2 \xc3",
    "字 שלום".encode(),
    b"<pad> <go> <eos> <unknown> <turn> word11",
]
HISTORIES = [
    ["", "", ""],
    ["word1", "word2 ?", "word3"],
    ["word5 word6", "***", ""],
    ["word1", "***", "word12"],
    ["word1 " * 20, "word2", "word2 word3 " * 4],
    ["word1", "word2", "word3"],
    ["", "", "Wörd5"],
    ["word1", "word1", "word1"],
    ["<turn>", "word1", ""],
]

ARCHITECTURES: dict[str, list[str]] = {
    "lstm, additive": [],
    "gru, bidirectional, general, reversed": [
        *("model.cell=gru", "model.bidirectional=true", "model.layers=2", "model.attention=general"),
        *("data.reverse_input=true", "model.shared_embeddings=true", "model.projection_size=null"),
    ],
    "rnn without attention": ["model.cell=rnn", "model.attention=none"],
    "several turns, dot, reversed": [
        *("data.context_turns=3", "model.attention=dot", "data.reverse_input=true"),
    ],
    "characters": ["data.level=character", "model.encoder_steps=12", "decoding.repetition_penalty=1.3"],
    "a beam with all options": [
        *("decoding.method=beam", "decoding.beam_width=6", "decoding.n_best=4", "decoding.length_penalty=1.0"),
        *("decoding.beam_groups=3", "decoding.no_repeated_ngrams=2", "decoding.minimum_length=2"),
    ],
    "unknown words replaced, reversed": [
        *("decoding.allow_unknown=true", "decoding.replace_unknown=true", "data.reverse_input=true"),
    ],
    "dynamic, several turns": ["model.unrolling=dynamic", "data.context_turns=2"],
}


def random_run(folder: Path, changes: list[str]) -> Run:
    """A run with large random weights, whose replies depend on every word that is read."""
    sizes = {"hidden_size": 12, "embedding_size": 10, "projection_size": 8, "encoder_steps": 8, "decoder_steps": 6}
    settings = {"name": "random", "data": {"train": "train.txt"}, "model": sizes, "decoding": {"beam_width": 5}}
    config = parse_config(settings, "x", changes)
    words = [*"abcdeorw0123 ?", "<space>"] if config.data.level == "character" else [f"word{n}" for n in range(30)]
    words = [word for word in words if word != " "]
    vocabulary = Vocabulary([*SPECIAL_WORDS, *words, "?", TURN] if "?" not in words else [*SPECIAL_WORDS, *words])
    run = create_run(folder, config, vocabulary, {})
    model = Seq2Seq(config.model, len(vocabulary), config.seed)
    rng = np.random.default_rng(5)
    for variable in model.trainable_variables:
        variable.assign(rng.standard_normal(variable.shape) * 1.5)
        if config.decoding.allow_unknown and variable.name.startswith("output/bias"):
            variable.assign(variable + 12 * tf.one_hot(UNKNOWN, len(vocabulary)))
    save_variables(run.checkpoint_path(7), model.trainable_variables, {"step": 7})
    return run


def in_plain_tensorflow(program: str, said: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, input=said, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
def test_word_for_word_what_chat_says(tmp_path: Path) -> None:
    """Every architecture, one by one and together, in a process that has never heard of this package."""
    jobs, bots = [], []
    for number, changes in enumerate(ARCHITECTURES.values()):
        run = random_run(tmp_path / "results" / str(number), changes)
        folder = tmp_path / f"exported {number}"
        export_run(run, folder, n_best=4)
        bots.append(Chatbot.load(run))
        turns = bots[-1].config.data.context_turns
        texts, history = [text.hex() for text in TEXTS], HISTORIES if turns > 1 else None
        jobs.append({"folder": str(folder), "texts": texts, "history": history})
    answers = json.loads(in_plain_tensorflow(PLAIN, json.dumps(jobs)))
    said, different = [text.decode("utf-8", errors="replace") for text in TEXTS], set()
    for name, bot, answer in zip(ARCHITECTURES, bots, answers, strict=True):
        searches, _ = exported_searches(bot.config.decoding, n_best=4)
        for signature, decoding in searches.items():
            replies = bot.replies(said, decoding, HISTORIES)
            texts, scores = answer[signature]["together"]
            if signature == "greedy":
                texts, scores = [[text] for text in texts], [[score] for score in scores]
            for reply, found, own_scores in zip(replies, texts, scores, strict=True):
                expected = [hypothesis.text for hypothesis in reply.hypotheses]
                missing = len(found) - len(expected)
                assert found == expected + [""] * missing, (name, signature)
                assert own_scores[len(expected) :] == [-np.inf] * missing
                assert own_scores[: len(expected)] == pytest.approx([h.score for h in reply.hypotheses], abs=1e-4)
            alone = [texts[0] for texts, _ in answer[signature]["alone"]]
            assert alone == answer[signature]["together"][0], (name, signature)
            assert [reply.text for reply in replies] == [found[0] for found in texts]
            different |= {reply.text for reply in replies}
            if decoding.replace_unknown and signature == "beam":
                as_found = bot.replies(said, decoding.model_copy(update={"replace_unknown": False}))
                assert sum(one.text.count("<unknown>") for reply in as_found for one in reply.hypotheses) > 5
    assert len(different) > 40, "the models say too little to tell a right answer from a wrong one"


def test_the_printed_program_says_what_chat_says(cli: Cli, own_run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "made on the way" / "exported"
    answer = cli("export", own_run, "--output", folder, "--n-best", 2, "--snapshot", "10")
    assert (answer.status, answer.err) == (0, "")
    first, _, program = answer.out.split("\n", 2)
    assert first == f"{folder}: {own_run.name}, 10 (step 10), 60 words, 7,196 parameters; to use it:"
    asked = b"how are you ?\ntell me a joke .\n"
    greedy = cli("chat", own_run, "--snapshot", "10", stdin=asked).out.splitlines()
    beam = cli("chat", own_run, "--snapshot", "10", "--n-best", 2, stdin=asked).out.splitlines()
    printed = in_plain_tensorflow(program).splitlines()
    assert printed[:2] == greedy
    told, expected = ([line.split("\t") for line in lines if line] for lines in (printed[2:], beam))
    assert [text for _, text in told] == [text for _, text in expected]
    assert [float(score) for score, _ in told] == pytest.approx([float(score) for score, _ in expected], abs=2e-4)
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    assert (about["step"], about["vocabulary_size"], about["otherwise_than_chat"]) == (10, 60, [])
    assert about["signatures"]["beam"]["n_best"] == 2
    assert sorted(path.name for path in folder.parent.iterdir()) == ["exported"]  # nothing is left beside it
    assert "something already" in cli("export", own_run, "--output", folder).complaint


def test_what_cannot_be_exported_is_told(cli: Cli, own_run: Path, tmp_path: Path) -> None:
    occupied = tmp_path / "occupied"
    occupied.mkdir()
    (occupied / "mine").write_text("kept", encoding="utf-8")
    assert "something already" in cli("export", own_run, "--output", occupied).complaint
    assert "something already" in cli("export", own_run, "--output", occupied / "mine").complaint
    assert "cannot be written" in cli("export", own_run, "--output", occupied / "mine" / "deeper").complaint
    assert "no snapshot" in cli("export", own_run, "--output", tmp_path / "x", "--snapshot", "11").complaint
    assert (
        "n_best is 9" in cli("export", own_run, "--output", tmp_path / "x", "--n-best", 9, "--beam-width", 3).complaint
    )
    assert "no run" in cli("export", "nobody", "--output", tmp_path / "x", "--results", tmp_path).complaint
    assert {path.name for path in tmp_path.iterdir()} == {"results", "occupied"}
    assert (occupied / "mine").read_text(encoding="utf-8") == "kept"


@pytest.mark.parametrize(
    ("decoding", "lost"),
    [
        (Decoding(), []),
        (Decoding(method="beam", n_best=3, length_penalty=1.0, unrolling="dynamic"), []),
        (Decoding(method="sample", top_k=5), ["sample"]),
        (Decoding(method="beam", rerank="anti_language_model"), ["anti_language_model"]),
        (Decoding(method="beam", rerank="bidirectional", backward_run="back"), ["bidirectional"]),
    ],
)
def test_what_is_lost_of_a_way_of_decoding_is_said(decoding: Decoding, lost: list[str]) -> None:
    searches, lacking = exported_searches(decoding)
    assert len(lacking) == len(lost)
    assert all(word in sentence for word, sentence in zip(lost, lacking, strict=True))
    assert {name: one.method for name, one in searches.items()} == {"greedy": "greedy", "beam": "beam"}
    assert {(one.unrolling, one.rerank) for one in searches.values()} == {("static", "none")}
    if decoding.method == "beam":
        assert searches["beam"].length_penalty == decoding.length_penalty
        assert searches["beam"].n_best == decoding.n_best
