"""The workload of the benchmark of language models: sizes, weights and batches, the same in every process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

LEARNING_RATE, MAX_NORM = 0.002, 1.0


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
    "words": TextSize(256, 512, 1, 10_000, 32, 35),
    "tiny": TextSize(6, 8, 2, 11, 4, 5),  # for tests
}


def weights(size: TextSize) -> Mapping[str, np.ndarray]:
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


def batch(size: TextSize, number: int) -> np.ndarray:
    """Token ids of a step, one more than its inputs: int32 [streams, steps + 1]."""
    rng = np.random.default_rng([2, number])
    return rng.integers(4, size.vocabulary, (size.streams, size.steps + 1)).astype(np.int32)
