"""Draw frequencies of words, bigrams and trigrams in a run's replies and its training corpus, for each snapshot.

python scripts/plot_ngrams.py latest --limit 5000 --output ngrams/

Uses the replies of the run's evaluation and generates those that are missing.
"""

from __future__ import annotations

import click
from picture_script import Pictures, picture_options, results_option

from seq2seq_chat.cli.running import run_command
from seq2seq_chat.runs.find import find_run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.versions import load_tensorflow

MAX_LINES = 5  # snapshots in one figure


@click.command(help=__doc__)
@click.argument("run")
@click.option(
    "--data", metavar="FILE", help="Corpus to reply to.  [default: the run's data.test, else data.validation]"
)
@click.option(
    "--limit", default=250_000, show_default=True, type=click.IntRange(1), help="Number of samples, evenly spaced."
)
@results_option
@picture_options
def main(run: str, data: str | None, limit: int, results: str, pictures: Pictures) -> None:
    """Draw ranks and the most frequent n-grams at every snapshot of RUN, and print divergences."""
    trained_run = find_run(run, results)
    load_tensorflow()
    from seq2seq_chat.analysis.evaluate import FOLDER, evaluation_corpus
    from seq2seq_chat.analysis.figures.ngrams import draw_divergences, draw_rank_frequency, draw_top_ngrams
    from seq2seq_chat.analysis.loaded_run import LoadedRun, available_snapshots
    from seq2seq_chat.analysis.predictions import predict
    from seq2seq_chat.metrics.ngrams import ORDERS, corpus_profile, divergences, text_profile

    snapshots = available_snapshots(trained_run)
    if not snapshots:
        raise UserError(f"run {trained_run.name} has no snapshots or checkpoints yet")
    loaded = LoadedRun(trained_run, snapshots[0].name)
    vocabulary, corpus = loaded.codecs.target.vocabulary, corpus_profile(trained_run)
    profiles, steps = [], []
    for snapshot in snapshots:
        loaded.load_snapshot(snapshot.name)
        predictions = predict(loaded, evaluation_corpus(trained_run, data), trained_run.path / FOLDER, limit=limit)
        steps.append(loaded.step)
        replies = (p.reply_tokens.split() for p in predictions)
        profiles.append(text_profile(f"replies at {snapshot.label}", replies, vocabulary))
        pictures.write(draw_top_ngrams(profiles[-1], corpus, vocabulary), f"ngrams_{snapshot.label}")
    expected = text_profile("expected replies", (p.expected_tokens.split() for p in predictions), vocabulary)
    diverging, references = [divergences(profile, corpus) for profile in profiles], divergences(expected, corpus)
    for n, name in ORDERS.items():
        values = ", ".join(f"{s.label}: {_number(d[n])}" for s, d in zip(snapshots, diverging, strict=True))
        click.echo(f"Jensen–Shannon divergence of {name}, bits: {values}; expected replies: {_number(references[n])}")
    pictures.write(draw_rank_frequency([corpus, expected, *profiles[-MAX_LINES:]]), "ngram_ranks", main=True)
    pictures.write(draw_divergences(steps, diverging, references), "ngram_divergence")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


if __name__ == "__main__":
    run_command(main)
