"""How to use an exported model: its README.txt and lists of required packages."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib import metadata
from typing import Any

from seq2seq_chat.config import Config
from seq2seq_chat.system.errors import EVALUATION_PACKAGES

PACKAGES = (
    *("click", "numpy", "onnxruntime", "pydantic", "tqdm", "zstandard"),  # all commands
    *("Bootstrap-Flask", "Flask", "Flask-Compress", "waitress"),  # serve
)
"""What `chat`, `generate` and `serve` import for an exported model."""
TOKENIZER_PACKAGES: Mapping[str, tuple[str, ...]] = {"subword": ("sentencepiece",), "unicode": ("regex",)}
REQUIREMENTS, EVALUATION_REQUIREMENTS = "requirements.txt", "requirements-evaluate.txt"

README = """\
{name}, a {kind}, after {step:,} training steps: {parameters:,} parameters{stored}.

To use it with the commands of seq2seq-chat, without TensorFlow:

    pip install --no-deps path/to/seq2seq-chat    # its repository
    pip install -r requirements.txt
    seq2seq-chat {verb} .

The command evaluate also needs the packages in requirements-evaluate.txt.

To use it with numpy and onnxruntime only, in this folder:

{example}
model.json describes what the graphs read and return; {license}.
"""
KINDS = {"conversation": "chatbot", "translation": "translation model", "language_model": "language model"}

REPLY = """\
    import json, numpy as np, onnxruntime as ort
    model = json.load(open("model.json", "rb"))
    read = lambda side: open(model["texts"][side]["vocabulary"], encoding="utf-8").read().split("\\n")
    encoder, step = (ort.InferenceSession(file) for file in ("encoder.onnx", "decoder_step.onnx"))
    ids, reply = [read("source").index(token) for token in {tokens!r}]{reverse}, []
    encoded = encoder.run(None, {{"source": np.array([ids], "int32"), "lengths": np.array([len(ids)], "int32")}})
    inputs = {{"words": np.array([1], "int32")}} | dict(zip(model["state"] + model["memory"], encoded))
    while 2 not in reply and len(reply) < model["target_steps"]:
        logits, _, *outputs = step.run(None, inputs)
        reply.append(int(logits[0, 4:].argmax()) + 4 if logits[0, 4:].max() > logits[0, 2] else 2)
        inputs |= dict(zip(["words"] + model["state"], [np.array(reply[-1:], "int32"), *outputs]))
    print(*map(read("target").__getitem__, reply))
"""
CONTINUE = """\
    import json, numpy as np, onnxruntime as ort
    model = json.load(open("model.json", "rb"))
    vocabulary = open(model["texts"]["source"]["vocabulary"], encoding="utf-8").read().split("\\n")
    step = ort.InferenceSession("decoder_step.onnx")
    tokens, prompt = [], [vocabulary.index(token) for token in {tokens!r}]
    inputs = {{name: np.zeros([1, size], "float32") for name, size in zip(model["state"], model["state_sizes"])}}
    while len(tokens) < 200:
        tokens.append(prompt.pop(0) if prompt else 4 + int((scores + np.random.gumbel(size=scores.shape)).argmax()))
        logits, _, *outputs = step.run(None, inputs | {{"words": np.array(tokens[-1:], "int32")}})
        inputs, scores = dict(zip(model["state"], outputs)), logits[0, 4:]
    print(*(vocabulary[token] for token in tokens), sep={separator!r})
"""


def requirements(config: Config) -> dict[str, str]:
    """The packages that an exported model needs, in the versions installed here: contents of files by name."""
    names = {*PACKAGES}
    for text in (config.data.source_text, config.data.target_text):
        names |= {*TOKENIZER_PACKAGES.get(text.tokenizer, ())}
    return {
        REQUIREMENTS: _pinned(names),
        EVALUATION_REQUIREMENTS: f"-r {REQUIREMENTS}\n{_pinned(EVALUATION_PACKAGES)}",
    }


def _pinned(names: Collection[str]) -> str:
    return "".join(f"{name}=={metadata.version(name)}\n" for name in sorted(names))


def readme(about: Mapping[str, Any], prompt: list[str]) -> str:
    """The contents of README.txt.

    Args:
        about: Contents of ``model.json``.
        prompt: Tokens that the model knows, to reply to or to continue.
    """
    if about["task"] == "language_model":
        separator = "" if about["texts"]["source"]["tokenizer"] == "character" else " "
        example = CONTINUE.format(tokens=prompt, separator=separator)
    else:
        example = REPLY.format(tokens=prompt, reverse="[::-1]" if about["reverse_input"] else "")
    return README.format(
        name=about["name"],
        kind=KINDS[about["task"]],
        step=about["step"],
        parameters=about["parameters"],
        stored="" if about["quantization"] is None else f", stored as {about['quantization']}",
        verb="generate" if about["task"] == "language_model" else "chat",
        example=example,
        license=about["license"],
    )
