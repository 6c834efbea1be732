"""The workload of the benchmarks: model sizes, and the weights, batches and sampled words that all contenders share.

It is written to a folder once, so that a contender needs neither TensorFlow nor this project to read it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

PEAK_MATRIX_SIZE = 4096  # rows and columns of the matrix product that measures the peak speed
PEAK_FLOP = 2 * PEAK_MATRIX_SIZE**3
PEAK_BYTES = 2**28  # of the array that measures the memory bandwidth; more than any cache


class Size(NamedTuple):
    """Model and batch sizes."""

    embedding: int
    hidden: int
    projection: int
    vocabulary: int
    sampled: int
    batch: int = 64
    steps: int = 30  # of encoder and decoder

    def forward_products(self) -> int:
        """Multiplications in the matrix products of a forward pass over one batch; no padding."""
        e, h = self.embedding, self.hidden
        encoder = (e + h) * 4 * h + h * h  # gates, attention keys
        attention = h * h + self.steps * h + 2 * h * h  # query, weighted sum, h̃
        decoder = (e + 2 * h) * 4 * h + attention + h * self.projection
        softmax = (self.sampled + 1) * self.projection
        return self.batch * self.steps * (encoder + decoder + softmax)

    def encoder_weights(self) -> int:
        """Weights that every step of the encoder reads; with those of the attention's keys, read once for all steps."""
        return (self.embedding + self.hidden) * 4 * self.hidden + self.hidden**2

    def decoder_weights(self) -> int:
        """Weights that every step of a search reads."""
        gates = (self.embedding + 2 * self.hidden) * 4 * self.hidden
        query_and_output = 2 * self.hidden**2
        return gates + query_and_output + self.hidden * self.projection + self.projection * self.vocabulary

    def min_search_seconds(self, batch: int, width: int, bytes_per_second: float, flop_per_second: float) -> float:
        """The least time of a search: each step reads its float32 weights, and multiplies them with every hypothesis.

        The softmax, the attention's memory and the search itself are not counted.
        """

        def step_seconds(weights: int, rows: int) -> float:
            return max(4 * weights / bytes_per_second, 2 * weights * rows / flop_per_second)

        first, rest = (step_seconds(self.decoder_weights(), batch * beam) for beam in (1, width))
        return self.steps * step_seconds(self.encoder_weights(), batch) + first + (self.steps - 1) * rest

    def step_flop(self) -> int:
        """Floating-point operations of a training step: the backward pass has two products per forward product."""
        return 3 * 2 * self.forward_products()


SIZES = {
    "thesis": Size(1024, 2048, 1024, 50_000, 512),
    "medium": Size(512, 512, 256, 20_000, 512),
    "small": Size(128, 256, 128, 5_000, 256),
    "tiny": Size(12, 16, 8, 60, 20, batch=3, steps=5),  # for tests
}


