"""Draw the words and pairs of words of a run's replies against those of its training corpus, snapshot by snapshot.

python scripts/plot_ngrams.py latest --limit 5000 --output ngrams/

Replies are taken from the run's evaluation, and made where there is none yet.
"""

from __future__ import annotations

from typing import Optional

import click
from picture_script import Pictures, picture_options, results_option, warn

from seq2seq_chat.environment import load_tensorflow
from seq2seq_chat.errors import UserError
from seq2seq_chat.runs import find_run


@click.command(help=__doc__)
@click.argument("run")
@click.option(
    "--data", metavar="FILE", help="Corpus to reply to.  [default: the run's data.test, else data.validation]"
)
@click.option("--limit", default=250_000, show_default=True, type=click.IntRange(1), help="Samples, evenly spread.")
@results_option
@picture_options
def main(run: str, data: Optional[str], limit: int, results: str, pictures: Pictures) -> None:
    """Draw ranks and the most frequent n-grams at every snapshot of RUN, and print divergences."""
    found = find_run(run, results)
    load_tensorflow()
    from seq2seq_chat.analysis import ngrams
    from seq2seq_chat.analysis.evaluate import FOLDER, test_corpus
    from seq2seq_chat.analysis.predictions import predict
    from seq2seq_chat.analysis.subject import Subject, moments

    there = moments(found)
    if not there:
        raise UserError(f"run {found.name} has no weights yet")
    subject = Subject(found, there[0].snapshot, warn)
    level, vocabulary, corpus = found.config.data.level, found.vocabulary, ngrams.corpus_language(found)
    spoken, steps, expected = [], [], None
    for moment in there:
        subject.go_to(moment.snapshot)
        replies = predict(subject, test_corpus(found, data), found.path / FOLDER, limit=limit)
        steps.append(subject.step)
        spoken.append(ngrams.language(f"replies at {moment.label}", (p.reply for p in replies), vocabulary, level))
        if expected is None:
            expected = ngrams.language("expected replies", (p.expected for p in replies), vocabulary, level)
        pictures.write(ngrams.draw_top(spoken[-1], corpus, vocabulary), f"ngrams_{moment.label}")
    assert expected is not None
    by_n = {n: [ngrams.divergence(texts.ngrams[n], corpus.ngrams[n]) for texts in spoken] for n in ngrams.NAMES}
    people = {n: ngrams.divergence(expected.ngrams[n], corpus.ngrams[n]) for n in ngrams.NAMES}
    for n, values in by_n.items():
        listed = ", ".join(f"{m.label}: {'–' if v is None else f'{v:.3f}'}" for m, v in zip(there, values, strict=True))
        click.echo(f"Jensen–Shannon divergence of {ngrams.NAMES[n]}, bits: {listed}; expected replies: {people[n]:.3f}")
    pictures.write(ngrams.draw_ranks([corpus, expected, *spoken[-5:]]), "ngram_ranks", main=True)
    pictures.write(ngrams.draw_divergences(steps, by_n, people), "ngram_divergence")


if __name__ == "__main__":
    main()
