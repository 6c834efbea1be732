"""The model card of a run."""

import json
from pathlib import Path

import pytest

from seq2seq_chat.architecture.variables import parameter_counts
from seq2seq_chat.runs.model_card import MODEL_CARD, SCORES, record_scores, write_model_card
from seq2seq_chat.runs.run import Run
from seq2seq_chat.text.codec import Codecs
from tests.random_runs import make_codec, random_language_run, random_run, small_config

CODECS = Codecs.shared(make_codec("english", ["a", "b"]))


def card_of(run: Run) -> str:
    write_model_card(run, run.path)
    return (run.path / MODEL_CARD).read_text(encoding="utf-8")


def test_what_it_says(tmp_path: Path) -> None:
    config = small_config(f"data.train={tmp_path / 'train.txt'}")
    run = random_run(tmp_path / "runs", config, CODECS)
    assert "| training data | train.txt; license: not known |" in card_of(run)
    assert "| best validation | not validated |" in card_of(run)
    statistics = {"train": {"samples": 12345}, "reading": {"corpus": "dailydialog"}}
    (tmp_path / "statistics.json").write_text(json.dumps(statistics))
    line = {"kind": "validation", "step": 7, "loss": 1.0, "perplexity": 2.7, "best": True}
    run.metrics_file.write_text(json.dumps(line) + "\n")
    card = card_of(run)
    assert "| training data | train.txt, 12,345 samples; license: CC BY-NC-SA 4.0 |" in card
    assert f"| size | {sum(parameter_counts(config, 6, 6).values()):,} parameters |" in card
    assert "| vocabulary | 6 tokens |" in card
    assert "| best validation | perplexity 2.7 at step 7 |" in card
    assert "reads the last utterance, at most 8 tokens" in card
    assert "repeat sentences of its training data" in card
    assert str(tmp_path) not in card


def test_the_last_scores_of_each_file_are_in_it(tmp_path: Path) -> None:
    run = random_run(tmp_path, small_config(), CODECS)
    metrics = {"task": "translation", "data": "x/test.tsv", "step": 5, "perplexity": 3.0, "perplexity_interval": (2, 4)}
    metrics |= {"bleu": 20.0, "bleu_interval": (19, 22), "decoding": "greedy search", "samples": 9}
    record_scores(run, [metrics])
    assert not (run.path / SCORES).exists()  # there is no card
    write_model_card(run, run.path)
    run.best_path.parent.mkdir(exist_ok=True)
    record_scores(run, [metrics | {"bleu": 1.0}, metrics | {"data": "new.tsv", "bleu": None}])
    record_scores(run, [metrics])
    rows = [line for line in card_of(run).splitlines() if "evaluation on" in line]
    assert rows == [
        "| evaluation on test.tsv | perplexity 3.00 ± 1.00, BLEU 20.0 ± 1.5 (greedy search), 9 samples, at step 5 |",
        "| evaluation on new.tsv | perplexity 3.00 ± 1.00, 9 samples, at step 5 |",
    ]


@pytest.mark.parametrize("content", ["[]", "{", '{"train": 3}'])
def test_damaged_statistics_are_ignored(tmp_path: Path, content: str) -> None:
    (tmp_path / "statistics.json").write_text(content)
    run = random_run(tmp_path / "runs", small_config(f"data.train={tmp_path / 'train.txt'}"), CODECS)
    assert "license: not known" in card_of(run)


def test_of_a_language_model(tmp_path: Path) -> None:
    assert "It continues text" in card_of(random_language_run(tmp_path, "the cat\n"))
