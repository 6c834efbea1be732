"""The training steps as commonly written in PyTorch: modules, a loop over ``nn.LSTMCell``, ``torch.optim``.

It computes the same as ours, from the same weights. Two things need care:

- PyTorch's cells add two biases. Training both would double the learning rate of their sum, so the second one is
  frozen at zero.
- The gradients of embeddings are sparse, but ``nn.utils.clip_grad_norm_`` only takes dense ones. Repeated rows are
  summed before the norm is taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from contenders.workload import (
    TEXT_LEARNING_RATE,
    TEXT_MAX_NORM,
    TEXT_SIZES,
    Size,
    TextSize,
    Workload,
    text_batch,
    text_weights,
)

PAD, GO = 0, 1
MAX_NORM = 10.0


class Network(nn.Module):
    """Embeddings, LSTM encoder, LSTM decoder with additive attention and input feeding, projection."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        hidden = size.hidden
        self.source_embedding = nn.Embedding(size.vocabulary, size.embedding, sparse=True)
        self.target_embedding = nn.Embedding(size.vocabulary, size.embedding, sparse=True)
        self.encoder = nn.LSTM(size.embedding, hidden, batch_first=True)
        self.cell = nn.LSTMCell(size.embedding + hidden, hidden)
        self.key = nn.Linear(hidden, hidden, bias=False)
        self.query = nn.Linear(hidden, hidden, bias=False)
        self.score = nn.Linear(hidden, 1, bias=False)
        self.combine = nn.Linear(2 * hidden, hidden, bias=False)
        self.projection = nn.Linear(hidden, size.projection, bias=False)
        self.words = nn.Embedding(size.vocabulary, size.projection, sparse=True)
        self.bias = nn.Embedding(size.vocabulary, 1, sparse=True)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """source: ids [batch, source steps], target: ids [batch, target steps] → [batch, target steps, projection]."""
        memory, (h, c) = self.encoder(self.source_embedding(source))
        keys, padding = self.key(memory), source == PAD
        state, attentional = (h[0], c[0]), torch.zeros_like(h[0])
        previous_words = functional.pad(target[:, :-1], (1, 0), value=GO)
        outputs = []
        for x in self.target_embedding(previous_words).unbind(1):
            state = self.cell(torch.cat([x, attentional], 1), state)
            context = self.attend(memory, keys, padding, state[0])
            attentional = torch.tanh(self.combine(torch.cat([context, state[0]], 1)))
            outputs.append(attentional)
        return self.projection(torch.stack(outputs, 1))

    def attend(self, memory: Tensor, keys: Tensor, padding: Tensor, output: Tensor) -> Tensor:
        """memory, keys: [batch, source steps, hidden], padding: [batch, source steps], output: [batch, hidden]."""
        scores = self.score(torch.tanh(keys + self.query(output).unsqueeze(1))).squeeze(2)
        weights = torch.softmax(scores.masked_fill(padding, -torch.inf), 1)
        return torch.bmm(weights.unsqueeze(1), memory).squeeze(1)

    def sampled_loss(self, projected: Tensor, target: Tensor, sampled: Tensor, log_counts: Tensor) -> Tensor:
        """Sampled softmax, in nats per token.

        Args:
            projected: [tokens, projection].
            target: [tokens].
            sampled: [sampled].
            log_counts: [vocabulary] Logarithm of the expected count of each word in a sample.
        """
        ids = torch.cat([target, sampled])
        vectors, biases = self.words(ids), self.bias(ids).squeeze(1) - log_counts[ids]
        tokens = len(target)
        true = (projected * vectors[:tokens]).sum(1) + biases[:tokens]
        others = projected @ vectors[tokens:].T + biases[tokens:]
        others = others.masked_fill(target.unsqueeze(1) == sampled, -torch.inf)  # accidental hits
        logits = torch.cat([true.unsqueeze(1), others], 1)
        return functional.cross_entropy(logits.float(), torch.zeros_like(target))


