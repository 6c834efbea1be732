"""`seq2seq-chat evaluate` and `seq2seq-chat report`."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seq2seq_chat.cli.options import (
    decoding_option,
    engine_options,
    ensure_beam_search,
    ensure_can_create,
    ensure_readable,
    ensure_trained,
    ensure_unused,
    json_option,
    limit_option,
    results_option,
    run_argument,
    sent2vec_option,
    snapshot_option,
    with_option,
)
from seq2seq_chat.system.errors import UserError, explain_missing_packages
from seq2seq_chat.system.signals import explain_interrupt

if TYPE_CHECKING:
    from seq2seq_chat.system.hardware import EngineOptions

CONTINUE = "run the same command again to continue; finished replies are kept"


@click.command()
@run_argument
@click.option(
    "--data",
    multiple=True,
    metavar="FILE",
    help="Corpus file, or a .tsv of pairs. Repeated: a column for each.  [default: the run's data.test, or else its "
    "data.validation]",
)
@with_option
@snapshot_option
@limit_option
@click.option(
    "--beam-width",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Decode by beam search with N hypotheses, like --set decoding.method=beam --set decoding.beam_width=N.",
)
@decoding_option
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
@click.option("--all", "every", is_flag=True, help="Print all metrics instead of the eight main ones.")
@click.option("--output", metavar="DIR", help="Folder for the predictions.  [default: RUN/evaluation]")
@json_option
@engine_options
@results_option
def evaluate(
    run_name: str,
    data: tuple[str, ...],
    others: tuple[str, ...],
    snapshot: str | None,
    limit: int | None,
    beam_width: int | None,
    overrides: tuple[str, ...],
    references: tuple[str, ...],
    baseline: str | None,
    sent2vec: str | None,
    every: bool,
    output: str | None,
    json_file: str | None,
    engine: EngineOptions,
    results: str,
) -> None:
    """Evaluate RUN on a test corpus.

    Prints the exact loss, perplexity and word accuracy, scores of the replies with 95 % intervals, and, with --all,
    further ones. The replies are searched for with the decoding settings of the run unless others are given, and are
    written to a file, from which an interrupted evaluation continues.

    For a language model, prints the exact loss on the whole text in nats and bits, perplexity and accuracy.
    """
    from seq2seq_chat.runs.find import find_run, find_snapshot
    from seq2seq_chat.runs.model_card import record_scores

    run = find_run(run_name, results)
    ensure_can_create("--json", json_file)
    corpora: tuple[str | None, ...] = tuple(dict.fromkeys(data)) or (None,)
    ensure_readable(*corpora, *references)
    if references and len(corpora) > 1:
        raise UserError("--reference belongs to one corpus; name a single one with --data")
    if run.config.task == "language_model":
        ensure_unused(
            run.name, "limit", "beam_width", "overrides", "references", "baseline", "sent2vec", "output", "others"
        )
        from seq2seq_chat.report.evaluate import evaluate_language_model, format_language_model_metrics

        sets = [evaluate_language_model(run, corpus, snapshot, engine) for corpus in corpora]
        _print(sets, format_language_model_metrics(sets), json_file)
        record_scores(run, sets)
        return
    if output is not None and Path(output).is_file():
        raise UserError(f"--output {output} is a file; name a folder")
    if beam_width is not None:
        ensure_beam_search(overrides)
        overrides = (*overrides, "decoding.method=beam", f"decoding.beam_width={beam_width}")
    other = find_snapshot(baseline, results) if baseline is not None else None
    members = [find_snapshot(name, results) for name in others]
    with explain_missing_packages("evaluate"):
        from seq2seq_chat.report import evaluate as evaluation
        from seq2seq_chat.report.scoring import format_metrics, format_test_sets

    with explain_interrupt(lambda: CONTINUE):
        sets = [
            evaluation.evaluate(
                run,
                corpus,
                snapshot,
                limit,
                overrides=overrides,
                sent2vec=sent2vec,
                folder=output,
                references=references,
                baseline=other,
                members=members,
                engine=engine,
            )
            for corpus in corpora
        ]
    _print(sets, format_metrics(sets[0], every) if len(sets) == 1 else format_test_sets(sets, every), json_file)
    if not members:
        record_scores(run, sets)


def _print(sets: list[dict[str, Any]], table: str, json_file: str | None) -> None:
    """Print the metrics of test sets, and write them to the --json file: an object, or a list of several."""
    from seq2seq_chat.runs.json_lines import finite_or_null
    from seq2seq_chat.system.files import write_atomically

    metrics = sets[0]
    run = ", with ".join([metrics["run"], *metrics.get("with", [])])
    click.echo(
        f"{run}, {metrics['snapshot']} (step {metrics['step']:,}), on {', '.join(each['data'] for each in sets)}"
    )
    click.echo(table)
    if json_file:
        finite = [finite_or_null(each) for each in sets]
        content = finite if len(sets) > 1 else finite[0]
        write_atomically(json_file, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


@click.command()
@click.argument("run_names", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--data",
    metavar="FILE",
    help="Corpus file, or a .tsv of pairs.  [default: the run's data.test, or else its data.validation]",
)
@limit_option
@decoding_option
@sent2vec_option
@click.option("--questions", metavar="FILE", help="Texts to reply to, or to continue, at every snapshot; one per line.")
@click.option(
    "--transcript",
    "transcripts",
    multiple=True,
    metavar="FILE",
    help="Replies of another system: lines of question<TAB>reply, or one reply per line. Without --questions, its "
    "questions are asked, too. Can be repeated.",
)
@click.option(
    "--liked", metavar="FILE", help="Transcript of the replies you like best, to show their ranks in the widest beam."
)
@click.option("--output", metavar="FILE", help="HTML file to write.  [default: report.html in the first run's folder]")
@results_option
def report(
    run_names: tuple[str, ...],
    data: str | None,
    limit: int | None,
    overrides: tuple[str, ...],
    sent2vec: str | None,
    questions: str | None,
    transcripts: tuple[str, ...],
    liked: str | None,
    output: str | None,
    results: str,
) -> None:
    """Write a report on RUNs as one HTML page.

    The last line printed is its path. The page shows metrics on the test corpus, language and replies at every
    snapshot, learning curves, attention, beams, thought vectors, word embeddings, gates and gradients. If something is
    missing, it says why. Replies are searched for with the decoding settings of each run unless --set changes them; the
    captions say which. The figures are also written as files next to the page. The report on language models shows
    their loss and what they write at every snapshot.
    """
    from seq2seq_chat.runs.find import find_run
    from seq2seq_chat.system.versions import load_tensorflow

    runs = [find_run(name, results) for name in dict.fromkeys(run_names)]
    for run in runs:
        ensure_trained(run, "report")
    ensure_readable(data)
    load_tensorflow()
    is_text = runs[0].config.task == "language_model"
    if is_text:
        ensure_unused(runs[0].name, "limit", "sent2vec", "transcripts", "liked")
    from seq2seq_chat.report.build import write_report
    from seq2seq_chat.report.measure import ReportOptions
    from seq2seq_chat.report.predictions import default_questions, further_questions, read_questions, read_transcript

    utterances = read_questions(questions) if questions is not None else default_questions(runs[0], data)
    others = [read_transcript(file, utterances) for file in transcripts]
    further = further_questions(others, utterances) if questions is None else []
    options = ReportOptions(
        data=data,
        limit=limit,
        overrides=overrides,
        sent2vec=sent2vec,
        questions=utterances,
        further_questions=further,
        transcripts=[transcript.column([*utterances, *further]) for transcript in others],
        favorites=read_transcript(liked, utterances).column(utterances) if liked else None,
    )
    with nullcontext() if is_text else explain_interrupt(lambda: CONTINUE):
        page = write_report(runs, options, Path(output) if output else None, click.echo)
    click.echo(page)
