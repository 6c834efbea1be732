"""Names and shapes of variables, as in the models that TensorFlow builds; and the memory of training."""

import math
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from seq2seq_chat.architecture.variables import (
    CELL_LAYOUTS,
    InsufficientMemory,
    MemoryEstimate,
    Shapes,
    ensure_memory,
    estimate_memory,
    parameter_counts,
    variable_shapes,
)
from seq2seq_chat.config import Config, ConfigError, load_config, parse_config
from seq2seq_chat.model.cells import CELLS
from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.model.seq2seq import Seq2Seq
from tests.conftest import shipped_configs
from tests.pairwise import Combination, pairwise

WORDS, SOURCE_WORDS = 23, 29
SIZES = {"hidden_size": 7, "embedding_size": 5}
VALUES: dict[str, tuple[Any, ...]] = {
    "task": ("conversation", "translation", "language_model"),
    "model.cell": ("lstm", "gru", "rnn"),
    "model.layers": (1, 3),
    "model.bidirectional": (False, True),
    "model.bridge": ("both", "backward"),
    "model.attention": ("additive", "concat", "dot", "general", "none"),
    "model.attention_query": ("current", "previous"),
    "model.input_feeding": (True, False),
    "model.context": ("initial_state", "every_step"),
    "model.output": ("attentional", "maxout", "concatenated"),
    "model.projection_size": (5, 3, None),
    "model.shared_embeddings": (False, True),
    "model.tie_embeddings": (False, True),
    "data.context_turns": (1, 2),
    "data.target_vocabulary_size": (None, WORDS),
}


def parse(combination: Combination) -> Config:
    suffix = "tsv" if combination["task"] == "translation" else "txt"
    settings: dict[str, Any] = {"name": "x", "data": {"train": f"train.{suffix}"}, "model": dict(SIZES)}
    for path, value in combination.items():
        section, _, key = path.partition(".")
        (settings[section] if key else settings)[key or section] = value
    return parse_config(settings, "x", warn=False)


def is_valid(combination: Combination) -> bool:
    try:
        parse(combination)
    except ConfigError:
        return False
    return True


def shapes_of_model(config: Config, words: int, source_words: int) -> Shapes:
    """The shapes of the model's variables, which have no values."""
    with tf.Graph().as_default():
        is_text = config.task == "language_model"
        model = LanguageModel(config.model, words, 1) if is_text else Seq2Seq(config.model, words, 1, source_words)
    return {variable.name.partition(":")[0]: tuple(variable.shape) for variable in model.trainable_variables}


def assert_equal_shapes(config: Config, words: int, source_words: int) -> None:
    expected = shapes_of_model(config, words, source_words)
    shapes = variable_shapes(config, words, source_words)
    assert shapes == expected
    counts: dict[str, int] = {}
    for name, shape in expected.items():
        component = name.split("/")[0]
        counts[component] = counts.get(component, 0) + math.prod(shape)
    assert [*parameter_counts(config, words, source_words).items()] == [*counts.items()], "in the same order"


@pytest.mark.parametrize("path", shipped_configs(), ids=lambda path: path.stem)
def test_shipped_configurations(path: Path) -> None:
    config = load_config(path)
    assert_equal_shapes(config, config.data.target_text.vocabulary_size, config.data.source_text.vocabulary_size)


@pytest.mark.parametrize("combination", pairwise(VALUES, is_valid), ids=str)
def test_all_pairs_of_settings(combination: Combination) -> None:
    config = parse(combination)
    assert_equal_shapes(config, WORDS, WORDS if config.data.has_shared_vocabulary else SOURCE_WORDS)


def test_the_source_has_the_vocabulary_of_the_target_unless_it_has_its_own() -> None:
    config = parse({"task": "conversation"})
    assert variable_shapes(config, WORDS) == variable_shapes(config, WORDS, WORDS)


def test_the_states_of_cells() -> None:
    assert {name: cell.STATE._fields for name, cell in CELLS.items()} == {
        name: layout.state for name, layout in CELL_LAYOUTS.items()
    }


THESIS = [path for path in shipped_configs() if path.stem.startswith("thesis")]


def test_the_message_names_the_settings_to_lower() -> None:
    weights = MemoryEstimate(parameters=6e9, optimizer=6e9, gradients=1e9, activations=2e9, process=0.5e9)
    ensure_memory(weights, 15.5e9)
    with pytest.raises(
        InsufficientMemory, match=r"needs about 15\.5 GB, but only 15\.4 GB is available; lower data\.vocabulary_size"
    ):
        ensure_memory(weights, 15.4e9)
    with pytest.raises(InsufficientMemory, match=r"lower training\.batch_size"):
        ensure_memory(weights._replace(activations=13e9), 15e9)


@pytest.mark.parametrize("config_file", THESIS, ids=lambda path: path.stem)
def test_the_thesis_fits_its_gpu(config_file: Path) -> None:
    """One Titan X of 12 GB, a quarter of which is left to CUDA, its libraries and what the allocator cannot use.

    ``test_thesis_size.py`` compares the estimate with the memory of a training run on a processor.
    """
    config = load_config(config_file)
    estimate = estimate_memory(config, config.data.vocabulary_size)
    table = 4 * config.data.vocabulary_size * 1024  # bytes; two embeddings and the output's, each with AdaGrad's sums
    assert 6 * table < estimate.parameters + estimate.optimizer < estimate.total < 0.75 * 12e9


def test_devices_that_share_a_batch() -> None:
    settings = {"name": "m", "data": {"train": "x"}, "training": {"batch_size": 64}}
    config = parse_config(settings, where="test")
    alone, apart = (estimate_memory(config, 5000, devices=n) for n in (1, 4))
    assert apart.activations < alone.activations / 3
    assert apart.parameters == alone.parameters
    assert apart.process == alone.process
    together = estimate_memory(config, 5000, devices=4, replicas_in_memory=4)
    assert together.parameters == 4 * alone.parameters
    assert together.activations == 4 * apart.activations


@pytest.mark.parametrize("output", ["attentional", "concatenated"])
def test_a_full_softmax_has_a_gradient_of_its_whole_layer(output: str) -> None:
    training = {"sampled_softmax": None}
    config = parse_config(
        {"name": "m", "data": {"train": "x"}, "model": {"output": output}, "training": training}, "test"
    )
    _, width = variable_shapes(config, 1)["output/words"]
    smaller, larger = (estimate_memory(config, words).gradients for words in (1000, 3000))
    assert larger - smaller == 4 * 2000 * width
