#!/usr/bin/env python3
"""Verify a machine with an NVIDIA GPU: checks, benchmark, 200 steps of the thesis's configuration, determinism.

Needs no corpus: it generates one with the thesis's vocabulary size. The exit status is 0 if everything passed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import click
import numpy as np
from contenders import print_table

from seq2seq_chat.architecture.variables import estimate_memory, gigabytes
from seq2seq_chat.cli.options import run_command
from seq2seq_chat.config import load_config
from seq2seq_chat.runs.json_lines import read_json_lines
from seq2seq_chat.system.files import write_json

REPOSITORY = Path(__file__).resolve().parents[1]
CONFIG = REPOSITORY / "configs" / "thesis_reddit.json"
SAMPLES = 2_000  # of the generated corpus, of as many words as the encoder has steps
STEPS, SHORT = 200, 20  # of the training, and of the runs that are compared
OVERHEAD = 0.5e9  # bytes of libraries that the estimate of memory leaves out
TOLERANCE = 2e-3  # relative, between losses on GPU and processor; TF32 products round to 10 bits
CHECKS = (
    *("memory", "initial-loss", "gradients", "padding", "save-and-load", "decoding"),
    *("alignment", "overfitting", "copy-task"),
)
DRY_RUN = {
    "data": {"vocabulary_size": 500},
    "model": {"hidden_size": 16, "embedding_size": 8, "projection_size": 12, "encoder_steps": 6, "decoder_steps": 6},
    "training": {"batch_size": 8, "sampled_softmax": 50},
}
DRY_RUN_CHECKS = ("memory", "initial-loss", "decoding")
DEVICES = """
import json, sys
from seq2seq_chat.system.hardware import describe_devices, gpu_names
from seq2seq_chat.system.versions import load_tensorflow
tf = load_tensorflow()
built = {key: str(value) for key, value in tf.sysconfig.get_build_info().items()}
found = {"gpus": gpu_names(), "devices": describe_devices(), "tensorflow": tf.__version__, "built": built}
json.dump(found, sys.stdout)
"""
TRAIN = """
import atexit, json, resource, sys
path = sys.argv.pop(1)
def write_peak_memory():
    import tensorflow as tf
    gpu = tf.config.list_physical_devices("GPU")
    peak = tf.config.experimental.get_memory_info("GPU:0")["peak"] if gpu else 0
    with open(path, "w") as file:
        json.dump(peak or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, file)
