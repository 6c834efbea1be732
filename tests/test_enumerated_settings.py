"""Every value of every enumerated setting trains, validates and replies, through the command line."""

import json
import math
import random
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from seq2seq_chat.config import ConfigError, json_schema, parse_config
from seq2seq_chat.runs.json_lines import read_json_lines
from tests.conftest import CommandResult, loopback_addresses, run_command
from tests.pairwise import Combination, pairwise

STEPS = 3
SMALL: dict[str, dict[str, Any]] = {
    "data": {"vocabulary_size": 20, "max_buckets": 2},
    "model": {"hidden_size": 4, "embedding_size": 4, "projection_size": 3, "encoder_steps": 3, "decoder_steps": 3},
    "training": {"batch_size": 4, "steps": STEPS, "sampled_softmax": 5, "log_every": 1, "validate_every": 2},
    "decoding": {"beam_width": 3},
}
ALSO: dict[tuple[str, Any], dict[str, Any]] = {
    ("data.tokenizer", "subword"): {"data.vocabulary_size": 300},  # the bytes alone are 256
    ("data.target_tokenizer", "subword"): {"data.target_vocabulary_size": 300},
    ("training.strategy", "mirrored"): {"training.replicas": 1},
    ("model.residual", True): {"model.layers": 2},
    ("model.tie_embeddings", True): {"model.projection_size": 4},
    ("task", "language_model"): {"training.bptt_forward": 2, "training.bptt_backward": 3, "decoding.beam_width": 10},
    ("decoding.rerank", "bidirectional"): {"decoding.backward_run": "backward"},
}
"""What a value requires besides."""


def enumerated_settings() -> dict[str, list[Any]]:
    """The values of each setting that has finitely many besides null, by path, from the schema."""
    schema = json.loads(json_schema())
    found: dict[str, list[Any]] = {}
    for section, reference in schema["properties"].items():
        if "$ref" not in reference:
            found |= {section: values} if (values := _values(reference)) else {}
            continue
        for key, setting in schema["$defs"][reference["$ref"].rpartition("/")[2]]["properties"].items():
            values = [value for variant in setting.get("anyOf", [setting]) for value in _values(variant)]
            if set(values) - {None}:
                found[f"{section}.{key}"] = values
    return found


def _values(variant: Mapping[str, Any]) -> list[Any]:
    types: dict[Any, list[Any]] = {"boolean": [False, True], "null": [None]}
    return variant.get("enum") or ([variant["const"]] if "const" in variant else types.get(variant.get("type"), []))


def settings_of(combination: Combination) -> dict[str, Any]:
    settings: dict[str, Any] = {"name": "x", **{section: dict(values) for section, values in SMALL.items()}}
    suffix = "tsv" if combination["task"] == "translation" else "txt"
    settings["data"] |= {"train": f"train.{suffix}", "validation": f"validation.{suffix}"}
    extra = [ALSO.get(item, {}).items() for item in combination.items()]
    for path, value in [*combination.items(), *(item for items in extra for item in items)]:
        section, _, key = path.partition(".")
        (settings[section] if key else settings)[key or section] = value
    return settings


def is_valid(combination: Combination) -> bool:
    try:
        parse_config(settings_of(combination), "test", warn=False)
    except ConfigError:
        return False
    return True


def combinations(size: int) -> list[Combination]:
    """Combinations of all values that this machine supports."""
    from seq2seq_chat.training.optimizers import why_unavailable

    values = enumerated_settings()
    values["training.precision"] = [value for value in values["training.precision"] if not why_unavailable(value)]
    values["task"].remove("language_model")  # to which many settings do not apply
    if size == 1:
        values["training.strategy"].remove("multi_worker")  # needs a process of its own
    else:  # the pairs of all tokenizers would be most of the combinations
        values["data.tokenizer"] = ["english", "character", "subword"]
        values["data.target_tokenizer"] = [None, "subword"]
    chosen = pairwise(values, is_valid, size)
    assert {(path, value) for path in values for value in values[path]} == {
        item for combination in chosen for item in combination.items()
    }
    return chosen


