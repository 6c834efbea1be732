"""Save and load: a fresh process computes the same logits, bit for bit, and continues training identically."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

from seq2seq_chat.checks.check_context import CheckContext, CheckResult, OnProgress, first_samples, learner_of
from seq2seq_chat.config import Config
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.data.running_text import RunningText
from seq2seq_chat.engines.tensorflow.engine import load_trained_model
from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.model.variables import load_variables, save_variables
from seq2seq_chat.runs.run import Run, create_run
from seq2seq_chat.system.versions import make_deterministic
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.text.vocabulary import GO
from seq2seq_chat.training.learner import Learner

VOCABULARY_SIZE, STEPS, SAMPLES = 120, 8, 64
LOGITS_SAMPLES = 8
STEPS_BEFORE, STEPS_AFTER = 6, 4  # training steps before saving and after loading


def check_save_and_load(context: CheckContext, on_progress: OnProgress) -> CheckResult:
    """Train, save, and load in another process: logits and further losses are equal bit for bit."""
    _, codecs = context.random_corpus("save_and_load", VOCABULARY_SIZE, SAMPLES, STEPS - 1)
    config = context.small_config(
        VOCABULARY_SIZE,
        hidden_size=48,
        embedding_size=32,
        steps=STEPS,
        data={"train": str(context.folder / "save_and_load.txt")},
        training={"batch_size": 16, "bptt_forward": STEPS - 3, "bptt_backward": STEPS},
    )
    run = create_run(context.folder, config, codecs, {})
    learner = learner_of(config, codecs)
    for _ in range(STEPS_BEFORE):
        learner.train_step()
    save_variables(run.checkpoint_path(learner.step), learner.variables, {"step": learner.step})
    logits = sample_logits(learner.model, config, codecs)
    losses = continue_training(learner)

    on_progress("loading in a fresh process")
    output = run.path / "fresh_process.npz"
    command = [sys.executable, "-m", "seq2seq_chat.checks.save_and_load", str(run.path), str(output)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        return CheckResult(False, "loading failed", "equal bit for bit", process.stderr.strip()[-200:])
    with np.load(output) as loaded:
        different = int(np.sum(loaded["logits"] != logits))
        loss_difference = float(np.max(np.abs(loaded["losses"] - losses)))
    return CheckResult(
        passed=not different and not loss_difference,
        measured=f"{different} of {logits.size:,} logits differ, {STEPS_AFTER} further losses differ by "
        f"{loss_difference:.1e} nats",
        required="none, 0",
    )


def sample_logits(model: Seq2Seq | LanguageModel, config: Config, codecs: Codecs) -> np.ndarray:
    """The logits of two steps for some samples, or rows of the text: [2, samples, vocabulary]."""
    if isinstance(model, LanguageModel):
        text = RunningText.open(str(config.data.train), codecs, config.data)
        tokens = text.tokens[: LOGITS_SAMPLES * STEPS].reshape(LOGITS_SAMPLES, STEPS).astype(np.int32)
        hidden, _ = model.read(tf.constant(tokens), model.start(LOGITS_SAMPLES))
        return np.stack([model.output.logits(step) for step in hidden[-2:]])
    corpus = Dataset.open(config.data.train, codecs, config.data)
    batch = first_samples(corpus, LOGITS_SAMPLES, STEPS, config)
    state, memory = model.start(model.encode(batch.source, batch.source_length))
    first, state, _ = model.step(tf.fill([LOGITS_SAMPLES], GO), state, memory)
    second, _, _ = model.step(tf.constant(batch.target[:, 0]), state, memory)
    return np.stack([first, second])


def continue_training(learner: Learner) -> np.ndarray:
    """The losses of further training steps, in nats: [STEPS_AFTER]."""
    return np.array([float(learner.train_step().loss.nats) for _ in range(STEPS_AFTER)])


def load_and_compute(run: Run, output: Path) -> None:
    """Load the model as the chatbot does and the learner as a resumed training does, in the fresh process."""
    config = run.config
    make_deterministic(config.seed)
    trained = load_trained_model(run)
    logits = sample_logits(trained.model, config, trained.codecs)
    learner = learner_of(config, trained.codecs)
    learner.step = int(load_variables(run.checkpoint_path(trained.step), learner.variables)["step"])
    np.savez(output, logits=logits, losses=continue_training(learner))


if __name__ == "__main__":
    load_and_compute(Run(sys.argv[1]), Path(sys.argv[2]))
