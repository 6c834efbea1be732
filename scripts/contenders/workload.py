"""The workload of the benchmarks: model sizes, and the weights, batches and sampled words that all contenders share.

The workload of Seq2Seq models is written to a folder once, so that a contender needs neither TensorFlow nor this
project to read it. The workload of language models is a function of the size and the number of a step.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from contenders import environment

TEXT_LEARNING_RATE, TEXT_MAX_NORM = 0.002, 1.0  # of the training of language models


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
        """Weights that every step of the encoder reads, and the keys' weights, read once for all steps."""
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
    command = [sys.executable, "-m", "contenders.workload", str(folder), size_name, str(steps), str(forbid)]
    subprocess.run(command, check=True, env=environment())


def write_workload(folder: Path, size_name: str, steps: int, seed: int = 1, forbid: float = 0.0) -> None:
    """Write a workload with random weights for a number of training steps.

    ``forbid`` is subtracted from the biases of padding and start marker, which a trained model never predicts.
    """
    import tensorflow as tf

    from seq2seq_chat.model.output import WordSampler
    from seq2seq_chat.model.seq2seq import Seq2Seq
    from seq2seq_chat.text.vocabulary import EOS, GO, PAD

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


def read_workload(folder: Path) -> Workload:
    """Read a workload; needs only NumPy."""
    metadata = json.loads((folder / "workload.json").read_text())
    with np.load(folder / "batches.npz") as batches:
        return Workload(SIZES[metadata["size"]], _WeightFiles(folder, metadata["weights"]), **batches)


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


class TextSize(NamedTuple):
    """Sizes of an LSTM language model and of a batch."""

    embedding: int
    hidden: int
    layers: int
    vocabulary: int
    streams: int
    steps: int  # tokens of each stream

    def step_flop(self) -> int:
        """Floating-point operations of a training step: the backward pass has two products per forward product."""
        gates = (self.embedding + self.hidden) * 4 * self.hidden
        gates += (self.layers - 1) * 2 * self.hidden * 4 * self.hidden
        return 3 * 2 * self.streams * self.steps * (gates + self.hidden * self.vocabulary)


TEXT_SIZES = {
    "quick": TextSize(128, 512, 1, 69, 64, 64),  # configs/shakespeare_quick.json
    "shakespeare": TextSize(128, 512, 2, 69, 64, 128),  # configs/shakespeare.json, without dropout
    "tiny": TextSize(6, 8, 2, 11, 4, 5),  # for tests
}


def text_weights(size: TextSize) -> Mapping[str, np.ndarray]:
    """Initial weights by the names of our variables; gates in the order i, f, o, g."""
    rng = np.random.default_rng(1)
    shapes = {
        "embedding/target": (size.vocabulary, size.embedding),
        "output/words": (size.vocabulary, size.hidden),
        "output/bias": (size.vocabulary,),
        "decoder/layer0/input": (size.embedding, 4 * size.hidden),
    }
    for layer in range(size.layers):
        inputs = size.hidden * (1 if layer == 0 else 2)  # the layer below and the state
        shapes |= {f"decoder/layer{layer}/recurrent": (inputs, 4 * size.hidden)}
        shapes |= {f"decoder/layer{layer}/bias": (4 * size.hidden,)}
    return {name: rng.uniform(-0.08, 0.08, shape).astype(np.float32) for name, shape in shapes.items()}


def text_batch(size: TextSize, number: int) -> np.ndarray:
    """Token ids of a step, one more than its inputs: int32 [streams, steps + 1]."""
    rng = np.random.default_rng([2, number])
    return rng.integers(4, size.vocabulary, (size.streams, size.steps + 1)).astype(np.int32)


if __name__ == "__main__":
    write_workload(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), forbid=float(sys.argv[4]))
