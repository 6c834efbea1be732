"""Ensembles against the mean of the probabilities that the equations in NumPy give."""

import json
from pathlib import Path

import numpy as np
import pytest

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.config import Decoding
from seq2seq_chat.engines.tensorflow.engine import load_trained_model
from seq2seq_chat.runs.find import RunSnapshot
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.hardware import TENSORFLOW, EngineOptions
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.text.vocabulary import EOS
from tests.conftest import Cli
from tests.random_runs import make_codec, random_run, small_config
from tests.reference_model import Reference

WORDS = [f"word{index}" for index in range(20)]
CODECS = Codecs.shared(make_codec("english", WORDS))
TEXTS = ["word1 word2", "word3", "word4 word5 word6 word7"]
pytestmark = pytest.mark.usefixtures("unoptimized_graphs")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Of different architectures."""
    changes: list[list[str]] = [[], ["model.cell=gru", "model.hidden_size=9"], ["model.attention=none"]]
    folder = tmp_path_factory.mktemp("runs")
    return [random_run(folder / str(n), small_config(*each), CODECS, seed=n) for n, each in enumerate(changes)]


def mean_probabilities(runs: list[Run], source: list[int], target: list[int]) -> np.ndarray:
    """Of each target word and all that could be in its place: [target steps, vocabulary]."""
    source = source[::-1] if runs[0].config.data.reverse_input else source
    powers = [np.exp(Reference(load_trained_model(run).model).logits(source, target)) for run in runs]
    return np.mean([each / each.sum(axis=1, keepdims=True) for each in powers], axis=0)


@pytest.mark.parametrize("engine", [TENSORFLOW, EngineOptions("onnx")], ids=lambda options: options.name)
def test_scores_are_the_mean_probability(runs: list[Run], engine: EngineOptions) -> None:
    others = [RunSnapshot(run, None) for run in runs[1:]]
    bot = Chatbot.load(runs[0], engine=engine, others=others)
    for text in TEXTS:
        source = CODECS.source.encode(text)
        greedy = bot.reply(text, Decoding(allow_unknown=True)).hypotheses[0]
        hypotheses = bot.reply(text, Decoding(method="beam", beam_width=4, n_best=4)).hypotheses
        for hypothesis in [greedy, *hypotheses]:
            ids = CODECS.target.vocabulary.ids(hypothesis.words)
            target = [*ids, EOS][: runs[0].config.model.decoder_steps]
            probabilities = mean_probabilities(runs, source, target)
            expected = np.log(probabilities[np.arange(len(target)), target]).sum()
            assert hypothesis.score == pytest.approx(expected, abs=2e-3)
            (scored,) = bot.token_log_probabilities([text.split()], [hypothesis.words])
            assert scored.sum() == pytest.approx(expected, abs=2e-3)
            if hypothesis is greedy:
                probabilities[:, :2] = 0  # padding and the start marker
                np.testing.assert_array_equal(probabilities.argmax(axis=1), target)
        assert max(hypothesis.score for hypothesis in hypotheses) == hypotheses[0].score
        np.testing.assert_allclose(np.sum(hypotheses[0].attention, axis=1), 1, atol=1e-5)


def test_evaluate_with_another_run(cli: Cli, runs: list[Run], tmp_path: Path) -> None:
    (tmp_path / "corpus.tsv").write_text("".join(f"{text}\t{text}\n" for text in TEXTS))
    arguments = ("evaluate", runs[0].path, "--with", runs[1].path, "--data", tmp_path / "corpus.tsv")
    result = cli(*arguments, "--json", tmp_path / "metrics.json", "--output", tmp_path)
    assert result.status == 0, result
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    targets = [[*CODECS.target.encode(text), EOS] for text in TEXTS]
    sources = [CODECS.source.encode(text) for text in TEXTS]
    nats = [
        -np.log(mean_probabilities(runs[:2], source, target)[np.arange(len(target)), target]).sum()
        for source, target in zip(sources, targets, strict=True)
    ]
    assert metrics["loss"] == pytest.approx(sum(nats) / sum(map(len, targets)), rel=1e-4)
    assert metrics["with"] == [f"{runs[1].name}:latest"]
    assert f"{runs[0].name}, with {runs[1].name}:latest, latest (step 7)" in result.out


def test_what_cannot_be_an_ensemble(cli: Cli, runs: list[Run], tmp_path: Path) -> None:
    words = random_run(tmp_path / "words", small_config(), Codecs.shared(make_codec("english", WORDS[1:])))
    longer = random_run(tmp_path / "longer", small_config("model.decoder_steps=7"), CODECS)
    for other, message in ((words, "vocabulary or tokenizer differs"), (longer, "model.decoder_steps differs")):
        for verb in ("chat", "evaluate"):
            corpus = ["--data", Path(__file__)] if verb == "evaluate" else []
            assert message in cli(verb, runs[0].path, "--with", other.path, *corpus).error_message
