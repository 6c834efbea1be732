"""The lock of a run."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

from seq2seq_chat.runs.run import LockError, Run

HOLDER = """
import sys
from seq2seq_chat.runs.run import Run
with Run(sys.argv[1]).lock():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_holder_is_named_and_the_lock_ends_with_its_process(run: Run) -> None:
    assert not run.is_locked()
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, run.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            assert run.is_locked()
            with pytest.raises(LockError) as error, run.lock():
                pytest.fail("locked twice")
            for part in (f"process {holder.pid} on {socket.gethostname()} since ", run.name, "wait for it or stop it"):
                assert part in str(error.value)
            assert run.is_locked()
        finally:
            holder.send_signal(signal.SIGKILL)
            holder.wait(timeout=90)
    assert not run.is_locked()
    with run.lock() as previous:
        assert previous is not None
        assert f"process {holder.pid} on" in previous
        with pytest.raises(LockError, match=rf"process {os.getpid()} on"), run.lock():
            pytest.fail("locked twice")
    assert not run.is_locked()


def test_an_error_ends_the_lock(run: Run) -> None:
    with run.lock() as previous:
        assert previous is None
    with pytest.raises(ZeroDivisionError), run.lock():
        raise ZeroDivisionError
    assert not run.is_locked()


def test_a_lock_without_a_valid_holder_and_a_run_that_cannot_be_locked(run: Run) -> None:
    with run.lock():
        for content in ("", "{", "[]", "{}", "5"):
            (run.path / "lock").write_text(content, encoding="utf-8")
            with pytest.raises(LockError, match="is being trained by another process"), run.lock():
                pytest.fail("locked twice")
    (run.path / "lock").unlink()
    (run.path / "lock").mkdir()
    with pytest.raises(LockError, match=r"could not train run .*lock: Is a directory"), run.lock():
        pytest.fail("locked a folder")


def test_checking_the_lock_does_not_prevent_a_training(run: Run) -> None:
    done = threading.Event()
    checks = []

    def check() -> None:
        while not done.is_set():
            checks.append(run.is_locked())

    with run.lock():  # creates the file
        pass
    thread = threading.Thread(target=check)
    thread.start()
    try:
        for _ in range(300):
            with run.lock():
                pass
    finally:
        done.set()
        thread.join()
    assert checks
