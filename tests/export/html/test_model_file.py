"""The model file of a page, and the forward pass in JavaScript against the equations in NumPy."""

from typing import Any, get_args

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.config import Config, Model
from seq2seq_chat.engines.tensorflow.engine import TrainedModel
from seq2seq_chat.export.html import model_file
from seq2seq_chat.export.html.model_file import ALLOWED_ERROR, PackedTensor, pack_model, pack_tensor
from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.text.codec import Codecs
from tests.export.html.conftest import Evaluate, encode_model, round_weights, stored_values
from tests.model.test_seq2seq import ARCHITECTURES
from tests.random_runs import make_codec, small_config
from tests.random_weights import randomize
from tests.reference_model import Reference

WORDS = [f"word{n}" for n in range(30)]
SOURCE, TARGET = [7, 3, 30, 12, 9, 5, 11], [8, 2, 33, 4]

STEPS = """
return Promise.all(input.models.map(async (data) => {
  const { weights, config, header } = await load(data);
  const isText = header.task === "language_model";
  const model = isText ? new modules.model.LanguageModel(weights, config) : new modules.model.Seq2Seq(weights, config);
  let { state, memory } = model.start(input.source);
  return input.words.map((word) => {
    // with two rows, of which only one is needed, the products of several vectors are used
    const output = model.step([5, word, 6, 7, 8], [state, state, state, state, state], memory);
    state = output.states[1];
    return { logits: [...output.logits[1]], attention: output.attention && [...output.attention[1]] };
  });
}));
"""


def stored(config: Config, seed: int = 1) -> tuple[TrainedModel, str]:
    """A model with random weights, and it as the text in a page; then its weights are rounded as there."""
    trained = random_trained(config, seed)
    data = encode_model(trained, config)
    round_weights(trained.model)
    return trained, data


def random_trained(config: Config, seed: int = 1) -> TrainedModel:
    codecs = Codecs.shared(make_codec("english", WORDS))
    size = len(codecs.target.vocabulary)
    build = LanguageModel if config.task == "language_model" else Seq2Seq
    model = build(config.model, size, config.seed)
    randomize(model, seed=seed, scale=0.6)
    return TrainedModel(model, codecs, 7, [])


def config_of(architecture: dict[str, Any]) -> Config:
    values = {name: "null" if value is None else str(value).lower() for name, value in architecture.items()}
    return small_config(*(f"model.{name}={value}" for name, value in values.items()))


def test_the_logits_of_every_architecture_equal_the_equations(javascript: Evaluate) -> None:
    tied = {"shared_embeddings": True, "tie_embeddings": True, "projection_size": 10}
    configs = [config_of(architecture) for architecture in [*ARCHITECTURES, tied]]
    models, data = zip(*(stored(config, seed) for seed, config in enumerate(configs)), strict=True)
    outputs = javascript(STEPS, {"models": [*data], "source": SOURCE, "words": [1, *TARGET[:-1]]})
    for one, config, output in zip(models, configs, outputs, strict=True):
        reference = Reference(one.model)
        if config.model.tie_embeddings:
            reference.v["output/words"] = reference.v["embedding/target"]
        expected = reference.logits(SOURCE, TARGET)
        logits = np.array([step["logits"] for step in output])
        np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=2e-4, err_msg=str(config.model))
        if config.model.attention == "none":
            assert output[0]["attention"] is None
        else:
            assert np.shape(output[0]["attention"]) == (len(SOURCE),)
            assert sum(output[0]["attention"]) == pytest.approx(1)


@pytest.mark.parametrize(
    "changes", [(), ("model.layers=2", "model.residual=true", "model.cell=gru", "model.output=maxout")]
)
def test_the_logits_of_language_models_equal_the_equations(javascript: Evaluate, changes: tuple[str, ...]) -> None:
    config = small_config("task=language_model", "data.tokenizer=character", *changes)
    model, data = stored(config)
    (output,) = javascript(STEPS, {"models": [data], "source": [], "words": SOURCE})
    expected = Reference(model.model).text_logits(SOURCE)
    np.testing.assert_allclose([step["logits"] for step in output], expected, atol=2e-4)


def error_of(matrix: np.ndarray, packed: PackedTensor) -> float:
    return float(np.linalg.norm(stored_values(packed) - matrix) / np.linalg.norm(matrix))


def test_matrices_use_as_few_integers_as_the_allowed_error_permits() -> None:
    rng = np.random.default_rng(0)
    uniform = rng.uniform(-1, 1, [200, 300]).astype(np.float32)
    packed = pack_tensor("embedding/source", uniform)
    _, integers = packed.arrays
    # uniform numbers of a step s have the error s / √12, and s is 1 / n: relative to 1 / √3 that is 1 / (2 n)
    assert abs(int(integers.max()) - 1 / (2 * ALLOWED_ERROR)) <= 1
    assert error_of(uniform, packed) == pytest.approx(ALLOWED_ERROR, rel=0.02)


def test_a_matrix_that_would_lose_too_much_keeps_its_floats() -> None:
    matrix = np.random.default_rng(0).normal(size=[40, 300]).astype(np.float32)
    assert pack_tensor("embedding/source", matrix).dtype == "int8"
    matrix[:, 7] = 40  # a scale of 40 / 127 rounds normal numbers with an error of 9 % of their size
    packed = pack_tensor("embedding/source", matrix)
    assert packed.dtype == "float32" and np.array_equal(stored_values(packed), matrix)


def test_every_kind_of_model_is_supported() -> None:
    for setting, values in model_file.SUPPORTED.items():
        assert set(values) == set(get_args(Model.model_fields[setting].annotation))


def test_a_kind_of_model_that_is_not_supported_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(model_file.SUPPORTED, "cell", ("gru",))
    with pytest.raises(UserError, match=r"model\.cell lstm, which pages do not support"):
        pack_model(random_trained(small_config()), small_config(), {}, "run")


def test_models_that_do_not_fit_or_diverged_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    config = small_config()
    model = random_trained(config)
    model.model.output.bias.assign(tf.fill(model.model.output.bias.shape, float("nan")))
    with pytest.raises(UserError, match="diverged; use an earlier --snapshot"):
        pack_model(model, config, {}, "run")
    monkeypatch.setattr(model_file, "MAX_PARAMETERS", 1000)
    with pytest.raises(UserError, match="million parameters"):
        pack_model(model, config, {}, "run")
