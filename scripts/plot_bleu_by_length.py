"""Draw BLEU by the length of the source, with 95 % intervals, for one or several runs, and print the table.

python scripts/plot_bleu_by_length.py rnnenc_30 rnnsearch_30 --data test.tsv --beam-width 5 --output bleu.png

Uses the predictions of the runs' evaluations and generates those that are missing. If a run writes lower case only,
BLEU ignores case. All runs share the same bins of lengths; a length is counted in tokens of the run's tokenizer.
"""

from __future__ import annotations

import click
from picture_script import Pictures, picture_options, results_option, snapshot_option

from seq2seq_chat.cli.options import ensure_readable
from seq2seq_chat.cli.running import run_command
from seq2seq_chat.runs.find import distinct_names, find_run
from seq2seq_chat.system.tables import format_table
from seq2seq_chat.system.versions import load_tensorflow


@click.command(help=__doc__)
@click.argument("runs", nargs=-1, required=True)
@click.option(
    "--data", metavar="FILE", help="Corpus to evaluate on.  [default: each run's data.test, else data.validation]"
)
@click.option("--beam-width", type=click.IntRange(1, 1000), metavar="N", help="Decode by beam search, not greedily.")
@click.option(
    "--limit", default=250_000, show_default=True, type=click.IntRange(1), help="Number of samples, evenly spaced."
)
@snapshot_option
@results_option
@picture_options
def main(
    runs: tuple[str, ...],
    data: str | None,
    beam_width: int | None,
    limit: int,
    snapshot: str | None,
    results: str,
    pictures: Pictures,
) -> None:
    """Draw one curve for each of RUNS."""
    trained_runs = [find_run(name, results) for name in dict.fromkeys(runs)]
    ensure_readable(data)
    pictures.folder()  # fail now, before predictions that may take an hour
    load_tensorflow()
    from seq2seq_chat.analysis.evaluate import FOLDER, evaluation_corpus
    from seq2seq_chat.analysis.figures.bleu_by_length import draw_bleu_by_length
    from seq2seq_chat.analysis.loaded_run import LoadedRun
    from seq2seq_chat.analysis.metrics_table import format_lengths
    from seq2seq_chat.analysis.predictions import beam, predict
    from seq2seq_chat.analysis.scoring import score_predictions, writes_lower_case
    from seq2seq_chat.metrics.source_length import bleu_by_source_length, length_bins

    corpora = [evaluation_corpus(run, data) for run in trained_runs]
    scores = []
    for run, corpus in zip(trained_runs, corpora, strict=True):
        decoding = None if beam_width is None else beam(run.config.decoding, beam_width)
        predictions = predict(LoadedRun(run, snapshot), corpus, run.path / FOLDER, limit=limit, decoding=decoding)
        scores.append(score_predictions(predictions, run.config.task))
    bins = length_bins(*(each.source_lengths for each in scores))
    lowercase = any(writes_lower_case(run.codecs.target.tokenizer) for run in trained_runs)
    rows = [bleu_by_source_length(each, bins, lowercase=lowercase) for each in scores]
    labels = dict.fromkeys(each.bleu(lowercase).kind.label for each in scores)
    for run, corpus, by_length, each in zip(trained_runs, corpora, rows, scores, strict=True):
        bleu = each.bleu(lowercase)
        click.echo(f"{run.name} on {corpus}: {bleu.kind.label}, {bleu.signature}")
        click.echo(format_table(format_lengths(by_length, run.config.labels.source, bleu.kind.label), "lr"))
    source = trained_runs[0].config.labels.source
    curves = dict(zip(distinct_names(trained_runs), rows, strict=True))
    pictures.write(draw_bleu_by_length(curves, source, " / ".join(labels)), "bleu_by_length", main=True)


if __name__ == "__main__":
    run_command(main)
