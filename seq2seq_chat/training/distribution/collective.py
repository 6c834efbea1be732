"""One training on several devices: GPUs of a machine, parts of its processor, or several machines.

All devices hold the same variables. Each computes the loss and the gradients of its slice of a batch; the sums over
all slices reach every device, and every device makes the same update with them. What a step is does not depend on how
many devices there are: the same samples, the same sampled words and dropout, the same loss per token of the whole
batch. Only the order of additions differs, so that losses are equal to the rounding of float32.

On several machines the first one leads: it alone reads the configuration, keeps the run and validates. The others need
the training corpus and nothing else; what they are to do, and with which weights, they are told (:mod:`follower`).
"""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from seq2seq_chat.config import Training
from seq2seq_chat.environment import available_cores
from seq2seq_chat.errors import UserError
from seq2seq_chat.training.cluster import Cluster, assemble
from seq2seq_chat.training.parts import WHOLE, Share

SEVERED = (  # what TensorFlow raises where another worker is gone
    *(tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError, tf.errors.InternalError),
    *(tf.errors.DeadlineExceededError, tf.errors.FailedPreconditionError, tf.errors.UnknownError),
)
HEARTBEAT = 20  # seconds without a sign of life after which a worker counts as gone
LONGEST = 400  # bytes of a complaint that is told to the other workers


class WorkerLost(Exception):
    """Another worker is gone, or cannot go on; the message says which."""


class Distribution:
    """No distribution: one device, and nobody to tell anything."""

    devices = 1
    workers = 1
    together = 1  # devices that use the same memory

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Where variables are made."""
        return contextlib.nullcontext()

    def run(self, step: Callable[..., Any], *arguments: Any) -> Any:
        """Call ``step`` on every device with the same arguments; what it returns must be the same on all."""
        return step(*arguments)

    def share(self) -> Share:
        """Inside :meth:`run`: which slice of a batch is this device's."""
        return WHOLE

    def sum(self, parts: list[Any]) -> list[Any]:
        """Inside :meth:`run`: the sums of tensors and sparse gradients over all devices."""
        return parts

    def from_first(self, value: Any) -> Any:
        """What the first worker says: anything that JSON can tell. All workers must ask at the same time."""
        return value

    def variables_from_first(self, variables: Sequence[tf.Variable]) -> None:
        """Give variables the values they have on the first worker, to the bit."""

    def ensure_all(self, complaint: Optional[str] = None) -> None:
        """Go on only if no worker complains.

        Raises:
            UserError: this one does.
            WorkerLost: another one does.
        """
        if complaint is not None:
            raise UserError(complaint)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Raises WorkerLost in the place of TensorFlow's errors where another worker is gone."""
        yield


class Replicas(Distribution):
    """A strategy of ``tf.distribute`` that has the same variables on every device."""

    def __init__(self, strategy: Any, cluster: Optional[Cluster] = None) -> None:
        self._strategy, self._cluster = strategy, cluster
        self.devices = int(strategy.num_replicas_in_sync)
        self.workers = len(cluster.workers) if cluster else 1
        self.together = 1 if cluster or tf.config.list_physical_devices("GPU") else self.devices
        self._worker_sum = tf.function(self._sum_over_workers, autograph=False)

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        return self._strategy.scope()

    def run(self, step: Callable[..., Any], *arguments: Any) -> Any:
        def on_device(*arguments: Any) -> Any:
            return step(*tf.nest.map_structure(tf.identity, arguments))  # each has its own

        return tf.nest.map_structure(self._local, self._strategy.run(on_device, args=arguments))

    def share(self) -> Share:
        return Share(_number(), self.devices)

    def sum(self, parts: list[Any]) -> list[Any]:
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, parts)

    def from_first(self, value: Any) -> Any:
        if self._cluster is None:
            return value
        text = json.dumps(value).encode()
        text += b" " * (-len(text) % 1024)  # few lengths, as every one is a graph
        length = int(self._of_first(np.array([len(text)], np.float32))[0])
        told = self._of_first(
            np.frombuffer(text if self._cluster.leads else bytes(length), np.uint8).astype(np.float32)
        )
        return json.loads(told.numpy().astype(np.uint8).tobytes())

    def variables_from_first(self, variables: Sequence[tf.Variable]) -> None:
        if self._cluster is None:
            return
        for variable in variables:
            value = variable.read_value()
            told = self._of_first(value if value.dtype.is_floating else tf.cast(value, tf.float64))
            variable.assign(tf.cast(told, variable.dtype))

    def _of_first(self, value: Any) -> tf.Tensor:
        """A tensor of the first worker; the others give one of the same shape."""
        value = tf.convert_to_tensor(value)
        if self._cluster is not None and not self._cluster.leads:
            value = -tf.zeros_like(value)  # x + -0 is x, to the bit, also where x is -0
        return self._worker_sum(value)

    def ensure_all(self, complaint: Optional[str] = None) -> None:
        if self._cluster is None:
            super().ensure_all(complaint)
            return
        table = np.zeros([self.workers, LONGEST], np.float32)
        said = (complaint or "").encode()[:LONGEST]
        table[self._cluster.number, : len(said)] = np.frombuffer(said, np.uint8)
        told = self._worker_sum(tf.constant(table)).numpy().astype(np.uint8)
        super().ensure_all(complaint)
        for index, line in enumerate(told):
            if line.any():
                text = bytes(line).rstrip(b"\0").decode(errors="replace")
                raise WorkerLost(f"{self._cluster.named(index)} cannot take part: {text}")

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        try:
            yield
        except SEVERED as error:
            if self._cluster is None:
                raise
            gone = self._cluster.silent()
            if not gone:
                reason = str(error).splitlines()[0][:LONGEST]
                raise WorkerLost(f"another worker is gone, or something failed here: {reason}") from error
            raise WorkerLost(f"{self._cluster.named(*gone)} {'are' if len(gone) > 1 else 'is'} gone") from error

    def _sum_over_workers(self, value: tf.Tensor) -> tf.Tensor:
        each = self.devices // self.workers

        def part(value: tf.Tensor) -> tf.Tensor:
            [total] = self.sum([value if _number() % each == 0 else -tf.zeros_like(value)])
            return total

        return self.run(part, value)

    def _local(self, value: Any) -> tf.Tensor:
        return self._strategy.experimental_local_results(value)[0]


