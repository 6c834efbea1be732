"""Prefixes: what replies must start with."""

from pathlib import Path

import pytest

from seq2seq_chat.runs.run import Run
from seq2seq_chat.text.codec import Codecs
from tests.conftest import Cli
from tests.random_runs import make_codec, random_run, small_config

WORDS = [f"word{index}" for index in range(20)]
pytestmark = pytest.mark.usefixtures("unoptimized_graphs")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    codecs = Codecs.shared(make_codec("english", WORDS))
    return random_run(tmp_path_factory.mktemp("runs"), small_config(), codecs)


@pytest.mark.parametrize("engine", ["tensorflow", "onnx"])
def test_replies_start_with_them_and_have_their_scores(cli: Cli, run: Run, engine: str) -> None:
    arguments = ("chat", run.path, "--engine", engine, "--n-best", 2, "--beam-width", 4)
    result = cli(*arguments, "--prefix", "Word3 word4", stdin=b"word1\nword5 word6\n")
    blocks = [block.splitlines() for block in result.out.split("\n\n")[:-1]]
    assert [len(block) for block in blocks] == [2, 2], result
    for source, block in zip((b"word1", b"word5 word6"), blocks, strict=True):
        for line in block:
            score, text = line.split("\t")
            assert text.startswith("word3 word4 ")
            if len(text.split()) < 6:  # the others were cut before their end
                scored = cli("score", run.path, "-", stdin=source + f"\t{text}\n".encode()).out
                assert float(scored.split("\t")[0]) == pytest.approx(float(score), abs=2e-3)
    lines = b"word3 word4\tword1\n\tword1\n"
    of_lines = cli(*arguments, "--prefix", "-", stdin=lines).out
    assert of_lines.startswith(result.out.split("\n\n")[0] + "\n\n")
    assert of_lines.endswith(cli(*arguments, stdin=b"word1\n").out)
    sampled = cli(
        "chat", run.path, "--engine", engine, "--set", "decoding.method=sample", "--prefix", "word3", stdin=b"a"
    )
    assert sampled.out.startswith("word3 ")


@pytest.mark.parametrize(
    ("prefix", "stdin", "message"),
    [
        ("word3 tree", "", "the prefix has tree, which the model cannot write"),
        ("word1 " * 6, "", "the prefix has 6 tokens, but a reply has at most 5; shorten it"),
        ("-", "word1\n", "line 1 of stdin: write prefix<TAB>utterance"),
        ("-", "\tword1\n≠\tword1\n", "line 2 of stdin: the prefix has ≠, which the model cannot write"),
    ],
)
def test_impossible_ones(cli: Cli, run: Run, prefix: str, stdin: str, message: str, tmp_path: Path) -> None:
    assert message in cli("chat", run.path, "--prefix", prefix, stdin=stdin.encode()).error_message


def test_lines_before_an_impossible_one_have_replies(cli: Cli, run: Run) -> None:
    """Also where all are read at once; those after it have none."""
    alone = cli("chat", run.path, "--prefix", "-", stdin=b"word3\tword1\n")
    result = cli("chat", run.path, "--prefix", "-", stdin=b"word3\tword1\nword1\n\tword1\n")
    assert alone.out.startswith("word3")
    assert (result.out, result.status) == (alone.out, 2)
    assert "line 2 of stdin: write prefix<TAB>utterance" in result.error_message
