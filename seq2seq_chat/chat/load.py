"""From a run or an exported model to the engine that computes it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from seq2seq_chat.architecture.variables import parameter_counts
from seq2seq_chat.checkpoint.arrays import read_weights
from seq2seq_chat.config import Decoding, flat_settings
from seq2seq_chat.engines import LanguageModelEngine, ReplyEngine
from seq2seq_chat.runs.find import RunSnapshot
from seq2seq_chat.runs.run import Run, RunError
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.hardware import AUTO, EngineOptions, has_gpu
from seq2seq_chat.system.versions import load_tensorflow
from seq2seq_chat.text.codec import Codecs, are_equal

MAX_GRAPH_BYTES = 2**31 - 2**20  # of a graph in memory, whose format counts bytes as 32-bit integers

logger = logging.getLogger(__name__)

EngineType = TypeVar("EngineType")


@dataclass(frozen=True)
class LoadedEngine(Generic[EngineType]):
    """The engine of a run, and what belongs to it."""

    engine: EngineType
    codecs: Codecs
    step: int  # training steps of the weights
    warnings: list[str]  # damaged checkpoints that were skipped


def load_engine(
    run: Run,
    snapshot: str | None = None,
    options: EngineOptions = AUTO,
    decoding: Decoding | None = None,
    others: Sequence[RunSnapshot] = (),
) -> LoadedEngine[ReplyEngine]:
    """Load the engine of a run or an exported model of conversations or translations.

    Args:
        decoding: The settings of the searches; None: the run's settings.
        others: Further members of an ensemble, whose probabilities are averaged.

    Raises:
        RunError, MismatchError: See :func:`seq2seq_chat.checkpoint.arrays.read_weights`.
        ExportedModelError: The exported model is damaged, or needs a newer version.
        UnsupportedVersion: TensorFlow is missing, which the engine needs.
        UserError: The engine cannot compute the model.
    """
    if run.config.task == "language_model":
        raise RunError(f"run {run.name} is a language model, which has no replies; use seq2seq-chat generate")
    for other, _ in others:
        _ensure_combinable(run, other)
    decoding = decoding or run.config.decoding
    loaded = _load(run, snapshot, options, decoding)
    if not others:
        return loaded
    from seq2seq_chat.engines.ensemble import EnsembleEngine

    members = [loaded, *(_load(other, name, options, decoding) for other, name in others)]
    has_attention = any(each.config.model.attention != "none" for each in [run, *(other for other, _ in others)])
    engine = EnsembleEngine([member.engine for member in members], run.config.model, has_attention)
    return LoadedEngine(engine, loaded.codecs, loaded.step, [text for each in members for text in each.warnings])


def _ensure_combinable(run: Run, other: Run) -> None:
    """Raise UserError if two runs read or write other words than each other, so that they cannot be an ensemble."""
    if other.config.task != run.config.task:
        raise UserError(
            f"--with {other.name}: its task is {other.config.task}, but the task of {run.name} is {run.config.task}"
        )
    for one, two in zip(run.codecs, other.codecs, strict=True):
        if one.vocabulary.fingerprint != two.vocabulary.fingerprint or not are_equal(one.tokenizer, two.tokenizer):
            raise UserError(
                f"--with {other.name}: its vocabulary or tokenizer differs from {run.name}'s; train both "
                "with the same data.vocabulary"
            )
    settings, others = flat_settings(run.config), flat_settings(other.config)
    for key in (
        *("data.reverse_input", "data.context_turns", "data.swap_source_target"),
        *("model.encoder_steps", "model.decoder_steps"),
    ):
        if settings[key] != others[key]:
            raise UserError(f"--with {other.name}: its {key} differs from {run.name}'s; choose other runs")


def load_language_model_engine(
    run: Run, snapshot: str | None = None, options: EngineOptions = AUTO
) -> LoadedEngine[LanguageModelEngine]:
    """Load the engine of a run or an exported model of language; see :func:`load_engine`."""
    if run.config.task != "language_model":
        raise RunError(f"run {run.name} is not a language model: its task is {run.config.task}; use seq2seq-chat chat")
    return _load(run, snapshot, options, run.config.decoding)


def _load(run: Run, snapshot: str | None, options: EngineOptions, decoding: Decoding) -> LoadedEngine[Any]:
    """Load the engine of a run of any task. decoding: The settings of the searches."""
    is_text = run.config.task == "language_model"
    engine: Any
    if uses_onnx(run, options, decoding):
        from seq2seq_chat.engines.onnx.engine import OnnxEngine, OnnxLanguageModel, OnnxModel

        warnings: list[str] = []
        if run.is_exported:
            run.weight_files(snapshot)  # raises RunError if there is no such snapshot
            model = OnnxModel.open(run.path)
            if model.vocabulary_size != run.codecs.vocabulary_sizes[0]:
                raise UserError(f"{run.path}: vocabulary and model differ in size; export the run again")
        else:
            weights = read_weights(run, snapshot)
            model, warnings = OnnxModel.build(run.config, weights, options.quantize), weights.warnings
        engine = OnnxLanguageModel(model) if is_text else OnnxEngine(model, run.config.model, run.is_exported)
        return LoadedEngine(engine, run.codecs, model.manifest["step"], warnings)
    load_tensorflow()
    from seq2seq_chat.engines.tensorflow.engine import TensorFlowEngine, load_trained_model
    from seq2seq_chat.engines.tensorflow.language_model import TensorFlowLanguageModel

    trained = load_trained_model(run, snapshot)
    engine = TensorFlowLanguageModel(trained.model) if is_text else TensorFlowEngine(trained.model, constant=True)
    return LoadedEngine(engine, trained.codecs, trained.step, trained.warnings)


def uses_onnx(run: Run, options: EngineOptions, decoding: Decoding) -> bool:
    """Whether ONNX Runtime computes a model. Raises UserError if the options contradict the model or each other."""
    name, quantize = options
    if run.is_exported:
        if name == "tensorflow":
            raise UserError(f"{run.name} is an exported model, which TensorFlow cannot read; use --engine onnx")
        if quantize:
            raise UserError(f"{run.name} is an exported model; for int8, export its run with --quantize {quantize}")
        return True
    if name == "tensorflow":
        if quantize:
            raise UserError(f"--quantize {quantize} needs --engine onnx; TensorFlow computes with the trained weights")
        return False
    obstacle = _what_onnx_lacks(run, decoding)
    if name == "onnx" or quantize:
        if obstacle:
            raise UserError(f"--engine onnx does not support {obstacle}; use --engine tensorflow")
        return True
    if obstacle:
        logger.info("using TensorFlow, as ONNX Runtime does not support %s", obstacle)
    elif has_gpu():
        logger.info("using TensorFlow, as there is a GPU")
    return not (obstacle or has_gpu())


def _what_onnx_lacks(run: Run, decoding: Decoding) -> str | None:
    """What ONNX Runtime cannot do for a run: the setting, or its size."""
    if decoding.unrolling == "dynamic":
        return "decoding.unrolling dynamic"
    if run.config.model.unrolling == "dynamic" and decoding.unrolling is None:
        return "model.unrolling dynamic"
    try:
        from seq2seq_chat.engines.onnx.layers import missing_layer
    except ImportError:
        return "building graphs without the package onnx"
    if layer := missing_layer(run.config.model):
        return layer
    parameters = sum(parameter_counts(run.config, *run.codecs.vocabulary_sizes).values())
    return "models of more than 2 GB" if 4 * parameters > MAX_GRAPH_BYTES else None