class TrainingStep:
    """Loss, gradients, clipping and update on a batch.

    Args:
        workload: Initial weights, batches and sampled words.
        precision: "float32", or "bfloat16" for ``torch.autocast``.
    """

    def __init__(self, workload: Workload, precision: str = "float32") -> None:
        if precision not in ("float32", "bfloat16"):
            raise ValueError(f"no such precision: {precision}")
        self._workload, self._reduced = workload, precision == "bfloat16"
        self._network = Network(workload.size)
        load(self._network, workload)
        self._parameters = [p for p in self._network.parameters() if p.requires_grad]
        self._optimizer = torch.optim.Adagrad(self._parameters, lr=0.01, initial_accumulator_value=0.1, eps=1e-7)
        self._log_counts = torch.from_numpy(np.log(workload.expected_counts))
        torch.sparse.check_sparse_tensor_invariants.disable()  # the default; PyTorch warns if it is not set

    def step(self, number: int) -> float:
        """Train on a batch; the loss before the update, in nats per target token."""
        source = torch.from_numpy(self._workload.source[number]).long()
        target = torch.from_numpy(self._workload.target[number]).long()
        sampled = torch.from_numpy(self._workload.sampled_words[number])
        self._optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self._reduced):
            projected = self._network(source, target).flatten(0, 1)
            loss = self._network.sampled_loss(projected, target.flatten(), sampled, self._log_counts)
        loss.backward()
        clip_gradients(self._parameters)
        self._optimizer.step()
        return loss.item()


@torch.no_grad()
def clip_gradients(parameters: list[nn.Parameter]) -> None:
    """Rescale all gradients if their global norm exceeds the maximum."""
    values = []
    for parameter in parameters:
        assert parameter.grad is not None
        if parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()
            values.append(parameter.grad.values())
        else:
            values.append(parameter.grad)
    norm = nn.utils.get_total_norm(values)
    if norm > MAX_NORM:
        for value in values:
            value.mul_(MAX_NORM / norm)


def load(network: Network, workload: Workload) -> None:
    """Copy our weights, matrices of [inputs, outputs] with gates in the order i, f, o, g."""

    def weight(name: str) -> Tensor:
        return torch.from_numpy(np.array(workload.weights[f"{name}:0"]))

    def gates(name: str) -> Tensor:
        i, f, o, g = weight(name).chunk(4, dim=-1)
        return torch.cat([i, f, g, o], -1).movedim(-1, 0)  # [4 hidden, inputs]; of a bias [4 hidden]

    fed, recurrent = gates("decoder/layer0/recurrent").chunk(2, dim=1)  # of h̃ and of h, side by side
    biases = {"encoder.bias_{}h_l0": gates("encoder/layer0/bias"), "cell.bias_{}h": gates("decoder/layer0/bias")}
    network.load_state_dict(
        {
            "source_embedding.weight": weight("embedding/source"),
            "target_embedding.weight": weight("embedding/target"),
            "encoder.weight_ih_l0": gates("encoder/layer0/input"),
            "encoder.weight_hh_l0": gates("encoder/layer0/recurrent"),
            "cell.weight_ih": torch.cat([gates("decoder/layer0/input"), fed], 1),
            "cell.weight_hh": recurrent,
            "key.weight": weight("decoder/attention/key").T,
            "query.weight": weight("decoder/attention/query").T,
            "score.weight": weight("decoder/attention/score").unsqueeze(0),
            "combine.weight": torch.cat([weight("decoder/combine/context"), weight("decoder/combine/output")]).T,
            "projection.weight": weight("output/projection").T,
            "words.weight": weight("output/words"),
            "bias.weight": weight("output/bias").unsqueeze(1),
            **{name.format("i"): bias for name, bias in biases.items()},
            **{name.format("h"): torch.zeros_like(bias) for name, bias in biases.items()},
        }
    )
    for name in biases:
        network.get_parameter(name.format("h")).requires_grad_(False)


class TextNetwork(nn.Module):
    """A language model: embedding, ``nn.LSTM`` over whole chunks, output."""

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
    """Loss, gradients, clipping and update of a language model on a batch, with detached states.

    Args:
        size: A key of ``TEXT_SIZES``.
        precision: "float32", or "bfloat16" for ``torch.autocast``.
    """

    def __init__(self, size: str, precision: str = "float32") -> None:
        self._size, self._reduced = TEXT_SIZES[size], precision == "bfloat16"
        self._network = TextNetwork(self._size)
        load_text(self._network, self._size)
        self._parameters = [p for p in self._network.parameters() if p.requires_grad]
        self._optimizer = torch.optim.Adam(self._parameters, lr=TEXT_LEARNING_RATE, eps=1e-7)
        self._state: Any = None

    def step(self, number: int) -> float:
        """Train on a batch; the loss before the update, in nats per token."""
        tokens = torch.from_numpy(text_batch(self._size, number)).long()
        self._optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self._reduced):
            logits, state = self._network(tokens[:, :-1], self._state)
            loss = functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(self._parameters, TEXT_MAX_NORM)
        self._optimizer.step()
        self._state = tuple(part.detach() for part in state)
        return loss.item()


@torch.no_grad()
def load_text(network: TextNetwork, size: TextSize) -> None:
    """Copy the weights of the language model; PyTorch's gates are in the order i, f, g, o."""
    values = text_weights(size)

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
