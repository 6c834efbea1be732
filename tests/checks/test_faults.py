"""Each fault is built into the program, one at a time, and the checks must catch it.

These are faults with which a model trains, its loss falls, and its replies are nonsense.
"""

import os
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from seq2seq_chat.chat import chatbot
from seq2seq_chat.checks import reply_tasks
from seq2seq_chat.checks.check_context import SAMPLE_CORPUS, CheckContext
from seq2seq_chat.checks.suite import run_checks
from seq2seq_chat.config import Config, Training, load_config
from seq2seq_chat.data.dataset import Batch, Dataset
from seq2seq_chat.decoding import search
from seq2seq_chat.engines.tensorflow.scorer import Scorer, Scores
from seq2seq_chat.model import attention, deferred, encoder, seq2seq
from seq2seq_chat.model.attention import AdditiveAttention, Memory
from seq2seq_chat.model.output import WordSampler
from seq2seq_chat.text.vocabulary import EOS, PAD
from seq2seq_chat.training.optimizers import build_optimizer
from seq2seq_chat.training.step import TrainingStep
from tests.conftest import REPOSITORY

CONFIG = REPOSITORY / "configs" / "thesis_reddit.json"
SHORT = ["model.encoder_steps=4", "model.decoder_steps=4"]  # for the gradient check
ALIGNED_STEPS = 240  # after which attention is aligned
SIZES = {"model.hidden_size": 32, "model.embedding_size": 16, "model.projection_size": 16, "training.batch_size": 16}
SMALL = [*SHORT, "data.vocabulary_size=600", *(f"{key}={size}" for key, size in SIZES.items())]  # to check learning
FAST_CHECKS = ["initial-loss", "gradients", "padding", "decoding"]


def no_attention_mask(patch: pytest.MonkeyPatch, folder: Path) -> None:
    real = AdditiveAttention.setup_memory

    def setup_memory(self: AdditiveAttention, values: tf.Tensor, lengths: tf.Tensor) -> Memory:
        memory = real(self, values, lengths)
        return memory._replace(mask=tf.zeros_like(memory.mask))

    patch.setattr(AdditiveAttention, "setup_memory", setup_memory)


def reinitialized_after_loading(patch: pytest.MonkeyPatch, folder: Path) -> None:
    fault = """
        for variable in result.model.trainable_variables:
            variable.assign(variable * 0 + 0.01)
    """
    patch_fresh_processes(patch, folder, "engines.tensorflow.engine", "load_trained_model", fault)


def source_and_target_embeddings_swapped_at_load(patch: pytest.MonkeyPatch, folder: Path) -> None:
    fault = """
        named = {variable.name: variable for variable in result.model.trainable_variables}
        source, target = named["embedding/source:0"], named["embedding/target:0"]
        old_source = source.numpy()
        source.assign(target)
        target.assign(old_source)
    """
    patch_fresh_processes(patch, folder, "engines.tensorflow.engine", "load_trained_model", fault)


def patch_fresh_processes(patch: pytest.MonkeyPatch, folder: Path, module: str, function: str, fault: str) -> None:
    """Make a function do ``fault`` with its arguments and its result in Python processes started from now on."""
    code = f"""
    from seq2seq_chat.{module.rpartition(".")[0]} import {module.rpartition(".")[2]} as module
    original = module.{function}

    def {function}(*arguments, **options):
        result = original(*arguments, **options)
    """
    code = textwrap.dedent(code) + textwrap.indent(textwrap.dedent(fault), "    ")
    end = f"\n    return result\n\nmodule.{function} = {function}\n"
    (folder / "sitecustomize.py").write_text(code + end, encoding="utf-8")
    patch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{REPOSITORY}")


def end_marker_missing_from_the_loss(patch: pytest.MonkeyPatch, folder: Path) -> None:
    real = Dataset.batch

    def batch(self: Dataset, *args: object, **kwargs: object) -> Batch:
        correct = real(self, *args, **kwargs)
        return correct._replace(
            target=np.where(correct.target == EOS, PAD, correct.target),
            target_length=np.maximum(correct.target_length - 1, 0),
        )

    patch.setattr(Dataset, "batch", batch)


def states_not_reordered_to_the_parent(patch: pytest.MonkeyPatch, folder: Path) -> None:
    def keep(state: Any, parents: tf.Tensor) -> Any:
        rows = tf.range(tf.size(parents))
        return tf.nest.map_structure(lambda tensor: tf.gather(tensor, tf.minimum(rows, tf.shape(tensor)[0] - 1)), state)

    patch.setattr(search, "reorder_state", keep)


