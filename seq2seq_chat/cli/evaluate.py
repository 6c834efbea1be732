"""`seq2seq-chat evaluate`."""

from __future__ import annotations

import json

import click

from seq2seq_chat.cli.options import (
    data_option,
    ensure_parent_exists,
    ensure_readable,
    json_option,
    limit_option,
    results_option,
    run_argument,
    sent2vec_option,
    snapshot_option,
)
from seq2seq_chat.system.signals import explain_interrupt


@click.command()
@run_argument
@data_option
@snapshot_option
@limit_option
@click.option(
    "--beam-width",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Decode by beam search, not greedily.",
)
@click.option(
    "--reference",
    "references",
    multiple=True,
    metavar="FILE",
    help="Further references for BLEU and chrF: a line for each sample of the corpus. Can be repeated.",
)
@click.option(
    "--baseline",
    metavar="RUN[:SNAPSHOT]",
    help="Compare BLEU and chrF with another run on the same samples, by paired bootstrap.",
)
@sent2vec_option
@click.option("--output", metavar="DIR", help="Folder for the predictions.  [default: RUN/evaluation]")
@json_option
@results_option
def evaluate(
    run_name: str,
    data: str | None,
    snapshot: str | None,
    limit: int,
    beam_width: int | None,
    references: tuple[str, ...],
    baseline: str | None,
    sent2vec: str | None,
    output: str | None,
    json_file: str | None,
    results: str,
) -> None:
    """Evaluate RUN on a test corpus.

    Prints the exact loss, perplexity, word accuracy, BLEU and chrF with 95 % intervals, Sent2Vec distance and diversity
    of the replies. The replies are written to a file, from which an interrupted evaluation continues.
    """
    from seq2seq_chat.runs.find import find_run, find_snapshot
    from seq2seq_chat.runs.json_lines import finite_or_null
    from seq2seq_chat.system.files import write_atomically
    from seq2seq_chat.system.versions import load_tensorflow

    run = find_run(run_name, results)
    ensure_parent_exists(json_file)
    ensure_readable(data, *references)
    other = find_snapshot(baseline, results) if baseline is not None else None
    load_tensorflow()
    from seq2seq_chat.analysis.evaluate import evaluate_run
    from seq2seq_chat.analysis.metrics_table import format_metrics

    with explain_interrupt(lambda: "run the same command again to continue; finished replies are kept"):
        metrics = evaluate_run(
            run,
            data,
            snapshot,
            limit,
            beam_width=beam_width,
            sent2vec=sent2vec,
            folder=output,
            references=references,
            baseline=other,
        )
    click.echo(f"{run.name}, {metrics['snapshot']} (step {metrics['step']:,}), on {metrics['data']}")
    click.echo(format_metrics(metrics))
    if json_file:
        write_atomically(json_file, json.dumps(finite_or_null(metrics), indent=2, ensure_ascii=False) + "\n")
