"""How to use an exported model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from seq2seq_chat.data.tokenizers import TOKENIZER_FILE
from seq2seq_chat.data.vocabulary import TARGET_PREFIX

IMPORTS = """\
from seq2seq_chat.data.codec import load_tokenizer
from seq2seq_chat.data.tokenizers import TokenizerSettings, create_tokenizer
"""
SOURCE = """
source_tokenizer = {}
encode = lambda text: " ".join(source_tokenizer.encode(text))
"""
TARGET = """
target_tokenizer = {}
decode = lambda reply: target_tokenizer.decode(reply.decode().split())
"""
HISTORY = ', history=tf.constant([[{}, {}], ["", ""]])'
PROGRAM = """
model = tf.saved_model.load({folder!r})
text = tf.constant([{texts}])
output = model.signatures["greedy"]({input}=text{history})
for reply in output["reply"].numpy():
    print({reply})
output = model.signatures["beam"]({input}=text{history})
for replies, scores in zip(output["replies"].numpy(), output["scores"].numpy()):
    for reply, score in zip(replies, scores):
        print(f"{{score:.4f}}\\t{{{reply}}}")
"""

GENERATION = """
model = tf.saved_model.load({folder!r})
prompt = tf.constant({prompt})
uniform = tf.constant(np.random.default_rng([1]).random((1, {length})))  # the numbers of `generate --seed 1`
limits = {{"temperature": tf.constant(0.8), "top_k": tf.constant(0), "top_p": tf.constant(1.0)}}  # all tokens
output = model.signatures["generate"]({input}=prompt, uniform=uniform, **limits)
print({text})
print(model.signatures["score"]({input}=prompt)["nats"].numpy())  # of each token after the first
"""
LENGTH = 200


def tokens_note(about: dict[str, Any]) -> str | None:
    """A sentence on what the model reads and writes, if that is not text; ``about``: the contents of about.json."""
    tokenizers = {"input": about["tokenizer"], "output": about.get("target_tokenizer", about["tokenizer"])}
    tokens = {side: tokenizer for side, tokenizer in tokenizers.items() if about[side] == "tokens"}
    if not tokens:
        return None
    names = " and ".join(dict.fromkeys(tokens.values()))
    return f"{' and '.join(tokens)}: tokens separated by spaces, as TensorFlow has no operations for {names}"


def usage_example(folder: str | Path, about: dict[str, Any]) -> str:
    """A program that loads an exported model and gets replies, with TensorFlow and, for tokens, our tokenizers."""
    head, text, reply = "import tensorflow as tf\n", '"{}"', "reply.decode()"
    if "tokens" in (about["input"], about["output"]):
        head += IMPORTS
    if about["input"] == "tokens":
        head += SOURCE.format(_tokenizer(folder, about, "tokenizer"))
        text = 'encode("{}")'
    if about["output"] == "tokens":
        head += TARGET.format(_tokenizer(folder, about, "target_tokenizer"))
        reply = "decode(reply)"
    history = HISTORY.format(text, text).format("hello.", "hi! how are you?") if about["context_turns"] > 1 else ""
    texts = f"{text}, {text}".format("how are you?", "tell me a joke.")
    return head + PROGRAM.format(folder=str(folder), texts=texts, input=about["input"], history=history, reply=reply)


def generation_example(folder: str | Path, about: dict[str, Any]) -> str:
    """A program that loads an exported language model, continues a prompt and scores it."""
    prompt, text = (
        ('"The "', 'output["text"].numpy()[0].decode()')
        if about["input"] == "text"
        else (
            '"<eos> the"',
            'output["tokens"].numpy()[0].decode()',
        )
    )
    program = GENERATION.format(folder=str(folder), prompt=prompt, length=LENGTH, input=about["input"], text=text)
    return f"import numpy as np\nimport tensorflow as tf\n{program}"


def _tokenizer(folder: str | Path, about: dict[str, Any], key: str) -> str:
    """Python that creates a tokenizer."""
    if about[key] != "subword":
        return f"create_tokenizer(TokenizerSettings({about[key]!r}, lowercase={about['lowercase']}))"
    own_file = Path(folder, f"{TARGET_PREFIX}{TOKENIZER_FILE}")
    file = own_file if key == "target_tokenizer" and own_file.is_file() else Path(folder, TOKENIZER_FILE)
    return f"load_tokenizer(TokenizerSettings({about[key]!r}), {str(file)!r})"
