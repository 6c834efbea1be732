"""Errors that are shown to the user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar


class UserError(Exception):
    """An error whose message states cause and remedy in one or two sentences.

    The command line prints the message and exits with status 2; any other exception is a bug and keeps its traceback.

    Attributes:
        missing_file_remedy: What creates a file of this kind if it does not exist; empty if only the user can.
    """

    missing_file_remedy: ClassVar[str] = ""


EVALUATION_PACKAGES = ("choix", "sacrebleu", "scipy")
"""What only the evaluation of replies needs. Exported models reply without them."""


class MissingPackage(UserError):
    """A package is not installed."""


@contextmanager
def explain_missing_packages(purpose: str) -> Iterator[None]:
    """Imports of :data:`EVALUATION_PACKAGES`, or of modules that need them.

    Args:
        purpose: What they are for, to begin a sentence.

    Raises:
        MissingPackage: One of the packages is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EVALUATION_PACKAGES:
            raise
        raise MissingPackage(
            f"{purpose} needs the package {package}, which is not installed; install all that it needs with: "
            f"pip install {' '.join(EVALUATION_PACKAGES)}"
        ) from error


def cut(text: str) -> str:
    """The text, or its start if it is long."""
    return text if len(text) <= 60 else text[:57] + "..."
