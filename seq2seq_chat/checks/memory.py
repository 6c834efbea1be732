"""Memory: does the training fit, at its full size?"""

from __future__ import annotations

from seq2seq_chat.checks.subject import Finding, Progress, Subject
from seq2seq_chat.training.memory import available_memory, estimate_memory, gigabytes


def check_memory(subject: Subject, progress: Progress) -> Finding:
    """The estimate that a training prints, against what is free."""
    config = subject.config
    estimate, available = estimate_memory(config, config.data.vocabulary_size), available_memory()
    return Finding(
        passed=estimate.total <= available,
        figure=f"about {gigabytes(estimate.total)}",
        threshold=f"≤ {gigabytes(available)} free",
        detail=f"parameters {gigabytes(estimate.parameters)}, optimizer {gigabytes(estimate.optimizer)}, gradients "
        f"{gigabytes(estimate.gradients)}, activations {gigabytes(estimate.activations)}, program "
        f"{gigabytes(estimate.process)}",
    )
