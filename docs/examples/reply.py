"""Reply to each line of standard input with an exported model: ``python reply.py FOLDER < questions.txt``.

Greedy search with NumPy and ONNX Runtime only, for the tokenizers `english` and `whitespace`.
"""

import json
import re
import sys
import unicodedata
from pathlib import Path

import numpy as np
from onnxruntime import InferenceSession

PADDING, START, END, UNKNOWN = range(4)
TOKENIZERS = {"english", "whitespace"}

folder = Path(sys.argv[1])
model = json.loads((folder / "model.json").read_text(encoding="utf-8"))
source, target = (model["texts"][side] for side in ("source", "target"))
if model["task"] == "language_model" or not {source["tokenizer"], target["tokenizer"]} <= TOKENIZERS:
    sys.exit(f"{folder} is a language model, or has a tokenizer other than english or whitespace; use seq2seq-chat")
source_words, words = ((folder / text["vocabulary"]).read_text("utf-8").split("\n") for text in (source, target))
ids = {word: number for number, word in enumerate(source_words)}
encoder, step = (InferenceSession(str(folder / file)) for file in ("encoder.onnx", "decoder_step.onnx"))


def tokenize(text: str) -> list[str]:
    """The words of a text."""
    if source["tokenizer"] == "whitespace":
        return text.split()
    characters = [c for c in unicodedata.normalize("NFKD", text) if not unicodedata.category(c).startswith("M")]
    return re.findall("[a-z0-9]+|[.,!?]", "".join(characters).lower())


def run(session: InferenceSession, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    """The outputs of a graph by their names."""
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, inputs), strict=True))


def search(sentence: list[int]) -> list[int]:
    """The ids of the most probable words, one after the other, for the ids of a sentence."""
    rows = np.array([sentence], np.int32)
    inputs, reply = run(encoder, source=rows, lengths=np.array([len(sentence)], np.int32)), [START]
    while reply[-1] != END and len(reply) <= model["target_steps"]:
        outputs = run(step, words=np.array(reply[-1:], np.int32), **inputs)
        outputs["logits"][0, [PADDING, START, UNKNOWN]] = -np.inf
        reply.append(int(outputs["logits"].argmax()))
        inputs |= {name: outputs[f"next_{name}"] for name in model["state"]}
    return [word for word in reply if word not in (START, END)]


for line in sys.stdin:
    sentence = [ids.get(word, UNKNOWN) for word in tokenize(line)][-model["source_steps"] :]
    reply = search(sentence[::-1] if model["reverse_input"] else sentence) if sentence else []
    text = " ".join(words[word] for word in reply)
    print(re.sub(" (?=[.,!?])", "", text) if target["tokenizer"] == "english" else text)
