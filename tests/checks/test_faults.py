"""The checks catch faults: each of these is built in, one at a time, and at least one check must fail.

They are the faults that cost people weeks: the model trains, the loss falls, and what it says is nonsense.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat import chatbot
from seq2seq_chat.checks.subject import SAMPLE_CORPUS, Subject
from seq2seq_chat.checks.suite import run_checks
from seq2seq_chat.config import load_config
from seq2seq_chat.corpus.encoded import Batch, EncodedCorpus
from seq2seq_chat.corpus.vocabulary import EOS, PAD
from seq2seq_chat.decoding import asked
from seq2seq_chat.model import deferred, encoder, seq2seq
from seq2seq_chat.model.attention import AdditiveAttention, Memory
from seq2seq_chat.model.output import WordSampler
from seq2seq_chat.model.seq2seq import Loss, Seq2Seq

CONFIG = Path(__file__).parents[2] / "configs" / "thesis_reddit.json"
CHEAP = ["initial-loss", "gradients", "padding", "save-and-load", "decoding"]

pytestmark = pytest.mark.slow


def no_attention_mask(patch: pytest.MonkeyPatch, folder: Path) -> None:
    real = AdditiveAttention.remember

    def remember(self: AdditiveAttention, values: tf.Tensor, lengths: tf.Tensor) -> Memory:
        memory = real(self, values, lengths)
        return memory._replace(mask=tf.zeros_like(memory.mask))

    patch.setattr(AdditiveAttention, "remember", remember)


def no_encoder_mask(patch: pytest.MonkeyPatch, folder: Path) -> None:
    patch.setattr(encoder, "carry", lambda running, new, old: new)


def initialised_again_after_loading(patch: pytest.MonkeyPatch, folder: Path) -> None:
    in_fresh_processes(
        patch,
        folder,
        """
        for variable in variables:
            variable.assign(variable * 0 + 0.01)
        """,
    )


def source_and_target_embeddings_swapped_at_load(patch: pytest.MonkeyPatch, folder: Path) -> None:
    in_fresh_processes(
        patch,
        folder,
        """
        named = {variable.name: variable for variable in variables}
        source, target = named["embedding/source:0"], named["embedding/target:0"]
        kept = source.numpy()
        source.assign(target)
        target.assign(kept)
        """,
    )


def in_fresh_processes(patch: pytest.MonkeyPatch, folder: Path, fault: str) -> None:
    """Let every Python that is started from here on do something wrong after it has loaded variables."""
    code = """
        from seq2seq_chat.training import restore

        whole = restore.load_variables

        def load_variables(path, variables):
            variables = list(variables)
            metadata = whole(path, variables)
    """
    after = textwrap.indent(textwrap.dedent(fault), "    ")
    end = "\n    return metadata\n\nrestore.load_variables = load_variables\n"
    (folder / "sitecustomize.py").write_text(textwrap.dedent(code) + after + end)
    patch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{CONFIG.parents[1]}")


def decoder_inputs_off_by_one(patch: pytest.MonkeyPatch, folder: Path) -> None:
    patch.setattr(seq2seq, "decoder_inputs", lambda words: words)


def end_marker_missing_from_the_loss(patch: pytest.MonkeyPatch, folder: Path) -> None:
    real = EncodedCorpus.batch

    def batch(self: EncodedCorpus, *args: object, **kwargs: object) -> Batch:
        found = real(self, *args, **kwargs)
        return found._replace(
            target=np.where(found.target == EOS, PAD, found.target),
            target_length=np.maximum(found.target_length - 1, 0),
        )

    patch.setattr(EncodedCorpus, "batch", batch)


def states_not_reordered_to_the_parent(patch: pytest.MonkeyPatch, folder: Path) -> None:
    def stay(state: Any, parents: tf.Tensor) -> Any:
        rows = tf.range(tf.size(parents))
        return tf.nest.map_structure(lambda part: tf.gather(part, tf.minimum(rows, tf.shape(part)[0] - 1)), state)

    patch.setattr(asked, "follow_parents", stay)


def sampled_softmax_in_the_reported_loss(patch: pytest.MonkeyPatch, folder: Path) -> None:
    real = Seq2Seq.loss

    def loss(self: Seq2Seq, *args: tf.Tensor, **kwargs: object) -> Loss:
        kwargs["sampler"] = kwargs.get("sampler") or WordSampler(self.vocabulary_size, self.vocabulary_size // 4, 1)
        kwargs["step"] = kwargs.get("step", tf.constant(0))
        return real(self, *args, **kwargs)

    patch.setattr(Seq2Seq, "loss", loss)


def one_gate_never_updated(patch: pytest.MonkeyPatch, folder: Path) -> None:
    real = deferred._weight_gradient

    def weight_gradient(uses: list[tuple[tf.Tensor, tf.Tensor]], compute: tf.DType) -> tf.Tensor | None:
        gradient = real(uses, compute)
        columns = gradient.shape[1]
        frozen = tf.range(columns) < (columns // 4 if columns == 4 * 64 else 0)  # of an LSTM with 64 units
        return tf.where(frozen, 0.0, gradient)

    patch.setattr(deferred, "_weight_gradient", weight_gradient)


def input_reversed_in_training_only(patch: pytest.MonkeyPatch, folder: Path) -> None:
    real = chatbot.fit_source
    patch.setattr(chatbot, "fit_source", lambda ids, steps, reverse: real(ids, steps, reverse=False))


FAULTS: dict[Callable[[pytest.MonkeyPatch, Path], None], set[str]] = {
    no_attention_mask: {"padding"},
    no_encoder_mask: {"padding"},
    initialised_again_after_loading: {"save-and-load"},
    decoder_inputs_off_by_one: {"decoding"},
    end_marker_missing_from_the_loss: {"overfitting"},
    states_not_reordered_to_the_parent: {"decoding"},
    sampled_softmax_in_the_reported_loss: {"initial-loss"},
    one_gate_never_updated: {"gradients"},
    input_reversed_in_training_only: {"overfitting"},
    source_and_target_embeddings_swapped_at_load: {"save-and-load"},
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_is_caught(
    fault: Callable[[pytest.MonkeyPatch, Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch, tmp_path)
    only = sorted({*CHEAP, *FAULTS[fault]})
    verdicts = run_checks(Subject(load_config(CONFIG), tmp_path), only)
    failed = {verdict.check for verdict in verdicts if not verdict.finding.passed}
    print(f"{fault.__name__}: caught by {', '.join(sorted(failed)) or 'nothing'}")
    assert failed >= FAULTS[fault]


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_sound_model_passes_with_every_seed(seed: int, tmp_path: Path) -> None:
    data = {"train": SAMPLE_CORPUS, "validation": "null", "vocabulary": "null", "test": "null", "pairing": "sliding"}
    config = load_config(CONFIG, [f"seed={seed}", *(f"data.{key}={value}" for key, value in data.items())])
    verdicts = run_checks(Subject(config, tmp_path, fast=seed > 1))  # sequences of up to 40 symbols once
    assert len(verdicts) == 9
    assert [verdict.check for verdict in verdicts if not verdict.finding.passed] == []


@pytest.mark.parametrize("cell", ["gru", "rnn"])
def test_each_cell_learns_to_copy(cell: str, tmp_path: Path) -> None:
    """Sequences of up to ten symbols, with attention; the sound model above does it with an LSTM."""
    config = load_config(CONFIG, [f"model.cell={cell}", "data.validation=null"])
    (verdict,) = run_checks(Subject(config, tmp_path, fast=True), ["copy-task"])
    assert verdict.finding.passed, verdict.finding
