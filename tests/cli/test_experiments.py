"""Every shipped experiment trains: a few steps of each, on the bundled sample and at a small size."""

import json
import math
from pathlib import Path

import pytest

from seq2seq_chat.checks.check_context import SAMPLE_CORPUS
from seq2seq_chat.config import load_config
from tests.conftest import REPOSITORY, Cli, shipped_configs

EXPERIMENTS = shipped_configs()
FAST = ("quickstart", "thesis_reddit")  # the others are slow


@pytest.mark.parametrize(
    "experiment",
    [pytest.param(path, id=path.stem, marks=[] if path.stem in FAST else pytest.mark.slow) for path in EXPERIMENTS],
)
def test_a_shipped_experiment_trains(cli: Cli, tmp_path: Path, experiment: Path) -> None:
    translation = load_config(experiment).task == "translation"
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
    vocabulary_file = "target_vocabulary.txt" if translation else "vocabulary.txt"
    vocabulary = len((run / vocabulary_file).read_text(encoding="utf-8").splitlines())
    (exact,) = [line["loss"] for line in lines if line["kind"] == "validation"]
    assert exact < 1.02 * math.log(vocabulary)
    assert (run / "checkpoints" / "0000000003.npz").is_file()
    config = json.loads((run / "config.json").read_text(encoding="utf-8"))
    assert config["name"] == experiment.stem
