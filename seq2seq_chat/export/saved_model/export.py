"""Export a trained run as a TensorFlow SavedModel."""

from __future__ import annotations

import errno
import logging
import re
import shutil
import tempfile
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from seq2seq_chat import __version__
from seq2seq_chat.architecture.variables import parameter_counts
from seq2seq_chat.config import Config, Decoding, override_decoding
from seq2seq_chat.engines.tensorflow.engine import load_trained_model
from seq2seq_chat.engines.tensorflow.language_model import TensorFlowLanguageModel
from seq2seq_chat.export import empty_folder, new_folder
from seq2seq_chat.export.saved_model.models import (
    ReplyModel,
    TextModel,
    has_equal_tokenizers,
    running_text_format,
    text_format,
)
from seq2seq_chat.model.execution import file_errors_as_os_error
from seq2seq_chat.runs.model_card import write_model_card
from seq2seq_chat.runs.run import LATEST, Run
from seq2seq_chat.system.files import write_json
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.text.tokenizers import TOKENIZER_FILE
from seq2seq_chat.text.vocabulary import TARGET_PREFIX

ABOUT = "about.json"

logger = logging.getLogger(__name__)


def export_saved_model(
    run: Run, folder: str | Path, snapshot: str | None = None, beam_width: int | None = None, n_best: int | None = None
) -> dict[str, Any]:
    """Write the model of a run as a TensorFlow SavedModel, atomically.

    Logs a warning for each difference from the replies of ``chat``. A language model has no beam search: the last two
    arguments do not apply to it.

    Args:
        folder: The output folder; must be empty or not exist.
        snapshot: Name of the snapshot; None for the newest weights.
        beam_width: Width of the beam search; None for the configured one.
        n_best: Replies of the beam search; None for the configured ones.

    Returns:
        The contents of ``about.json`` in the folder.

    Raises:
        ExportError: The folder exists and is not empty, or cannot be written.
        RunError, MismatchError: The run cannot be loaded.
        ConfigError: The decoding options are incompatible.
    """
    folder = empty_folder(folder)
    config, data = run.config, run.config.data
    is_language_model = config.task == "language_model"
    searches, differences = ({}, []) if is_language_model else exported_searches(config, beam_width, n_best)
    for difference in differences:
        logger.warning("%s", difference)
    trained = load_trained_model(run, snapshot)
    codecs = trained.codecs
    about = {
        "run": run.name,
        "snapshot": snapshot or LATEST,
        "step": trained.step,
        "vocabulary_size": len(codecs.target.vocabulary),
        "tokenizer": data.source_text.tokenizer,
        "lowercase": data.lowercase,
        "normalize_apostrophes": data.normalize_apostrophes,
        "parameters": sum(parameter_counts(config, *codecs.vocabulary_sizes).values()),
        "versions": {
            "seq2seq-chat": __version__,
            "tensorflow": tf.__version__,
            "unicode": unicodedata.unidata_version,
        },
    }
    if is_language_model:
        text = running_text_format(codecs.source)
        about |= {"task": config.task, "input": text, "output": text, "signatures": ["generate", "score"]}
        engine = TensorFlowLanguageModel(trained.model)
        _save(run, folder, about, codecs, lambda scratch: TextModel(engine, codecs.source, scratch, config.decoding))
        return about
    about |= {
        "source_vocabulary_size": len(codecs.source.vocabulary),
        "target_tokenizer": data.target_text.tokenizer,
        "input": text_format(data.source_text.tokenizer),
        "output": text_format(data.target_text.tokenizer),
        "context_turns": data.context_turns,
        "encoder_steps": config.model.encoder_steps,
        "decoder_steps": config.model.decoder_steps,
        "signatures": {name: decoding.model_dump() for name, decoding in searches.items()},
        "differences_from_chat": differences,
    }
    _save(run, folder, about, codecs, lambda scratch: ReplyModel(trained.model, scratch, config, searches))
    return about


