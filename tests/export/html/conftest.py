"""The JavaScript of exported pages, in a browser."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from seq2seq_chat.config import Config
from seq2seq_chat.engines.tensorflow.engine import TrainedModel
from seq2seq_chat.export.html.export import bundle
from seq2seq_chat.export.html.model_file import JAVASCRIPT, pack_model
from tests.webui.conftest import expect, page  # noqa: F401  (fixtures)

Evaluate = Callable[..., Any]

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


def encode_model(trained: TrainedModel[Any], config: Config) -> str:
    """The model as the text in a page."""
    return base64.b85encode(pack_model(trained, config, {"step": trained.step}, "test")).decode().replace("<", ",")
