"""An exported model gives the replies of its run's chatbot, in plain TensorFlow."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.config import Config, Decoding
from seq2seq_chat.decoding.search import SearchInputs
from seq2seq_chat.export.saved_model.export import export_saved_model, exported_searches
from seq2seq_chat.export.saved_model.models import ReplyModel
from seq2seq_chat.search.engine import NEG_INF, Hypotheses
from seq2seq_chat.system.hardware import TENSORFLOW
from seq2seq_chat.text.codec import Codecs, TextCodec
from seq2seq_chat.text.tokenizers import SubwordTokenizer, TokenizerName
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, TURN, Vocabulary
from tests.conftest import limited_file_size
from tests.random_runs import make_codec, random_run, small_config

pytestmark = pytest.mark.usefixtures("tiny_run", "unoptimized_graphs")

Cli = Callable[..., Any]

PLAIN_TENSORFLOW = """
import json, sys
import tensorflow as tf

def reply(signature, **inputs):
    output = signature(**{name: tf.constant(value) for name, value in inputs.items()})
    values = {name: value.numpy().tolist() for name, value in output.items()}
    texts = values.get("reply", values.get("replies"))
    texts = [[t.decode() for t in row] if isinstance(row, list) else row.decode() for row in texts]
    return texts, values.get("score", values.get("scores"))

outputs = []
for job in json.load(sys.stdin):
    model = tf.saved_model.load(job["folder"])
    inputs = {"text": [bytes.fromhex(text) for text in job["texts"]]}
    if job["history"]:
        inputs["history"] = job["history"]
    if job["tokens"]:
        inputs["tokens"] = inputs.pop("text")
    rows = [{name: [value[row]] for name, value in inputs.items()} for row in range(len(job["texts"]))]
    outputs.append({
        name: {"batch": reply(model.signatures[name], **inputs),
               "single": [reply(model.signatures[name], **row) for row in rows]}
        for name in ("greedy", "beam")
    })
names = {name.split(".")[0] for name in sys.modules}
assert not names & {"seq2seq_chat", "tensorflow_addons", "tensorflow_text"}
json.dump(outputs, sys.stdout)
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
    "lstm, additive, a beam with all options": [
        *("decoding.method=beam", "decoding.beam_width=6", "decoding.n_best=4", "decoding.length_penalty=1.0"),
        *("decoding.beam_groups=3", "decoding.no_repeat_ngram_size=2", "decoding.min_length=2"),
    ],
    "gru, bidirectional, general, queried with the previous state, maxout, reversed": [
        *("model.cell=gru", "model.bidirectional=true", "model.layers=2", "model.attention=general"),
        *("model.attention_query=previous", "model.output=maxout"),
        *("data.reverse_input=true", "model.shared_embeddings=true", "model.projection_size=null"),
    ],
    "rnn without attention, thought vector at every step, maxout, characters": [
        *("model.context=every_step", "model.output=maxout"),
        *("model.cell=rnn", "model.attention=none", "data.tokenizer=english_character", "model.encoder_steps=12"),
        "decoding.repetition_penalty=1.3",
    ],
    "several turns, dot, reversed, dynamic": [
        *("data.context_turns=3", "model.attention=dot", "data.reverse_input=true", "model.unrolling=dynamic")
    ],
    "unknown words replaced, several turns, reversed, without input feeding": [
        *("model.input_feeding=false", "model.encoder_steps=12", "data.context_turns=3"),
        *("decoding.allow_unknown=true", "decoding.replace_unknown=true", "data.reverse_input=true"),
    ],
    "every character": ["data.tokenizer=character", "model.encoder_steps=12"],
    "words as they stand to those of the thesis, unknown words replaced, several turns": [
        *("data.tokenizer=whitespace", "data.target_tokenizer=thesis", "model.encoder_steps=12"),
        *("data.context_turns=3", "data.reverse_input=true"),
        *("decoding.allow_unknown=true", "decoding.replace_unknown=true"),
    ],
    "the thesis's words to clean characters, several turns, unknown words replaced": [
        *("data.tokenizer=thesis", "data.target_tokenizer=english_character", "data.context_turns=3"),
        *("decoding.allow_unknown=true", "decoding.replace_unknown=true"),
    ],
    "tokens of any language to text": ["data.tokenizer=unicode", "data.target_tokenizer=english"],
    "characters to subwords, several turns": [
        *("data.tokenizer=character", "data.target_tokenizer=subword", "data.context_turns=3"),
        "model.encoder_steps=12",
    ],
    "subwords for both sides": ["data.tokenizer=subword", "model.encoder_steps=12"],
}

