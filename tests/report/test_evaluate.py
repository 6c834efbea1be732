"""Evaluation of a tiny run: predictions, the metrics computed from them, and resuming."""

import errno
import json
import math
import os
import re
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import sacrebleu

from seq2seq_chat.chat.corpus import decode_corpus
from seq2seq_chat.config import Config
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.data.samples import read_samples
from seq2seq_chat.engines.tensorflow.scorer import Scorer
from seq2seq_chat.metrics.sent2vec import Arguments, Sent2Vec
from seq2seq_chat.metrics.sentence_vectors import load_sentence_vectors
from seq2seq_chat.report import evaluate as evaluation
from seq2seq_chat.report import predictions as predictions_module
from seq2seq_chat.report.evaluate import compute_metrics, sentence_distances
from seq2seq_chat.report.loaded_run import LoadedRun, available_snapshots
from seq2seq_chat.report.predictions import Prediction, Predictions, evaluation_decoding, name_search, predict
from seq2seq_chat.report.scoring import score_predictions
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.training.validation import corpus_loss
from tests.conftest import Cli, edit_checkpoints, edit_config

pytestmark = pytest.mark.usefixtures("tiny_run", "unoptimized_graphs")


def write_predictions(path: Path, *lines: Prediction) -> Predictions:
    text = "{}\n" + "".join(json.dumps(line._asdict()) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8")
    return Predictions(path, len(lines))


def prediction(sample: int, source: str, words: int, reply: str, expected: str, *figures: Any) -> Prediction:
    """A prediction whose texts are not what the metrics are computed from."""
    return Prediction(sample, source, "Reply!", "Expected!", words, reply, expected, *figures)


def test_metrics_by_hand(tmp_path: Path) -> None:
    """10 nats for 4 tokens, 3 of them correct; the remaining metrics are tested in tests/metrics."""
    predictions = write_predictions(
        tmp_path / "p.jsonl",
        prediction(0, "How are you now?", 5, "fine", "fine", -1.0, 6.0, 2, 2),
        prediction(1, "one two three four five six", 6, "fine thanks", "no", -2.0, 4.0, 2, 1),
    )
    metrics = compute_metrics(predictions, None, score_predictions(predictions, "conversation"))
    assert metrics["loss"] == 2.5
    assert metrics["loss_bits"] == pytest.approx(2.5 / math.log(2))
    assert metrics["perplexity"] == pytest.approx(math.e**2.5)
    assert metrics["loss_interval"] == (2, 3)  # a quarter of the resamples has the second sample twice
    assert metrics["perplexity_interval"] == pytest.approx((math.e**2, math.e**3))
    assert metrics["two_to_the_loss"] == pytest.approx(2**2.5)
    assert (metrics["word_accuracy"], metrics["exact_match"]) == (0.75, 0.5)
    assert metrics["mean_length"] == 1.5
    (row,) = metrics["bleu_by_source_length"]
    expected = sacrebleu.corpus_bleu(["fine", "fine thanks"], [["fine", "no"]]).score
    assert (row["words"], row["samples"], row["bleu"], metrics["bleu"]) == ("1–6", 2, expected, expected)
    assert metrics["bleu_label"] == "BLEU, tokenized" and metrics["bleu_tokenized"] is None
    assert metrics["sent2vec_distance"] is None
    scores = score_predictions(predictions, "translation")
    for lowercase, key in ((False, "bleu"), (True, "bleu_lowercase")):
        metrics = compute_metrics(predictions, None, scores, lowercase=lowercase)
        (row,) = metrics["bleu_by_source_length"]
        assert (row["bleu"], metrics["bleu_by_source_length_label"]) == (metrics[key], metrics[f"{key}_label"])


def test_frequent_replies_do_not_count_as_varied(tmp_path: Path) -> None:
    """The ten most frequent replies, twice each, are as expected; the other one is at a distance of 2."""
    words = [f"w{n}" for n in range(12)]
    values = np.array([[1], *([n] for n in range(2, 11)), [5], [7]], np.float32)
    vectors = Sent2Vec(Arguments(dim=1, bucket=0), {word: n for n, word in enumerate(words)}, values)
    pairs = [*((word, word) for word in words[:10] * 2), (words[10], words[11])]
    lines = [prediction(n, "x", 1, reply, expected, -1.0, 1.0, 1, 1) for n, (reply, expected) in enumerate(pairs)]
    predictions = write_predictions(tmp_path / "p.jsonl", *lines)
    distances = sentence_distances(predictions, vectors)
    metrics = compute_metrics(predictions, distances, score_predictions(predictions, "conversation"))
    assert metrics["sent2vec_distance"] == pytest.approx(2 / 21)
    assert (metrics["sent2vec_distance_varied"], metrics["varied_samples"]) == (pytest.approx(2), 1)


def test_losses_and_replies_equal_validation_and_chatbot(loaded: LoadedRun, corpora: Path, tmp_path: Path) -> None:
    data = corpora / "validation.txt"
    results = list(predict(loaded, data, tmp_path))
    corpus = Dataset.open(data, loaded.codecs, loaded.config.data)
    expected = corpus_loss(Scorer(loaded.model), corpus, [(8, 8)], reverse_input=False)
    assert sum(p.nats for p in results) == pytest.approx(expected.nats, rel=1e-6)
    assert sum(p.tokens for p in results) == expected.tokens
    samples = list(read_samples(data, loaded.config.data, loaded.codecs.tokenizers))
    assert [(p.source, p.expected) for p in results] == [(sample.source, sample.target) for sample in samples]
    assert [p.expected_tokens.split() for p in results] == [sample.target_tokens for sample in samples]
    assert [p.source_words for p in results] == [len(sample.source_tokens) for sample in samples]
    replies = loaded.chatbot.replies([p.source for p in results])
    assert [p.reply for p in results] == [reply.text for reply in replies]
    assert [p.reply_tokens.split() for p in results] == [reply.hypotheses[0].words for reply in replies]
    assert [p.score for p in results] == pytest.approx([reply.hypotheses[0].score for reply in replies], abs=1e-5)


@pytest.mark.parametrize(
    "overrides",
    [
        ["method=beam", "beam_width=4"],
        ["method=beam", "beam_width=4", "rerank=anti_language_model", "rerank_weight=3"],
        ["method=beam", "beam_width=4", "rerank=bidirectional", "rerank_weight=1"],
        ["method=sample", "top_k=9"],
    ],
)
def test_what_is_measured_is_what_replies(
    overrides: list[str], loaded: LoadedRun, run_copy: Path, corpora: Path, tmp_path: Path
) -> None:
    """The backward run of the reranking is a copy that claims to be one."""
    edit_config(run_copy, "data", swap_source_target=True)
    edit_checkpoints(run_copy, lambda metadata: metadata.pop("settings"))
    backward = [f"backward_run={run_copy}"] if "rerank=bidirectional" in overrides else []
    decoding = evaluation_decoding(loaded.config, [f"decoding.{each}" for each in [*overrides, *backward]])
    results = list(predict(loaded, corpora / "validation.txt", tmp_path, decoding=decoding))
    replies = loaded.chatbot.replies([p.source for p in results], decoding)
    assert [p.reply for p in results] == [reply.text for reply in replies]
    plain = predict(loaded, corpora / "validation.txt", tmp_path, decoding=evaluation_decoding(loaded.config))
    assert [p.reply for p in plain] != [p.reply for p in results]


@pytest.mark.parametrize(
    ("settings", "overrides", "name"),
    [
        ({}, [], "greedy search"),
        ({"method": "beam", "n_best": 5}, [], "beam search, width 10"),
        (
            *({"method": "beam", "n_best": 5}, ["beam_width=3", "length_penalty=0.6"]),
            "beam search, width 3, length_penalty 0.6",
        ),
        ({"method": "beam", "n_best": 5, "length_penalty": 1}, ["method=greedy"], "greedy search"),
        ({"min_length": 2}, ["method=sample"], "sampling, seed 7, min_length 2"),
        ({"method": "sample", "seed": 3}, [], "sampling, seed 3"),
    ],
)
def test_decoding_of_an_evaluation(settings: dict[str, Any], overrides: list[str], name: str) -> None:
    """That of the run unless told otherwise, for one reply, and the same each time."""
    config = Config.model_validate({"name": "x", "data": {"train": "x"}, "seed": 7, "decoding": settings})
    decoding = evaluation_decoding(config, [f"decoding.{each}" for each in overrides])
    assert (name_search(decoding), decoding.n_best) == (name, 1)


def test_correct_tokens_by_brute_force(loaded: LoadedRun, corpora: Path, tmp_path: Path) -> None:
    """Token by token with single decoder steps."""
    import tensorflow as tf

    data = corpora / "validation.txt"
    corpus = Dataset.open(data, loaded.codecs, loaded.config.data)
    for prediction in list(predict(loaded, data, tmp_path, limit=3)):
        batch = corpus.batch([prediction.sample], size=1, source_steps=8, target_steps=8, reverse=False)
        encoded = loaded.model.encode(tf.constant(batch.source), tf.constant(batch.source_length))
        state, memory = loaded.model.start(encoded)
        previous, right, nats = 1, 0, 0.0
        for word in batch.target[0, : batch.target_length[0]]:
            logits, state, _ = loaded.model.step(tf.constant([previous]), state, memory)
            right += int(np.argmax(logits[0]) == word)
            nats -= float(tf.nn.log_softmax(logits)[0, word])
            previous = int(word)
        assert (prediction.right, prediction.tokens) == (right, batch.target_length[0])
        assert prediction.nats == pytest.approx(nats, rel=1e-4)


def test_interrupted_evaluation_resumes(
    loaded: LoadedRun, corpora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predictions_module, "BLOCK", 7)
    data = corpora / "train.txt"
    complete = predict(loaded, data, tmp_path / "complete", limit=40).path.read_bytes()
    lines = complete.splitlines(keepends=True)
    assert len(lines) == 41
    block_sizes: list[int] = []

    def count(bot: Any, corpus: Any, decoding: Any, block: np.ndarray) -> Any:
        block_sizes.append(len(block))
        return decode_corpus(bot, corpus, decoding, block)

    monkeypatch.setattr(predictions_module, "decode_corpus", count)
    path = predict(loaded, data, tmp_path / "interrupted", limit=40).path
    header = lines[0]
    states = {
        b"": 40,
        header: 40,
        header[:-5]: 40,
        b"".join(lines[:11]): 33,  # killed between two blocks
        b"".join(lines[:11]) + lines[11][:20]: 33,  # in the middle of a line
        b"".join(lines[:11]) + lines[14]: 33,  # a line of another sample
        b"".join(lines[:11]) + b"\xff\xfe\n" + b"".join(lines[12:]): 33,
        complete.replace(lines[11], lines[11].replace(b'"tokens": ', b'"tokens": 1')): 33,  # damaged, but plausible
        b'{"other": 1}\n' + b"".join(lines[1:]): 40,
        complete + b"more\n": 0,
        complete: 0,
    }
    for content, remaining in states.items():
        block_sizes.clear()
        path.write_bytes(content)
        predict(loaded, data, tmp_path / "interrupted", limit=40)
        assert sum(block_sizes) == remaining
        assert path.read_bytes() == complete


def test_predictions_of_a_version_without_checksums_are_used(
    loaded: LoadedRun, corpora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictions = predict(loaded, corpora / "train.txt", tmp_path, limit=5)
    expected, old = list(predictions), re.sub(rb', "crc32": \d+', b"", predictions.path.read_bytes())
    predictions.path.write_bytes(old)
    monkeypatch.setattr(predictions_module, "decode_corpus", None)
    assert list(predict(loaded, corpora / "train.txt", tmp_path, limit=5)) == expected
    assert predictions.path.read_bytes() == old


def test_each_setting_has_its_own_file(loaded: LoadedRun, corpora: Path, tmp_path: Path) -> None:
    data = corpora / "validation.txt"
    paths = {predict(loaded, data, tmp_path, limit=limit).path for limit in (3, 4, None)}
    beam = loaded.config.decoding.model_copy(update={"method": "beam", "beam_width": 3})
    paths.add(predict(loaded, data, tmp_path, limit=3, decoding=beam).path)
    earliest, newest = available_snapshots(loaded.run)
    assert (earliest.label, newest.label) == ("10", loaded.label)
    paths.add(predict(LoadedRun(loaded.run, earliest.name), data, tmp_path, limit=3).path)
    assert len(paths) == 5


def test_file_is_locked_while_written(loaded: LoadedRun, corpora: Path, tmp_path: Path) -> None:
    path = predict(loaded, corpora / "validation.txt", tmp_path, limit=3).path
    with predictions_module._open_exclusively(path), pytest.raises(UserError, match="another process"):
        predict(loaded, corpora / "validation.txt", tmp_path, limit=3)


@pytest.mark.parametrize(
    ("options", "samples", "search"),
    [
        ([], 4, "beam search, width 3 (at most 4 samples, the default with a beam)"),
        (["--limit", 6, "--beam-width", 2], 6, "beam search, width 2"),
        (["--set", "decoding.method=greedy"], 10, "greedy search"),
    ],
)
def test_default_limits(
    options: list[Any], samples: int, search: str, cli: Cli, run_copy: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    edit_config(run_copy, "decoding", method="beam", beam_width=3)
    monkeypatch.setattr(evaluation, "BEAM_LIMIT", 4)
    result = cli("evaluate", run_copy, *options, "--baseline", f"{run_copy}:10", "--json", tmp_path / "metrics.json")
    metrics = json.loads((tmp_path / "metrics.json").read_text(encoding="utf-8"))
    assert (metrics["samples"], metrics["decoding"], metrics["baseline"]["decoding"]) == (samples, search, search)
    assert re.search(rf"^decoding +{re.escape(search)}$", result.out, re.MULTILINE)
    assert f"_{'greedy' if 'greedy' in search else 'beam'}_" in metrics["predictions"]


def test_evaluate_from_the_command_line(cli: Cli, run_copy: Path, corpora: Path, tmp_path: Path) -> None:
    invalid = cli("evaluate", run_copy, "--set", "training.steps=3")
    assert "only the search can be changed here" in invalid.error_message
    invalid = cli("evaluate", run_copy, "--sent2vec", corpora / "train.txt")
    assert "not a binary Sent2Vec model" in invalid.error_message
    assert not (run_copy / "evaluation").exists()  # it fails before predicting
    result = cli("evaluate", run_copy, "--limit", 6, "--beam-width", 2, "--json", tmp_path / "metrics.json")
    assert (result.status, result.err) == (0, "")
    metrics = json.loads((tmp_path / "metrics.json").read_text(encoding="utf-8"))
    assert {"bleu", "bleu_signature", "sent2vec_distance", "distinct_2", "word_accuracy", "predictions"} <= set(metrics)
    assert metrics["samples"] == 6 and metrics["sent2vec_distance"] > 0
    assert len(Path(metrics["predictions"]).read_text(encoding="utf-8").splitlines()) == 7
    assert f"{metrics['exact_match']:.2%}" in result.out and result.out.split("\n\n")[0].count("\n") == 9
    result = cli("evaluate", run_copy, "--limit", 6, "--beam-width", 2, "--all")
    assert f"{metrics['distinct_1']:.4f}" in result.out and "2^loss" in result.out
    assert len(list((run_copy / "evaluation").glob("sent2vec_*.bin"))) == 1  # trained, as no model was given


def test_several_corpora_have_a_column_each(cli: Cli, run_copy: Path, corpora: Path, tmp_path: Path) -> None:
    arguments = ("evaluate", run_copy, "--limit", 6, "--json", tmp_path / "metrics.json")
    files, single = [corpora / "validation.txt", corpora / "train.txt"], []
    for file in files:
        assert cli(*arguments, "--data", file).status == 0
        single.append(json.loads((tmp_path / "metrics.json").read_text(encoding="utf-8")))
    result = cli(*arguments, *(part for file in files for part in ("--data", file)))
    assert json.loads((tmp_path / "metrics.json").read_text(encoding="utf-8")) == single
    lines = result.out.splitlines()
    assert lines[1].split() == ["validation.txt", "train.txt"]
    assert re.findall(r"([\d.]+) ±", lines[2]) == [f"{metrics['loss']:.4f}" for metrics in single]
    both = (*arguments, "--data", files[0], "--data", files[1])
    assert "name a single one with --data" in cli(*both, "--reference", files[0]).error_message


def test_both_engines_measure_the_same(cli: Cli, run_copy: Path, tmp_path: Path) -> None:
    metrics = {}
    for engine in ("auto", "tensorflow"):
        file = tmp_path / f"{engine}.json"
        assert cli("evaluate", run_copy, "--beam-width", 2, "--engine", engine, "--json", file).status == 0
        contents = json.loads(file.read_text(encoding="utf-8"))
        metrics[engine] = {name: value for name, value in contents.items() if isinstance(value, int | float)}
    assert metrics["auto"] == pytest.approx(metrics["tensorflow"], rel=1e-5)
    assert len(list((run_copy / "evaluation").glob("*.jsonl"))) == 2
    refused = cli("evaluate", run_copy, "--engine", "onnx", "--set", "decoding.unrolling=dynamic")
    assert "--engine onnx does not support decoding.unrolling dynamic" in refused.error_message


def test_runs_with_the_same_output_have_their_own_sentence_vectors(
    tiny_run: Path, run_copy: Path, corpora: Path, tmp_path: Path
) -> None:
    edit_config(run_copy, "data", train=str(corpora / "validation.txt"))
    folder = tmp_path / "output"
    first, second, again = (
        load_sentence_vectors(Run(run), folder)[0].embed(["you see it !"]) for run in (tiny_run, run_copy, tiny_run)
    )
    assert np.array_equal(first, again) and not np.array_equal(first, second)
    assert len(list(folder.glob("sent2vec_*.bin"))) == 2


def test_damaged_sentence_vectors_are_trained_again(
    tiny_run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run(tiny_run)
    expected = load_sentence_vectors(run, tmp_path)[0].embed(["you see it !"])
    (path,) = tmp_path.glob("sent2vec_*.bin")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 64
    path.write_bytes(content)
    assert np.array_equal(load_sentence_vectors(run, tmp_path)[0].embed(["you see it !"]), expected)
    assert caplog.messages == [f"{path} is damaged; training it again"]
    path.with_suffix(".crc32").unlink()  # as a version without checksums left it
    path.write_bytes(content)
    load_sentence_vectors(run, tmp_path)
    assert path.read_bytes() == content


def test_a_file_system_without_locks_is_not_called_another_process(
    loaded: LoadedRun, corpora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, message in ((errno.ENOLCK, "No locks available"), (errno.EWOULDBLOCK, "another process")):
        error = OSError(number, os.strerror(number))
        with monkeypatch.context() as patch, pytest.raises(UserError, match=message):
            patch.setattr(predictions_module.fcntl, "flock", Mock(side_effect=error))
            predict(loaded, corpora / "validation.txt", tmp_path)


def test_full_disk_loses_no_complete_block(
    loaded: LoadedRun, corpora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predictions_module, "BLOCK", 4)
    data = corpora / "validation.txt"
    expected = predict(loaded, data, tmp_path / "expected").path
    synced: list[int] = []

    def fail(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) == 2:
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(predictions_module.os, "fsync", fail)
        with pytest.raises(UserError, match="No space left"):
            predict(loaded, data, tmp_path / "full")
    assert predict(loaded, data, tmp_path / "full").path.read_bytes() == expected.read_bytes()
