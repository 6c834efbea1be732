"""Data-parallel training: on several GPUs, on parts of a CPU, or on several machines.

All devices hold the same variables. Each computes loss and gradients of its share of a batch; their sums are sent to
every device (all-reduce), and every device applies the same update. The number of devices does not change a step: the
samples, the sampled words, dropout and the loss per token of the batch are the same. Only the order of additions
differs, so losses are equal up to rounding in float32.

With several machines, worker 0 is the chief: it alone reads the configuration, writes the run and validates. The others
need only the training corpus; the chief broadcasts the rest (:mod:`seq2seq_chat.training.assemble`).
"""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from seq2seq_chat.config import Training
from seq2seq_chat.model.execution import ENTIRE_BATCH, Share
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.hardware import available_cores
from seq2seq_chat.training.rendezvous import Cluster, wait_for_workers

CONNECTION_ERRORS = (  # what TensorFlow raises when another worker is gone
    *(tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError, tf.errors.InternalError),
    *(tf.errors.DeadlineExceededError, tf.errors.FailedPreconditionError, tf.errors.UnknownError),
)
HEARTBEAT_TIMEOUT = 20  # seconds
MAX_ERROR_BYTES = 400  # of a message sent to the other workers


class WorkerLost(Exception):
    """Another worker is gone or cannot continue; the message says which."""


class Distribution:
    """A single device; the base class for several."""

    devices = 1
    workers = 1
    replicas_in_memory = 1  # devices that share one memory

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """The context in which variables must be created."""
        return contextlib.nullcontext()

    def run(self, step: Callable[..., Any], *arguments: Any) -> Any:
        """Call ``step`` on every device with the same arguments; its result must be the same on all."""
        return step(*arguments)

    def share(self) -> Share:
        """Inside :meth:`run`: this device's share of a batch."""
        return ENTIRE_BATCH

    def all_reduce(self, values: list[Any]) -> list[Any]:
        """Inside :meth:`run`: the sums of tensors and sparse gradients over all devices."""
        return values

    def broadcast(self, value: Any) -> Any:
        """Return the chief's value, which must be JSON. All workers must call it and the next two methods."""
        return value

    def broadcast_variables(self, variables: Sequence[tf.Variable]) -> None:
        """Set variables to the chief's values, bit for bit."""

    def barrier(self, error: str | None = None) -> None:
        """Wait for all workers, and raise if one of them reports an error.

        Raises:
            UserError: this worker has one.
            WorkerLost: another worker has one.
        """
        if error is not None:
            raise UserError(error)

    @contextlib.contextmanager
    def detect_lost_workers(self) -> Iterator[None]:
        """Turn TensorFlow's connection errors into WorkerLost."""
        yield


class Replicas(Distribution):
    """Several devices with the same variables, over a strategy of ``tf.distribute``."""

    def __init__(self, strategy: Any) -> None:
        self._strategy, self.devices = strategy, int(strategy.num_replicas_in_sync)
        self.replicas_in_memory = 1 if tf.config.list_physical_devices("GPU") else self.devices

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        return self._strategy.scope()

    def run(self, step: Callable[..., Any], *arguments: Any) -> Any:
        def on_device(*arguments: Any) -> Any:
            return step(*tf.nest.map_structure(tf.identity, arguments))  # a copy for each device

        results = self._strategy.run(on_device, args=arguments)
        return tf.nest.map_structure(lambda value: self._strategy.experimental_local_results(value)[0], results)

    def share(self) -> Share:
        return Share(_device_index(), self.devices)

    def all_reduce(self, values: list[Any]) -> list[Any]:
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, values)


class Workers(Replicas):
    """Devices of several machines."""

    def __init__(self, strategy: Any, cluster: Cluster) -> None:
        super().__init__(strategy)
        self._cluster, self.workers, self.replicas_in_memory = cluster, len(cluster.workers), 1
        self._all_reduce_workers = tf.function(self._sum_first_devices, autograph=False)

    def broadcast(self, value: Any) -> Any:
        text = json.dumps(value).encode()
        text += b" " * (-len(text) % 1024)  # every length is traced, so there must be few
        length = int(self._chief_value(np.array([len(text)], np.float32))[0])
        message = np.frombuffer(text if self._cluster.is_chief else bytes(length), np.uint8)
        received = self._chief_value(message.astype(np.float32))
        return json.loads(received.numpy().astype(np.uint8).tobytes())

    def broadcast_variables(self, variables: Sequence[tf.Variable]) -> None:
        for variable in variables:
            value = variable.read_value()
            received = self._chief_value(value if value.dtype.is_floating else tf.cast(value, tf.float64))
            variable.assign(tf.cast(received, variable.dtype))

    def _chief_value(self, value: Any) -> tf.Tensor:
        """The chief's tensor; the other workers pass one of the same shape."""
        value = tf.convert_to_tensor(value)
        # x + -0.0 is x bit for bit, even if x is -0.0
        return self._all_reduce_workers(value if self._cluster.is_chief else -tf.zeros_like(value))

    def barrier(self, error: str | None = None) -> None:
        table = np.zeros([self.workers, MAX_ERROR_BYTES], np.float32)
        message = (error or "").encode()[:MAX_ERROR_BYTES]
        table[self._cluster.task_index, : len(message)] = np.frombuffer(message, np.uint8)
        messages = self._all_reduce_workers(tf.constant(table)).numpy().astype(np.uint8)
        super().barrier(error)
        for index, row in enumerate(messages):
            if row.any():
                text = bytes(row).rstrip(b"\0").decode(errors="replace")
                raise WorkerLost(f"{self._cluster.describe(index)} cannot take part: {text}")

    @contextlib.contextmanager
    def detect_lost_workers(self) -> Iterator[None]:
        try:
            yield
        except CONNECTION_ERRORS as error:
            lost = self._cluster.unreachable()
            if not lost:
                reason = str(error).splitlines()[0][:MAX_ERROR_BYTES]
                raise WorkerLost(f"lost the connection to another worker, or failed here: {reason}") from error
            raise WorkerLost(f"{self._cluster.describe(*lost)} {'are' if len(lost) > 1 else 'is'} gone") from error

    def _sum_first_devices(self, value: tf.Tensor) -> tf.Tensor:
        devices_per_worker = self.devices // self.workers

        def on_device(value: tf.Tensor) -> tf.Tensor:
            is_first = _device_index() % devices_per_worker == 0
            [total] = self.all_reduce([value if is_first else -tf.zeros_like(value)])
            return total

        return self.run(on_device, value)


