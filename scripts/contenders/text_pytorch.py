"""The same language model in PyTorch: ``nn.LSTM`` over whole chunks, ``torch.optim.Adam``, detached states.

PyTorch's cells add two biases; the second is frozen at zero, as in the other contender.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from contenders.text_workload import LEARNING_RATE, MAX_NORM, TEXT_SIZES, TextSize, batch, weights


class Network(nn.Module):
    """Embedding, LSTM, output."""

    def __init__(self, size: TextSize) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size.vocabulary, size.embedding)
        self.lstm = nn.LSTM(size.embedding, size.hidden, size.layers, batch_first=True)
        self.output = nn.Linear(size.hidden, size.vocabulary)

    def forward(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        """inputs: ids [streams, steps] → logits [streams, steps, vocabulary] and the next state."""
        hidden, state = self.lstm(self.embedding(inputs), state)
        return self.output(hidden), state


class TextStep:
    """Loss, gradients, clipping and update on a batch.

    Args:
        workload: not used.
        size: a key of ``TEXT_SIZES``.
        precision: "float32", or "bfloat16" for ``torch.autocast``.
    """

    def __init__(self, workload: Any, size: str, precision: str = "float32") -> None:
        self._size, self._reduced = TEXT_SIZES[size], precision == "bfloat16"
        self._network = Network(self._size)
        load(self._network, self._size)
        self._parameters = [p for p in self._network.parameters() if p.requires_grad]
        self._optimizer = torch.optim.Adam(self._parameters, lr=LEARNING_RATE, eps=1e-7)
        self._state: Any = None

    def step(self, number: int) -> float:
        """Train on a batch; the loss before the update, in nats per token."""
        tokens = torch.from_numpy(batch(self._size, number)).long()
        self._optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self._reduced):
            logits, state = self._network(tokens[:, :-1], self._state)
            loss = functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(self._parameters, MAX_NORM)
        self._optimizer.step()
        self._state = tuple(part.detach() for part in state)
        return loss.item()


@torch.no_grad()
def load(network: Network, size: TextSize) -> None:
    """Copy the weights; PyTorch's gates are in the order i, f, g, o."""
    values = weights(size)

    def gates(name: str, rows: slice = slice(None)) -> Tensor:
        i, f, o, g = np.split(values[name][rows], 4, axis=-1)
        return torch.from_numpy(np.ascontiguousarray(np.moveaxis(np.concatenate([i, f, g, o], -1), -1, 0)))

    network.embedding.weight.copy_(torch.from_numpy(values["embedding/target"]))
    network.output.weight.copy_(torch.from_numpy(values["output/words"]))
    network.output.bias.copy_(torch.from_numpy(values["output/bias"]))
    for layer in range(size.layers):
        name, parts = f"decoder/layer{layer}", dict(network.lstm.named_parameters())
        below = gates("decoder/layer0/input") if layer == 0 else gates(f"{name}/recurrent", slice(None, size.hidden))
        parts[f"weight_ih_l{layer}"].copy_(below)
        parts[f"weight_hh_l{layer}"].copy_(gates(f"{name}/recurrent", slice(-size.hidden, None)))
        parts[f"bias_ih_l{layer}"].copy_(gates(f"{name}/bias"))
        parts[f"bias_hh_l{layer}"].zero_()
        parts[f"bias_hh_l{layer}"].requires_grad = False
