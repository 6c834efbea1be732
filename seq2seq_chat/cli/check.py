"""`seq2seq-chat check`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from seq2seq_chat.cli.options import FAILED, NO_CORPUS, ensure_can_create, json_option, results_option, set_option


@click.command()
@click.argument("config_file", metavar="CONFIG")
@set_option
@click.option("--only", multiple=True, metavar="NAME", help="Run only this check. Can be repeated.")
@click.option("--fast", is_flag=True, help="copy-task: at most 10 symbols instead of 40; learning: fewer steps.")
@click.option("--full-size", is_flag=True, help="Use the hidden, embedding and projection sizes of CONFIG.")
@json_option
@results_option
def check(
    config_file: str,
    overrides: tuple[str, ...],
    only: tuple[str, ...],
    fast: bool,
    full_size: bool,
    json_file: str | None,
    results: str,
) -> None:
    """Check that the model of CONFIG can learn.

    Run it before a long experiment. The exit status is 1 if a check fails, and 3 if none does but a file of the
    corpora is missing.

    \b
    data           files, vocabulary coverage, truncated samples, overlap of train and test
    memory         training fits into memory
    initial-loss   an untrained model gives all words the same probability
    gradients      are finite, reach every unit, are clipped
    padding        neither padding nor the rest of a batch changes a loss or a reply
    save-and-load  a fresh process computes the same bit for bit and continues to train
    decoding       greedy and beam search agree with each other and with the loss
    learning       with exactly these settings, the loss falls by a nat
    alignment      attention finds the word of the source that a word of the reply comes from
    overfitting    a few dozen samples are memorized
    copy-task      sequences are copied exactly

    For a language model, carried-state checks that a text read in chunks has the loss and the gradients that it has
    when it is read at once; padding, decoding, alignment and copy-task do not apply.
    """
    from seq2seq_chat.config import load_config
    from seq2seq_chat.system.versions import load_tensorflow

    config = load_config(config_file, overrides)
    ensure_can_create("--json", json_file)
    load_tensorflow()
    from seq2seq_chat.checks import suite
    from seq2seq_chat.checks.check_context import CheckContext
    from seq2seq_chat.runs.run import create_folder
    from seq2seq_chat.training.optimizers import ensure_available

    ensure_available(config.training.precision)
    suite.ensure_checks_exist(only, config)
    folder = create_folder(Path(results, "checks"), config.name)
    context = CheckContext(config, folder, fast=fast, full_size=full_size, source=(config_file, overrides))
    if config.task != "language_model" and context.data_error is not None:
        click.echo(f"{context.data_error}\nthe checks that need real samples use the bundled ones")
    try:
        checks = suite.run_checks(context, only)
    finally:
        suite.remove_temporary_files(folder)
    click.echo("\n" + suite.summary(checks))
    suite.write_results(checks, folder / "checks.json")
    if json_file:
        suite.write_results(checks, Path(json_file))
    click.echo(folder)
    missing = context.missing_files
    if missing:
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        click.echo(f"the corpus is missing: {missing[0]}{others}; the checks used others, so check again with it")
    if not all(check.result.passed for check in checks if not (missing and check.name == "data")):
        sys.exit(FAILED)
    if missing:
        sys.exit(NO_CORPUS)
