"""From a run or an exported model to the engine that computes it."""

from __future__ import annotations

from typing import NamedTuple

from seq2seq_chat.engines.protocols import LanguageModelEngine, ReplyEngine
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.versions import load_tensorflow
from seq2seq_chat.text.codec import Codecs


class LoadedEngine(NamedTuple):
    """The engine of a run, and what belongs to it."""

    engine: ReplyEngine
    codecs: Codecs
    step: int  # training steps of the weights
    warnings: list[str]  # damaged checkpoints that were skipped


class LoadedLanguageModel(NamedTuple):
    """The engine of a language model, and what belongs to it."""

    engine: LanguageModelEngine
    codecs: Codecs
    step: int  # training steps of the weights


def load_engine(run: Run, snapshot: str | None = None) -> LoadedEngine:
    """Load the engine of a run or an exported model of conversations or translations.

    Raises:
        RunError, MismatchError: See :func:`load_trained_model`.
        ExportedModelError: The exported model is damaged, or needs a newer version.
        UnsupportedVersion: TensorFlow is missing, which a run needs.
    """
    if run.is_exported:
        from seq2seq_chat.engines.onnx.engine import load_exported_engine

        exported = load_exported_engine(run, snapshot)
        return LoadedEngine(exported, run.codecs, exported.model.step_number, [])
    load_tensorflow()
    from seq2seq_chat.engines.tensorflow.engine import TensorFlowEngine, load_trained_model

    trained = load_trained_model(run, snapshot)
    return LoadedEngine(TensorFlowEngine(trained.model, constant=True), trained.codecs, trained.step, trained.warnings)


def load_language_model_engine(run: Run, snapshot: str | None = None) -> LoadedLanguageModel:
    """Load the engine of a run or an exported model of language.

    Raises:
        RunError, MismatchError: See :func:`load_language_model`.
        ExportedModelError: The exported model is damaged, or needs a newer version.
        UnsupportedVersion: TensorFlow is missing, which a run needs.
    """
    if run.is_exported:
        from seq2seq_chat.engines.onnx.language_model import load_exported_language_model

        exported = load_exported_language_model(run, snapshot)
        return LoadedLanguageModel(exported, run.codecs, exported.model.step_number)
    load_tensorflow()
    from seq2seq_chat.engines.tensorflow.engine import load_language_model
    from seq2seq_chat.engines.tensorflow.language_model import TensorFlowLanguageModel

    trained = load_language_model(run, snapshot)
    return LoadedLanguageModel(TensorFlowLanguageModel(trained.model), trained.codecs, trained.step)
