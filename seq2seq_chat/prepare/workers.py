"""Read the inputs into shards, by several processes, and go on where an earlier reading was stopped."""

from __future__ import annotations

import gc
import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from tqdm import tqdm

from seq2seq_chat.corpus.inputs import CORPORA
from seq2seq_chat.corpus.lines import unreadable
from seq2seq_chat.corpus.shards import ReadingStopped, Report, Shard, Task, load_report, save_report, unwritable

_WORTH_A_PROCESS = 1 << 25  # bytes of input below which starting processes takes longer than reading

_LONGEST_TEMPORARY = 70  # bytes of the temporary folder's name, below which a socket's has at most 107

_counter: Any = None  # in a worker: bytes and rows of all workers


def read_tasks(tasks: Sequence[Task], folder: Path, jobs: int) -> list[Report]:
    """Read tasks into ``folder``, each into ``KEY/`` with its rows and ``KEY.json``, its report.

    Tasks whose report is there are not read again.

    Args:
        jobs: Processes to read with; small inputs are read in this one.

    Returns:
        The reports in the order of the tasks.

    Raises:
        ReadingStopped: An input cannot be opened or changes while it is read, or a process was killed.
        UserError: ``folder`` cannot be written to.
    """
    keys = [_key(task) for task in tasks]
    reports = [load_report(folder / f"{key}.json") for key in keys]
    left = [number for number, report in enumerate(reports) if report is None]
    done = sum(task.size for task, report in zip(tasks, reports, strict=True) if report is not None)
    size = sum(task.size for task in tasks)
    with tqdm(total=size, initial=done, desc="reading", unit="B", unit_scale=True, delay=2, disable=None) as bar:
        read = _read_by_processes if jobs > 1 and size - done >= _WORTH_A_PROCESS and len(left) > 1 else _read_here
        for number, report in read([(number, tasks[number], folder / keys[number]) for number in left], bar, jobs):
            reports[number] = report
    return [report for report in reports if report is not None]


def _key(task: Task) -> str:
    try:
        return task.key()
    except OSError as fault:
        raise unreadable(Path(fault.filename), fault, ReadingStopped) from fault


_Job = tuple[int, Task, Path]


def _read_here(work: list[_Job], bar: tqdm[Any], jobs: int) -> Iterator[tuple[int, Report]]:
    rows = 0

    def progress(taken: int, made: int) -> None:
        nonlocal rows
        rows += made
        bar.update(taken)
        bar.set_postfix(rows=f"{rows:,}", refresh=False)

    for number, task, place in work:
        yield number, _read_task(task, place, progress)


def _read_by_processes(work: list[_Job], bar: tqdm[Any], jobs: int) -> Iterator[tuple[int, Report]]:
    context = _context()
    counter = context.Array("q", 2)
    initial = bar.n
    with ProcessPoolExecutor(min(jobs, len(work)), context, _begin_worker, (counter,)) as pool:
        futures: dict[Future[Report], int] = {}
        try:
            waiting = iter(work)
            for _ in range(2 * jobs):  # not all at once: the largest corpora have thousands of tasks
                _submit(pool, waiting, futures)
            while futures:
                finished, _ = wait(futures, timeout=0.5, return_when=FIRST_COMPLETED)
                for future in finished:
                    _submit(pool, waiting, futures)
                    yield futures.pop(future), future.result()
                with counter.get_lock():
                    taken, rows = counter[:]
                bar.set_postfix(rows=f"{rows:,}", refresh=False)
                bar.update(initial + taken - bar.n)
        except BrokenProcessPool as fault:
            raise ReadingStopped(
                "A reading process was killed, perhaps for want of memory. Start again with fewer of them (--jobs); "
                "what is finished will not be read again. (A script that calls prepare() has to do so below "
                '`if __name__ == "__main__":`, as each of these processes imports it.)'
            ) from fault
        except BaseException:
            _end(pool)
            raise


def _context() -> multiprocessing.context.BaseContext:
    """How processes are started. The threads of this one do not survive a fork."""
    if len(os.fsencode(tempfile.gettempdir())) > _LONGEST_TEMPORARY:
        return multiprocessing.get_context("spawn")
    # A fresh one is forked, which imports for all of them.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


def _submit(pool: ProcessPoolExecutor, waiting: Iterator[_Job], futures: dict[Future[Report], int]) -> None:
    for number, task, place in waiting:
        futures[pool.submit(_work, task, place)] = number
        return


def _end(pool: ProcessPoolExecutor) -> None:
    """Let no task go on, so that Ctrl-C and errors need not wait for a large file."""
    processes = list((getattr(pool, "_processes", None) or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()


def _begin_worker(counter: Any) -> None:
    global _counter  # noqa: PLW0603  what is shared between processes can only be handed over here
    _counter = counter
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the first one decides
    pa.set_cpu_count(1)
    gc.set_threshold(1_000_000)  # rows make no cycles, and looking for some takes a tenth of the time
    parent = multiprocessing.parent_process()
    if parent is not None:
        # A worker whose parent was killed would wait for work for ever.
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)


def _work(task: Task, place: Path) -> Report:
    def progress(taken: int, made: int) -> None:
        with _counter.get_lock():
            _counter[0] += taken
            _counter[1] += made

    return _read_task(task, place, progress)


def _read_task(task: Task, place: Path, progress: Callable[[int, int], None]) -> Report:
    """Read a task; its rows and then its report appear whole."""
    corpus, key = CORPORA[task.corpus], place.name
    with _made_whole(place) as folder:
        shard = Shard(folder, corpus.schema, progress)
        try:
            for piece in task.pieces:
                shard.begin(piece)
                try:
                    corpus.read(piece, task.settings, shard)
                except OSError as fault:
                    if fault.filename is None:  # of the shard
                        raise
                    raise unreadable(Path(fault.filename), fault, ReadingStopped) from fault
            shard.close()
            if _key(task) != key:
                raise ReadingStopped(
                    f"{task.pieces[0].path}{' or a file read with it' * (len(task.pieces) > 1)} changed while it was "
                    "read. Start again once it is complete; what else is finished will not be read again."
                )
        except BaseException:
            shard.abandon()
            raise
    shard.report.key = key
    save_report(shard.report, place.with_suffix(".json"))
    return shard.report


@contextmanager
def _made_whole(place: Path) -> Iterator[Path]:
    """A folder beside ``place`` that takes its name once all is in it."""
    making = place.with_name(f"{place.name}.making")
    try:
        for folder in (making, place):
            shutil.rmtree(folder, ignore_errors=True)
        making.mkdir()
        yield making
        os.replace(making, place)
    except OSError as fault:
        raise unwritable(place.parent, fault) from fault
    finally:
        shutil.rmtree(making, ignore_errors=True)
