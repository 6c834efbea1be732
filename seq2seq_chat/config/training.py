"""The section `training`: optimizer, loss, devices, and how often to log, validate and save."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from seq2seq_chat.config.section import PositiveInt, Section

PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Training(Section):
    """Optimizer, loss, devices, and how often to log, validate and save."""

    batch_size: PositiveInt = Field(
        64, description="samples per step, over all devices; language_model: streams that the text is divided into"
    )
    micro_batches: PositiveInt | None = Field(
        None,
        description="micro-batches per step, computed in parallel on CPU cores; null: chosen automatically",
    )
    bptt_forward: PositiveInt = Field(
        64, description="language_model: tokens of each stream of text per step, k1 of truncated backpropagation"
    )
    bptt_backward: PositiveInt | None = Field(
        None,
        description="language_model: tokens that gradients go back, k2 of truncated backpropagation; null: "
        "bptt_forward",
    )
    state_reset: Annotated[float, Field(ge=0, le=1)] = Field(
        0.0,
        description="language_model: probability at each step that a stream forgets its state, so that the model "
        "learns to start from nothing (Melis et al. 2018)",
    )
    steps: PositiveInt = Field(3_000_000, description="number of training steps, of one batch each")
    optimizer: Literal["adagrad", "adadelta", "adam", "rmsprop", "sgd"] = Field("adagrad", description="optimizer")
    learning_rate: PositiveFloat = Field(0.01, description="initial learning rate")
    momentum: Annotated[float, Field(ge=0, lt=1)] = Field(0.0, description="momentum of rmsprop and sgd")
    learning_rate_schedule: Literal["constant", "exponential", "plateau"] = Field(
        "constant",
        description="exponential: decay with every step; plateau: decay when validations stop improving",
    )
    learning_rate_decay: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.5, description="factor by which the learning rate decays"
    )
    learning_rate_decay_steps: PositiveInt = Field(
        100_000, description="exponential: steps over which the learning rate decays by learning_rate_decay"
    )
    learning_rate_patience: PositiveInt = Field(
        2, description="plateau: validations without improvement before the learning rate decays"
    )
    early_stopping: PositiveInt | None = Field(
        None, description="validations without improvement after which training stops; null: train for all steps"
    )
    gradient_clipping: PositiveFloat | None = Field(
        10.0, description="maximum global norm of the gradient, or maximum absolute value; null: no clipping"
    )
    gradient_clipping_by: Literal["norm", "value"] = Field(
        "norm", description="clip the gradient by its global norm, or each of its values"
    )
    source_noise: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.0,
        description="probability in training that a source word becomes <unknown>, or a punctuation mark is left out",
    )
    scheduled_sampling: Literal["none", "constant", "linear", "exponential", "inverse_sigmoid"] = Field(
        "none", description="schedule of the probability that the decoder is fed its own output in training"
    )
    scheduled_sampling_probability: Annotated[float, Field(ge=0, le=1)] = Field(
        0.25, description="maximum probability of scheduled sampling"
    )
    scheduled_sampling_steps: PositiveInt = Field(
        100_000,
        description="time scale of the schedule; inverse_sigmoid reaches half of the maximum after about this many "
        "steps times their natural logarithm",
    )
    sampled_softmax: PositiveInt | None = Field(
        512,
        description="words sampled for the training loss if the vocabulary is larger, once per training step for all "
        "target words of the batch; null: full softmax",
    )
    deterministic: bool | None = Field(
        None, description="bit-for-bit reproducible training, slower on a GPU; null: only without a GPU"
    )
    strategy: Literal["single", "mirrored", "multi_worker"] = Field(
        "single", description="devices that share a batch: one, all of one machine, or those of several machines"
    )
    replicas: PositiveInt | None = Field(
        None,
        description="mirrored: number of GPUs, or of virtual devices on a machine without; null: all GPUs, or one per "
        "core",
    )
    precision: Literal["float32", "bfloat16", "float16"] = Field(
        "float32",
        description="data type of matrix products in training; weights, optimizer and loss are always float32",
    )
    log_every: PositiveInt = Field(50, description="steps between lines of training metrics")
    validate_every: PositiveInt = Field(10_000, description="steps between validations")
    best_metric: Literal["loss", "bleu"] = Field(
        "loss",
        description="validation metric that decides the best weights, early_stopping and the plateau schedule; "
        "bleu: translation only",
    )
    validation_limit: PositiveInt | None = Field(
        10_000, description="maximum validation samples, evenly spaced over the corpus; null: all"
    )
    bleu_limit: PositiveInt | None = Field(
        1_000,
        description="translation: maximum samples to translate greedily for the BLEU of each validation; null: all",
    )
    sample_replies: Annotated[int, Field(ge=0)] = Field(
        5, description="validation utterances to reply to, or sources to translate, at each validation"
    )
    checkpoint_every: PositiveInt = Field(10_000, description="steps between checkpoints")
    keep_checkpoints: PositiveInt = Field(3, description="number of newest checkpoints to keep")
    snapshot_every: PositiveInt | None = Field(
        500_000, description="steps between snapshots (weights that are never deleted); null: no snapshots"
    )

    @model_validator(mode="after")
    def _micro_batches_are_not_empty(self) -> Training:
        if self.micro_batches is not None and self.micro_batches > self.batch_size:
            raise ValueError(f"micro_batches is {self.micro_batches}, but batch_size is only {self.batch_size}")
        return self

    @model_validator(mode="after")
    def _replicas_share_a_batch(self) -> Training:
        if self.replicas is not None and self.strategy != "mirrored":
            raise ValueError(f"replicas applies to strategy mirrored only, but strategy is {self.strategy}")
        if self.replicas is not None and self.batch_size % self.replicas:
            raise ValueError(
                f"batch_size {self.batch_size} does not divide evenly among {self.replicas} replicas; it counts the "
                "samples of all replicas"
            )
        return self

    @model_validator(mode="after")
    def _momentum_applies(self) -> Training:
        if self.momentum and self.optimizer not in ("rmsprop", "sgd"):
            raise ValueError(f"momentum applies to rmsprop and sgd only, but optimizer is {self.optimizer}")
        return self
