"""The JavaScript of exported pages, in a browser."""

import base64
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

from seq2seq_chat.config import Config
from seq2seq_chat.engines.onnx.quantization import QuantizedMatrix
from seq2seq_chat.engines.tensorflow.engine import TrainedModel
from seq2seq_chat.export.html.export import bundle
from seq2seq_chat.export.html.model_file import JAVASCRIPT, PackedTensor, is_table, pack_model, pack_tensor
from seq2seq_chat.model.variables import variable_name
from seq2seq_chat.text.codec import Codecs
from tests.random_runs import make_codec
from tests.webui.conftest import expect, page  # noqa: F401  (fixtures)

Evaluate = Callable[..., Any]
FRENCH_TO_ENGLISH = Codecs(
    make_codec("unicode", ["Où", "est", "le", "chat", "?", "Je", "l'aime", "."]),
    make_codec("english", ["where", "is", "the", "cat", "?", "i", "like", "it", "."]),
)

LOAD = """
const load = async (data) => {
  const { decodeBase85, decompress, parseModelFile } = modules.model_file;
  const { header, weights } = parseModelFile(await decompress(decodeBase85(data)));
  const codecs = header.codecs.map((codec) => new modules.codec.TextCodec(codec));
  return { header, weights, codecs, config: header.model };
};
const pause = async () => {};
"""


@pytest.fixture(scope="session")
def javascript(browser: Any) -> Iterator[Evaluate]:
    """``javascript("return modules.tensors.topK(input, 2)", [1, 3, 2])``: the body of a function of ``input``."""
    tab = browser.new_page()
    tab.add_script_tag(content=f"{{ {bundle('worker', [JAVASCRIPT])} globalThis.modules = modules; }}")

    def evaluate(body: str, value: Any = None) -> Any:
        return tab.evaluate(f"async (input) => {{ {LOAD} {body} }}", value)

    yield evaluate
    tab.close()


def encode_model(trained: TrainedModel, config: Config) -> str:
    """The model as the text in a page."""
    return base64.b85encode(pack_model(trained, config, {"step": trained.step}, "test")).decode().replace("<", ",")


def stored_values(packed: PackedTensor) -> npt.NDArray[np.float32]:
    """The numbers that a tensor in a page stands for, [outputs, inputs] or [units]."""
    if packed.dtype == "float32":
        return packed.arrays[0]
    scales, integers = packed.arrays
    return QuantizedMatrix(integers, scales).dequantize()


def round_weights(model: tf.Module) -> None:
    """Replace the weights of a model by those that its page has."""
    for variable in model.trainable_variables:
        name = variable_name(variable)
        values = stored_values(pack_tensor(name, variable.numpy()))
        variable.assign(values if values.ndim == 1 or is_table(name) else values.T)
