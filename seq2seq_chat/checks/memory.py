"""Memory: the training fits at its full size."""

from __future__ import annotations

from seq2seq_chat.checks.check_context import CheckContext, CheckResult, OnProgress
from seq2seq_chat.system.hardware import available_memory
from seq2seq_chat.training.memory import estimate_memory, gigabytes


def check_memory(context: CheckContext, on_progress: OnProgress) -> CheckResult:
    """The training's own memory estimate does not exceed the free memory."""
    config, available = context.config, available_memory()
    estimate = estimate_memory(
        config.model, config.training, config.data.target_text.vocabulary_size, config.data.source_text.vocabulary_size
    )
    return CheckResult(
        passed=estimate.total <= available,
        measured=f"about {gigabytes(estimate.total)}",
        required=f"≤ {gigabytes(available)} free",
        detail=estimate.describe(),
    )
