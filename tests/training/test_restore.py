"""Weights of another run as initial ones, against the model in NumPy and against matching words one by one."""

import random
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from seq2seq_chat.config import parse_config
from seq2seq_chat.data.build_codecs import build_codecs
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.model.variables import save_variables, variable_name
from seq2seq_chat.runs.find import RunSnapshot
from seq2seq_chat.runs.run import Run, create_run
from seq2seq_chat.text.codec import Codecs, TextCodec
from seq2seq_chat.training.assemble import build_trainer
from seq2seq_chat.training.distribution import SINGLE_DEVICE
from seq2seq_chat.training.learner import Learner
from seq2seq_chat.training.restore import read_initial_weights
from tests.random_weights import randomize
from tests.reference_model import Reference

OLD_WORDS = [f"{letter}{number}" for letter in "abcdef" for number in range(4)]
NEW_WORDS = OLD_WORDS[8:] + [f"{letter}{number}" for letter in "xyz" for number in range(4)]
SIDES = ("source", "target")
TWO = {"target_vocabulary_size": 22}
MODEL = {"hidden_size": 6, "embedding_size": 4, "projection_size": 5, "encoder_steps": 6, "decoder_steps": 6}


class Origin(NamedTuple):
    """A run with random weights."""

    run: Run
    model: Seq2Seq