atexit.register(write_peak_memory)
from seq2seq_chat.cli import main
main()
"""


class Outcome(NamedTuple):
    """A row of the summary."""

    what: str
    passed: bool
    measured: str
    expected: str


class Verification:
    """Everything is run in processes of its own, which show their output, and write into one folder.

    Args:
        folder: for runs, logs and results.
        cpu: whether this is a dry run with a small model on the processor.
    """

    def __init__(self, folder: Path, cpu: bool) -> None:
        self.folder, self._cpu = folder, cpu
        self._environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
        if cpu:
            self._environment["CUDA_VISIBLE_DEVICES"] = ""
        self._config = folder / "config.json"

    def find_gpus(self) -> list[str]:
        """Report TensorFlow and the devices it finds; returns the names of the GPUs."""
        command = [sys.executable, "-c", DEVICES]
        run = subprocess.run(command, env=self._environment, stdout=subprocess.PIPE, text=True, check=True)
        found: dict[str, Any] = json.loads(run.stdout)
        built = found["built"]
        click.echo(
            f"TensorFlow {found['tensorflow']}, built for CUDA {built.get('cuda_version')}, "
            f"cuDNN {built.get('cudnn_version')}\n{found['devices']}"
        )
        return list(found["gpus"])

    def prepare(self) -> None:
        """Write the configuration, and a corpus of random words with frequencies as in language."""
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = json.loads(CONFIG.read_text(encoding="utf-8"))
        for section, values in (DRY_RUN if self._cpu else {}).items():
            settings[section] |= values
        size, steps = settings["data"]["vocabulary_size"], settings["model"]["encoder_steps"]
        words = [f"word{number}" for number in range(size - 4)]
        ranks = np.minimum(np.random.default_rng(1).zipf(1.2, (SAMPLES, steps - 1)) - 1, len(words) - 1)
        corpus, vocabulary = self.folder / "corpus.txt", self.folder / "vocabulary.txt"
        corpus.write_text("".join(" ".join(words[rank] for rank in line) + "\n" for line in ranks), encoding="utf-8")
        vocabulary.write_text("\n".join(["<pad>", "<go>", "<eos>", "<unknown>", *words]) + "\n", encoding="utf-8")
        files = {"train": str(corpus), "validation": str(corpus), "test": None, "vocabulary": str(vocabulary)}
        settings["data"] |= files | {"pairing": "sliding"}
        settings["training"] |= {"validation_limit": 64, "checkpoint_every": STEPS, "snapshot_every": None}
        write_json(self._config, settings)

    def checks(self) -> Outcome:
        """The checks before a long experiment."""
        names = DRY_RUN_CHECKS if self._cpu else CHECKS
        only = [word for name in names for word in ("--only", name)]
        program = ["-m", "seq2seq_chat", "check", self._config, *only, *(["--fast"] if self._cpu else [])]
        passed = self._run("checks", *program, "--results", self.folder)
        return Outcome("checks", passed, "all passed" if passed else "FAILED", "all pass")

    def benchmark(self) -> Outcome:
        """Our training step against others, with the same model, weights and batches."""
        table = self.folder / "benchmark.json"
        size = ["--size", "tiny", "--steps", "2"] if self._cpu else ["--size", "thesis", "--steps", "20"]
        passed = self._run("benchmark", REPOSITORY / "scripts" / "benchmark_training.py", *size, "--json", table)
        row = json.loads(table.read_text(encoding="utf-8"))["contenders"][0] if passed else {"ms": 0.0}
        return Outcome("benchmark", passed, f"{row['ms']:,.0f} ms", "same first loss for all")

    def training(self) -> list[Outcome]:
        """Time and memory of the thesis's training."""
        peak = self.folder / "peak.json"
        run = self._train("training", STEPS, 10, peak)
        if run is None:
            return [Outcome(f"{STEPS} steps", False, "FAILED", "")]
        lines = [line for line in read_json_lines(run / "metrics.jsonl") if line["kind"] == "train"]
        seconds = median(line["seconds"] / 10 for line in lines[1:])  # the first steps build the graph
        tokens = lines[-1]["tokens"] / 10
        falls = lines[-1]["loss"] < lines[0]["loss"]
        used, config = json.loads(peak.read_text(encoding="utf-8")), load_config(self._config)
        fits = estimate_memory(config, config.data.vocabulary_size)
        return [
            Outcome("a batch", True, f"{1e3 * seconds:,.1f} ms, {tokens / seconds:,.0f} tokens/s", ""),
            Outcome(f"loss after {STEPS} steps", falls, f"{lines[-1]['loss']:.3f}", f"below {lines[0]['loss']:.3f}"),
            Outcome("peak memory", used <= fits.total + OVERHEAD, gigabytes(used), f"about {gigabytes(fits.total)}"),
        ]

    def determinism(self) -> list[Outcome]:
        """Two runs are equal bit for bit, and a GPU computes the losses of the processor."""
        first, second = (self._train(f"determinism {number}", SHORT, 1) for number in (1, 2))
        same = bool(first and second and weights(first) == weights(second) and losses(first) == losses(second))
        outcomes = [Outcome("two runs", same, "equal" if same else "DIFFERENT", "equal, bit for bit")]
        if not self._cpu and first:
            third = self._train("processor", 3, 1, CUDA_VISIBLE_DEVICES="")
            pairs = list(zip(losses(first), losses(third) if third else [], strict=False))
            error = max((abs(gpu / processor - 1) for gpu, processor in pairs), default=np.inf)
            outcomes.append(
                Outcome("GPU and processor", error <= TOLERANCE, f"losses differ by {error:.1e}", f"≤ {TOLERANCE:.0e}")
            )
        return outcomes

    def _train(self, name: str, steps: int, log_every: int, peak: Path | None = None, **variables: str) -> Path | None:
        """Train into a folder of that name; returns the run, or None if the training failed."""
        settings = {"steps": steps, "log_every": log_every, "validate_every": steps, "deterministic": peak is None}
        overrides = [word for key, value in settings.items() for word in ("--set", f"training.{key}={value}".lower())]
        results = self.folder / name.replace(" ", "_")
        program = ["-c", TRAIN, peak or os.devnull, "train", self._config, *overrides, "--results", results]
        return next(results.iterdir()) if self._run(name, *program, **variables) else None

    def _run(self, name: str, *arguments: object, **variables: str) -> bool:
        """Run Python with the arguments; returns whether it succeeded."""
        click.secho(f"\n{name}", bold=True)
        command = [sys.executable, *map(str, arguments)]
        return subprocess.run(command, env=self._environment | variables, check=False).returncode == 0


def losses(run: Path) -> list[float]:
    return [line["loss"] for line in read_json_lines(run / "metrics.jsonl") if line["kind"] == "train"]


def weights(run: Path) -> dict[str, bytes]:
    """The arrays of the newest checkpoint of a run."""
    newest = max((run / "checkpoints").glob("0*.npz"))
    with np.load(newest) as arrays:
        return {name: arrays[name].tobytes() for name in arrays.files if name != "metadata.json"}


@click.command(help=__doc__)
@click.option("--cpu", is_flag=True, help="A dry run on the processor with a small model, which needs no GPU.")
@click.option(
    "--folder", type=click.Path(path_type=Path), default=Path("results/verify_gpu"), show_default=True, help="for runs"
)
def main(cpu: bool, folder: Path) -> None:
    """Run everything, continue after a failure, and print a summary."""
    if folder.exists() and any(folder.iterdir()):
        raise click.UsageError(f"{folder} is not empty; delete it or choose another --folder")
    verification = Verification(folder.resolve(), cpu)
    if not verification.find_gpus() and not cpu:
        raise click.ClickException("there is no GPU to verify; --cpu does a dry run without one")
    verification.prepare()
    parts: list[Callable[[], Outcome | list[Outcome]]] = [
        verification.checks,
        verification.benchmark,
        verification.training,
        verification.determinism,
    ]
    outcomes: list[Outcome] = []
    for part in parts:
        result = part()
        outcomes += [result] if isinstance(result, Outcome) else result
    click.echo()
    rows = [row._asdict() | {"passed": "yes" if row.passed else "NO"} for row in outcomes]
    print_table(rows, list(Outcome._fields))
    write_json(folder / "summary.json", rows)
    if not all(row.passed for row in outcomes):
        raise click.ClickException(f"not everything passed; see {folder}")


if __name__ == "__main__":
    run_command(main)
