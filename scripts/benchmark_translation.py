#!/usr/bin/env python3
"""Train a translation model, and report its scores and its speed in training and in decoding.

python scripts/benchmark_translation.py train.tsv validation.tsv test.tsv

The model is a word-level LSTM of 512 units with additive attention and input feeding. BLEU is of lower-cased
tokens (sacrebleu, tokenize none); beam search has a length penalty of 1. Run nothing else at the same time.
"""

from __future__ import annotations

import copy
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
from contenders import json_option, print_table
from sacrebleu.metrics.bleu import BLEU
from tqdm import tqdm

from seq2seq_chat.cli.options import run_command
from seq2seq_chat.config import Config, Decoding, override_decoding
from seq2seq_chat.data.build_codecs import build_codecs
from seq2seq_chat.data.dataset import Dataset, open_training_corpus
from seq2seq_chat.report.loaded_run import LoadedRun
from seq2seq_chat.runs.json_lines import read_json_lines
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.files import write_json
from seq2seq_chat.system.versions import load_tensorflow
from seq2seq_chat.training.optimizers import why_unavailable

SEARCHES = ((1, 32), (5, 32), (5, 1))  # beam width, sentences at once
MAX_WORDS = 30  # of training sentences
MAX_CALLS = 100  # of a search, timed
SETTINGS: dict[str, Any] = {
    "name": "benchmark_translation",
    "task": "translation",
    "data": {"tokenizer": "unicode", "lowercase": True, "max_length": MAX_WORDS, "buckets": "auto"},
    "model": {
        "hidden_size": 512,
        "embedding_size": 256,
        "projection_size": None,
        "dropout": 0.2,
        "encoder_steps": MAX_WORDS + 10,
        "decoder_steps": MAX_WORDS + 10,
    },
    "training": {
        "batch_size": 64,
        "optimizer": "adam",
        "learning_rate": 0.001,
        "gradient_clipping": 1.0,
        "sampled_softmax": None,
        "validation_limit": None,
        "bleu_limit": 1,
        "sample_replies": 0,
        "snapshot_every": None,
    },
}


