"""Build the trainer of a run from its configuration."""

from __future__ import annotations

from typing import Protocol

from seq2seq_chat.architecture.memory import ensure_memory, estimate_memory, gigabytes
from seq2seq_chat.architecture.variables import parameter_counts
from seq2seq_chat.config import Config, Training, trained_settings
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.data.running_text import RunningText
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.hardware import available_memory, describe_devices
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.training.distribution import Distribution
from seq2seq_chat.training.initialize import InitialWeights, initialize
from seq2seq_chat.training.language_model import LanguageModelSetup
from seq2seq_chat.training.learner import Learner
from seq2seq_chat.training.loop import Trainer, TrainingState
from seq2seq_chat.training.optimizers import Schedule, ensure_available
from seq2seq_chat.training.reporter import Console, Meter, Reporter
from seq2seq_chat.training.resume import TrainingInputs, load_newest_checkpoint, load_pretrained_embeddings
from seq2seq_chat.training.samples import SampleSetup
from seq2seq_chat.training.saving import Saver
from seq2seq_chat.training.time_plan import UNPLANNED_STEPS, TimePlan
from seq2seq_chat.training.validation import Validator
from seq2seq_chat.training.workers import Chief, synchronize


def build_trainer(
    run: Run, config: Config, distribution: Distribution, initial: InitialWeights | None = None, started: float = 0.0
) -> Trainer:
    """Build the trainer of a run, in the state of its newest valid checkpoint or at step 0.

    Args:
        run: locked by the caller.
        config: the experiment.
        distribution: the devices that share each batch, with this process as the chief.
        initial: weights of another run that a new run starts from; they are released.
        started: when the command started, which training.hours counts from; a time of :func:`time.monotonic`.

    Raises:
        UserError: a corpus, the memory, a checkpoint or the pretrained embeddings cannot be used.
        WorkerLost: another worker cannot take part.
    """
    console, codecs = Console(run.log_file), run.codecs
    ensure_available(config.training.precision)
    is_text = config.task == "language_model"
    setup: TaskSetup = LanguageModelSetup(config, codecs) if is_text else SampleSetup(config, codecs, console.log)
    _report_devices_and_memory(config, codecs, distribution, console)
    learner = setup.build_learner(distribution)
    console.log(setup.describe_data())
    state = TrainingState(learner, Schedule(config.training), Meter(sampled=learner.sampled))
    inputs = TrainingInputs(run, config, codecs, setup.corpus, initial)
    saver = Saver(run, learner, inputs.metadata(), keep=config.training.keep_checkpoints)
    reporter = Reporter(run, console)
    _restore(inputs, state, saver, reporter)

    def save_settings(settings: Training) -> None:
        planned = config.model_copy(update={"training": settings})
        run.save_config(planned)
        saver.metadata["settings"] = trained_settings(planned)

    synchronize(distribution, state)
    chief = Chief(state, setup.build_validator(), reporter, saver, save_settings)
    if initial is not None:  # a checkpoint, as resuming must not need the other run
        saver.save_checkpoint({**state.metadata(), "lines": reporter.flush()})
        saver.finish()
    hours, is_planned = config.training.hours, config.training.steps != UNPLANNED_STEPS
    plan = None if hours is None or is_planned else TimePlan(hours, started)
    return Trainer(state, chief, console, distribution, plan)


class TaskSetup(Protocol):
    """What training needs of a task."""

    @property
    def corpus(self) -> Dataset | RunningText:
        """What the model is trained on."""
        ...

    def build_learner(self, distribution: Distribution) -> Learner:
        """The model, and what trains it."""
        ...

    def build_validator(self) -> Validator | None:
        """What validates the model of the learner; None without a validation corpus."""
        ...

    def describe_data(self) -> str:
        """A sentence for the log."""
        ...


def _restore(inputs: TrainingInputs, state: TrainingState, saver: Saver, reporter: Reporter) -> None:
    """Continue from the newest valid checkpoint, or start from pretrained embeddings and the weights of another run."""
    inputs.run.remove_temporary_files()
    model, codecs = state.learner.model, inputs.codecs
    checkpoint = load_newest_checkpoint(inputs, state.learner, reporter.log)
    pretrained = inputs.config.model.pretrained_embeddings
    if checkpoint is not None:
        same_order = state.restore(checkpoint)
        saver.saved_step = state.step
        note = "" if same_order else "; the batch size has changed, so the samples come in a new order"
        reporter.log(f"resuming from step {state.step:,}{note}")
    elif pretrained:
        count = load_pretrained_embeddings(pretrained, model, codecs)
        reporter.log(f"initialized {count:,} of {codecs.words:,} word embeddings from {pretrained}")
    if checkpoint is None and inputs.initial is not None:  # overwrites the pretrained vectors of the words it knows
        assert isinstance(model, Seq2Seq)
        assert isinstance(inputs.corpus, Dataset)
        for message in initialize(model, codecs, inputs.corpus, inputs.initial):
            reporter.log(message)
    reporter.discard_after(state.step or None, checkpoint.get("lines", {}) if checkpoint else {})


def _report_devices_and_memory(config: Config, codecs: Codecs, distribution: Distribution, console: Console) -> None:
    """Log devices, parameters and memory. Raises InsufficientMemory."""
    console.log(describe_devices(distribution.devices // distribution.workers))
    parts = parameter_counts(config, *codecs.vocabulary_sizes)
    console.log(
        f"{sum(parts.values()):,} parameters: {', '.join(f'{part} {count:,}' for part, count in parts.items())}"
    )
    if distribution.devices > 1:
        workers = f"; {distribution.workers} workers" if distribution.workers > 1 else ""
        console.log(f"{distribution.devices} devices share each batch of {config.training.batch_size} samples{workers}")
    estimate = estimate_memory(
        config,
        *codecs.vocabulary_sizes,
        devices=distribution.devices,
        replicas_in_memory=distribution.replicas_in_memory,
    )
    available = available_memory()
    console.log(f"about {gigabytes(estimate.total)} of memory: {estimate.describe()}; {gigabytes(available)} available")
    ensure_memory(estimate, available)