class Workload(NamedTuple):
    """Weights by the names of our variables, and for each step a batch and sampled words."""

    size: Size
    weights: Mapping[str, np.ndarray]
    source: np.ndarray  # ids, int32 [steps, batch, source steps]; no padding
    target: np.ndarray  # ids ending with the end marker, int32 [steps, batch, target steps]; no padding
    sampled_words: np.ndarray  # int64 [steps, sampled]
    expected_counts: np.ndarray  # of each word in a sample: float32 [vocabulary]

    def sources(self, first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Sources of all steps: ids, int32 [count, source steps], and their lengths, int32 [count]."""
        ids = self.source.reshape(-1, self.source.shape[2])[first : first + count]
        return ids, np.count_nonzero(ids, axis=1).astype(np.int32)


class _WeightFiles(Mapping[str, np.ndarray]):
    """Arrays in files, loaded on access."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self._files = {name: folder / f"weight{number}.npy" for number, name in enumerate(names)}

    def __getitem__(self, name: str) -> np.ndarray:
        return np.load(self._files[name], mmap_mode="r")

    def __iter__(self) -> Any:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def write_workload_in_subprocess(folder: Path, size_name: str, steps: int, forbid: float = 0.0) -> None:
    """Write the workload in a subprocess, so that this process needs no TensorFlow."""
    paths = os.pathsep.join(str(parent) for parent in Path(__file__).resolve().parents[1:3])
    command = [sys.executable, "-m", "contenders.workload", str(folder), size_name, str(steps), str(forbid)]
    subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": paths, "TF_CPP_MIN_LOG_LEVEL": "3"})


def write_workload(folder: Path, size_name: str, steps: int, seed: int = 1, forbid: float = 0.0) -> None:
    """Write a workload with random weights for a number of training steps.

    ``forbid`` is subtracted from the biases of padding and start marker, which a trained model never predicts.
    """
    import tensorflow as tf

    from seq2seq_chat.data.vocabulary import EOS, GO, PAD
    from seq2seq_chat.model.output import WordSampler
    from seq2seq_chat.model.seq2seq import Seq2Seq

    size = SIZES[size_name]
    variables = Seq2Seq(model_config(size), size.vocabulary, seed).trainable_variables
    for number, variable in enumerate(variables):
        values = variable.numpy()
        if variable.name == "output/bias:0":
            values[[PAD, GO]] -= forbid
        np.save(folder / f"weight{number}.npy", values)
    sampler = WordSampler(size.vocabulary, size.sampled, seed)
    samples = [sampler(tf.constant(step, tf.int64)) for step in range(steps)]
    rng = np.random.default_rng(seed)
    words = 4 + np.minimum(  # word frequencies follow Zipf's law
        np.exp(rng.random((2, steps, size.batch, size.steps)) * np.log(size.vocabulary - 4)), size.vocabulary - 5
    ).astype(np.int32)
    words[1, :, :, -1] = EOS
    np.savez(
        folder / "batches.npz",
        source=words[0],
        target=words[1],
        sampled_words=np.stack([sample.words.numpy() for sample in samples]),
        expected_counts=samples[0].expected_counts.numpy(),
    )
    (folder / "workload.json").write_text(json.dumps({"size": size_name, "weights": [v.name for v in variables]}))


def write_run(folder: Path, run: Any) -> None:
    """Write a workload with the weights of a run and utterances of its validation corpus.

    Raises:
        UserError: The contenders do not implement the architecture of the run.
    """
    from seq2seq_chat.data.dataset import Dataset
    from seq2seq_chat.inference.restore import load_trained_model
    from seq2seq_chat.system.errors import UserError

    trained, config = load_trained_model(run), run.config
    model, data = config.model, config.data
    if not (model.projection_size and model.attention == "additive" and model.layers == 1):
        raise UserError(f"run {run.name}: the contenders need one layer, additive attention and a projection")
    if model.encoder_steps != model.decoder_steps:
        raise UserError(f"run {run.name}: the contenders need equal encoder_steps and decoder_steps")
    sizes = model.embedding_size, model.hidden_size, model.projection_size
    size = Size(*sizes, len(trained.codecs.target.vocabulary), sampled=1, batch=32, steps=model.encoder_steps)
    variables = list(trained.model.trainable_variables)
    shared = {"source": trained.model.source_embedding, "target": trained.model.target_embedding}
    weights = {v.name: v.numpy() for v in variables} | {f"embedding/{k}:0": e.table.numpy() for k, e in shared.items()}
    for number, values in enumerate(weights.values()):
        np.save(folder / f"weight{number}.npy", values)
    file = data.validation or data.train
    corpus = Dataset.open(file, trained.codecs, data)
    steps = {"source_steps": model.encoder_steps, "target_steps": model.decoder_steps}
    chosen = np.arange(64) * len(corpus) // 64
    batch = corpus.batch(chosen, size=64, reverse=data.reverse_input, **steps)
    zero = np.zeros([1, 1], np.int64)
    np.savez(
        folder / "batches.npz",
        source=batch.source[np.newaxis],
        target=batch.target[np.newaxis],
        sampled_words=zero,
        expected_counts=zero[0],
    )
    (folder / "workload.json").write_text(json.dumps({"size": size, "weights": list(weights)}))


def read_workload(folder: Path) -> Workload:
    """Read a workload; needs only NumPy."""
    metadata = json.loads((folder / "workload.json").read_text())
    with np.load(folder / "batches.npz") as batches:
        size = SIZES[metadata["size"]] if isinstance(metadata["size"], str) else Size(*metadata["size"])
        return Workload(size, _WeightFiles(folder, metadata["weights"]), **batches)


def model_config(size: Size) -> Any:
    """Our configuration of a model of this size."""
    from seq2seq_chat.config import Model

    return Model(
        embedding_size=size.embedding,
        hidden_size=size.hidden,
        projection_size=size.projection,
        encoder_steps=size.steps,
        decoder_steps=size.steps,
    )


def decoding_config(width: int, n_best: int | None = None) -> Any:
    """Our configuration of a search; width 1 is greedy search. n_best: replies, None for the width."""
    from seq2seq_chat.config import Decoding

    method: Any = {"method": "beam", "beam_width": width} if width > 1 else {"method": "greedy"}
    return Decoding(**method, n_best=n_best or width, allow_unknown=True)


if __name__ == "__main__":
    write_workload(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), forbid=float(sys.argv[4]))
