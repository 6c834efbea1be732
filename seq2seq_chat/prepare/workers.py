"""Read the inputs into shards with several processes, and resume an interrupted reading."""

from __future__ import annotations

import gc
import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from tqdm import tqdm

from seq2seq_chat.prepare.readers import RawCorpus, find_corpus
from seq2seq_chat.prepare.shards import Piece, ReadingStopped, Shard, Task, TaskReport
from seq2seq_chat.prepare.tokenizing import shard_schema
from seq2seq_chat.system.files import as_user_error, atomic_folder
from seq2seq_chat.system.lines import read_error

_MIN_PARALLEL_BYTES = 1 << 25  # below this, starting processes takes longer than reading

_MAX_TEMPORARY_LENGTH = 70  # bytes of the temporary folder's name; the name of a socket in it has at most 107

_KILLED = (
    "A reader process was killed, possibly because memory ran out. Run the command again with fewer processes (--jobs) "
    'to resume. (A script that calls prepare() must do so under `if __name__ == "__main__":`, because each process '
    "imports it.)"
)

T = TypeVar("T")
R = TypeVar("R")
_Job = tuple[int, Task, Path]  # index, task, folder of its shard

_counter: Any = None  # in a worker: the bytes that all workers have read


def read_tasks(tasks: Sequence[Task], folder: Path, jobs: int) -> list[TaskReport]:
    """Read each task into a shard ``folder/KEY/`` and a report ``folder/KEY.json``, unless the report exists.

    Small inputs are read in this process, others in up to ``jobs`` processes.

    Returns:
        The reports in the order of the tasks.

    Raises:
        ReadingStopped: An input cannot be opened or was modified during reading, or a process was killed.
        UserError: ``folder`` cannot be written.
    """
    keys = [task.key() for task in tasks]
    reports = [TaskReport.load(folder / f"{key}.json") for key in keys]
    todo = [(index, tasks[index], folder / keys[index]) for index, report in enumerate(reports) if report is None]
    size = sum(task.size for task in tasks)
    todo_size = sum(task.size for _, task, _ in todo)
    parallel = jobs > 1 and len(todo) > 1 and todo_size >= _MIN_PARALLEL_BYTES
    with tqdm(
        total=size, initial=size - todo_size, desc="reading", unit="B", unit_scale=True, delay=2, disable=None
    ) as bar:
        here = ((index, _read_task(task, shard_folder, bar.update)) for index, task, shard_folder in todo)
        for index, report in _read_in_pool(todo, bar, jobs) if parallel else here:
            reports[index] = report
    return [report for report in reports if report is not None]


def _read_in_pool(todo: list[_Job], bar: tqdm[Any], jobs: int) -> Iterator[tuple[int, TaskReport]]:
    pending, initial = iter(todo), bar.n
    futures: dict[Future[TaskReport], int] = {}
    reader = find_corpus(todo[0][1].corpus).read.__module__
    with _process_pool(min(jobs, len(todo)), reader) as (pool, counter):
        while True:
            # Not all at once: the largest corpora have thousands of tasks.
            for index, task, shard_folder in islice(pending, 2 * jobs - len(futures)):
                futures[pool.submit(_run_task, task, shard_folder)] = index
            if not futures:
                return
            finished, _ = wait(futures, timeout=0.5, return_when=FIRST_COMPLETED)
            bar.update(initial + counter.value - bar.n)
            for future in finished:
                yield futures.pop(future), future.result()


def map_in_processes(function: Callable[[T], R], items: Iterable[T], jobs: int) -> Iterator[R]:
    """Yield the result of ``function`` for each item, in their order, computed a few items ahead by processes.

    Raises:
        ReadingStopped: A process was killed.
    """
    futures: deque[Future[R]] = deque()
    with _process_pool(jobs) as (pool, _):
        for item in items:
            futures.append(pool.submit(function, item))
            if len(futures) > 2 * jobs:
                yield futures.popleft().result()
        while futures:
            yield futures.popleft().result()


@contextmanager
def _process_pool(jobs: int, *modules: str) -> Iterator[tuple[ProcessPoolExecutor, Any]]:
    """Processes, which are terminated after an error, and the number of bytes they have read, in shared memory.

    Args:
        modules: Names of modules that all processes need.

    Raises:
        ReadingStopped: A process was killed.
    """
    # Not fork, because this process has threads. The fork server, whose socket is in the temporary folder, imports
    # modules once for all processes.
    is_short = len(os.fsencode(tempfile.gettempdir())) <= _MAX_TEMPORARY_LENGTH
    context = multiprocessing.get_context("forkserver" if is_short else "spawn")
    context.set_forkserver_preload([__name__, *modules])
    counter = context.Value("q", 0)
    with ProcessPoolExecutor(jobs, context, _start_worker, (counter,)) as pool:
        try:
            yield pool, counter
        except BrokenProcessPool as error:
            raise ReadingStopped(_KILLED) from error
        except BaseException:
            _terminate(pool)
            raise


def _terminate(pool: ProcessPoolExecutor) -> None:
    """Terminate the processes, so that Ctrl-C and errors need not wait for a large file."""
    processes = list((getattr(pool, "_processes", None) or {}).values())
    manager = getattr(pool, "_executor_manager_thread", None)
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()
    if manager is not None:
        manager.join(timeout=5)  # Python's exit wakes it up, which fails while it is closing its pipe


def _start_worker(counter: Any) -> None:
    global _counter  # noqa: PLW0603  shared memory can only be passed to a process when it starts
    _counter = counter
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent handles it
    pa.set_cpu_count(1)
    gc.set_threshold(1_000_000)  # rows contain no cycles, and the search for them takes a tenth of the time
    parent = multiprocessing.parent_process()
    if parent is not None:
        # Otherwise a worker whose parent was killed would wait for work forever.
        threading.Thread(target=_exit_after, args=(parent,), daemon=True).start()


def _exit_after(parent: Any) -> None:
    parent.join()
    os._exit(1)


def _run_task(task: Task, shard_folder: Path) -> TaskReport:
    def on_progress(size: int) -> None:
        with _counter.get_lock():
            _counter.value += size

    return _read_task(task, shard_folder, on_progress)


def _read_task(task: Task, shard_folder: Path, on_progress: Callable[[int], object]) -> TaskReport:
    """Write the shard of a task, then its report."""
    corpus, key = find_corpus(task.corpus), shard_folder.name
    shutil.rmtree(shard_folder, ignore_errors=True)  # a process may have been killed before it wrote the report
    with as_user_error(shard_folder.parent), atomic_folder(shard_folder) as folder:
        shard = Shard(folder, shard_schema(corpus.schema, task.settings.tokenizer), on_progress)
        try:
            for piece in task.pieces:
                _read_piece(corpus, task, piece, shard)
            shard.close()
            if task.key() != key:
                others = " or another file" * (len(task.pieces) > 1)
                raise ReadingStopped(
                    f"{task.pieces[0].path}{others} changed while it was being read. "
                    "Run the command again once it is complete; finished files are not read again."
                )
        except BaseException:
            shard.discard()
            raise
    shard.report.key = key
    shard.report.save(shard_folder.with_suffix(".json"))
    return shard.report


def _read_piece(corpus: RawCorpus, task: Task, piece: Piece, shard: Shard) -> None:
    shard.start_piece(piece)
    try:
        corpus.read(piece, task.settings, shard)
    except OSError as error:
        if error.filename is None:  # an error of writing the shard
            raise
        raise read_error(Path(error.filename), error, ReadingStopped) from error
