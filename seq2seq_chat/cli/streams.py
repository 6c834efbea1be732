"""Standard streams that are closed or cannot be written."""

from __future__ import annotations

import errno
import os
import sys
from typing import TextIO

_WRITE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE}


def open_missing_streams() -> None:
    """Discard what is written to stdout or stderr if the program was started without it (``>&-``)."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  open until the end


def is_write_error(error: OSError) -> bool:
    """Whether writing to an open stream failed, which is no bug."""
    return error.filename is None and error.errno in _WRITE_ERRORS


def discard_if_unwritable(stream: TextIO) -> None:
    """Discard what a stream still holds if it cannot be written, so that Python does not try again when it exits."""
    try:
        stream.flush()
    except OSError:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
