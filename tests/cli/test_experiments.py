"""Every experiment trains for a few steps: those that are shipped, at a small size, and those that `prepare` writes."""

import gzip
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from seq2seq_chat.checks.check_context import SAMPLE_CORPUS
from seq2seq_chat.config import load_config
from tests.cli.test_translation import translations
from tests.conftest import REPOSITORY, Cli, shipped_configs

EXPERIMENTS = shipped_configs()
FAST = ("quickstart", "thesis_reddit")  # the others are slow


@pytest.mark.parametrize(
    "experiment",
    [pytest.param(path, id=path.stem, marks=[] if path.stem in FAST else pytest.mark.slow) for path in EXPERIMENTS],
)
def test_a_shipped_experiment_trains(cli: Cli, tmp_path: Path, experiment: Path) -> None:
    config = load_config(experiment)
    translation = config.task == "translation"
    corpus = REPOSITORY / "configs" / "sample" / "dates_train.tsv" if translation else SAMPLE_CORPUS
    small: dict[str, object] = {"data.train": corpus, "data.validation": corpus, "data.max_buckets": 2}
    small |= {"data.test": "null", "data.vocabulary": "null"}
    small |= {"model.hidden_size": 12, "model.embedding_size": 8, "model.projection_size": 8}
    small |= {"model.encoder_steps": 4, "model.decoder_steps": 4, "training.batch_size": 8, "training.steps": 3}
    small |= {"training.log_every": 1, "training.validation_limit": 8}
    if not translation:
        small["data.pairing"] = "sliding"
    options = [part for key, value in small.items() for part in ("--set", f"{key}={value}")]
    result = cli("train", experiment, "--results", tmp_path, *options)
    assert result.status == 0, result
    run = Path(result.out.splitlines()[-1])
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["step"] for line in lines if line["kind"] == "train"] == [1, 2, 3]
    has_two = translation and not config.data.shared_vocabulary
    vocabulary_file = "target_vocabulary.txt" if has_two else "vocabulary.txt"
    vocabulary = len((run / vocabulary_file).read_text(encoding="utf-8").splitlines())
    (exact,) = [line["loss"] for line in lines if line["kind"] == "validation"]
    assert exact < 1.02 * math.log(vocabulary)
    assert (run / "checkpoints" / "0000000003.npz").is_file()


def test_prepare_train_and_chat(cli: Cli, tmp_path: Path) -> None:
    """The printed settings train on the prepared pairs."""
    pairs = [(source.capitalize(), f"{target} été") for source, target in translations(150, 1, lengths=(1, 4))]
    source, target = zip(*pairs, strict=True)
    (tmp_path / "text.en").write_bytes(gzip.compress("\n".join(source).encode()))
    (tmp_path / "text.fr").write_text("\n".join(target) + "\n", encoding="utf-8")
    files = tmp_path / "text.en", tmp_path / "text.fr"
    options = ["--tokenizer", "unicode", "--lowercase", "--target-tokenizer", "subword", "--split", "8,1,1"]
    sizes = ["--target-vocabulary-size", 300, "--drop-duplicates", "--max-words", 20, "--max-ratio", 9]
    result = cli("prepare", "pairs", *files, *options, *sizes, "--output", tmp_path / "data")
    assert result.status == 0, result
    assert re.search(r"^read: 2 files, [\d,]+ bytes, 150 records$", result.out, re.MULTILINE)
    duplicates = 150 - len(set(pairs))
    assert f"left out: {duplicates:,} pairs (duplicates), more than a tenth of 150\n" in result.err
    settings = [f"model.{name}_size=8" for name in ("hidden", "embedding", "projection")]
    settings += ["model.encoder_steps=5", "model.decoder_steps=6"]
    settings += ["training.steps=3", "training.batch_size=4", "training.sampled_softmax=null"]
    results = tmp_path / "results"
    overrides = [argument for setting in settings for argument in ("--set", setting)]
    result = cli("train", tmp_path / "data" / "experiment.json", *overrides, "--results", results)
    assert result.status == 0, result
    (run,) = results.iterdir()
    for name in ("vocabulary.txt", "target_vocabulary.txt"):
        assert (run / name).read_bytes() == (tmp_path / "data" / name).read_bytes()
    assert (run / "target_tokenizer.json").read_bytes() == (tmp_path / "data" / "target_tokenizer.json").read_bytes()
    result = cli("chat", run, stdin=b"One two!\nThree?\n")
    assert (result.status, result.out.count("\n")) == (0, 2)


@pytest.mark.parametrize(
    ("corpus", "options", "message"),
    [
        ("lines", ["--drop-duplicates"], "No such option '--drop-duplicates'"),
        ("pairs", ["--turns", "odd-even"], "No such option '--turns'"),
        ("pairs", ["--pairing", "sliding"], "'sliding' is not 'alternating'"),
        ("pairs", ["--shared-vocabulary", "--target-tokenizer", "thesis"], "--shared-vocabulary cannot be used with"),
        ("pairs", ["--shared-vocabulary", "--target-vocabulary-size", 9], "--shared-vocabulary cannot be used with"),
        ("pairs", ["--shared-vocabulary", "--target-vocabulary-size", 0], "--shared-vocabulary cannot be used with"),
        ("pairs", ["--tokenizer", "english", "--lowercase"], "--lowercase applies to the unicode tokenizer"),
        ("lines", ["--lowercase"], "--lowercase applies to the unicode tokenizer only, not to english"),
        ("lines", ["--tokenizer", "unicode", "--subword-model", "bpe"], "--subword-model applies to the subword"),
        ("lines", ["--level", "character"], "--level character is now --tokenizer character"),
        ("pairs", ["--max-ratio", 0.5], "--max-ratio"),
        ("pairs", ["--max-ratio", "nan"], "nan is not a number"),
        ("lines", ["--max-bad", "nan"], "nan is not a number"),
        ("chats", ["--me", "Ada", "--pairing", "sliding"], "every second utterance yours; omit --pairing sliding"),
        ("pairs", ["--target-vocabulary-size", 3], "vocabulary"),
    ],
)
def test_options_that_do_not_apply(cli: Cli, tmp_path: Path, corpus: str, options: list[Any], message: str) -> None:
    (tmp_path / "a.tsv").write_text("a\tb\n")
    assert message in cli("prepare", corpus, tmp_path / "a.tsv", *options, "--output", tmp_path / "out").error_message
    assert not (tmp_path / "out").exists()
