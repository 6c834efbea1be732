"""An exported language model writes what `generate` writes for the same numbers, in plain TensorFlow."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seq2seq_chat.chat.generator import Generator, LanguageModelScorer
from seq2seq_chat.config import Decoding
from seq2seq_chat.data.running_text import encode_text
from seq2seq_chat.text.vocabulary import EOS
from tests.random_runs import random_language_run

pytestmark = pytest.mark.usefixtures("unoptimized_graphs")

TEXT = "the cat sat on the mat.\n\nthe dög saw it?"
PROMPTS = ("the cat", "", "a long prompt\nwith ☃ unknown characters", "<eos>", "the\n")
LIMITS = ((4.0, 0, 1.0), (2.0, 0, 1.0), (6.0, 5, 1.0), (4.0, 0, 0.6), (3.0, 7, 0.8))  # temperature, top_k, top_p
TOKENS, SEED = 40, 5

PLAIN_TENSORFLOW = """
import json, sys
import numpy as np
import tensorflow as tf

job = json.load(sys.stdin)
model = tf.saved_model.load(job["folder"])
uniform = np.stack([np.random.default_rng([seed]).random(job["tokens"]) for seed in job["seeds"]])
written = []
for prompt in job["prompts"]:
    for temperature, top_k, top_p in job["limits"]:
        inputs = {job["format"]: tf.constant(prompt), "uniform": tf.constant(uniform)}
        inputs |= {"temperature": tf.constant(temperature), "top_k": tf.constant(top_k), "top_p": tf.constant(top_p)}
        output = model.signatures["generate"](**inputs)[job["format"]]
        written.append([text.decode() for text in output.numpy()])
scores = [model.signatures["score"](**{job["format"]: tf.constant(p)})["nats"].numpy().tolist() for p in job["scored"]]
assert "seq2seq_chat" not in {name.split(".")[0] for name in sys.modules}
json.dump([written, scores], sys.stdout)
"""


def run_plainly(folder: Path, text_format: str, prompts: list[str], scored: list[str], seeds: list[int]) -> Any:
    job = {"folder": str(folder), "format": text_format, "prompts": prompts, "scored": scored, "seeds": seeds}
    finished = subprocess.run(
        [sys.executable, "-c", PLAIN_TENSORFLOW],
        input=json.dumps(job | {"limits": LIMITS, "tokens": TOKENS}),
        text=True,
        capture_output=True,
        check=False,
        cwd=folder.parent,
    )
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


def decoding(temperature: float, top_k: int, top_p: float) -> Decoding:
    return Decoding(
        method="sample", temperature=temperature, top_k=top_k or None, top_p=top_p if top_p < 1 else None, n_best=1
    )


@pytest.mark.slow
def test_characters_are_those_of_generate(cli: Callable[..., Any], tmp_path: Path) -> None:
    run, folder = random_language_run(tmp_path / "run", TEXT), tmp_path / "exported"
    assert cli("export", run.path, "--output", folder).status == 0
    seeds, scored = [SEED, SEED + 1], [TEXT, "☃ " * 20]
    written, scores = run_plainly(folder, "text", list(PROMPTS), scored, seeds)
    generator = Generator.load(run)
    expected = [
        ["".join(generator.stream(prompt, TOKENS, decoding(*limits), seed)) for seed in seeds]
        for prompt, limits in itertools.product(PROMPTS, LIMITS)
    ]
    assert written == expected
    assert len(set(itertools.chain.from_iterable(expected))) > len(expected)
    for text, nats in zip(scored, scores, strict=True):
        ids = np.array(encode_text(text, generator.codec))
        assert len(nats) == len(ids) - 1 == len(text) - 1
        assert np.sum(nats) == pytest.approx(LanguageModelScorer(generator.engine).score(ids).nats, rel=1e-5)


@pytest.mark.slow
def test_words_are_tokens_and_eos_is_a_line_break(cli: Callable[..., Any], tmp_path: Path) -> None:
    run, folder = random_language_run(tmp_path / "run", TEXT, tokenizer="english"), tmp_path / "exported"
    assert cli("export", run.path, "--output", folder).status == 0
    prompts = ["the cat", "the mat . <eos>", "<eos> <pad> quux"]
    written, _ = run_plainly(folder, "tokens", prompts, [], [SEED])
    generator = Generator.load(run)
    vocabulary = generator.codec.vocabulary
    eos = vocabulary.words[EOS]
    for (prompt, limits), texts in zip(itertools.product(prompts, LIMITS), written, strict=True):
        tokens = prompt.split()
        known = zip(tokens, vocabulary.ids(tokens), strict=True)
        ids = [EOS if token == eos else index for token, index in known]
        blocks = generator.blocks([ids], TOKENS, decoding(*limits), [SEED])
        assert texts == [" ".join(vocabulary.words[index] for block in blocks for index in block.ids[0])]
    assert any(eos in text for texts in written for text in texts)


@pytest.mark.parametrize("tokenizer", ["character", "english"])
def test_the_printed_program(
    cli: Callable[..., Any], tmp_path: Path, tokenizer: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run, folder = random_language_run(tmp_path / "run", f"{TEXT} The", tokenizer=tokenizer), tmp_path / "exported"
    result = cli("export", run.path, "--output", folder)
    assert (result.status, result.err) == (0, "")
    note, program = result.out.split("\n\nimport", 1)
    assert ("tokens separated by spaces" in note) == (tokenizer == "english")
    exec(f"import{program}", {})
    printed = capsys.readouterr().out
    if tokenizer == "character":
        options = ["--prompt", "The ", "--length", 200, "--temperature", 0.8, "--seed", 1]
        assert printed.startswith(cli("generate", run.path, *options).out.rstrip("\n"))
    else:
        assert len(printed.partition("\n")[0].split()) == 200


def test_beam_search_does_not_apply(cli: Callable[..., Any], tmp_path: Path) -> None:
    run = random_language_run(tmp_path / "run", TEXT)
    for option in ("--beam-width", "--n-best"):
        result = cli("export", run.path, "--output", tmp_path / "exported", option, 3)
        assert "is a language model, which has no beam search: omit --beam-width and --n-best" in result.error_message
    assert not (tmp_path / "exported").exists()