@click.command(help=__doc__)
@click.argument("train_file", metavar="TRAIN")
@click.argument("validation_file", metavar="VALIDATION")
@click.argument("test_file", metavar="TEST")
@click.option("--source-words", default=7859, show_default=True, type=click.IntRange(5), help="Source vocabulary.")
@click.option("--target-words", default=5922, show_default=True, type=click.IntRange(5), help="Target vocabulary.")
@click.option("--epochs", default=2.0, show_default=True, type=click.FloatRange(0, min_open=True))
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0), help="Of the training.")
@click.option("--precision", type=click.Choice(["float32", "bfloat16"]), help="[default: the fastest available]")
@json_option
def main(
    train_file: str,
    validation_file: str,
    test_file: str,
    source_words: int,
    target_words: int,
    epochs: float,
    seed: int,
    precision: str | None,
    json_file: Path | None,
) -> None:
    """Train, then translate the test corpus."""
    settings = copy.deepcopy(SETTINGS) | {"seed": seed}
    files = {"train": train_file, "validation": validation_file, "test": test_file}
    settings["data"] |= {**files, "vocabulary_size": source_words, "target_vocabulary_size": target_words}
    settings["training"]["precision"] = precision or ("float32" if why_unavailable("bfloat16") else "bfloat16")
    config = Config.model_validate(settings)
    samples = len(open_training_corpus(config, build_codecs(config.data), lambda message: None))
    steps = -(-round(epochs * samples) // settings["training"]["batch_size"])
    settings["training"] |= {"steps": steps, "validate_every": steps, "checkpoint_every": steps}
    with tempfile.TemporaryDirectory() as folder:
        run, seconds = train(settings, Path(folder))
        report = {**training_report(run, seconds), "samples": samples, "searches": time_searches(run)}
    click.echo(
        f"trained {samples:,} pairs for {epochs:g} epochs, {steps:,} steps, in {seconds:.0f} s: "
        f"{report['tokens_per_second']:,.0f} target tokens/s\n"
        f"validation perplexity {report['perplexity']:.2f}\n"
    )
    print_table(report["searches"], ["search", "sentences at once", "BLEU", "median ms", "sentences/s"])
    if json_file:
        write_json(json_file, report)


def train(settings: dict[str, Any], results: Path) -> tuple[Run, float]:
    """Train in a process of its own; the run, and the seconds from its start to its end."""
    config = results / "benchmark_translation.json"
    write_json(config, settings)
    start = time.perf_counter()
    command = [sys.executable, "-m", "seq2seq_chat", "train", str(config), "--results", str(results)]
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    seconds = time.perf_counter() - start
    if process.returncode:
        sys.exit(process.returncode)
    return Run(Path(process.stdout.splitlines()[-1])), seconds


def training_report(run: Run, seconds: float) -> dict[str, Any]:
    """The scores and the speed of a training run."""
    lines = list(read_json_lines(run.metrics_file))
    validation = next(line for line in reversed(lines) if line["kind"] == "validation")
    tokens = sum(line["tokens"] for line in lines if line["kind"] == "train")
    return {
        "perplexity": validation["perplexity"],
        "training_seconds": seconds,
        "tokens_per_second": tokens / seconds,
    }


def time_searches(run: Run) -> list[dict[str, Any]]:
    """Translate the test corpus by each search: BLEU where all of it is translated, and the speed."""
    load_tensorflow()
    loaded = LoadedRun(run)
    corpus = Dataset.open(run.config.data.test or "", loaded.codecs, run.config.data)
    references = [" ".join(sample.target_tokens) for sample in corpus.samples(range(len(corpus)))]
    bleu = BLEU(tokenize="none", force=True)
    rows = []
    for width, batch_size in SEARCHES:
        method = "beam" if width > 1 else "greedy"
        penalty = 1.0 if width > 1 else 0.0
        decoding = override_decoding(
            run.config.decoding, method=method, beam_width=width, length_penalty=penalty, n_best=1
        )
        limit = None if batch_size > 1 else MAX_CALLS * batch_size
        translations, seconds = translate(loaded, corpus, decoding, batch_size, limit)
        rows.append(
            {
                "search": f"beam {width}" if width > 1 else "greedy",
                "sentences at once": batch_size,
                "BLEU": None if limit else f"{bleu.corpus_score(translations, [references]).score:.2f}",
                "median ms": 1e3 * median(seconds),
                "sentences/s": f"{len(translations) / sum(seconds):.1f}",
            }
        )
    return rows


def translate(
    loaded: LoadedRun, corpus: Dataset, decoding: Decoding, batch_size: int, limit: int | None
) -> tuple[list[str], list[float]]:
    """The translations of the first ``limit`` sentences, as tokens, and the seconds of each batch.

    A batch has sentences of similar lengths. The first batch is translated once before, which traces the graph.
    """
    model, search = loaded.config.model, loaded.chatbot.engine.search(decoding)
    total = min(len(corpus), limit or len(corpus))
    translations = [""] * total
    order = np.argsort(corpus.source_lengths(np.arange(total)), kind="stable")
    seconds = []
    starts = [0, *range(0, total, batch_size)]
    for position, start in enumerate(tqdm(starts, unit="batch", desc=decoding.method, disable=None, leave=False)):
        indices = order[start : start + batch_size]
        begin = time.perf_counter()
        batch = corpus.batch(
            indices, size=len(indices), source_steps=model.encoder_steps, target_steps=1, reverse=False
        )
        hypotheses = search(batch.source, batch.source_length, decoding.seed)
        texts = [
            " ".join(loaded.codecs.target.words(words[:length]))
            for words, length in zip(hypotheses.words[:, 0], hypotheses.lengths[:, 0], strict=True)
        ]
        for index, text in zip(indices, texts, strict=True):
            translations[index] = text
        if position:
            seconds.append(time.perf_counter() - begin)
    return translations, seconds


if __name__ == "__main__":
    run_command(main)
