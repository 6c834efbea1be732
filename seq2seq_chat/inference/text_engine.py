"""What computes texts: TensorFlow with the weights of a run, or ONNX Runtime with an exported model."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from seq2seq_chat.data.codec import Codecs
from seq2seq_chat.decoding.parameters import SearchParameters
from seq2seq_chat.decoding.result import Block
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.versions import load_tensorflow

States = list[np.ndarray]
"""The parts of a language model's state, [rows, hidden] each."""


class TextEngine(Protocol):
    """A language model, as a generator and a scorer use it. All ids are int32."""

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens."""

    def start(self, rows: int) -> States:
        """The states before the first token."""

    def read(self, inputs: np.ndarray, states: States) -> States:
        """The states after reading tokens, ids [rows, steps]."""

    def score(self, inputs: np.ndarray, targets: np.ndarray, states: States) -> tuple[np.ndarray, States]:
        """Read tokens, [rows, steps]: nats and correct predictions of the targets, [2, rows], and the states."""

    def sample_block(
        self,
        token: np.ndarray,
        states: States,
        uniform: np.ndarray,
        parameters: SearchParameters,
        forbidden: tuple[int, ...],
        explain: bool,
    ) -> tuple[Block, States]:
        """Sample tokens.

        Args:
            token: The last one, ids [rows].
            states: Before it.
            uniform: Random numbers in [0, 1), [rows, steps].
            parameters: Temperature, top_k and top_p.
            forbidden: Tokens that are never sampled.
            explain: Whether to return probabilities, which are those at temperature 1.

        Returns:
            The tokens as arrays, and the states before the last of them.
        """


class LoadedTextEngine(NamedTuple):
    """The engine of a language model, and what belongs to it."""

    engine: TextEngine
    codecs: Codecs
    step: int  # training steps of the weights


def load_text_engine(run: Run, snapshot: str | None = None) -> LoadedTextEngine:
    """The engine for a run or an exported model.

    Raises:
        RunError, MismatchError: See :func:`load_language_model`.
        ExportedModelError: The exported model is damaged, or needs a newer version.
        UnsupportedVersion: TensorFlow is missing, which a run needs.
    """
    if run.is_exported:
        from seq2seq_chat.portable.text_engine import load_exported_text_engine

        exported = load_exported_text_engine(run, snapshot)
        return LoadedTextEngine(exported, run.codecs, exported.model.step_number)
    load_tensorflow()
    from seq2seq_chat.inference.restore import load_language_model
    from seq2seq_chat.inference.tensorflow_text_engine import TensorFlowTextEngine

    trained = load_language_model(run, snapshot)
    return LoadedTextEngine(TensorFlowTextEngine(trained.model), trained.codecs, trained.step)
