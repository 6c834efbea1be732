"""`seq2seq-chat evaluate` and `report`: what a run has learned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Optional

import click

from seq2seq_chat.cli.options import ensure_folder, results_option, snapshot_option, warn

data_option = click.option(
    "--data", metavar="FILE", help="Corpus file.  [default: the run's data.test, else data.validation]"
)
limit_option = click.option(
    "--limit",
    type=click.IntRange(1),
    default=250_000,
    show_default=True,
    metavar="N",
    help="Use N samples, evenly spread over the corpus.",
)
sent2vec_option = click.option(
    "--sent2vec", metavar="FILE", help="Binary Sent2Vec model.  [default: one learned from the training corpus]"
)


@click.command()
@click.argument("run", metavar="RUN")
@data_option
@snapshot_option
@limit_option
@click.option(
    "--beam-width", type=click.IntRange(1, 1000), metavar="N", help="Search replies with a beam, not greedily."
)
@sent2vec_option
@click.option("--output", metavar="DIR", help="Folder for the predictions.  [default: RUN/evaluation]")
@click.option("--json", "json_file", metavar="FILE", help="Write the figures to a file as well.")
@results_option
def evaluate(
    run: str,
    data: Optional[str],
    snapshot: Optional[str],
    limit: int,
    beam_width: Optional[int],
    sent2vec: Optional[str],
    output: Optional[str],
    json_file: Optional[str],
    results: str,
) -> None:
    """Loss, perplexity and word accuracy of a RUN on a test corpus, exactly, and what its replies are like.

    Replies are kept in a file; an evaluation that was stopped goes on from it.
    """
    from seq2seq_chat.atomic import atomic_write
    from seq2seq_chat.config import decoding_with
    from seq2seq_chat.environment import load_tensorflow
    from seq2seq_chat.runs import find_run

    found = find_run(run, results)
    ensure_folder(json_file)
    decoding = None
    if beam_width is not None:
        decoding = decoding_with(found.config.decoding, method="beam", beam_width=beam_width, n_best=1)
    load_tensorflow()
    from seq2seq_chat.analysis.evaluate import evaluate_run, summary
    from seq2seq_chat.training.metrics import finite_or_null

    figures = evaluate_run(found, data, snapshot, limit, warn, decoding=decoding, sent2vec=sent2vec, folder=output)
    click.echo(f"{found.name}, {figures['snapshot']} (step {figures['step']:,}), on {figures['data']}")
    click.echo(summary(figures))
    if json_file:
        with atomic_write(Path(json_file)) as file:
            file.write(json.dumps(finite_or_null(figures), indent=2, ensure_ascii=False) + "\n")


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@data_option
@limit_option
@sent2vec_option
@click.option("--questions", metavar="FILE", help="Utterances to ask at every snapshot, one a line.")
@click.option(
    "--transcript",
    "transcripts",
    multiple=True,
    metavar="FILE",
    help="Somebody else's answers: lines of question<TAB>answer, or an answer a line. May be given several times.",
)
@click.option("--liked", metavar="FILE", help="The replies you like best, like a transcript: where do beams have them?")
@click.option("--output", metavar="FILE", help="The page.  [default: report.html in the first run's folder]")
@results_option
def report(
    runs: tuple[str, ...],
    data: Optional[str],
    limit: int,
    sent2vec: Optional[str],
    questions: Optional[str],
    transcripts: tuple[str, ...],
    liked: Optional[str],
    output: Optional[str],
    results: str,
) -> None:
    """Everything there is to see of RUNs, at every snapshot, as one HTML page; prints its file as the last line.

    Figures on the test corpus, language and replies over time, learning curves, attention, beams, thought vectors,
    word embeddings, gates and gradients. What cannot be made says why. Pictures lie beside the page as well.
    """
    from seq2seq_chat.environment import load_tensorflow
    from seq2seq_chat.runs import find_run

    found = [find_run(run, results) for run in dict.fromkeys(runs)]
    load_tensorflow()
    from seq2seq_chat.analysis.findings import Options
    from seq2seq_chat.analysis.replies import read_questions, read_transcript
    from seq2seq_chat.analysis.report import write_report

    asked = read_questions(questions)
    options = Options(
        data=data,
        limit=limit,
        sent2vec=sent2vec,
        questions=asked,
        transcripts=[read_transcript(file, asked) for file in transcripts],
        liked=read_transcript(liked, asked) if liked else None,
    )
    click.echo(write_report(found, options, Path(output) if output else None, click.echo, warn))
