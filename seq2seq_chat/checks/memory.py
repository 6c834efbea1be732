"""Memory: the training fits at its full size."""

from __future__ import annotations

from contextlib import suppress

from seq2seq_chat.architecture.memory import estimate_memory, gigabytes
from seq2seq_chat.checks.check_context import CheckContext, CheckResult, OnProgress
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.hardware import available_memory


def check_memory(context: CheckContext, on_progress: OnProgress) -> CheckResult:
    """The training's own memory estimate does not exceed the free memory."""
    config, available = context.config, available_memory()
    sizes = config.data.target_text.vocabulary_size, config.data.source_text.vocabulary_size
    if config.task == "language_model":
        with suppress(UserError):  # which the check of the data reports
            sizes = context.text_setup.codecs.vocabulary_sizes
    estimate = estimate_memory(config, *sizes)
    return CheckResult(
        passed=estimate.total <= available,
        measured=f"about {gigabytes(estimate.total)}",
        required=f"≤ {gigabytes(available)} free",
        detail=estimate.describe(),
    )
