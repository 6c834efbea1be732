"""The section `training`: optimizer, loss, devices, and how often to log, validate and save."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from seq2seq_chat.config.section import (
    OF_LANGUAGE_MODELS,
    OF_SAMPLES,
    AppliesIf,
    LanguageModelsRequire,
    PositiveInt,
    Section,
)

PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
SCHEDULE = "training.learning_rate_schedule"
WITH_SAMPLED_SOFTMAX = AppliesIf("training.sampled_softmax", unless=[None])
WITH_VALIDATION = AppliesIf("data.validation", unless=[None])


class Truncation(NamedTuple):
    """How truncated backpropagation through time divides a stream (Williams & Peng 1990; Sutskever 2013).

    Every ``forward`` tokens there is an update, and its gradient goes back ``backward`` tokens: the gradient of the
    loss of the last min(forward, backward) tokens: no token counts twice, and none whose own step the gradient does not
    reach.
    """

    forward: int  # k1
    backward: int  # k2

    @property
    def steps(self) -> int:
        """Tokens that are read for an update."""
        return max(self.forward, self.backward)

    @property
    def first_loss(self) -> int:
        """The first of these tokens whose loss counts."""
        return self.steps - min(self.forward, self.backward)

    @property
    def first_gradient(self) -> int:
        """The first of these tokens that gradients reach."""
        return self.steps - self.backward

    @property
    def skippable(self) -> int:
        """Tokens at the beginning that do not exist at the start of a stream."""
        return self.steps - self.forward


def _samples(config: Any) -> bool:
    """Whether the sampled softmax leaves out words of the vocabulary."""
    return (config.training.sampled_softmax or 0) < config.data.target_text.vocabulary_size


class Training(Section):
    """Optimizer, loss, devices, and how often to log, validate and save."""

    batch_size: PositiveInt = 64
    """samples per step, over all devices; language_model: streams that the text is divided into"""
    micro_batches: PositiveInt | None = None
    """parts of a batch, equal up to a sample, computed in parallel on CPU cores; null: chosen automatically"""
    bptt_forward: Annotated[PositiveInt, OF_LANGUAGE_MODELS] = 64
    """tokens of each stream of text per step, k1 of truncated backpropagation"""
    bptt_backward: Annotated[PositiveInt | None, OF_LANGUAGE_MODELS] = None
    """tokens that gradients go back, k2 of truncated backpropagation; null: bptt_forward"""
    state_reset: Annotated[float, Field(ge=0, le=1), OF_LANGUAGE_MODELS] = 0.0
    """probability at each step that a stream forgets its state, so that the model learns to start from nothing
    (Melis et al. 2018)"""
    steps: PositiveInt = 3_000_000
    """number of training steps, of one batch each"""
    hours: Annotated[float, Field(gt=0, le=10_000)] | None = None
    """hours that a new run may take, from its start to its last checkpoint: the first steps are timed, and steps,
    validate_every, checkpoint_every and snapshot_every fitted to the rest; the learning rate falls linearly to zero.
    null: train for the given steps"""
    optimizer: Literal["adagrad", "adadelta", "adam", "rmsprop", "sgd"] = "adagrad"
    """optimizer"""
    learning_rate: PositiveFloat = 0.01
    """initial learning rate"""
    momentum: Annotated[
        float,
        Field(ge=0, lt=1),
        AppliesIf("training.optimizer", "rmsprop", "sgd", error="applies to rmsprop and sgd only, but optimizer is {}"),
    ] = 0.0
    """momentum"""
    learning_rate_schedule: Literal["constant", "exponential", "inverse_sqrt", "linear", "plateau"] = "constant"
    """exponential: decay with every step; inverse_sqrt: fall with the square root of the step from the warm-up on
    (Vaswani et al. 2017); linear: fall to zero at the last step (Li et al. 2020); plateau: decay when validations stop
    improving"""
    warmup_steps: Annotated[int, Field(ge=0, le=10**9)] = 0
    """steps in which the learning rate rises from zero to where the schedule is"""
    learning_rate_decay: Annotated[float, Field(gt=0, lt=1), AppliesIf(SCHEDULE, "exponential", "plateau")] = 0.5
    """factor by which the learning rate decays"""
    learning_rate_decay_steps: Annotated[PositiveInt, AppliesIf(SCHEDULE, "exponential")] = 100_000
    """steps over which the learning rate decays by learning_rate_decay"""
    learning_rate_patience: Annotated[PositiveInt, AppliesIf(SCHEDULE, "plateau")] = 2
    """validations without improvement before the learning rate decays"""
    early_stopping: PositiveInt | None = None
    """validations without improvement after which training stops; null: train for all steps"""
    gradient_clipping: PositiveFloat | None = 10.0
    """maximum global norm of the gradient, or maximum absolute value; null: no clipping"""
    gradient_clipping_by: Annotated[
        Literal["norm", "value"], AppliesIf("training.gradient_clipping", unless=[None])
    ] = "norm"
    """clip the gradient by its global norm, or each of its values"""
    source_noise: Annotated[float, Field(ge=0, lt=1), LanguageModelsRequire(0.0)] = 0.0
    """probability in training that a source word becomes <unknown>, or a punctuation mark is left out"""
    scheduled_sampling: Annotated[
        Literal["none", "constant", "linear", "exponential", "inverse_sigmoid"],
        LanguageModelsRequire("none", "is trained with teacher forcing only"),
        AppliesIf("training.scheduled_sampling_probability", unless=[0.0]),
    ] = "none"
    """schedule of the probability that the decoder is fed its own output in training"""
    scheduled_sampling_probability: Annotated[
        float, Field(ge=0, le=1), AppliesIf("training.scheduled_sampling", unless=["none"])
    ] = 0.25
    """maximum probability of scheduled sampling"""
    scheduled_sampling_steps: Annotated[
        PositiveInt, AppliesIf("training.scheduled_sampling", unless=["none", "constant"])
    ] = 100_000
    """time scale of the schedule; inverse_sigmoid reaches half of the maximum after about this many steps times
    their natural logarithm"""
    sampled_softmax: Annotated[
        PositiveInt | None,
        AppliesIf("data.vocabulary_size", when=lambda c: c.data.target_vocabulary_size or _samples(c)),
        AppliesIf("data.target_vocabulary_size", when=_samples),
    ] = 512
    """words sampled for the training loss if the vocabulary is larger, once per training step for all target words
    of the batch unless sampled_softmax_per says otherwise; null: full softmax"""
    sampled_softmax_per: Annotated[
        Literal["batch", "decoder_step"],
        LanguageModelsRequire("batch", "shares the sampled words of a batch"),
        WITH_SAMPLED_SOFTMAX,
    ] = "batch"
    """whether all target words of a batch share the sampled words, or each step of the decoder has its own"""
    candidate_sampler: Annotated[Literal["log_uniform", "uniform"], WITH_SAMPLED_SOFTMAX] = "log_uniform"
    """distribution of the sampled words: log-uniform by frequency rank, or uniform"""
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """share of the target probability that the training loss spreads evenly over all words (Szegedy et al.
    2016); the validation loss is computed without it"""
    deterministic: bool | None = None
    """bit-for-bit reproducible training, slower on a GPU; null: only without a GPU"""
    strategy: Annotated[
        Literal["single", "mirrored", "multi_worker"], LanguageModelsRequire("single", "is trained on a single device")
    ] = "single"
    """devices that share a batch: one, all of one machine, or all of several machines"""
    replicas: Annotated[
        PositiveInt | None,
        AppliesIf("training.strategy", "mirrored", error="applies to strategy mirrored only, but strategy is {}"),
    ] = None
    """number of GPUs, or of virtual devices on a machine without; null: all GPUs, or one per core"""
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    """data type of matrix products in training; weights, optimizer and loss are always float32"""
    log_every: PositiveInt = 50
    """steps between lines of training metrics"""
    validate_every: Annotated[PositiveInt, WITH_VALIDATION] = 10_000
    """steps between validations"""
    best_metric: Annotated[Literal["loss", "bleu"], WITH_VALIDATION] = "loss"
    """validation metric that decides the best weights, early_stopping and the plateau schedule; bleu: translation
    only"""
    validation_limit: Annotated[PositiveInt | None, OF_SAMPLES, WITH_VALIDATION] = 10_000
    """maximum validation samples, evenly spaced over the corpus; null: all"""
    bleu_limit: Annotated[PositiveInt | None, WITH_VALIDATION, AppliesIf("task", "translation")] = 1_000
    """maximum samples to translate greedily for the BLEU of each validation; null: all"""
    sample_replies: Annotated[int, Field(ge=0), WITH_VALIDATION] = 5
    """validation utterances to reply to, or sources to translate, at each validation"""
    checkpoint_every: PositiveInt = 10_000
    """steps between checkpoints"""
    keep_checkpoints: PositiveInt = 3
    """number of newest checkpoints to keep"""
    snapshot_every: PositiveInt | None = 500_000
    """steps between snapshots (weights that are never deleted); null: no snapshots"""

    @property
    def truncation(self) -> Truncation:
        """How a language model is trained on streams of text."""
        return Truncation(self.bptt_forward, self.bptt_backward or self.bptt_forward)

    def problems(self) -> Iterator[str]:
        if self.hours is not None and self.strategy == "multi_worker":
            yield "hours cannot be used with strategy multi_worker; set steps"
        if self.label_smoothing and self.sampled_softmax is not None:
            yield "label_smoothing needs the full softmax; set sampled_softmax to null"
        if self.micro_batches is not None and self.micro_batches > self.batch_size:
            yield f"micro_batches is {self.micro_batches}, but batch_size is only {self.batch_size}"
        if self.replicas is not None and self.batch_size % self.replicas:
            yield (
                f"batch_size {self.batch_size} does not divide evenly among {self.replicas} replicas; it counts the "
                "samples of all replicas"
            )
