"""What computes a model: TensorFlow, or ONNX Runtime with graphs built from the weights of a run."""

import functools
import itertools
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.chat.joint_replies import JointReplies, Question, StopRule
from seq2seq_chat.chat.load import uses_onnx
from seq2seq_chat.chat.replies import Reply
from seq2seq_chat.config import Decoding
from seq2seq_chat.data.batches import evenly_spaced
from seq2seq_chat.export.onnx import export_onnx
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.hardware import AUTO, TENSORFLOW, EngineOptions
from seq2seq_chat.system.lines import numbered_lines
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.text.tokenizers import TokenizerSettings, create_tokenizer
from tests.conftest import REPOSITORY, Cli
from tests.model.test_seq2seq import VALUES, is_valid
from tests.pairwise import Combination, pairwise
from tests.random_runs import make_codec, random_language_run, random_run, small_config

WORDS = [f"word{index}" for index in range(20)]
CODECS = Codecs.shared(make_codec("english", WORDS))
TEXTS = [" ".join(np.random.default_rng(row).choice(WORDS, 1 + row % 8)) for row in range(12)]
SEARCHES = [
    Decoding(),
    Decoding(method="beam", beam_width=5, n_best=3, length_penalty=0.6, no_repeat_ngram_size=2, allow_unknown=True),
    Decoding(method="beam", beam_width=4, n_best=2, stop="first_end"),
    Decoding(method="sample", n_best=2, seed=3, top_k=12),
]
pytestmark = pytest.mark.usefixtures("unoptimized_graphs")


COMBINATIONS = pairwise({**VALUES, "task": ("conversation", "translation"), "search": SEARCHES}, is_valid)
TIE = 1e-4  # nats between two replies, which rounding may exchange


@pytest.mark.parametrize("engine", [AUTO, TENSORFLOW], ids=lambda engine: engine.name)
def test_replies_that_grow_side_by_side_are_the_same(engine: EngineOptions, tmp_path: Path) -> None:
    """Two start at every step; the lengths of their sources differ."""
    bot, replies = Chatbot.load(random_run(tmp_path, small_config(), CODECS), engine=engine), dict[str, Reply]()
    joint, grown = JointReplies(bot), list[str]()

    def ask(seed: int, text: str) -> Question:
        watch = None if len(text) % 3 else lambda text: not grown.append(text())
        return Question(text, (), seed, functools.partial(replies.setdefault, text), watch)

    pairs = list(enumerate(itertools.pairwise([*TEXTS, "?"])))[::2]
    for seed, texts in pairs:
        joint.start([ask(seed, text) for text in texts], SEARCHES[seed % len(SEARCHES)])
        joint.step()
    while joint:
        joint.step()
    for seed, text in ((seed, text) for seed, texts in pairs for text in texts):
        (expected,) = bot.replies([text], SEARCHES[seed % len(SEARCHES)], seeds=[seed])
        for one, other in zip(replies[text].hypotheses, expected.hypotheses, strict=True):
            assert one.words == other.words
            assert one.score == pytest.approx(other.score, abs=5e-3)  # large weights amplify rounding
        assert (replies[text].text, replies[text].source_words) == (expected.text, expected.source_words)
    assert len(set(grown)) > len(pairs)


@pytest.mark.parametrize("decoding", [Decoding(method="greedy"), Decoding(method="beam", beam_width=3)], ids=str)
def test_a_search_ends_when_enough_of_the_reply_is_certain(decoding: Decoding, tmp_path: Path) -> None:
    bot, replies = Chatbot.load(random_run(tmp_path, small_config(), CODECS)), dict[str, Reply]()
    joint, ends = JointReplies(bot), [functools.partial(replies.__setitem__, text) for text in TEXTS]
    questions = zip(TEXTS, ends, strict=True)
    stop = StopRule(tokens=1)
    joint.start([Question(text, (), 1, end, lambda _: True, stop=stop) for text, end in questions], decoding)
    while joint:
        joint.step()
    shorter = 0
    for text, expected in zip(TEXTS, bot.replies(TEXTS, decoding), strict=True):
        words, whole = replies[text].hypotheses[0].words, expected.hypotheses[0].words
        assert words[:2] == whole[:2]
        shorter += len(words) < len(whole)
    assert shorter


def test_a_stop_that_may_begin_earlier_does_not_end_a_search() -> None:
    """In "hello world", the reply ends before "llo w", not before "o"."""
    stop = StopRule(texts=("o", "llo w"))
    assert [stop.applies([], text) for text in ("hell", "hello", "hello wor")] == [False, False, True]


