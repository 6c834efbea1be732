"""Packages that only some uses need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from seq2seq_chat.system.errors import UserError

EVALUATION_PACKAGES = ("choix", "sacrebleu", "scipy")
"""What only the evaluation of replies needs. Exported models reply without them."""


class MissingPackage(UserError):
    """A package is not installed."""


@contextmanager
def explain_missing_packages(purpose: str) -> Iterator[None]:
    """Imports of modules that need :data:`EVALUATION_PACKAGES`.

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
