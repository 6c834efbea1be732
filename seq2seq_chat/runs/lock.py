"""The lock of a run's folder, held by the process that trains the run; it is released when that process ends."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from seq2seq_chat.system.errors import UserError


class LockError(UserError):
    """The lock is held by another process, or the run cannot be locked."""


@contextmanager
def hold_lock(folder: Path) -> Iterator[str | None]:
    """Hold the lock of a run while the block runs.

    Yields:
        The previous holder if it ended without releasing the lock, else None.

    Raises:
        LockError: Another process holds the lock, or the run cannot be locked.
    """
    name, path = folder.resolve().name, folder / "lock"
    try:
        file = open(path, "a+", encoding="utf-8")  # noqa: SIM115
    except OSError as error:
        raise LockError(f"could not train run {name}: {path}: {error.strerror}") from None
    with file:
        try:
            _lock(file.fileno())
        except BlockingIOError:
            raise LockError(f"run {name} is being trained by {_holder(path)}; wait for it or stop it first") from None
        except OSError as error:
            raise LockError(f"could not lock run {name}: {error.strerror}; move it to a local disk") from None
        previous = _holder(path) if path.stat().st_size else None
        file.truncate(0)
        holder = {"host": socket.gethostname(), "pid": os.getpid(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
        with suppress(OSError):  # if the disk is full, the lock still holds
            os.write(file.fileno(), json.dumps(holder).encode())
        try:
            yield previous
        finally:
            file.truncate(0)


def is_locked(folder: Path) -> bool:
    """Whether a process holds the lock of a run."""
    try:
        with open(folder / "lock", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _lock(descriptor: int) -> None:
    """Lock a file exclusively.

    :func:`is_locked`, which the web page calls every few seconds, briefly holds a shared lock. Retrying keeps that from
    failing a training run.

    Raises:
        BlockingIOError: Another process holds the lock.
    """
    for _ in range(20):
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(0.02)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _holder(path: Path) -> str:
    try:
        holder = json.loads(path.read_text(encoding="utf-8"))
        return f"process {holder['pid']} on {holder['host']} since {holder['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
