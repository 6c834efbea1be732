"""The equations of the model in NumPy."""

import numpy as np

from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.text.vocabulary import GO


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


class Reference:
    """The equations for one sample at a time, in float64."""

    def __init__(self, model: Seq2Seq | LanguageModel) -> None:
        self.v = {v.name.split(":")[0]: v.numpy().astype(np.float64) for v in model.trainable_variables}
        for side in ("source", "target") if model.config.shared_embeddings else ():
            self.v[f"embedding/{side}"] = self.v["embedding/shared"]
        self.config = model.config
        self.layers, self.attends = model.config.layers, model.config.attention != "none"
        self.projects = model.config.projection_size is not None and model.config.output != "maxout"

    def cell(self, name: str, inputs: list[np.ndarray], state: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        h, bias, input_matrix = state[0], self.v[f"{name}/bias"], self.v.get(f"{name}/input")
        if f"{name}/thought" in self.v:  # the input is [x; v]
            input_matrix = np.vstack([input_matrix, self.v[f"{name}/thought"]])
        recurrent_input = np.concatenate([*inputs[0 if input_matrix is None else 1 :], h])
        x = (0 if input_matrix is None else inputs[0] @ input_matrix) + bias
        if self.config.cell == "rnn":
            summed = x + recurrent_input @ self.v[f"{name}/recurrent"]
            return (np.maximum(summed, 0) if self.config.activation == "relu" else np.tanh(summed),)
        if self.config.cell == "gru":
            x_z, x_r, x_h = np.split(x, 3)
            u_z, u_r = np.split(self.v[f"{name}/recurrent"], 2, axis=1)
            z, r = sigmoid(x_z + recurrent_input @ u_z), sigmoid(x_r + recurrent_input @ u_r)
            after_reset = np.concatenate([recurrent_input[: len(recurrent_input) - len(h)], r * h])
            return ((1 - z) * h + z * np.tanh(x_h + after_reset @ self.v[f"{name}/candidate"]),)
        i, f, o, g = np.split(x + recurrent_input @ self.v[f"{name}/recurrent"], 4)
        c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c

    def encode(self, source: list[int], zero: tuple[np.ndarray, ...]) -> tuple[list[np.ndarray], list[tuple]]:
        steps, states = [self.v["embedding/source"][word] for word in source], []
        for layer in range(self.layers):
            name, directions = f"encoder/layer{layer}", []
            for direction in ("", "/backward")[: 2 if self.config.bidirectional else 1]:
                state, outputs = zero, []
                for x in steps[::-1] if direction else steps:
                    state = self.cell(name + direction, [x], state)
                    outputs.append(state[0])
                directions.append((outputs[::-1] if direction else outputs, state))
            below = steps if self.config.residual and layer else [0] * len(steps)
            steps = [np.concatenate(both) for both in zip(*(outputs for outputs, _ in directions), strict=True)]
            steps = [step + x for step, x in zip(steps, below, strict=True)]
            states.append(directions[0][1])
            if self.config.bidirectional:
                parts = []
                for part, both in zip(
                    ("output", "memory"), zip(*(state for _, state in directions), strict=True), strict=False
                ):
                    joined = (both[1] if self.config.bridge == "backward" else np.concatenate(both)) @ self.v[
                        f"{name}/bridge/{part}"
                    ]
                    parts.append(joined + self.v[f"{name}/bridge/{part}/bias"])
                states[-1] = (np.tanh(parts[0]), *parts[1:])
        return steps, states

    def score(self, h: np.ndarray, d: np.ndarray) -> float:
        if self.config.attention == "dot":
            return float(d @ h)
        w1 = self.v["decoder/attention/key"]
        if self.config.attention == "general":
            return float(d @ (h @ w1))
        return float(self.v["decoder/attention/score"] @ np.tanh(h @ w1 + d @ self.v["decoder/attention/query"]))

    def context(self, outputs: list[np.ndarray], d: np.ndarray) -> np.ndarray:
        u = np.array([self.score(h, d) for h in outputs])
        a = np.exp(u - u.max()) / np.exp(u - u.max()).sum()
        return a @ np.array(outputs)

    def layer_output(self, layer: int, states: list[tuple[np.ndarray, ...]]) -> np.ndarray:
        """The output of a layer: its cell's output, to which layers from the second on add their input if residual."""
        added = layer and self.config.residual
        return states[layer][0] + (self.layer_output(layer - 1, states) if added else 0)

    def combine(self, d: np.ndarray, c: np.ndarray | None, x: np.ndarray) -> np.ndarray:
        """h̃ of the decoder's state d, the context c, if any, and the word vector x."""
        if self.config.output == "maxout":
            parts = {"output": d, "words": x, **({} if c is None else {"context": c})}
            t = sum(vector @ self.v[f"decoder/maxout/{name}"] for name, vector in parts.items())
            return t.reshape(2, -1).max(axis=0)
        if not self.attends:
            return d
        if self.config.output == "concatenated":
            return np.concatenate([d, c])
        return np.tanh(
            np.concatenate([c, d]) @ np.vstack([self.v[f"decoder/combine/{n}"] for n in ("context", "output")])
        )

    def logits(self, source: list[int], target: list[int]) -> np.ndarray:
        """The logits of each target word, given the words before it: [target steps, vocabulary]."""
        hidden, config = self.config.hidden_size, self.config
        zero = (np.zeros(hidden),) * (2 if config.cell == "lstm" else 1)
        outputs, states = self.encode(source, zero)
        before = self.attends and config.attention_query == "previous"
        feeds = self.attends and not before and config.input_feeding
        v = [states[-1][0]] if config.context == "every_step" else []
        size = {"maxout": self.v["output/words"].shape[1], "concatenated": hidden + len(outputs[0])}
        attentional, rows = np.zeros(size.get(config.output, hidden)), []
        for previous in [GO, *target[:-1]]:
            x = self.v["embedding/target"][previous]
            c = self.context(outputs, self.layer_output(self.layers - 1, states)) if before else None
            inputs = [np.concatenate([x, *v]), *([c] if before else [attentional] if feeds else [])]
            for layer in range(self.layers):
                states[layer] = self.cell(f"decoder/layer{layer}", inputs, states[layer])
                inputs = [self.layer_output(layer, states)]
            d = self.layer_output(self.layers - 1, states)
            if not before:
                c = self.context(outputs, d) if self.attends else v[0] if v else None
            attentional = self.combine(d, c, x)
            p = attentional @ self.v["output/projection"] if self.projects else attentional
            rows.append(self.v["output/words"] @ p + self.v["output/bias"])
        return np.array(rows)

    def text_logits(self, tokens: list[int]) -> np.ndarray:
        """The logits of a language model after each token: [tokens, vocabulary]."""
        zero = (np.zeros(self.config.hidden_size),) * (2 if self.config.cell == "lstm" else 1)
        states, rows = [zero] * self.layers, []
        words = self.v["embedding/target" if self.config.tie_embeddings else "output/words"]
        for token in tokens:
            x = self.v["embedding/target"][token]
            inputs = [x]
            for layer in range(self.layers):
                states[layer] = self.cell(f"decoder/layer{layer}", inputs, states[layer])
                inputs = [self.layer_output(layer, states)]
            h = self.combine(inputs[0], None, x)
            rows.append(words @ (h @ self.v["output/projection"] if self.projects else h) + self.v["output/bias"])
        return np.array(rows)

    def text_loss(self, tokens: list[int]) -> np.ndarray:
        """The loss of each token but the first, in nats: [tokens - 1]."""
        logits, targets = self.text_logits(tokens[:-1]), tokens[1:]
        return np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(targets)), targets]

    def loss(self, source: list[int], target: list[int]) -> float:
        """The loss of all target words, in nats."""
        logits = self.logits(source, target)
        return float(np.sum(np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(target)), target]))