def write_corpus(path: Path, words: list[str], seed: int) -> str:
    """Questions of the first two thirds of the words, answers of the last two, so that the sides' words differ."""
    rng, third, lines = random.Random(seed), len(words) // 3, []
    shuffled = rng.sample(words, len(words))
    for _ in range(60):
        lines += [" ".join(rng.choices(shuffled[: 2 * third], k=5)), " ".join(rng.choices(shuffled[third:], k=5))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def settings_of(corpus: str, data: dict[str, Any], model: dict[str, Any]) -> dict[str, Any]:
    data = {"train": corpus, "pairing": "alternating", "vocabulary_size": 24, **data}
    training = {"batch_size": 4, "optimizer": "adam", "sampled_softmax": None}
    return {"name": "test", "data": data, "model": {**MODEL, **model}, "training": training}


def make_origin(tmp_path: Path, data: dict[str, Any], model: dict[str, Any]) -> Origin:
    config = parse_config(settings_of(write_corpus(tmp_path / "old.txt", OLD_WORDS, 1), data, model), "old")
    codecs = build_codecs(config.data)
    run = create_run(tmp_path / "old", config, codecs, {})
    target_size, source_size = codecs.vocabulary_sizes
    network = Seq2Seq(config.model, target_size, 1, source_size)
    randomize(network, seed=5, scale=0.6)
    metadata = {"step": 7, **codecs.fingerprints()}
    save_variables(run.checkpoint_path(7), network.trainable_variables, metadata)
    return Origin(run, network)


def make_learner(tmp_path: Path, origin: Origin, settings: dict[str, Any]) -> tuple[Run, Learner]:
    """A new run from the weights of the origin, before its first step."""
    config = parse_config(settings, "new")
    run = create_run(tmp_path / "new", config, build_codecs(config.data), {})
    initial = read_initial_weights(RunSnapshot(origin.run, None), config)
    with run.lock():
        learner = build_trainer(run, config, SINGLE_DEVICE, initial).state.learner
    assert not initial.arrays, "their memory is released"
    return run, learner


def rows_by_word(model: Seq2Seq, codec: TextCodec, table: str) -> dict[str, np.ndarray]:
    (values,) = [v.numpy() for v in model.trainable_variables if variable_name(v) == table]
    return dict(zip(codec.vocabulary.words, values, strict=True))


def logits_of(model: Seq2Seq, codecs: Codecs, source: list[str], target: list[str], words: list[str]) -> np.ndarray:
    """Of ``words``, at each position of the target, by the model in NumPy: [target steps, words]."""
    find = codecs.target.vocabulary.words.index
    ids = [codecs.source.vocabulary.words.index(word) for word in source]
    return Reference(model).logits(ids, [find(word) for word in target])[:, [find(word) for word in words]]


@pytest.mark.parametrize(
    ("architecture", "old_data", "new_data", "old_shared", "new_shared"),
    [
        ({}, {}, {}, False, False),
        ({"attention": "none", "projection_size": None}, {}, {}, True, True),
        ({"attention": "general", "bidirectional": True, "cell": "gru", "layers": 2}, {}, TWO, True, False),
        ({"attention": "dot"}, TWO, {}, False, False),
        ({"attention": "none"}, TWO, TWO, False, False),
        ({"projection_size": None}, {}, {}, True, False),
    ],
    ids=str,
)
def test_words_that_both_know_keep_their_rows_and_logits(
    tmp_path: Path, architecture: Any, old_data: Any, new_data: Any, old_shared: bool, new_shared: bool
) -> None:
    old = make_origin(tmp_path, old_data, {**architecture, "shared_embeddings": old_shared})
    corpus = write_corpus(tmp_path / "new.txt", NEW_WORDS, 2)
    settings = settings_of(corpus, new_data, {**architecture, "shared_embeddings": new_shared})
    run, learner = make_learner(tmp_path, old, settings)
    before, now, model = old.run.codecs, run.codecs, learner.model

    target_size, source_size = now.vocabulary_sizes
    fresh = Seq2Seq(run.config.model, target_size, run.config.seed, source_size)
    sides = {"output/words": "target", "output/bias": "target"}
    sides |= {"embedding/shared": "target"} if new_shared else {f"embedding/{side}": side for side in SIDES}
    for table, side in sides.items():
        old_table = "embedding/shared" if old_shared and table.startswith("embedding") else table
        known = rows_by_word(old.model, getattr(before, side), old_table)
        random_rows = rows_by_word(fresh, getattr(now, side), table)
        rows = rows_by_word(model, getattr(now, side), table)
        both = rows.keys() & known.keys()
        assert min(len(both), len(rows.keys() - both), len(known.keys() - both)) > 3
        for word, row in rows.items():
            np.testing.assert_array_equal(row, known[word] if word in both else random_rows[word], err_msg=word)

    sources, targets = (
        sorted(set(getattr(before, side).vocabulary.words) & set(getattr(now, side).vocabulary.words)) for side in SIDES
    )
    rng = random.Random(3)
    for _ in range(3):
        pair = rng.choices(sources, k=4), rng.choices(targets, k=5)
        expected = logits_of(old.model, before, *pair, words=targets)
        np.testing.assert_allclose(logits_of(model, now, *pair, words=targets), expected, rtol=0, atol=1e-6)
    assert np.abs(expected).max() > 0.3
    assert learner.step == 0
    assert not any(np.any(slot.numpy()) for slot in learner.optimizer.variables()), "the optimizer starts afresh"


def test_known_words_are_counted_for_each_vocabulary(tmp_path: Path) -> None:
    origin = make_origin(tmp_path, TWO, {})
    run, _ = make_learner(tmp_path, origin, settings_of(write_corpus(tmp_path / "new.txt", NEW_WORDS, 2), TWO, {}))
    log = run.log_file.read_text(encoding="utf-8")
    lines = (tmp_path / "new.txt").read_text(encoding="utf-8").splitlines()
    for first, side in enumerate(SIDES):
        words, known = (set(getattr(r.codecs, side).vocabulary.words) for r in (run, origin.run))
        tokens = " ".join(lines[first::2]).split()
        share = 100 * sum(word in words & known for word in tokens) / len(tokens)
        assert 20 < share < 80
        assert (
            f"{len(words & known)} of {len(words)} words of the {side} vocabulary are known to {origin.run.name}; they "
            f"make up {share:.0f} % of the {side} words of the training corpus"
        ) in log


@pytest.mark.parametrize(
    ("data", "model", "messages"),
    [
        ({}, {}, []),
        ({}, {"dropout": 0.3, "attention": "concat", "decoder_steps": 9, "unrolling": "dynamic"}, []),
        ({"reverse_input": True}, {}, ["data.reverse_input is true, but run {run} was trained with false"]),
        ({"tokenizer": "character"}, {}, ["words are new to {run}, whose tokenizer is english, not character; they"]),
    ],
    ids=str,
)
def test_warnings(tmp_path: Path, data: dict[str, Any], model: dict[str, Any], messages: list[str]) -> None:
    origin = make_origin(tmp_path, {}, {})
    corpus = write_corpus(tmp_path / "new.txt", OLD_WORDS, 2)
    run, _ = make_learner(tmp_path, origin, settings_of(corpus, data, model))
    warnings = [line for line in run.log_file.read_text(encoding="utf-8").splitlines() if "warning: " in line]
    assert len(warnings) == len(messages)
    for line, message in zip(warnings, messages, strict=True):
        assert message.format(run=origin.run.name) in line


def test_pretrained_vectors_are_for_words_that_the_other_run_does_not_know(tmp_path: Path) -> None:
    origin = make_origin(tmp_path, {}, {})
    words = NEW_WORDS[10:20]
    vectors = tmp_path / "vectors.vec"
    vectors.write_text("".join(f"{word} 1 2 3 {number}\n" for number, word in enumerate(words)), encoding="utf-8")
    corpus = write_corpus(tmp_path / "new.txt", NEW_WORDS, 2)
    run, learner = make_learner(tmp_path, origin, settings_of(corpus, {}, {"pretrained_embeddings": str(vectors)}))
    known = rows_by_word(origin.model, origin.run.codecs.source, "embedding/source")
    rows = rows_by_word(learner.model, run.codecs.source, "embedding/source")
    assert {word in known for word in words if word in rows} == {True, False}
    for number, word in enumerate(words):
        if word in rows:
            np.testing.assert_array_equal(rows[word], known.get(word, [1, 2, 3, number]))