WORDS = [f"word{number}" for number in range(30)]
CHARACTERS = [*"abcdeorw0123?"]
VOCABULARIES: dict[TokenizerName, list[str]] = {
    "english": [*WORDS, "?"],
    "thesis": [*WORDS, "WORD3", "quux", "?", "!"],
    "whitespace": [*WORDS, "?", "WORD3,", "quux!", "字"],
    "unicode": [*WORDS, "?", "Wörd4", "字", "שלום"],
    "english_character": [*CHARACTERS, "<space>"],
    "character": [*CHARACTERS, "<space>", "ö", "W", "<U+0301>"],
}


def codec_of(tokenizer: TokenizerName) -> TextCodec:
    """A codec that knows many of the tokens in TEXTS."""
    if tokenizer != "subword":
        return make_codec(tokenizer, [*VOCABULARIES[tokenizer], TURN])
    texts = [text.decode("utf-8", errors="replace") for text in TEXTS]
    trained = SubwordTokenizer.train(texts, 400, "unigram")
    assert trained.tokens
    return TextCodec(trained, Vocabulary([*SPECIAL_WORDS, *trained.tokens, TURN]))


def codecs_of(config: Config) -> Codecs:
    source = codec_of(config.data.source_text.tokenizer)
    if config.data.has_shared_vocabulary:
        return Codecs.shared(source)
    return Codecs(source, codec_of(config.data.target_text.tokenizer))


