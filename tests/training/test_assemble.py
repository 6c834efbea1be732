"""What the settings of an experiment make of its trainer, before the first step."""

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from seq2seq_chat.config import ConfigError, parse_config
from seq2seq_chat.data.batches import SourceNoise
from seq2seq_chat.data.build_codecs import build_codecs
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.model.output import Embedding
from seq2seq_chat.runs.run import Run, create_run
from seq2seq_chat.training.assemble import build_trainer
from seq2seq_chat.training.distribution import SINGLE_DEVICE
from seq2seq_chat.training.loop import Trainer


@pytest.mark.parametrize("shared", [False, True])
def test_both_tables_start_with_the_vectors(tiny_settings: dict[str, Any], tmp_path: Path, shared: bool) -> None:
    vectors = np.arange(24, dtype=np.float32).reshape(3, 8)
    lines = [" ".join([word, *map(str, vector)]) for word, vector in zip(("you", "nothing", "?"), vectors, strict=True)]
    (tmp_path / "vectors.vec").write_text("\n".join(lines) + "\n", encoding="utf-8")
    tiny_settings["model"] |= {"pretrained_embeddings": str(tmp_path / "vectors.vec"), "shared_embeddings": shared}
    run, trainer = build(tiny_settings, tmp_path)
    model = trainer.state.learner.model
    assert "initialized 2 of 60 word embeddings" in run.log_file.read_text(encoding="utf-8")
    for table, name in (
        (model.source_embedding.table, "embedding/shared" if shared else "embedding/source"),
        (model.target_embedding.table, "embedding/shared" if shared else "embedding/target"),
    ):
        expected = Embedding(name, 60, 8, run.config.seed).table.numpy()
        expected[run.codecs.source.vocabulary.ids(["you", "?"])] = vectors[[0, 2]]
        np.testing.assert_array_equal(table, expected)


def test_batches_validator_and_rate(
    tiny_settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise in the training batches only, every source in reverse, a limited validation, and the optimizer's rate."""
    validator = MagicMock()
    monkeypatch.setattr("seq2seq_chat.training.assemble.SampleValidator", validator)
    tiny_settings["data"] |= {"reverse_input": True, "buckets": [[5, 6]]}
    tiny_settings["training"] |= {"source_noise": 0.4, "validation_limit": 4}
    run, trainer = build(tiny_settings, tmp_path)
    config, learner = run.config, trainer.state.learner
    batches: Any = learner.batches
    noise = SourceNoise(0.4, run.codecs.source.vocabulary, config.seed)
    for step in (0, 5):
        plain = batches._batches.batch(*batches._sampler.batch(step))
        assert np.any(plain.source != batches.batch(step).source)
        np.testing.assert_array_equal(batches.batch(step).source, noise(plain, step).source)
    _, bot, corpus, buckets = validator.call_args.args
    assert buckets == [(5, 6), (8, 8)]
    assert (bot.config.data.reverse_input, bot.config.training.validation_limit) == (True, 4)
    assert corpus.text(0) == Dataset.open(config.data.validation, run.codecs, config.data).text(0)
    marks = run.codecs.source.vocabulary.ids(["?", "!", "."])
    assert batches._batches.batch(1, np.array([0])).source[0, 0] in marks, "the last word is first"
    learner.set_learning_rate(0.125)
    assert float(learner.optimizer.learning_rate) == 0.125


def test_each_step_trains_on_its_batch(tiny_settings: dict[str, Any], tmp_path: Path) -> None:
    """Which is prepared during the step before, unless training has just been resumed."""
    _, trainer = build(tiny_settings, tmp_path)
    learner, used = trainer.state.learner, MagicMock()
    learner._training_step = used
    for step in (0, 1, 2, 7, 8):
        if step != learner.step:
            learner.resume_at(step, learner.batches.state)
        learner.train_step()
        batch, number, _ = used.call_args.args
        assert number == step
        np.testing.assert_array_equal(batch.source, learner.batches.batch(step)[0])


def build(settings: dict[str, Any], results: Path) -> tuple[Run, Trainer]:
    """A new run and its trainer."""
    config = parse_config(settings, where="test")
    run = create_run(results, config, build_codecs(config.data), {})
    with run.lock():
        return run, build_trainer(run, config, SINGLE_DEVICE)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ("training.early_stopping=2", r"requires data\.validation"),
        ("training.learning_rate_schedule=plateau", r"requires data\.validation"),
        ("training.batch_size=4 training.micro_batches=5", "micro_batches is 5, but batch_size is only 4"),
        ("training.strategy=mirrored training.replicas=3", "batch_size 64 does not divide evenly among 3 replicas"),
        ("training.strategy=single training.replicas=2", "replicas applies to strategy mirrored only"),
        ("model.bidirectional=true model.bridge=backward model.attention=none", "bridge backward requires attention"),
        *(
            (f"model.{value} {section}.unrolling=dynamic", f"dynamic does not support .*{value.replace('=', ' ')}; use")
            for value in ("attention_query=previous", "output=maxout")
            for section in ("model", "decoding")
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(overrides: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_config({"name": "x", "data": {"train": "t.txt"}}, "test", overrides.split())