def language_models() -> list[Combination]:
    """Combinations of every value that applies to language models."""
    from seq2seq_chat.training.optimizers import why_unavailable

    required = {"task": "language_model", "model.attention": "none", "decoding.method": "sample"}
    values = {
        path: [value for value in options if is_valid({**required, path: value})]
        for path, options in enumerated_settings().items()
    }
    values["training.precision"] = [value for value in values["training.precision"] if not why_unavailable(value)]
    return pairwise(values, is_valid, size=1)


def with_names(chosen: list[Combination]) -> list[tuple[str, Combination]]:
    """A name for each run; the first, ``backward``, can rerank the replies of others."""
    chosen = sorted(chosen, key=lambda c: (not c["data.swap_source_target"], c["decoding.rerank"] == "bidirectional"))
    assert chosen[0]["data.swap_source_target"]
    assert chosen[0]["decoding.rerank"] != "bidirectional"
    return [(f"run{number}" if number else "backward", combination) for number, combination in enumerate(chosen)]


@pytest.fixture
def train_and_chat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Combination, str], None]:
    """Train a combination in ``tmp_path``, on corpora that do not fill the last batch, and talk to it."""
    monkeypatch.chdir(tmp_path)
    rng = random.Random(1)
    for name, count in (("train", 11), ("validation", 3)):
        utterances = [" ".join(rng.choices("abcdefghijklmnop", k=rng.randint(1, 3))) for _ in range(2 * count)]
        Path(f"{name}.txt").write_text("\n".join(utterances) + "\n", encoding="utf-8")
        rows = map("\t".join, zip(utterances[::2], utterances[1::2], strict=True))
        Path(f"{name}.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")

    def call(combination: Combination, name: str) -> None:
        Path("config.json").write_text(json.dumps(settings_of(combination)), encoding="utf-8")
        _assert_quiet(_train(combination, f"results-{name}"))
        (run,) = Path(f"results-{name}").iterdir()
        run.rename(name)
        metrics = list(read_json_lines(Path(name, "metrics.jsonl")))
        assert [line["step"] for line in metrics if line["kind"] == "train"] == list(range(1, STEPS + 1))
        assert [line["step"] for line in metrics if line["kind"] == "validation"] == [2, STEPS]
        assert all(math.isfinite(line["loss"]) for line in metrics)
        if combination["task"] == "language_model":
            generated = run_command("generate", name, "--length", 40, "--prompt", "a b")
            _assert_quiet(generated)
            assert generated.out.strip()
            return
        chat = run_command("chat", name, stdin=b"a b c\nd\n")
        _assert_quiet(chat)
        assert len(chat.out.splitlines()) == 2

    return call


def _train(combination: Combination, results: str) -> CommandResult:
    arguments = ["train", "config.json", "--results", results]
    if combination.get("training.strategy") != "multi_worker":
        return run_command(*arguments)

    command = [sys.executable, "-m", "seq2seq_chat", *arguments, "--workers", *loopback_addresses(1), "--index", "0"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)
    return CommandResult(result.returncode, result.stdout, result.stderr)


def _assert_quiet(result: CommandResult) -> None:
    assert result.status == 0, result
    expected = (
        "has no effect",
        "using TensorFlow, as ONNX Runtime does not support",
        "training a subword tokenizer",
        "is too long: the model reads only",
        "are not in the vocabulary",
    )
    assert all(any(text in line for text in expected) for line in result.err.splitlines()), result.err


@pytest.mark.slow(minutes=1)
def test_every_value(train_and_chat: Callable[[Combination, str], None]) -> None:
    for name, combination in with_names(combinations(1)):
        train_and_chat(combination, name)


@pytest.mark.slow
def test_every_value_of_language_models(train_and_chat: Callable[[Combination, str], None]) -> None:
    for number, combination in enumerate(language_models()):
        train_and_chat(combination, f"run{number}")


@pytest.mark.nightly
def test_every_pair_of_values(train_and_chat: Callable[[Combination, str], None]) -> None:
    failures = []
    for name, combination in with_names(combinations(2)):
        try:
            train_and_chat(combination, name)
        except Exception as error:
            failures.append((combination, error))
    assert not failures