@pytest.fixture(scope="module")
def utterances() -> list[str]:
    """A thousand utterances, two thirds of them of corpora that are not bundled, if they are available."""
    files = [REPOSITORY / "configs" / "sample" / "conversations.txt"]
    if "SEQ2SEQ_CHAT_DATA" in os.environ:
        data = Path(os.environ["SEQ2SEQ_CHAT_DATA"])
        files += [data / "dailydialog" / "dialogues_test.txt.gz", data / "fra-eng" / "fra.txt.gz"]
    texts = []
    for file in files:
        lines = [line for _, line in numbered_lines(file, UserError)]
        numbers = evenly_spaced(len(lines), -(-1000 // len(files)))
        texts += [re.split(r"\t|__eou__", lines[number])[0] for number in numbers]
    return texts[:1000]


@pytest.mark.parametrize(
    "combination",
    [COMBINATIONS[0], *(pytest.param(each, marks=pytest.mark.slow(minutes=0.02)) for each in COMBINATIONS[1:])],
    ids=str,
)
def test_replies_to_real_utterances_are_the_same(
    combination: Combination, utterances: list[str], tmp_path: Path
) -> None:
    """Whatever the task, the architecture and the search. Weights are small, as large ones amplify rounding."""
    task, search = combination["task"], combination["search"]
    tokens = create_tokenizer(TokenizerSettings()).encode_lines(utterances)
    words = [word for word, _ in Counter(" ".join(tokens).split()).most_common(150)]
    codec = make_codec("english", words)
    pairs = task == "translation"
    codecs = Codecs(codec, make_codec("whitespace", words[::-2])) if pairs else Codecs.shared(codec)
    changes = [f"task={task}", f"data.train=train.{'tsv' if pairs else 'txt'}"]
    changes += [f"model.{name}={json.dumps(combination[name])}" for name in VALUES]
    scale = 2.5 if combination["activation"] == "relu" else 0.7  # see randomize
    run = random_run(tmp_path, small_config(*changes), codecs, scale=scale)
    bots = Chatbot.load(run), Chatbot.load(run, engine=TENSORFLOW)
    assert [type(bot.engine).__name__ for bot in bots] == ["OnnxEngine", "TensorFlowEngine"]
    replies = [[reply.hypotheses[0] for reply in bot.replies(utterances, search) if reply.hypotheses] for bot in bots]
    differing = [(one, other) for one, other in zip(*replies, strict=True) if one.words != other.words]
    ties = sum(abs(one.score - other.score) <= TIE for one, other in differing)
    distinct = len({reply.text for reply in replies[0]})
    print(f"{len(replies[0])} replies, {distinct} distinct, {len(differing)} differing, {ties} of them ties")
    assert len(differing) == ties
    assert distinct > (10 if search.stop == "first_end" else 50)  # at the first end, replies are short and alike


@pytest.mark.parametrize("verb", ["chat", "generate", "serve", "evaluate"])
def test_tensorflow_is_not_loaded(verb: str, tmp_path: Path) -> None:
    """The process has replied; the server has loaded the model and answered a request."""
    random_language_run(tmp_path, "the cat sat\n") if verb == "generate" else random_run(
        tmp_path, small_config(), CODECS
    )
    program = {
        "chat": "bot = Chatbot.load(find_run('random', results)); assert bot.reply('word1').source_words == ['word1']",
        "evaluate": "run = find_run('random', results); data = run.path / 'data.txt'; data.write_text('word1\\n' * 2); "
        "assert evaluate(run, data)['samples'] == 1",
        "generate": "bot = Generator.load(find_run('random', results)); assert [*bot.stream('the', 9, Decoding(), 1)]",
        "serve": "client = create_app(results).test_client(); "
        "body = {'run': find_run('random', results).name, 'text': 'word1'}; "
        "assert client.post('/api/chat', json=body, headers={'Host': 'localhost'}).status_code == 200",
    }[verb]
    imports = (
        "import sys; from seq2seq_chat import Chatbot, Generator, evaluate, find_run; "
        "from seq2seq_chat.config import Decoding; from webui.app import create_app; results = sys.argv[1]; "
    )
    check = "; assert not {'tensorflow', 'keras'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", imports + program + check, str(tmp_path)], check=True, timeout=300)


def test_replies_with_int8_are_those_of_the_export(tmp_path: Path) -> None:
    run = random_run(tmp_path, small_config(), CODECS)
    export_onnx(run, tmp_path / "exported", quantize="int8")
    ours, theirs = Chatbot.load(run, engine=EngineOptions(quantize="int8")), Chatbot.load(Run(tmp_path / "exported"))
    for decoding in SEARCHES:
        replies = (bot.replies(TEXTS, decoding) for bot in (ours, theirs))
        assert [r.hypotheses for r in next(replies)] == [r.hypotheses for r in next(replies)]
    assert ours.engine.fingerprint() != Chatbot.load(run).engine.fingerprint()


def test_what_an_engine_cannot_do(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = random_run(tmp_path / "a", small_config(), CODECS)
    dynamic = random_run(tmp_path / "b", small_config("model.unrolling=dynamic"), CODECS)
    assert not uses_onnx(dynamic, AUTO, dynamic.config.decoding)
    assert uses_onnx(dynamic, AUTO, Decoding(unrolling="built_in"))
    for arguments, message in [
        (
            [dynamic.path, "--engine", "onnx"],
            "--engine onnx does not support model.unrolling dynamic; use --engine tensorflow",
        ),
        (
            [run.path, "--engine", "onnx", "--set", "decoding.unrolling=dynamic"],
            "--engine onnx does not support decoding.unrolling dynamic",
        ),
        ([run.path, "--engine", "tensorflow", "--quantize", "int8"], "--quantize int8 needs --engine onnx"),
    ]:
        assert message in cli("chat", *arguments).error_message
    assert cli("export", run.path, "--format", "onnx", "--output", tmp_path / "exported").status == 0
    exported = Run(tmp_path / "exported")
    assert "which TensorFlow cannot read" in cli("chat", exported.path, "--engine", "tensorflow").error_message
    assert "export its run with --quantize int8" in cli("chat", exported.path, "--quantize", "int8").error_message
    monkeypatch.setattr("seq2seq_chat.chat.load.has_gpu", lambda: True)
    assert not uses_onnx(run, AUTO, Decoding()) and uses_onnx(run, EngineOptions("onnx"), Decoding())