SINGLE_DEVICE = Distribution()


def connect(settings: Training, cluster: Cluster | None, on_progress: Callable[[str], object]) -> Distribution:
    """Build the configured distribution, before TensorFlow's first operation.

    Raises:
        UserError: devices or workers are missing, or the batch size is not divisible by the number of devices.
    """
    if settings.strategy == "single":
        return SINGLE_DEVICE
    is_mirrored = settings.strategy == "mirrored"
    replicas = Replicas(_mirrored(settings)) if is_mirrored else connect_workers(cluster, on_progress)
    ensure_divisible(settings.batch_size, replicas.devices)
    return replicas


def connect_workers(cluster: Cluster | None, on_progress: Callable[[str], object]) -> Workers:
    """Wait until all workers are present, and connect to them.

    Raises:
        UserError: the cluster is not specified, or workers are missing.
    """
    if cluster is None:
        raise UserError(
            "training.strategy is multi_worker, but no workers are specified; add --workers HOST:PORT,… --index N, "
            "set TF_CONFIG, or train on this machine alone with --set training.strategy=single"
        )
    wait_for_workers(cluster, on_progress)
    _configure_heartbeat(cluster)
    workers = tf.train.ClusterSpec({"worker": list(cluster.workers)})
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        workers, task_type="worker", task_id=cluster.task_index, rpc_layer="grpc"
    )
    sigterm_handler = signal.getsignal(signal.SIGTERM)
    try:
        return Workers(tf.distribute.MultiWorkerMirroredStrategy(resolver), cluster)
    except tf.errors.OpError as error:
        raise UserError(f"the workers could not connect: {error.message.splitlines()[0]}") from error
    finally:
        signal.signal(signal.SIGTERM, sigterm_handler)  # TensorFlow replaces it with one that ignores the signal


def ensure_divisible(batch_size: int, devices: int) -> None:
    """Raise UserError if the devices cannot share a batch evenly."""
    if batch_size % devices:
        lower, higher = batch_size // devices * devices, -(-batch_size // devices) * devices
        sizes = f"{lower} or {higher}" if lower else f"{higher}"
        raise UserError(
            f"training.batch_size is {batch_size}, which is not divisible by {devices} devices; "
            f"set it to {sizes}, the number of samples of all devices together"
        )


def _mirrored(settings: Training) -> Any:
    """All GPUs or some of them; without a GPU, logical devices of the CPU."""
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        count = settings.replicas or len(gpus)
        if count > len(gpus):
            raise UserError(f"training.replicas is {count}, but this machine has {len(gpus)} GPUs; lower it")
        return tf.distribute.MirroredStrategy([f"GPU:{n}" for n in range(count)])
    divisors = [n for n in range(1, available_cores() + 1) if settings.batch_size % n == 0]
    count = settings.replicas or max(divisors)
    ensure_divisible(settings.batch_size, count)
    (cpu,) = tf.config.list_physical_devices("CPU")
    try:
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
    except RuntimeError:
        if len(tf.config.list_logical_devices("CPU")) != count:
            raise UserError("TensorFlow has already configured its CPU devices; train in a new process") from None
    return tf.distribute.MirroredStrategy([f"CPU:{n}" for n in range(count)])


def _configure_heartbeat(cluster: Cluster) -> None:
    """Detect hanging workers sooner than by default."""
    from tensorflow.python.eager import context
    from tensorflow.tsl.protobuf.coordination_config_pb2 import CoordinatedJob

    context.context().configure_coordination_service(
        service_type="standalone",
        service_leader="/job:worker/replica:0/task:0",
        heartbeat_timeout_in_ms=1000 * HEARTBEAT_TIMEOUT,
        coordinated_jobs=[CoordinatedJob(name="worker", num_tasks=len(cluster.workers))],
    )


def _device_index() -> int:
    """The index of this device, inside :meth:`Distribution.run`."""
    return int(tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group))
