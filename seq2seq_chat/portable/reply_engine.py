"""Replies of an exported model of conversations or translations."""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable
from typing import NoReturn

import numpy as np

from seq2seq_chat.config import Decoding, Model
from seq2seq_chat.decoding.parameters import SearchParameters
from seq2seq_chat.decoding.result import Hypotheses, OnStep
from seq2seq_chat.decoding.uniform import Seeds, uniform_numbers
from seq2seq_chat.portable.beam import BeamSettings, beam_search
from seq2seq_chat.portable.logit_rules import configured_rules
from seq2seq_chat.portable.manifest import CHECKSUM
from seq2seq_chat.portable.sampling import sampling_search
from seq2seq_chat.portable.scorer import ArrayScorer
from seq2seq_chat.portable.search import SearchInputs, sequential_search
from seq2seq_chat.portable.sessions import ExportedModel
from seq2seq_chat.runs.run import Run, RunError

MAX_ROWS = 640  # hypotheses decoded together: bounds the memory of the logits, [rows, vocabulary]


class OnnxEngine:
    """Searches and scores with an exported model.

    Args:
        model: The exported model.
        config: Its architecture.
    """

    def __init__(self, model: ExportedModel, config: Model) -> None:
        self.model, self._config = model, config
        self.scorer = ArrayScorer(model, config)

    def search(self, decoding: Decoding) -> Callable[..., Hypotheses]:
        """A search with the given settings, without reranking; see :class:`ReplySearch`."""

        def search(
            source: np.ndarray, lengths: np.ndarray, seed: Seeds | None = None, on_step: OnStep | None = None
        ) -> Hypotheses:
            width = decoding.beam_width if decoding.method == "beam" else decoding.n_best
            size = max(1, MAX_ROWS // width)
            seeds = np.broadcast_to(secrets.randbits(31) if seed is None else seed, len(source))
            batches = []
            for start in range(0, max(1, len(source)), size):
                rows = slice(start, start + size)
                report = functools.partial(on_step, start) if on_step else None
                batches.append(self._search(source[rows], lengths[rows], decoding, seeds[rows], report))
            return Hypotheses(*(np.concatenate(field) for field in zip(*batches, strict=True)))

        return search

    @property
    def observed_search(self) -> NoReturn:
        """Raises RunError."""
        raise RunError("the search of an exported model cannot be watched step by step; use the run it is from")

    def sample_scorer(self, max_rows: int) -> ArrayScorer:
        """A scorer of samples, which counts correct tokens."""
        return self.scorer

    def fingerprint(self) -> str:
        """SHA-256 of ``model.json``, which has those of the graphs, in hex."""
        return str(self.model.manifest[CHECKSUM])

    def _search(
        self,
        source: np.ndarray,
        lengths: np.ndarray,
        decoding: Decoding,
        seeds: Seeds,
        on_step: Callable[[Hypotheses], bool] | None,
    ) -> Hypotheses:
        """Search for replies to a batch of utterances."""
        parameters, config = SearchParameters.of_settings(decoding), self._config
        state, memory = self.model.encode(source, lengths)
        inputs = SearchInputs(
            self.model.step,
            len(source),
            state,
            memory,
            config.decoder_steps,
            config.encoder_steps if self.model.has_attention else 0,
            configured_rules(parameters),
        )
        if on_step is not None:
            inputs = inputs._replace(on_step=on_step)
        if decoding.method == "greedy":
            return sequential_search(inputs)
        if decoding.method == "sample":
            uniform = uniform_numbers(seeds, source, decoding.n_best, config.decoder_steps)
            return sampling_search(inputs, uniform, parameters)
        settings = BeamSettings(
            decoding.beam_width,
            decoding.n_best,
            decoding.length_penalty,
            decoding.beam_groups,
            decoding.diversity_penalty,
        )
        return beam_search(inputs, settings)


def load_exported_engine(run: Run, snapshot: str | None = None) -> OnnxEngine:
    """Load an exported model that replies.

    Raises:
        RunError: It is a language model, or has no such snapshot.
        ExportedModelError: A file is damaged, or needs a newer version.
    """
    run.weight_files(snapshot)
    model = ExportedModel(run.path)
    if run.config.task == "language_model":
        raise RunError(f"{run.name} is a language model, which has no replies; use seq2seq-chat generate")
    return OnnxEngine(model, run.config.model)
