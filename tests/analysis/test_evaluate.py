"""Evaluating a tiny run: the figures, the file they are made from, and going on after a stop."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seq2seq_chat.analysis import predictions as module
from seq2seq_chat.analysis.bleu import Bleu
from seq2seq_chat.analysis.evaluate import evaluate_run, figures
from seq2seq_chat.analysis.predictions import Prediction, Predictions, predict
from seq2seq_chat.analysis.subject import Subject, moments
from seq2seq_chat.corpus import EncodedCorpus, iterate_samples, read_tokens
from seq2seq_chat.errors import UserError
from seq2seq_chat.runs import Run
from seq2seq_chat.training.validation import LossFunction

Cli = Callable[..., Any]


@pytest.fixture(scope="module")
def subject(tiny_run: Path) -> Subject:
    return Subject(Run(tiny_run))


def write(path: Path, *lines: Prediction) -> Predictions:
    text = "{}\n" + "".join(json.dumps(line._asdict()) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8")
    return Predictions(path, len(lines))


def test_figures_by_hand(tmp_path: Path) -> None:
    """10 nats for 4 tokens, of which 3 right; the other figures have tests of their own."""
    found = figures(
        write(
            tmp_path / "p.jsonl",
            Prediction(0, "how are you ?", "fine", "fine", -1.0, 6.0, 2, 2),
            Prediction(1, "one two three four five six seven", "fine thanks", "no", -2.0, 4.0, 2, 1),
        ),
        None,
    )
    assert found["loss"] == 2.5
    assert found["loss_bits"] == pytest.approx(2.5 / math.log(2))
    assert found["perplexity"] == pytest.approx(math.e**2.5)
    assert found["two_to_the_loss"] == pytest.approx(2**2.5)
    assert found["word_accuracy"] == 0.75
    assert found["mean_length"] == 1.5
    by_length = {part["words"]: (part["samples"], part["bleu"]) for part in found["bleu_by_source_length"]}
    short, long = Bleu(), Bleu()
    short.add(["fine"], ["fine"])
    long.add(["fine thanks"], ["no"])
    assert by_length["1–5"] == (1, short.score)
    assert by_length["6–10"] == (1, long.score)
    assert by_length["31+"] == (0, None)
    assert found["sent2vec_distance"] is None


def test_losses_and_replies_are_those_of_the_model(subject: Subject, corpora: Path, tmp_path: Path) -> None:
    """The sum of the samples' losses against the loss of validation, replies against the chat bot's."""
    data = corpora / "validation.txt"
    found = list(predict(subject, data, tmp_path))
    corpus = EncodedCorpus.open(data, subject.vocabulary, pairing="alternating")
    whole = LossFunction(subject.model, [(8, 8)], reverse_input=False)(corpus)
    assert sum(p.nats for p in found) == pytest.approx(whole.nats, rel=1e-6)
    assert sum(p.tokens for p in found) == whole.tokens
    texts = [tuple(map(" ".join, pair)) for pair in iterate_samples(read_tokens(data, "word"), "alternating")]
    assert [(p.source, p.expected) for p in found] == texts
    said = subject.bot.replies([p.source for p in found])
    assert [p.reply for p in found] == [reply.text for reply in said]
    assert [p.score for p in found] == pytest.approx([reply.hypotheses[0].score for reply in said], abs=1e-5)


def test_right_words_by_brute_force(subject: Subject, corpora: Path, tmp_path: Path) -> None:
    """Word by word with the decoder's step, for the first samples."""
    import tensorflow as tf

    data = corpora / "validation.txt"
    corpus = EncodedCorpus.open(data, subject.vocabulary, pairing="alternating")
    for prediction in list(predict(subject, data, tmp_path, limit=3)):
        batch = corpus.batch([prediction.sample], size=1, source_steps=8, target_steps=8, reverse=False)
        state, memory = subject.model.start(
            subject.model.encode(tf.constant(batch.source), tf.constant(batch.source_length))
        )
        before, right, nats = 1, 0, 0.0
        for word in batch.target[0, : batch.target_length[0]]:
            logits, state, _ = subject.model.step(tf.constant([before]), state, memory)
            right += int(np.argmax(logits[0]) == word)
            nats -= float(tf.nn.log_softmax(logits)[0, word])
            before = int(word)
        assert (prediction.right, prediction.tokens) == (right, batch.target_length[0])
        assert prediction.nats == pytest.approx(nats, rel=1e-4)


