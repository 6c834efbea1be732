"""An exported language model writes what `generate` writes for the same numbers, in plain TensorFlow."""

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


def decoding(temperature: float, top_k: int, top_p: float) -> Decoding:
    limits = {"top_k": top_k or None, "top_p": top_p if top_p < 1 else None}
    return Decoding(method="sample", temperature=temperature, n_best=1, **limits)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tokenizer", "prompts"),
    [
        ("character", ["the cat", "", "a long prompt\nwith ☃ unknown characters", "<eos>", "the\n"]),
        ("english", ["the cat", "the mat . <eos>", "<eos> <pad> quux"]),  # tokens; <eos> is a line break
    ],
)
def test_texts_and_scores_are_those_of_the_run(
    cli: Callable[..., Any], tmp_path: Path, tokenizer: Any, prompts: list[str]
) -> None:
    run, folder = random_language_run(tmp_path / "run", TEXT, tokenizer=tokenizer), tmp_path / "exported"
    assert cli("export", run.path, "--output", folder).status == 0
    is_text, seeds, generator = tokenizer == "character", [SEED, SEED + 1], Generator.load(run)
    vocabulary, scored = generator.codec.vocabulary, [TEXT, "☃ " * 20] if is_text else []
    job = {"folder": str(folder), "format": "text" if is_text else "tokens", "prompts": prompts, "scored": scored}
    job |= {"seeds": seeds, "limits": LIMITS, "tokens": TOKENS}
    command = [sys.executable, "-c", PLAIN_TENSORFLOW]
    written, scores = json.loads(subprocess.check_output(command, input=json.dumps(job), text=True, cwd=tmp_path))
    for (prompt, limits), texts in zip(itertools.product(prompts, LIMITS), written, strict=True):
        if is_text:
            expected = ["".join(generator.stream(prompt, TOKENS, decoding(*limits), seed)) for seed in seeds]
        else:
            ids = [EOS if token == "<eos>" else vocabulary.ids([token])[0] for token in prompt.split()]
            blocks = generator.blocks([ids] * 2, TOKENS, decoding(*limits), seeds)
            rows = np.concatenate([block.ids for block in blocks], axis=1)
            expected = [" ".join(vocabulary.words[index] for index in row) for row in rows]
        assert texts == expected
    distinct = set(itertools.chain.from_iterable(written))
    assert len(distinct) > len(written) and (is_text or any("<eos>" in text for text in distinct))
    for text, nats in zip(scored, scores, strict=True):
        ids = np.array(encode_text(text, generator.codec))
        assert len(nats) == len(ids) - 1 == len(text) - 1
        assert np.sum(nats) == pytest.approx(LanguageModelScorer(generator.engine).score(ids).nats, rel=1e-5)


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