def _save(
    run: Run, folder: Path, about: dict[str, Any], codecs: Codecs, build: Callable[[Path], ReplyModel | TextModel]
) -> None:
    """Write the model that ``build`` makes, given a folder with the vocabularies, and about.json."""
    with new_folder(folder) as temporary, tempfile.TemporaryDirectory() as scratch:
        codecs.save(Path(scratch))
        options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)  # not for training
        try:
            model = build(Path(scratch))
            with file_errors_as_os_error(folder):
                tf.saved_model.save(model, str(temporary), model.functions, options)
        except tf.errors.OpError as error:
            raise OSError(errno.EIO, re.sub(r"{{.*?}} *", "", error.message).partition("\n")[0]) from error
        for file in Path(scratch).glob(f"*{TOKENIZER_FILE}"):
            shutil.copy(file, temporary)
        write_json(temporary / ABOUT, about)
        write_model_card(run, temporary)


def exported_searches(
    config: Config, beam_width: int | None = None, n_best: int | None = None
) -> tuple[dict[str, Decoding], list[str]]:
    """Decoding settings by signature, and a sentence for each difference from the replies of the run."""
    differences, data, decoding = [], config.data, config.decoding
    if decoding.method == "sample":
        differences.append("the exported model does not sample, unlike the run (decoding.method sample)")
    if decoding.rerank != "none":
        differences.append(f"the exported model does not rerank, unlike the run (decoding.rerank {decoding.rerank})")
    if decoding.replace_unknown and decoding.lexicon is not None:
        lexicon = f"decoding.lexicon {decoding.lexicon}"
        differences.append(f"the exported model does not use the lexicon of the run ({lexicon})")
    formats = {text_format(text.tokenizer) for text in (data.source_text, data.target_text)}
    if decoding.replace_unknown and not has_equal_tokenizers(data) and formats != {"text"}:
        differences.append(
            "the exported model replaces <unknown> with a source token, which chat splits into target tokens"
        )
    unsupported = {"rerank": "none", "backward_run": None, "lexicon": None}
    exported = decoding.model_copy(update={**unsupported, "unrolling": "built_in"})
    beam_width = beam_width or max(decoding.beam_width, n_best or 1)
    n_best = n_best or (decoding.n_best if decoding.method == "beam" else 1)
    return {
        "greedy": override_decoding(exported, method="greedy", n_best=1),
        "beam": override_decoding(exported, method="beam", beam_width=beam_width, n_best=n_best),
    }, differences


IMPORTS = """\
from seq2seq_chat.text.codec import load_tokenizer
from seq2seq_chat.text.tokenizers import TokenizerSettings, create_tokenizer
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
    """A program that loads an exported model and uses it, with TensorFlow and, for tokens of replies, our tokenizers.

    It gets replies, or continues a prompt and scores it.
    """
    head, text, reply = "import tensorflow as tf\n", '"{}"', "reply.decode()"
    if about.get("task") == "language_model":
        prompt = '"The "' if about["input"] == "text" else '"<eos> the"'
        text = f'output["{about["output"]}"].numpy()[0].decode()'
        program = GENERATION.format(folder=str(folder), prompt=prompt, length=LENGTH, input=about["input"], text=text)
        return f"import numpy as np\n{head}{program}"
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


def _tokenizer(folder: str | Path, about: dict[str, Any], key: str) -> str:
    """Python that creates a tokenizer."""
    if about[key] != "subword":
        options = "".join(f", {name}=True" for name in ("lowercase", "normalize_apostrophes") if about[name])
        return f"create_tokenizer(TokenizerSettings({about[key]!r}{options}))"
    own_file = Path(folder, f"{TARGET_PREFIX}{TOKENIZER_FILE}")
    file = own_file if key == "target_tokenizer" and own_file.is_file() else Path(folder, TOKENIZER_FILE)
    return f"load_tokenizer(TokenizerSettings({about[key]!r}), {str(file)!r})"