@pytest.mark.slow(minutes=2)
def test_replies_are_those_of_the_chatbot(tmp_path: Path) -> None:
    """Every architecture, single texts and batches, in a process that does not import this package."""
    jobs, bots = [], []
    for number, changes in enumerate(ARCHITECTURES.values()):
        config = small_config(*changes)
        run = random_run(tmp_path / "results" / str(number), config, codecs_of(config))
        folder = tmp_path / f"exported {number}"
        about = export_saved_model(run, folder, n_best=4)
        bot, history, read = Chatbot.load(run, engine=TENSORFLOW), HISTORIES, list(TEXTS)
        if about["input"] == "tokens":
            encode = bot.codecs.source.tokenizer.encode
            read = [" ".join(encode(text.decode("utf-8", errors="replace"))).encode() for text in TEXTS]
            history = [[" ".join(encode(turn)) for turn in turns] for turns in HISTORIES]
        bots.append(bot)
        inputs = {"folder": str(folder), "texts": [text.hex() for text in read], "tokens": about["input"] == "tokens"}
        jobs.append(inputs | {"history": history if config.data.context_turns > 1 else None})
    command = [sys.executable, "-c", PLAIN_TENSORFLOW]
    process = subprocess.run(command, check=False, input=json.dumps(jobs), capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr[-2000:]
    texts, distinct = [text.decode("utf-8", errors="replace") for text in TEXTS], set()
    for name, bot, outputs in zip(ARCHITECTURES, bots, json.loads(process.stdout), strict=True):
        searches, _ = exported_searches(bot.config, n_best=4)
        for signature, decoding in searches.items():
            expected = bot.replies(texts, decoding, HISTORIES)
            exported, scores = outputs[signature]["batch"]
            if signature == "greedy":
                exported, scores = [[text] for text in exported], [[score] for score in scores]
            if bot.config.data.target_text.tokenizer == "subword":  # tokens
                exported = [[bot.codecs.target.text(text.split()) for text in row] for row in exported]
            for reply, reply_texts, reply_scores in zip(expected, exported, scores, strict=True):
                expected_texts = [hypothesis.text for hypothesis in reply.hypotheses]
                missing = len(reply_texts) - len(expected_texts)
                assert reply_texts == expected_texts + [""] * missing, (name, signature)
                assert reply_scores[len(expected_texts) :] == [-np.inf] * missing
                expected_scores = [hypothesis.score for hypothesis in reply.hypotheses]
                # TensorFlow adds up in another order there, which attention amplifies for improbable replies
                assert reply_scores[: len(expected_texts)] == pytest.approx(expected_scores, abs=1e-3)
            single = [texts[0] for texts, _ in outputs[signature]["single"]]
            assert single == outputs[signature]["batch"][0], (name, signature)
            assert [reply.text for reply in expected] == [reply_texts[0] for reply_texts in exported]
            distinct |= {reply.text for reply in expected}
            if decoding.replace_unknown and signature == "beam":
                plain = bot.replies(texts, decoding.model_copy(update={"replace_unknown": False}))
                assert sum(one.text.count("<unknown>") for reply in plain for one in reply.hypotheses) > 5
    assert len(distinct) > 6 * len(ARCHITECTURES), "too few distinct replies for a meaningful comparison"


def test_a_hypothesis_that_does_not_exist_has_no_text(tmp_path: Path) -> None:
    """Whatever words a search leaves in its place."""
    config = small_config()
    run = random_run(tmp_path, config, codecs_of(config))
    model = ReplyModel(Chatbot.load(run).engine.model, run.path, config, {})

    class Search:
        def search(self, source: tf.Tensor, lengths: tf.Tensor) -> Hypotheses:
            inputs = SearchInputs(lambda *_: None, state=(), memory=(), steps=6, source_steps=8)
            partial = inputs.no_words(tf.fill([tf.shape(source)[0], 1], NEG_INF))
            none = partial.completed(partial.hypotheses, 8)
            return none._replace(words=none.words + 5, lengths=none.lengths + 3)

    search: Any = Search()
    replies, _ = model._replies(search, Decoding(), tf.constant(TEXTS), tf.zeros([len(TEXTS), 0], tf.string))
    assert set(replies.numpy().ravel()) == {b""}


@pytest.mark.slow
def test_the_printed_program_gives_the_replies_of_chat(
    cli: Cli, run_copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new" / "exported"
    result = cli("export", run_copy, "--output", folder, "--n-best", 2, "--snapshot", "10")
    assert (result.status, result.err) == (0, "")
    first, _, program = result.out.split("\n", 2)
    assert first == f"{folder}: {run_copy.name}, 10 (step 10), 60 tokens, 7,196 parameters; to use it:"
    questions = b"how are you?\ntell me a joke.\n"
    greedy = cli("chat", run_copy, "--snapshot", "10", stdin=questions).out.splitlines()
    beam = cli("chat", run_copy, "--snapshot", "10", "--n-best", 2, stdin=questions).out.splitlines()
    exec(program, {})
    printed = capsys.readouterr().out.splitlines()
    assert printed[:2] == greedy
    exported, expected = ([line.split("\t") for line in lines if line] for lines in (printed[2:], beam))
    assert [text for _, text in exported] == [text for _, text in expected]
    assert [float(score) for score, _ in exported] == pytest.approx([float(score) for score, _ in expected], abs=2e-4)
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    assert (about["step"], about["vocabulary_size"], about["differences_from_chat"]) == (10, 60, [])
    assert (about["tokenizer"], about["input"], about["output"]) == ("english", "text", "text")
    assert about["signatures"]["beam"]["n_best"] == 2
    assert sorted(path.name for path in folder.parent.iterdir()) == ["exported"]  # no temporary files
    assert "already exists" in cli("export", run_copy, "--output", folder).error_message


@pytest.mark.slow
def test_the_printed_program_for_tokens(cli: Cli, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The tokenizers are loaded from the folder, which is all that is left of the run."""
    texts_of = ("data.tokenizer=unicode", "data.lowercase=true", "data.target_tokenizer=subword")
    config = small_config(*texts_of, "data.context_turns=2")
    run, folder = random_run(tmp_path / "run", config, codecs_of(config)), tmp_path / "exported"
    result = cli("export", run.path, "--output", folder, "--n-best", 2)
    assert (result.status, result.err) == (0, "")
    first, _, note, _, program = result.out.split("\n", 4)
    assert first.endswith("parameters; to use it:")
    assert note.startswith("input and output: tokens separated by spaces, as TensorFlow has no operations for unicode")
    texts, histories = ["how are you?", "tell me a joke."], [["hello.", "hi! how are you?"], ["", ""]]
    expected = [reply.text for reply in Chatbot.load(run).replies(texts, histories=histories)]
    shutil.rmtree(run.path)
    exec(program, {})
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 2 + 2 * 2
    assert printed[:2] == expected
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    stored = [about[key] for key in ("input", "output", "tokenizer", "target_tokenizer", "lowercase")]
    assert stored == ["tokens", "tokens", "unicode", "subword", True]
    assert sorted(path.name for path in folder.glob("*tokenizer*")) == ["target_tokenizer.json"]


@pytest.mark.parametrize(
    ("decoding", "not_exported"),
    [
        ({}, []),
        ({"method": "beam", "n_best": 3, "length_penalty": 1.0, "unrolling": "dynamic"}, []),
        ({"method": "sample", "top_k": 5}, ["sample"]),
        ({"method": "beam", "rerank": "anti_language_model"}, ["anti_language_model"]),
        ({"method": "beam", "rerank": "bidirectional", "backward_run": "back"}, ["bidirectional"]),
        ({"allow_unknown": True, "replace_unknown": True, "lexicon": "words.tsv"}, ["decoding.lexicon"]),
    ],
)
def test_differences_from_chat(decoding: dict[str, Any], not_exported: list[str]) -> None:
    settings = Decoding(**decoding)
    searches, differences = exported_searches(small_config().model_copy(update={"decoding": settings}))
    assert len(differences) == len(not_exported)
    assert all(setting in sentence for setting, sentence in zip(not_exported, differences, strict=True))
    assert {name: search.method for name, search in searches.items()} == {"greedy": "greedy", "beam": "beam"}
    assert {(search.unrolling, search.rerank) for search in searches.values()} == {("built_in", "none")}
    if settings.method == "beam":
        assert searches["beam"].length_penalty == settings.length_penalty
        assert searches["beam"].n_best == settings.n_best


@pytest.mark.parametrize(
    ("changes", "differs"),
    [
        (["data.target_tokenizer=subword"], True),
        (["data.tokenizer=unicode", "data.target_tokenizer=english"], True),
        (["data.tokenizer=subword", "data.target_vocabulary_size=500"], True),  # each trained on its side
        (["data.tokenizer=unicode", "data.target_vocabulary_size=500"], False),
        (["data.tokenizer=subword"], False),
        (["data.tokenizer=whitespace", "data.target_tokenizer=character"], False),  # in the graph
    ],
)
def test_copies_that_the_graph_cannot_convert_are_a_difference(changes: list[str], differs: bool) -> None:
    options = ["decoding.allow_unknown=true", "decoding.replace_unknown=true"]
    assert bool(exported_searches(small_config(*changes, *options))[1]) == differs
    assert not exported_searches(small_config(*changes))[1]


def test_a_full_disk_is_named(cli: Cli, run_copy: Path, tmp_path: Path) -> None:
    with limited_file_size(3000):  # enough for the vocabulary, but not for the graph
        message = cli("export", run_copy, "--output", tmp_path / "new").error_message
    assert f"--output {tmp_path / 'new'} could not be written: File too large; " in message
    assert [path.name for path in tmp_path.iterdir()] == ["results"]
