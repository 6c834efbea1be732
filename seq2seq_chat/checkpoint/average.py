"""The mean of several weights of a run, as a run of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tqdm import tqdm

from seq2seq_chat.checkpoint.arrays import read_weights, write_arrays
from seq2seq_chat.config import trained_settings
from seq2seq_chat.runs.json_lines import read_json_lines
from seq2seq_chat.runs.run import Run, RunError, snapshot_name
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import as_user_error, atomic_folder


def steps_to_average(run: Run, last: int | None = None, best: int | None = None) -> list[int]:
    """The training steps of the weights to average, earliest first.

    Args:
        run: The run.
        last: How many of the newest weights; None: all that it keeps.
        best: How many of those with the lowest validation loss, instead.

    Raises:
        RunError: The run does not keep as many.
    """
    steps, kind = run.saved_steps(), "saved weights"
    if best is not None:
        validations = (line for line in read_json_lines(run.metrics_file) if line.get("kind") == "validation")
        losses = {line["step"]: line["loss"] for line in validations}
        steps = sorted((step for step in steps if step in losses), key=lambda step: (losses[step], step))
        kind = "saved weights of a validation"
    wanted = best or last or len(steps)
    if len(steps) < max(2, wanted):
        found = ", ".join(f"{step:,}" for step in sorted(steps)) or "none"
        raise RunError(
            f"run {run.name} has fewer than {max(2, wanted)} {kind} (steps: {found}); training.keep_checkpoints and "
            "training.snapshot_every say how many are kept"
        )
    return sorted(steps[:wanted] if best is not None else steps[-wanted:])


def average_weights(run: Run, steps: list[int], output: Path) -> Run:
    """Write a run whose weights are the mean of a run's weights at some steps (Junczys-Dowmunt et al. 2016).

    It has the configuration and the vocabularies of the run, and one snapshot, named after the last of the steps.

    Raises:
        RunError: Weights are damaged.
        UserError: The folder exists or cannot be written.
    """
    if output.exists():
        raise UserError(f"{output} exists; choose another --output")
    sums: dict[str, np.ndarray] = {}
    for step in tqdm(steps, unit="file", disable=None):
        for name, array in read_weights(run, snapshot_name(step)).arrays.items():
            sums[name] = sums.get(name, 0.0) + array.astype(np.float64)
    config, codecs = run.config, run.codecs
    with as_user_error(output), atomic_folder(output) as folder:
        averaged = Run(folder)
        averaged.save_config(config)
        codecs.save(folder)
        path = averaged.snapshot_path(steps[-1])
        path.parent.mkdir(parents=True)
        metadata = {"step": steps[-1], **codecs.fingerprints(), "settings": trained_settings(config)}
        write_arrays(path, {name: (total / len(steps)).astype(np.float32) for name, total in sums.items()}, metadata)
        averaged.record_start({"step": steps[-1], "averaged": {"run": run.name, "steps": steps}})
        averaged.record_end("finished", steps[-1])
    return Run(output)