def sampled_softmax_in_the_reported_loss(patch: pytest.MonkeyPatch, folder: Path) -> None:
    real = Scorer._score_micro_batch

    def score(self: Scorer, *batch: tf.Tensor) -> Scores:
        sampler = WordSampler(self._model.vocabulary_size, self._model.vocabulary_size // 4, 1)
        return real(self, *batch)._replace(loss=self._model.loss(*batch, sampled_words=sampler(tf.constant(0))))

    patch.setattr(Scorer, "_score_micro_batch", score)


def one_gate_never_updated(patch: pytest.MonkeyPatch, folder: Path) -> None:
    real = deferred._weight_gradient

    def weight_gradient(uses: list[tuple[tf.Tensor, tf.Tensor]], *settings: Any) -> tf.Tensor | None:
        gradient = real(uses, *settings)
        columns = gradient.shape[1]
        frozen = tf.range(columns) < (columns // 4 if columns == 4 * 64 else 0)  # one gate of an LSTM of 64 units
        return tf.where(frozen, 0.0, gradient)

    patch.setattr(deferred, "_weight_gradient", weight_gradient)


def input_reversed_in_training_only(patch: pytest.MonkeyPatch, folder: Path) -> None:
    real = chatbot.fit_source
    patch.setattr(chatbot, "fit_source", lambda ids, steps, reverse: real(ids, steps, reverse=False))


def attention_not_trained(patch: pytest.MonkeyPatch, folder: Path) -> None:
    real = attention.weighted_sum

    def constant(weights: tf.Tensor) -> tf.Tensor:  # with gradients of zero, as the optimizer needs some
        return tf.stop_gradient(weights) + 0.0 * weights

    patch.setattr(attention, "weighted_sum", lambda weights, values: real(constant(weights), values))


def attention_in_the_order_of_the_encoder(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Where the input is reversed, the attention of replies must be put back into the order of the text."""
    real = chatbot.Chatbot.replies

    def replies(self: chatbot.Chatbot, *args: Any) -> list[chatbot.Reply]:
        return [
            reply._replace(hypotheses=[h._replace(attention=np.fliplr(h.attention).tolist()) for h in reply.hypotheses])
            for reply in real(self, *args)
        ]

    patch.setattr(chatbot.Chatbot, "replies", replies)


def patch_updates(patch: pytest.MonkeyPatch, is_trained: Callable[[str], bool]) -> None:
    """Make optimizers update only variables with some names."""
    real = build_optimizer

    def build(settings: Training) -> Any:
        optimizer = real(settings)
        apply = optimizer.apply_gradients

        def apply_gradients(pairs: Iterable[tuple[Any, tf.Variable]], **options: Any) -> None:
            kept = [(gradient, variable) for gradient, variable in pairs if is_trained(variable.name)]
            if kept:
                apply(kept, **options)

        object.__setattr__(optimizer, "apply_gradients", apply_gradients)
        return optimizer

    patch.setattr("seq2seq_chat.training.learner.build_optimizer", build)


def gradients_of_one_layer_zero(patch: pytest.MonkeyPatch, folder: Path) -> None:
    real = TrainingStep.gradients

    def gradients(self: TrainingStep, batch: Any, step: tf.Tensor) -> tuple[Any, list[Any]]:
        loss, computed = real(self, batch, step)
        names = [variable.name for variable in self._model.trainable_variables]
        zero = [0.0 * g if name.startswith("decoder/layer0") else g for name, g in zip(names, computed, strict=True)]
        return loss, zero

    patch.setattr(TrainingStep, "gradients", gradients)


Fault = Callable[[pytest.MonkeyPatch, Path], object]
FAULTS: dict[str, tuple[Fault, str]] = {
    "no attention mask": (no_attention_mask, "padding"),
    "no encoder mask": (
        lambda patch, _: patch.setattr(encoder, "masked_update", lambda mask, new, old: new),
        "padding",
    ),
    "reinitialized after loading": (reinitialized_after_loading, "save-and-load"),
    "decoder inputs off by one": (lambda patch, _: patch.setattr(seq2seq, "decoder_inputs", lambda w: w), "decoding"),
    "end marker missing from the loss": (end_marker_missing_from_the_loss, "overfitting"),
    "states not reordered to the parent": (states_not_reordered_to_the_parent, "decoding"),
    "sampled softmax in the reported loss": (sampled_softmax_in_the_reported_loss, "initial-loss"),
    "one gate never updated": (one_gate_never_updated, "gradients"),
    "input reversed in training only": (input_reversed_in_training_only, "overfitting"),
    "source and target embeddings swapped": (source_and_target_embeddings_swapped_at_load, "save-and-load"),
    "attention not trained": (attention_not_trained, "alignment"),
    "attention in the order of the encoder": (attention_in_the_order_of_the_encoder, "alignment"),
    "encoder not trained": (lambda patch, _: patch_updates(patch, lambda n: not n.startswith("encoder/")), "learning"),
    "nothing trained": (lambda patch, _: patch_updates(patch, lambda name: False), "learning"),
    "gradients of one layer zero": (gradients_of_one_layer_zero, "learning"),
}
QUICK = ("decoder inputs off by one", "sampled softmax in the reported loss")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in FAULTS]
)
def test_fault_is_caught(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fault, check = FAULTS[name]
    fault(monkeypatch, tmp_path)
    monkeypatch.setattr(reply_tasks, "ALIGNMENT_STEPS", ALIGNED_STEPS)
    overrides = SHORT if check in ("gradients", "save-and-load") else SMALL if check == "learning" else []
    assert failed_checks(CheckContext(load_config(CONFIG, overrides), tmp_path), [check]) == {check}


def failed_checks(context: CheckContext, only: Sequence[str] = ()) -> set[str]:
    return {check.name for check in run_checks(context, only) if not check.result.passed}


@pytest.mark.slow
def test_model_without_faults_passes_the_fast_checks(tmp_path: Path) -> None:
    assert failed_checks(CheckContext(load_config(CONFIG, SHORT), tmp_path), FAST_CHECKS) == set()
    assert failed_checks(CheckContext(load_config(CONFIG, SMALL), tmp_path), ["learning"]) == set()


@pytest.mark.parametrize(
    "fast", [pytest.param(True, marks=pytest.mark.slow(minutes=3)), pytest.param(False, marks=pytest.mark.nightly)]
)
def test_model_without_faults_passes_all_checks(fast: bool, tmp_path: Path) -> None:
    """With sequences of up to ten numbers in the copy task, or 40 if it is not fast."""
    checks = run_checks(CheckContext(_sample_config(1), tmp_path, fast=fast))
    assert len(checks) == 11
    assert [check.name for check in checks if not check.result.passed] == []


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("seed", "slow_check"), [(2, "overfitting"), (3, "overfitting"), (4, "copy-task"), (5, "save-and-load")]
)
def test_checks_pass_with_other_seeds(seed: int, slow_check: str, tmp_path: Path) -> None:
    context = CheckContext(_sample_config(seed), tmp_path, fast=True)
    assert failed_checks(context, [*FAST_CHECKS, slow_check]) == set()


def _sample_config(seed: int) -> Config:
    """The thesis's configuration on the bundled sample."""
    paths = dict.fromkeys(("validation", "vocabulary", "test"), "null")
    data = {"train": SAMPLE_CORPUS, "pairing": "alternating", **paths}
    return load_config(CONFIG, [f"seed={seed}", *(f"data.{key}={value}" for key, value in data.items())])


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["gru", "rnn"])
def test_each_cell_learns_to_copy(cell: str, tmp_path: Path) -> None:
    """Sequences of up to ten numbers, with attention; the LSTM is tested above."""
    config = load_config(CONFIG, [f"model.cell={cell}", "data.validation=null"])
    assert failed_checks(CheckContext(config, tmp_path, fast=True), ["copy-task"]) == set()


@pytest.mark.slow(minutes=1)
@pytest.mark.parametrize(
    ("score", "query"),
    [
        ("additive", "current"),
        ("dot", "previous"),
        ("general", "current"),
        *(
            pytest.param(*combination, marks=pytest.mark.nightly)
            for combination in (("additive", "previous"), ("dot", "current"), ("general", "previous"))
        ),
    ],
)
def test_each_attention_learns_an_alignment(
    score: str, query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the input in the order of the text, which is reversed for the faults above."""
    monkeypatch.setattr(reply_tasks, "ALIGNMENT_STEPS", ALIGNED_STEPS)
    architecture = [f"model.attention={score}", f"model.attention_query={query}", "data.reverse_input=false"]
    config = load_config(CONFIG, [*architecture, "data.validation=null"])
    assert failed_checks(CheckContext(config, tmp_path), ["alignment"]) == set()
