"""Build the trainer of a run from its configuration, for the chief and for the other workers."""

from __future__ import annotations

import json
from collections.abc import Callable

from seq2seq_chat.architecture.variables import (
    MemoryEstimate,
    ensure_memory,
    estimate_memory,
    gigabytes,
    parameter_counts,
)
from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.chat.replies import HypothesisReader
from seq2seq_chat.config import Config, Training, parse_config, trained_settings
from seq2seq_chat.data.corpus_file import explain_validation
from seq2seq_chat.data.dataset import Dataset, open_training_corpus
from seq2seq_chat.engines.tensorflow.engine import TensorFlowEngine
from seq2seq_chat.engines.tensorflow.scorer import Scorer
from seq2seq_chat.model.execution import micro_batch_count
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.hardware import available_memory, describe_devices
from seq2seq_chat.system.versions import make_deterministic
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.training.distribution import Distribution, ensure_divisible
from seq2seq_chat.training.language_model import LanguageModelSetup
from seq2seq_chat.training.learner import Learner, build_learner, training_batches
from seq2seq_chat.training.loop import Chief, Trainer, TrainingState
from seq2seq_chat.training.optimizers import Schedule, ensure_available
from seq2seq_chat.training.rendezvous import Cluster
from seq2seq_chat.training.reporter import Console, Meter, Reporter
from seq2seq_chat.training.restore import (
    InitialWeights,
    TrainingInputs,
    initialize,
    load_newest_checkpoint,
    load_pretrained_embeddings,
)
from seq2seq_chat.training.saving import Saver
from seq2seq_chat.training.time_plan import UNPLANNED_STEPS, TimePlan
from seq2seq_chat.training.validation import SampleValidator


def build_trainer(
    run: Run, config: Config, distribution: Distribution, initial: InitialWeights | None = None, started: float = 0.0
) -> Trainer:
    """Build the trainer of a run, in the state of its newest valid checkpoint or at step 0.

    Args:
        run: locked by the caller.
        distribution: the devices that share each batch, with this process as the chief.
        initial: weights of another run that a new run starts from; they are released.
        started: when the command started, which training.hours counts from; a time of :func:`time.monotonic`.

    Raises:
        UserError: a corpus, the memory, a checkpoint or the pretrained embeddings cannot be used.
        WorkerLost: another worker cannot take part.
    """
    console, codecs = Console(run.log_file), run.codecs
    ensure_available(config.training.precision)
    setup: SampleSetup | LanguageModelSetup
    if config.task == "language_model":
        setup = LanguageModelSetup(config, codecs)
    else:
        setup = SampleSetup(config, codecs, console.log)
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
    estimate = _estimate_memory(config, codecs, distribution)
    available = available_memory()
    console.log(f"about {gigabytes(estimate.total)} of memory: {estimate.describe()}; {gigabytes(available)} available")
    ensure_memory(estimate, available)


def _estimate_memory(config: Config, codecs: Codecs, distribution: Distribution) -> MemoryEstimate:
    return estimate_memory(
        config,
        *codecs.vocabulary_sizes,
        devices=distribution.devices,
        replicas_in_memory=distribution.replicas_in_memory,
    )


class SampleSetup:
    """What training on samples needs: conversations and translations.

    Args:
        on_progress: called with a sentence about samples that were left out.

    Raises:
        UserError: a corpus cannot be used.
    """

    def __init__(self, config: Config, codecs: Codecs, on_progress: Callable[[str], object]) -> None:
        self._config, self._codecs = config, codecs
        HypothesisReader(config, config.decoding, codecs)  # a bad lexicon is an error before training
        self.corpus = open_training_corpus(config, codecs, on_progress)
        validation = config.data.validation
        with explain_validation():
            self._validation_corpus = Dataset.open(validation, codecs, config.data) if validation else None
        self._batches = training_batches(config, codecs, self.corpus)

    def build_learner(self, distribution: Distribution) -> Learner[Seq2Seq]:
        """Send the other workers what to train, and build the model and what trains it.

        Raises:
            WorkerLost: a worker cannot take part; the message says why.
        """
        config, codecs = self._config, self._codecs
        settings = json.loads(config.to_json())
        # of the chief, for all workers, as random numbers depend on it
        settings["training"]["micro_batches"] = micro_batch_count(config.model, config.training)
        distribution.broadcast({"config": settings, "codecs": codecs.to_json(), "corpus": self.corpus.fingerprint})
        distribution.barrier()
        self._learner = build_learner(config, codecs, self._batches, distribution)
        return self._learner

    def describe_data(self) -> str:
        """Numbers of samples, unknown words, and buckets."""
        corpus, validation, buckets = self.corpus, self._validation_corpus, self._batches.buckets
        count = len(validation) if validation else 0
        return (
            f"{len(corpus):,} training samples ({100 * corpus.unknown_share():.1f} % of their words are <unknown>), "
            f"{f'{count:,}' if count else 'no'} validation sample{'s' * (count != 1)}; "
            f"batches of {' or '.join(f'{source}+{target}' for source, target in buckets)} steps"
        )

    def build_validator(self) -> SampleValidator | None:
        """What validates the model of the learner; None without a validation corpus."""
        config, codecs, corpus, model = self._config, self._codecs, self._validation_corpus, self._learner.model
        if corpus is None:
            return None
        bot = Chatbot(TensorFlowEngine(model), codecs, config)
        scorer = Scorer(model, micro_batch_count(config.model, config.training))
        return SampleValidator(scorer, bot, corpus, self._batches.buckets)


def synchronize(distribution: Distribution, state: TrainingState) -> None:
    """Give all workers the chief's step, weights and learning rate."""
    learner, schedule = state.learner, state.schedule
    sent = {"step": learner.step, "sampler": learner.batches.state, "schedule": schedule.state}
    received = distribution.broadcast(sent)
    learner.resume_at(received["step"], received["sampler"])
    schedule.restore(received["schedule"])
    distribution.broadcast_variables([*learner.variables, *learner.loss_scale_variables])


def build_worker(distribution: Distribution, cluster: Cluster, console: Console) -> Trainer:
    """Build the trainer for the setup that the chief broadcasts.

    Raises:
        UserError: the corpus is missing or differs from the chief's; the precision or the memory is not available.
    """
    setup = distribution.broadcast(None)
    config = parse_config(setup["config"], where=cluster.describe(0))
    make_deterministic(config.seed, config.training.deterministic)
    try:
        codecs = Codecs.from_json(setup["codecs"], config.data, cluster.describe(0))
        corpus = _open_corpus(config, codecs, distribution, cluster, setup["corpus"])
    except UserError as error:
        distribution.barrier(str(error))
        raise
    distribution.barrier()
    learner = build_learner(config, codecs, training_batches(config, codecs, corpus), distribution)
    state = TrainingState(learner, Schedule(config.training), Meter(sampled=learner.sampled))
    synchronize(distribution, state)
    return Trainer(state, None, console, distribution)


def _open_corpus(
    config: Config, codecs: Codecs, distribution: Distribution, cluster: Cluster, fingerprint: str
) -> Dataset:
    """Open the corpus and check that this machine can train on it."""
    ensure_divisible(config.training.batch_size, distribution.devices)
    ensure_available(config.training.precision)
    corpus = open_training_corpus(config, codecs, lambda message: None)  # the chief reports it
    if corpus.fingerprint != fingerprint:
        raise UserError(f"{config.data.train} differs from the corpus of {cluster.describe(0)}; copy that file here")
    ensure_memory(_estimate_memory(config, codecs, distribution), available_memory())
    return corpus
