"""What exported models reply where seq2seq-chat is not installed: SavedModels in TensorFlow, pages in Node.js."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

PAGE = r"""
const [file, texts, count] = JSON.parse(require("fs").readFileSync(0, "utf-8"));
const html = require("fs").readFileSync(file, "utf-8");
const [, model] = html.match(/<script type="text\/plain" id="model">([^<]*)</);
const [, worker] = html.match(/const startWorker = (\(\) => \{[^]*?\n\});\nconst modules = \{\};/);
let receive = null;
globalThis.onmessage = null;
globalThis.postMessage = (message) => receive(message);
eval(`(${worker})()`);
const ask = async (request) => {
  const answer = await new Promise((resolve) => {
    receive = resolve;
    onmessage({ data: { id: 1, ...request } });
  });
  if (answer.error) throw new Error(answer.error);
  return answer.result;
};
(async () => {
  const { run } = await ask({ load: model });
  const decoding = { ...run.decoding.defaults.beam, beam_width: count + 1, n_best: count }, answers = [];
  for (const text of texts) answers.push(await ask({ chat: { text, history: [], decoding } }));
  console.log(JSON.stringify(answers));
  process.exit();
})();
"""


def read_saved_model(folder: Path, texts: Sequence[str]) -> dict[str, Any]:
    """The replies and scores of a conversation's SavedModel, or the nats of each token from a language model's."""
    import tensorflow as tf

    signatures = tf.saved_model.load(str(folder)).signatures
    names = [name for name in ("greedy", "beam", "score") if name in signatures]
    batches = list(texts) if names == ["score"] else [list(texts)]
    replies: dict[str, Any] = {}
    for name in names:
        (argument,) = signatures[name].structured_input_signature[1].keys() & {"text", "tokens"}
        outputs = [signatures[name](**{argument: tf.constant(batch)}) for batch in batches]
        replies[name] = [{key: _plain(output[key].numpy().tolist()) for key in sorted(output)} for output in outputs]
    return replies


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value.decode() if isinstance(value, bytes) else value


def read_page(file: Path, texts: Sequence[str], count: int = 3) -> list[dict[str, Any]]:
    """The best hypotheses of an exported page for each text, by beam search; skips the test if there is no Node.js."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no Node.js; apt-get install nodejs")
    job = json.dumps([str(file), list(texts), count])
    result = subprocess.run([node, "-e", PAGE], input=job, capture_output=True, text=True, check=True, timeout=120)
    return [
        {name: answer[name] for name in ("reply", "alternatives", "attention")} for answer in json.loads(result.stdout)
    ]
