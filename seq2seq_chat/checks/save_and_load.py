"""Save and load: a fresh process gives the same logits, to the bit, and goes on learning as if nothing had happened."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

from seq2seq_chat.checks.subject import Finding, Progress, Subject
from seq2seq_chat.config import Config
from seq2seq_chat.corpus.encoded import EncodedCorpus
from seq2seq_chat.corpus.vocabulary import GO, Vocabulary
from seq2seq_chat.environment import make_deterministic
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.runs import Run, create_run
from seq2seq_chat.training.checkpoints import load_variables, save_variables
from seq2seq_chat.training.learner import Learner
from seq2seq_chat.training.restore import load_trained_model

VOCABULARY, STEPS, SAMPLES = 120, 8, 64
BEFORE, AFTER = 6, 4  # training steps before saving and after loading


def check_save_and_load(subject: Subject, progress: Progress) -> Finding:
    """Train, save, load in another process: logits and further losses are equal to the last bit."""
    config = subject.sized(VOCABULARY, hidden=48, units=32, steps=STEPS, training__batch_size=16)
    corpus, vocabulary = subject.random_corpus("save_and_load", VOCABULARY, SAMPLES, STEPS - 1)
    data = config.data.model_copy(update={"train": str(subject.folder / "save_and_load.txt")})
    config = config.model_copy(update={"data": data})
    run = create_run(subject.folder, config, vocabulary, {})
    learner = Learner(config, len(vocabulary), corpus)
    for _ in range(BEFORE):
        learner.learn()
    save_variables(run.checkpoint_path(learner.step), learner.variables, {"step": learner.step})
    logits = some_logits(learner.model, corpus, config)
    losses = further_losses(learner)

    progress("loading in a fresh process")
    answer = run.path / "answer.npz"
    command = [sys.executable, "-m", "seq2seq_chat.checks.save_and_load", str(run.path), str(answer)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return Finding(False, "loading failed", "equal bits", done.stderr.strip()[-200:])
    with np.load(answer) as found:
        unequal = int(np.sum(found["logits"] != logits))
        apart = float(np.max(np.abs(found["losses"] - losses)))
    return Finding(
        passed=not unequal and not apart,
        figure=f"{unequal} of {logits.size:,} logits differ, {AFTER} further losses are {apart:.1e} apart",
        threshold="none, 0",
    )


def some_logits(model: Seq2Seq, corpus: EncodedCorpus, config: Config) -> np.ndarray:
    """The logits of the first two words of some replies: [2, samples, vocabulary]."""
    rows = list(range(8))
    batch = corpus.batch(
        rows, size=len(rows), source_steps=STEPS, target_steps=STEPS, reverse=config.data.reverse_input
    )
    state, memory = model.start(model.encode(batch.source, batch.source_length))
    first, state, _ = model.step(tf.fill([len(rows)], GO), state, memory)
    second, _, _ = model.step(tf.constant(batch.target[:, 0]), state, memory)
    return np.stack([first, second])


def further_losses(learner: Learner) -> np.ndarray:
    """The losses of the next training steps, in nats: [AFTER]."""
    return np.array([float(learner.learn().loss.nats) for _ in range(AFTER)])


def answer_from_files(run: Run, answer: Path) -> None:
    """What the fresh process does: load what was saved, by the ways a chat and a resumed training load it."""
    config = run.config
    make_deterministic(config.seed)
    trained = load_trained_model(run)
    corpus = EncodedCorpus.open(config.data.train, trained.vocabulary, level="word", pairing="alternating")
    logits = some_logits(trained.model, corpus, config)
    learner = Learner(config, len(Vocabulary.load(run.path / "vocabulary.txt")), corpus)
    learner.step = int(load_variables(run.checkpoint_path(trained.step), learner.variables)["step"])
    np.savez(answer, logits=logits, losses=further_losses(learner))


if __name__ == "__main__":
    answer_from_files(Run(sys.argv[1]), Path(sys.argv[2]))
