"""Errors that are shown to the user."""

from __future__ import annotations

from typing import ClassVar


class UserError(Exception):
    """An error whose message states cause and remedy in one or two sentences.

    The command line prints the message and exits with status 2; any other exception is a bug and keeps its traceback.

    Attributes:
        missing_file_remedy: What creates a file of this kind if it does not exist; empty if only the user can.
    """

    missing_file_remedy: ClassVar[str] = ""
