"""Export a trained run as ONNX graphs, with everything that a program needs to use them."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from seq2seq_chat import __version__
from seq2seq_chat.architecture.variables import parameter_counts
from seq2seq_chat.checkpoint.arrays import read_weights
from seq2seq_chat.config import Config
from seq2seq_chat.engines.onnx.manifest import write_manifest
from seq2seq_chat.engines.onnx.writer import describe_graphs, model_graphs
from seq2seq_chat.export import ExportError, empty_folder, new_folder
from seq2seq_chat.runs.model_card import write_model_card
from seq2seq_chat.runs.run import LATEST, Run
from seq2seq_chat.system.errors import EVALUATION_PACKAGES
from seq2seq_chat.system.files import write_atomically
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.text.tokenizers import TOKENIZER_FILE
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, TARGET_PREFIX, VOCABULARY_FILE

MAX_BYTES = 2**31 - 1  # of an ONNX file
LICENSE = (
    "seq2seq-chat is under the MIT License; the weights and vocabularies derive from the training corpus, whose "
    "license applies to them"
)

logger = logging.getLogger(__name__)


def export_onnx(
    run: Run, folder: str | Path, snapshot: str | None = None, quantize: str | None = None
) -> dict[str, Any]:
    """Write the model of a run as ONNX graphs, atomically.

    The folder can be used as a RUN, also where TensorFlow is not installed.

    Args:
        folder: The output folder; must be empty or not exist.
        snapshot: Name of the snapshot; None for the newest weights.
        quantize: ``int8`` to store weight matrices as integers of 8 bits; None for float32.

    Returns:
        What ``model.json`` in the folder says, without checksums.

    Raises:
        ExportError: The folder exists and is not empty, or cannot be written; the model is too large.
        RunError, MismatchError: The run cannot be loaded.
    """
    folder, config = empty_folder(folder), run.config
    trained = read_weights(run, snapshot)
    graphs = model_graphs(config, trained.arrays, quantize)
    about = {
        "run": run.name,
        "snapshot": snapshot or LATEST,
        "version": __version__,
        "license": LICENSE,
        "quantization": quantize,
        **describe_graphs(config, trained.step),
        **describe(trained.codecs, config),
    }
    with new_folder(folder) as temporary:
        for name, graph in graphs.items():
            if graph.ByteSize() > MAX_BYTES:
                remedy = "use --quantize int8 or --format saved_model"
                raise ExportError(f"{name} would have more than 2 GB, the limit of an ONNX file; {remedy}")
            write_atomically(temporary / name, graph.SerializeToString())
        trained.codecs.save(temporary)
        Run(temporary).save_config(config)
        write_model_card(run, temporary)
        frequent = trained.codecs.source.vocabulary.words[len(SPECIAL_WORDS) :]
        write_atomically(temporary / "README.txt", readme(about, frequent[:4]))
        for name, packages in requirements(config).items():
            write_atomically(temporary / name, packages)
        write_manifest(temporary, about)
    return about


def describe(codecs: Codecs, config: Config) -> dict[str, Any]:
    """What a program must know about a model to use its graphs."""
    data, target_prefix = config.data, "" if config.data.has_shared_vocabulary else TARGET_PREFIX
    texts = {
        side: {
            "tokenizer": text.tokenizer,
            "lowercase": text.lowercase,
            "normalize_apostrophes": text.normalize_apostrophes,
            "vocabulary": f"{prefix}{VOCABULARY_FILE}",
            "tokenizer_file": f"{prefix}{TOKENIZER_FILE}" if text.tokenizer == "subword" else None,
        }
        for side, text, prefix in (("source", data.source_text, ""), ("target", data.target_text, target_prefix))
    }
    return {
        "name": config.name,
        "special_words": {word: index for index, word in enumerate(SPECIAL_WORDS)},
        "source_steps": config.model.encoder_steps,
        "target_steps": config.model.decoder_steps,
        "reverse_input": data.reverse_input,
        "context_turns": data.context_turns,
        "texts": texts,
        "vocabulary_size": len(codecs.target.vocabulary),
        "source_vocabulary_size": len(codecs.source.vocabulary),
        "parameters": sum(parameter_counts(config, *codecs.vocabulary_sizes).values()),
        "decoding": json.loads(config.decoding.model_dump_json()),
    }


PACKAGES = (
    *("click", "numpy", "onnxruntime", "pydantic", "tqdm", "zstandard"),  # all commands
    *("Bootstrap-Flask", "Flask", "Flask-Compress", "prometheus_client", "waitress"),  # serve
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