def test_a_stopped_evaluation_goes_on(
    subject: Subject, corpora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BLOCK", 7)
    data = corpora / "train.txt"
    whole = predict(subject, data, tmp_path / "whole", limit=40).path.read_bytes()
    lines = whole.splitlines(keepends=True)
    assert len(lines) == 41
    answered: list[int] = []
    replies = module._replies

    def counted(subject: Subject, corpus: Any, block: np.ndarray, decoding: Any) -> Any:
        answered.append(len(block))
        return replies(subject, corpus, block, decoding)

    monkeypatch.setattr(module, "_replies", counted)
    path = tmp_path / "cut" / predict(subject, data, tmp_path / "cut", limit=40).path.name
    head = lines[0]
    states = {
        b"": 40,
        head: 40,
        head[:-5]: 40,
        b"".join(lines[:11]): 33,  # killed between two blocks
        b"".join(lines[:11]) + lines[11][:20]: 33,  # in the middle of a line
        b"".join(lines[:11]) + lines[14]: 33,  # a line that does not belong there
        b"".join(lines[:11]) + b"\xff\xfe\n" + b"".join(lines[12:]): 33,
        b'{"other": 1}\n' + b"".join(lines[1:]): 40,
        whole + b"more\n": 0,
        whole: 0,
    }
    for content, left in states.items():
        answered.clear()
        path.write_bytes(content)
        predict(subject, data, tmp_path / "cut", limit=40)
        assert sum(answered) == left
        assert path.read_bytes() == whole


def test_other_questions_are_other_files(subject: Subject, corpora: Path, tmp_path: Path) -> None:
    data = corpora / "validation.txt"
    paths = {predict(subject, data, tmp_path, limit=limit).path for limit in (3, 4, None)}
    beam = subject.config.decoding.model_copy(update={"method": "beam", "beam_width": 3})
    paths.add(predict(subject, data, tmp_path, limit=3, decoding=beam).path)
    subject.go_to("10")
    paths.add(predict(subject, data, tmp_path, limit=3).path)
    subject.go_to("latest")
    assert len(paths) == 5
    assert subject.step == 20


def test_two_processes_do_not_write_one_file(subject: Subject, corpora: Path, tmp_path: Path) -> None:
    path = predict(subject, corpora / "validation.txt", tmp_path, limit=3).path
    with module._owned(path), pytest.raises(UserError, match="another process"):
        predict(subject, corpora / "validation.txt", tmp_path, limit=3)


def test_the_weights_of_a_moment_are_those_of_its_snapshot(own_run: Path, corpora: Path, tmp_path: Path) -> None:
    """Having been elsewhere before makes no difference."""
    run = Run(own_run)
    assert [moment.label for moment in moments(run)] == ["10", "20"]
    travelled = Subject(run, "20")
    travelled.go_to("10")
    assert travelled.fingerprint() == Subject(run, "10").fingerprint() != Subject(run, "20").fingerprint()


def test_evaluate_from_the_command_line(cli: Cli, own_run: Path, corpora: Path, tmp_path: Path) -> None:
    answer = cli("evaluate", own_run, "--limit", 6, "--beam-width", 2, "--json", tmp_path / "figures.json")
    assert (answer.status, answer.err) == (0, "")
    found = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    assert {"bleu", "bleu_signature", "sent2vec_distance", "distinct_2", "word_accuracy", "predictions"} <= set(found)
    assert found["samples"] == 6 and found["sent2vec_distance"] > 0
    assert len(Path(found["predictions"]).read_text(encoding="utf-8").splitlines()) == 7
    assert f"{found['word_accuracy']:.2%}" in answer.out and "2^loss" in answer.out
    assert (own_run / "evaluation" / "sent2vec.bin").is_file()  # no model was given, so one was learned


def test_evaluate_without_the_training_corpus(own_run: Path, corpora: Path) -> None:
    """Sentence vectors cannot be learned then; everything else is there."""
    config = json.loads((own_run / "config.json").read_text(encoding="utf-8"))
    config["data"]["train"] = "moved/away.txt"
    (own_run / "config.json").write_text(json.dumps(config), encoding="utf-8")
    found = evaluate_run(Run(own_run), limit=5)
    assert found["sent2vec_distance"] is None and "--sent2vec" in found["sent2vec"]
    assert found["bleu"] is not None


def test_a_wrong_sent2vec_file_is_refused_first(cli: Cli, own_run: Path, corpora: Path) -> None:
    answer = cli("evaluate", own_run, "--sent2vec", corpora / "train.txt")
    assert "no binary Sent2Vec model" in answer.complaint
    assert not (own_run / "evaluation").exists()


def test_an_empty_test_file_is_told(cli: Cli, own_run: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("")
    assert "no utterance" in cli("evaluate", own_run, "--data", tmp_path / "empty.txt").complaint


def test_a_full_disk_is_told_and_loses_nothing(
    subject: Subject, corpora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BLOCK", 4)
    data = corpora / "validation.txt"
    whole = predict(subject, data, tmp_path / "whole").path
    synced: list[int] = []

    def full(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) == 2:
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(module.os, "fsync", full)
        with pytest.raises(UserError, match="No space left"):
            predict(subject, data, tmp_path / "full")
    assert predict(subject, data, tmp_path / "full").path.read_bytes() == whole.read_bytes()
