"""`seq2seq-chat score`: log-probabilities of given texts."""

import json
from pathlib import Path

import numpy as np
import pytest

from seq2seq_chat.engines.tensorflow.engine import load_trained_model
from seq2seq_chat.runs.run import Run
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.text.vocabulary import EOS
from tests.conftest import Cli
from tests.random_runs import make_codec, random_language_run, random_run, small_config
from tests.reference_model import Reference

WORDS = [f"word{index}" for index in range(20)]
CODECS = Codecs.shared(make_codec("english", WORDS))
PAIRS = "word1 word2\tword3\nword4\tword5 word6 other word7\n"
pytestmark = pytest.mark.usefixtures("unoptimized_graphs")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return random_run(tmp_path_factory.mktemp("runs"), small_config(), CODECS)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    return np.asarray(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))


@pytest.mark.parametrize("engine", ["tensorflow", "onnx"])
def test_pairs_against_numpy_and_the_search(cli: Cli, run: Run, engine: str, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text(PAIRS)
    json_file = tmp_path / "scores.json"
    result = cli("score", run.path, tmp_path / "pairs.tsv", "--engine", engine, "--json", json_file)
    assert result.status == 0, result
    assert cli("score", run.path, "-", "--engine", engine, stdin=PAIRS.encode()).out == result.out
    scores, reference = json.loads(json_file.read_text()), Reference(load_trained_model(run).model)
    for pair, line, score in zip(PAIRS.splitlines(), result.out.splitlines(), scores, strict=True):
        source, target = (CODECS.source.encode(text) for text in pair.split("\t"))
        target.append(EOS)
        logits = reference.logits(source[::-1] if run.config.data.reverse_input else source, target)
        expected = log_softmax(logits)[np.arange(len(target)), target]
        np.testing.assert_allclose(score["log_probabilities"], expected, atol=1e-4)
        assert score["tokens"] == [*pair.split("\t")[1].split(), "<eos>"]
        total, count, values = line.split("\t")
        assert float(total) == pytest.approx(expected.sum(), abs=1e-3)
        assert count == str(len(target))
        np.testing.assert_allclose(np.array(values.split(), float), expected, atol=1e-4)

    found = cli("chat", run.path, "--engine", engine, "--n-best", 3, stdin=b"word1 word2\n").out.split("\n")
    texts = [line.split("\t") for line in found if line]
    ended = [(float(score), text) for score, text in texts if len(text.split()) < run.config.model.decoder_steps]
    assert ended
    for score, text in ended:
        scored = cli("score", run.path, "-", "--engine", engine, stdin=f"word1 word2\t{text}\n".encode()).out
        assert float(scored.split("\t")[0]) == pytest.approx(score, abs=2e-3)


@pytest.mark.parametrize("tokenizer", ["character", "whitespace"])
def test_lines_of_text_against_numpy(cli: Cli, tokenizer: str, tmp_path: Path) -> None:
    run = random_language_run(tmp_path, "the cat sat\non the mat\n", tokenizer=tokenizer)  # type: ignore[arg-type]
    lines = ["the mat", "cat", ""]
    codec, reference = run.codecs.source, Reference(load_trained_model(run).model)
    end = codec.encode("\n")[0] if tokenizer == "character" else EOS
    outputs = [
        cli("score", run.path, "-", "--engine", engine, stdin="\n".join([*lines, ""]).encode()).out
        for engine in ("tensorflow", "onnx")
    ]
    for output in outputs:
        for text, line in zip(lines, output.splitlines(), strict=True):
            expected = -reference.text_loss([end, *codec.encode(text), end])
            assert line.split("\t")[1] == str(len(expected))
            np.testing.assert_allclose(np.array(line.split("\t")[2].split(), float), expected, atol=1e-4)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("word1\tword2\nword1\n", "line 2: write two columns, source<TAB>target, not 1"),
        ("a\tb\tc\n", "line 1: write two columns, source<TAB>target, not 3"),
        ("word1\tword2\n \tword2\n", "line 2: the source has no tokens"),
        ("word1\t§\n", "line 1: the target has no tokens"),
    ],
)
def test_invalid_lines(cli: Cli, run: Run, lines: str, message: str, tmp_path: Path) -> None:
    """Of a file, before anything is written."""
    (tmp_path / "pairs.tsv").write_text(lines)
    for arguments, stdin in ((tmp_path / "pairs.tsv", b""), ("-", lines.encode())):
        result = cli("score", run.path, arguments, stdin=stdin)
        assert message in result.error_message
        assert not result.out
    assert "stdin, line 2 is not UTF-8" in cli("score", run.path, "-", stdin=b"word1\tword2\n\xff\ta").error_message


def test_long_lines_are_cut_with_a_warning(cli: Cli, run: Run) -> None:
    result = cli("score", run.path, "-", stdin=b"word1\t" + b"word2 " * 9 + b"\n")
    assert result.out.split("\t")[1] == "6"
    assert "stdin, line 1 is too long" in result.err