ALONE = Distribution()


def connect(config: Training, cluster: Optional[Cluster], say: Callable[[str], object]) -> Distribution:
    """The distribution that a configuration asks for. This has to come before TensorFlow's first operation.

    Raises:
        UserError: there are no such devices, the batch cannot be divided, or the workers do not find each other.
    """
    if config.strategy == "single":
        return ALONE
    replicas = Replicas(_mirrored(config)) if config.strategy == "mirrored" else meet(cluster, say)
    ensure_divisible(config.batch_size, replicas.devices)
    return replicas


def meet(cluster: Optional[Cluster], say: Callable[[str], object]) -> Replicas:
    """Wait until all workers are there; ``say`` is told for whom.

    Raises:
        UserError: nobody said which they are, or some do not come.
    """
    if cluster is None:
        raise UserError(
            "training.strategy is multi_worker, and nothing says who the workers are; add --workers HOST:PORT,… "
            "--index N, set TF_CONFIG, or train on this machine alone with --set training.strategy=single"
        )
    assemble(cluster, say)
    _watch_each_other(cluster)
    workers = tf.train.ClusterSpec({"worker": list(cluster.workers)})
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        workers, task_type="worker", task_id=cluster.number, rpc_layer="grpc"
    )
    on_terminate = signal.getsignal(signal.SIGTERM)
    try:
        return Replicas(tf.distribute.MultiWorkerMirroredStrategy(resolver), cluster)
    except tf.errors.OpError as error:
        raise UserError(f"the workers did not find each other: {error.message.splitlines()[0]}") from error
    finally:
        signal.signal(signal.SIGTERM, on_terminate)  # TensorFlow took it, and would do nothing about it


def ensure_divisible(batch_size: int, devices: int) -> None:
    """Raises UserError where a batch cannot be divided equally."""
    if batch_size % devices:
        lower, higher = batch_size // devices * devices, -(-batch_size // devices) * devices
        sizes = f"{lower} or {higher}" if lower else f"{higher}"
        raise UserError(
            f"training.batch_size is {batch_size}, which {devices} devices cannot share equally; "
            f"set it to {sizes}: it counts the samples of all devices"
        )


def _mirrored(config: Training) -> Any:
    """All GPUs or some of them; where there is none, the processor in the place of several devices."""
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        wanted = config.replicas or len(gpus)
        if wanted > len(gpus):
            raise UserError(f"training.replicas is {wanted}, and TensorFlow sees {len(gpus)} GPUs here; lower it")
        return tf.distribute.MirroredStrategy([f"GPU:{n}" for n in range(wanted)])
    wanted = config.replicas or max(n for n in range(1, available_cores() + 1) if config.batch_size % n == 0)
    ensure_divisible(config.batch_size, wanted)
    (processor,) = tf.config.list_physical_devices("CPU")
    try:
        tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * wanted)
    except RuntimeError:
        if len(tf.config.list_logical_devices("CPU")) != wanted:
            raise UserError("TensorFlow has divided the processor already; train in a process of its own") from None
    return tf.distribute.MirroredStrategy([f"CPU:{n}" for n in range(wanted)])


def _watch_each_other(cluster: Cluster) -> None:
    """How soon workers learn that one of them hangs; the strategy would choose a longer time."""
    from tensorflow.python.eager import context
    from tensorflow.tsl.protobuf.coordination_config_pb2 import CoordinatedJob

    context.context().configure_coordination_service(
        service_type="standalone",
        service_leader="/job:worker/replica:0/task:0",
        heartbeat_timeout_in_ms=1000 * HEARTBEAT,
        coordinated_jobs=[CoordinatedJob(name="worker", num_tasks=len(cluster.workers))],
    )


def _number() -> int:
    """Which device this is, inside :meth:`Distribution.run`."""
    return int(tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group))
