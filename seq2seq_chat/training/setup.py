"""Build the trainer of a run from its configuration."""

from __future__ import annotations

from collections.abc import Sequence

from seq2seq_chat.config import Config, override_decoding
from seq2seq_chat.data.batches import evenly_spaced
from seq2seq_chat.data.buckets import Bucket
from seq2seq_chat.data.codec import Codecs
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.inference.hypothesis_reader import HypothesisReader
from seq2seq_chat.inference.reply_search import ReplySearch
from seq2seq_chat.inference.scorer import Scorer
from seq2seq_chat.model.micro_batches import micro_batch_count
from seq2seq_chat.model.seq2seq import Seq2Seq, abstract_model, parameter_counts
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.hardware import available_memory, describe_devices
from seq2seq_chat.training.chief import Chief
from seq2seq_chat.training.console import Console
from seq2seq_chat.training.corpus import open_training_corpus
from seq2seq_chat.training.distribution.collective import Distribution
from seq2seq_chat.training.initialize import InitialWeights, initialize
from seq2seq_chat.training.learner import build_learner
from seq2seq_chat.training.loop import Trainer, TrainingState
from seq2seq_chat.training.memory import ensure_memory, estimate_memory, gigabytes
from seq2seq_chat.training.metrics import Meter
from seq2seq_chat.training.precision import ensure_available
from seq2seq_chat.training.reporter import Reporter
from seq2seq_chat.training.resume import TrainingInputs, load_newest_checkpoint, load_pretrained_embeddings
from seq2seq_chat.training.sampler import training_batches
from seq2seq_chat.training.saving import Saver
from seq2seq_chat.training.schedules import Schedule
from seq2seq_chat.training.validation import BleuScorer, ReplySampler, Validator, read_references, read_sources
from seq2seq_chat.training.worker import broadcast_setup, synchronize


def build_trainer(
    run: Run, config: Config, distribution: Distribution, initial: InitialWeights | None = None
) -> Trainer:
    """Build the trainer of a run, in the state of its newest valid checkpoint or at step 0.

    Args:
        run: locked by the caller.
        config: the experiment.
        distribution: the devices that share each batch, with this process as the chief.
        initial: weights of another run that a new run starts from; they are released.

    Raises:
        UserError: a corpus, the memory, a checkpoint or the pretrained embeddings cannot be used.
        WorkerLost: another worker cannot take part.
    """
    console, data, codecs = Console(run.log_file), config.data, run.codecs
    reader = HypothesisReader.of_settings(config, config.decoding, codecs)
    corpus = open_training_corpus(config, codecs, console.log)
    validation_corpus = Dataset.open(data.validation, codecs, data) if data.validation else None
    ensure_available(config.training.precision)
    _report_devices_and_memory(config, codecs, distribution, console)
    broadcast_setup(distribution, config, codecs, corpus)
    batches = training_batches(config, codecs, corpus)
    learner = build_learner(config, codecs, batches, distribution)
    console.log(_describe_data(corpus, validation_corpus, batches.buckets))
    state = TrainingState(learner, Schedule(config.training), Meter(sampled=learner.sampled))
    inputs = TrainingInputs(run, config, codecs, corpus, initial)
    saver = Saver(run, learner, inputs.metadata(), keep=config.training.keep_checkpoints)
    reporter = Reporter(run, console)
    _restore(inputs, state, saver, reporter)
    synchronize(distribution, state)
    validator = None
    if validation_corpus is not None:
        validator = _build_validator(config, codecs, validation_corpus, learner.model, batches.buckets, reader)
    chief = Chief(state, config.training, validator, reporter, saver)
    if initial is not None:  # a checkpoint, as resuming must not need the other run
        saver.save_checkpoint({**state.metadata(), "lines": reporter.flush()})
        saver.finish()
    return Trainer(state, config.training, chief, console, distribution)


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
        for message in initialize(model, codecs, inputs.corpus, inputs.initial):
            reporter.log(message)
    reporter.discard_after(state.step or None, checkpoint.get("lines", {}) if checkpoint else {})


def _build_validator(
    config: Config,
    codecs: Codecs,
    corpus: Dataset,
    model: Seq2Seq,
    buckets: Sequence[Bucket],
    reader: HypothesisReader,
) -> Validator:
    training, data = config.training, config.data
    scorer = Scorer(model, micro_batch_count(config.model, training))
    search = ReplySearch(model, override_decoding(config.decoding, method="greedy", n_best=1))
    replies = ReplySampler(model, search, codecs, corpus, data, training.sample_replies, reader)
    bleu = _build_bleu_scorer(config, codecs, corpus, search, reader) if config.task == "translation" else None
    return Validator(scorer, replies, bleu, corpus, buckets, data.reverse_input, training.validation_limit)


def _build_bleu_scorer(
    config: Config, codecs: Codecs, corpus: Dataset, search: ReplySearch, reader: HypothesisReader
) -> BleuScorer:
    data = config.data
    samples = evenly_spaced(len(corpus), config.training.bleu_limit)
    references = read_references(data.validation, data, codecs, samples) if data.validation else []
    sources, steps = read_sources(data, codecs, corpus, samples, reader), config.model.encoder_steps
    return BleuScorer(search, codecs.target, corpus, samples, references, sources, reader, steps, data.reverse_input)


def _report_devices_and_memory(config: Config, codecs: Codecs, distribution: Distribution, console: Console) -> None:
    """Log devices, parameters and memory. Raises InsufficientMemory."""
    console.log(describe_devices(distribution.devices // distribution.workers))
    parts = parameter_counts(abstract_model(config.model, *codecs.vocabulary_sizes))
    console.log(
        f"{sum(parts.values()):,} parameters: {', '.join(f'{part} {count:,}' for part, count in parts.items())}"
    )
    if distribution.devices > 1:
        workers = f"; {distribution.workers} workers" if distribution.workers > 1 else ""
        console.log(f"{distribution.devices} devices share each batch of {config.training.batch_size} samples{workers}")
    estimate = estimate_memory(
        config.model,
        config.training,
        *codecs.vocabulary_sizes,
        devices=distribution.devices,
        replicas_in_memory=distribution.replicas_in_memory,
    )
    available = available_memory()
    console.log(f"about {gigabytes(estimate.total)} of memory: {estimate.describe()}; {gigabytes(available)} available")
    ensure_memory(estimate, available)


def _describe_data(corpus: Dataset, validation_corpus: Dataset | None, buckets: Sequence[Bucket]) -> str:
    validation = f"{len(validation_corpus):,} validation samples" if validation_corpus else "no validation samples"
    return (
        f"{len(corpus):,} training samples ({100 * corpus.unknown_share():.1f} % of their words are <unknown>), "
        f"{validation}; batches of {' or '.join(f'{source}+{target}' for source, target in buckets)} steps"
    )
