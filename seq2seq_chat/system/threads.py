"""Work in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def run_in_thread(function: Callable[[], T]) -> Future[T]:
    """Call a function in a thread, which ends with the program. What it raises is raised where its result is used."""
    result: Future[T] = Future()

    def compute() -> None:
        try:
            result.set_result(function())
        except Exception as error:
            result.set_exception(error)

    threading.Thread(target=compute, daemon=True).start()
    return result
