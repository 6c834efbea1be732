"""Errors that are shown to the user."""

from __future__ import annotations


class UserError(Exception):
    """An error whose message states cause and remedy in one or two sentences.

    The command line prints the message and exits with status 2; any other exception is a bug and keeps its traceback.
    """
