"""The one kind of error that is meant for people."""

from __future__ import annotations


class UserError(Exception):
    """An error meant for people: one or two sentences naming cause and remedy.

    The command line prints it on stderr and exits with status 2; every other exception is a
    defect of the program and keeps its traceback.
    """
