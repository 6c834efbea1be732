"""Scores of predictions against references, their comparison with the scores of another run, and tables of metrics."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from seq2seq_chat.config import LABELS, Data
from seq2seq_chat.data.batches import evenly_spaced
from seq2seq_chat.data.corpus_file import Corpus
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.metrics.ngrams import TOP_REPLIES
from seq2seq_chat.metrics.scores import RESAMPLES, SCORE_KEYS, SCORES, CorpusScores, Score, sample_statistics
from seq2seq_chat.report.loaded_run import LoadedRun
from seq2seq_chat.report.predictions import BLOCK, Predictions
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.lines import numbered_lines
from seq2seq_chat.system.tables import NO_VALUE, format_table, one_line, pluralize
from seq2seq_chat.text.codec import Codecs, are_equal
from seq2seq_chat.text.tokenizers import Tokenizer


class References(NamedTuple):
    """The lines of a file of references that belong to the predicted samples, in their order."""

    texts: list[str]
    tokens: list[str]  # separated by spaces


def read_references(
    paths: Sequence[str | Path], data: Corpus, codecs: Codecs, settings: Data, limit: int | None
) -> list[References]:
    """Read files that have a line for each sample of a corpus, plain or compressed.

    Args:
        limit: number of samples that are predicted, evenly spaced; None for all.

    Raises:
        UserError: A file cannot be read, or has another number of lines than the corpus has samples.
    """
    if not paths:
        return []
    total = len(Dataset.open(data, codecs, settings))
    samples, references = evenly_spaced(total, limit), []
    for path in paths:
        lines = [line for _, line in numbered_lines(path, UserError)]
        if len(lines) != total:
            raise UserError(
                f"{path} has {pluralize(len(lines), 'line')}, but {data} has {pluralize(total, 'sample')}; write one "
                "reference per line, in the order of the samples"
            )
        texts = [lines[number] for number in samples]
        references.append(References(texts, codecs.target.tokenizer.encode_lines(texts)))
    return references


def score_predictions(predictions: Predictions, task: str, references: Sequence[References] = ()) -> CorpusScores:
    """The scores of a task, of all predictions.

    Args:
        references: further ones, besides the targets of the corpus.
    """
    kinds = SCORES[task]
    metrics = [kind.metric() for kind in kinds]
    statistics: list[list[npt.NDArray[np.int32]]] = [[] for _ in kinds]
    lengths: list[int] = []
    for number, block in enumerate(predictions.in_blocks()):
        lengths += [p.source_words for p in block]
        lines = slice(number * BLOCK, number * BLOCK + len(block))
        for kind, metric, blocks in zip(kinds, metrics, statistics, strict=True):
            hypotheses = [p.reply_tokens if kind.of_tokens else one_line(p.reply) for p in block]
            targets = [p.expected_tokens if kind.of_tokens else p.expected for p in block]
            others = [(each.tokens if kind.of_tokens else each.texts)[lines] for each in references]
            blocks.append(sample_statistics(metric, hypotheses, [targets, *others]))
    scores = map(Score, kinds, metrics, map(np.concatenate, statistics))
    return CorpusScores(list(scores), np.array(lengths, np.int32))


def writes_lower_case(tokenizer: Tokenizer) -> bool:
    """Whether a tokenizer converts text to lower case, so that replies have no capital letters."""
    return tokenizer.decode(tokenizer.encode("A")) == "a"


_BLOCK = 1 << 20  # training samples compared at once


class Leakage(NamedTuple):
    """Which samples of a corpus, and which of their targets alone, occur in the training corpus."""

    samples: npt.NDArray[np.bool_]  # [samples]
    targets: npt.NDArray[np.bool_]  # [samples]


def find_leakage(corpus: Dataset, indices: npt.NDArray[Any], training: Dataset) -> Leakage:
    """Look for samples of a corpus in a training corpus by the hashes of their tokens.

    A source of several turns is its last utterance. Memory grows with the samples that are looked for, not with the
    training corpus.

    Args:
        indices: The samples that are looked for.
        training: The training corpus, encoded with the same tokenizers.
    """
    wanted = sample_hashes(corpus, indices)
    found = Leakage(np.zeros(len(indices), bool), np.zeros(len(indices), bool))
    for start in range(0, len(training), _BLOCK):
        known = sample_hashes(training, slice(start, start + _BLOCK))
        for column, hashes, others in zip(found, wanted, known, strict=True):
            column[np.isin(hashes, others)] = True
    return found


def sample_hashes(corpus: Dataset, indices: npt.NDArray[Any] | slice) -> tuple[npt.NDArray[np.uint64], ...]:
    """Hashes of some samples and of their targets alone, [n] each."""
    sources, targets = corpus.hashes(indices)
    return sources * np.uint64(0x9E3779B97F4A7C15) + targets, targets  # an odd factor, so that the order matters


_ROWS = (
    ("loss, nats per target token", "loss", ".4f"),
    ("loss, bits per target token", "loss_bits", ".4f"),
    ("perplexity", "perplexity", ".2f"),
    ("2^loss, as the thesis's code prints it", "two_to_the_loss", ".2f"),
    ("word accuracy", "word_accuracy", ".2%"),
    ("exact match (whole lines)", "exact_match", ".2%"),
    *((key, key, ".2f") for key in SCORE_KEYS),  # with their labels
    ("Sent2Vec distance", "sent2vec_distance", ".4f"),
    ("Sent2Vec cosine", "sent2vec_cosine", ".4f"),
    (f"distance without the {TOP_REPLIES} most frequent", "sent2vec_distance_varied", ".4f"),
    ("cosine without them", "sent2vec_cosine_varied", ".4f"),
    ("samples without them", "varied_samples", ","),
    ("distinct-1", "distinct_1", ".4f"),
    ("distinct-2", "distinct_2", ".4f"),
    (f"share of the {TOP_REPLIES} most frequent", "most_frequent_share", ".1%"),
    ("mean length of a {output}, tokens", "mean_length", ".2f"),
    ("samples", "samples", ","),
    ("tokens", "tokens", ","),
)
HALF_INTERVAL = f"half the width of the 95 % interval, from {RESAMPLES:,} bootstrap resamples"
_BRIEF = {
    "conversation": "loss perplexity exact_match bleu sent2vec_cosine distinct_2 most_frequent_share samples",
    "translation": "loss perplexity word_accuracy exact_match bleu bleu_lowercase chrf samples",
}
"""The keys of the rows that are shown unless all are wanted."""


def format_metrics(metrics: dict[str, Any], every: bool = True) -> str:
    """The metrics for a terminal, or the main ones, with columns for the samples that are not leaked if some are."""
    columns = {"all samples": metrics}
    if metrics["leaked_samples"]:
        columns["new samples"] = metrics["without_leaked"]
    if metrics["leaked_targets"]:
        columns["new targets"] = metrics["without_leaked_targets"]

    labels, shown = LABELS[metrics["task"]]._asdict(), _shown(metrics["task"], every)
    scores = [key for key in SCORE_KEYS if key in shown and metrics[f"{key}_label"]]
    notes = {
        **{metrics[f"{key}_label"]: metrics[f"{key}_signature"] for key in scores},
        "±": HALF_INTERVAL,
        "decoding": metrics["decoding"],
        "references": ", ".join(["targets of the corpus", *metrics["references"]]),
        "vectors": metrics["sent2vec"],
        "leakage": describe_leakage(metrics),
        **({"copies": describe_copies(metrics, metrics["task"])} if metrics["copies"] else {}),
        "predictions": metrics["predictions"],
    }
    if metrics["lowercase"] and metrics["bleu_lowercase"] is not None:
        notes["case"] = "this run writes lower case only, so capital letters in the references count as mistakes"
    if metrics["baseline"]:
        notes["baseline"] = metrics["baseline"]["decoding"]
    score = metrics["bleu_by_source_length_label"]
    tables = [_rows(columns, metrics, shown), format_lengths(metrics["bleu_by_source_length"], labels["source"], score)]
    if metrics["baseline"]:
        tables.append(_baseline_rows(metrics))
    return "\n\n".join([*(format_table(table, "lr") for table in tables), format_table(list(notes.items()))])


def format_test_sets(sets: Sequence[dict[str, Any]], every: bool = True) -> str:
    """The metrics of a run on several test sets for a terminal, or the main ones, with a column for each set."""
    names = [Path(each["data"]).name for each in sets]
    names = names if len(set(names)) == len(names) else [each["data"] for each in sets]
    return format_table(_rows(dict(zip(names, sets, strict=True)), sets[0], _shown(sets[0]["task"], every)), "lr")


def _shown(task: str, every: bool) -> list[str]:
    return [key for _, key, _ in _ROWS] if every else _BRIEF[task].split()


def _rows(columns: dict[str, dict[str, Any]], metrics: dict[str, Any], shown: Sequence[str]) -> list[list[str]]:
    """The rows of a table of metrics; ``metrics`` says which scores there are."""
    labels, rows = LABELS[metrics["task"]]._asdict(), [["", *columns]]
    for name, key, form in _ROWS:
        label = metrics[f"{key}_label"] if key in SCORE_KEYS else name.format(**labels)
        if key in shown and label:
            rows.append([label, *(format_value(column, key, form) for column in columns.values())])
    return rows


def format_value(column: dict[str, Any] | None, key: str, form: str = ".2f") -> str:
    """A metric and half of its interval, if it has one: 26.81 ± 0.89."""
    if column is None or column.get(key) is None:
        return NO_VALUE
    value, (low, high) = format(column[key], form), column.get(f"{key}_interval", (0, 0))
    return f"{value} ± {(high - low) / 2:{form}}" if high > low else value


def format_interval(interval: Sequence[float] | None) -> str:
    """25.92–27.70, or a dash."""
    return NO_VALUE if interval is None else f"{interval[0]:.2f}–{interval[1]:.2f}"


def format_lengths(by_length: Sequence[dict[str, Any]], source: str, score: str) -> list[list[str]]:
    """The rows of :func:`bleu_by_source_length` for a table."""
    return [
        [f"tokens of the {source}", "samples", score, "95 % interval"],
        *(
            [
                row["words"],
                f"{row['samples']:,}",
                format(row["bleu"], ".2f") if row["bleu"] is not None else NO_VALUE,
                format_interval(row["bleu_interval"]),
            ]
            for row in by_length
        ),
    ]


def _baseline_rows(metrics: dict[str, Any]) -> list[list[str]]:
    baseline = metrics["baseline"]
    rows = [[f"compared with {baseline['run']}", "baseline", "difference", "95 % interval", "p"]]
    for key, test in baseline["scores"].items():
        low, high = test["interval"]
        rows.append(
            [
                metrics[f"{key}_label"],
                f"{test['baseline']:.2f}",
                f"{test['difference']:+.2f}",
                f"{low:+.2f} to {high:+.2f}",
                f"{test['p_value']:.3f}",
            ]
        )
    return rows


def describe_leakage(metrics: dict[str, Any]) -> str:
    """A phrase about the leakage in the results of :func:`compute_all_metrics`."""
    if metrics["leakage_error"] is not None:
        return f"unknown: {metrics['leakage_error'].rstrip('.')}"
    samples, leaked, targets = (metrics[key] for key in ("samples", "leaked_samples", "leaked_targets"))
    return (
        f"{leaked:,} of {samples:,} samples ({leaked / samples:.2%}) and {targets:,} of the targets alone "
        f"({targets / samples:.2%}) occur in the training corpus; the others are new"
    )


def describe_copies(metrics: dict[str, Any], task: str) -> str:
    """A phrase about the replies that are copies of training targets."""
    samples, copied, private = metrics["samples"], metrics["copies"]["replies"], metrics["copies"]["private"]
    examples = ", ".join(f"“{one_line(text)}”" for text in metrics["copies"]["examples"])
    return (
        f"{copied:,} of {samples:,} {LABELS[task].outputs} ({copied / samples:.2%}) are word for word in "
        f"the training corpus, {private:,} of them with a name, a number or an address"
        f"{f': {examples}' if examples else ''}"
    )


def ensure_comparable(run: Run, data: Corpus, baseline: Run, baseline_data: Corpus, limit: int | None) -> None:
    """Check that the scores of two runs are computed from the same samples, and any of them in the same way.

    Args:
        limit: Number of samples that are compared, evenly spaced; None for all.

    Raises:
        UserError: The test corpora or their samples differ, or the runs have no score in common.
    """
    if not _common_scores(run, baseline):
        raise UserError(
            f"{run.name} and {baseline.name} have different tokenizers, so their tokenized scores cannot be "
            "compared; compare runs with the same tokenizer"
        )
    one, other = (
        Dataset.open(files, each.codecs, each.config.data) for each, files in ((run, data), (baseline, baseline_data))
    )
    indices = evenly_spaced(len(one), limit)
    if len(one) == len(other) and all(one.text(index) == other.text(index) for index in indices):
        return
    if data == baseline_data:
        raise UserError(
            f"{run.name} and {baseline.name} read different samples from {data}, because their tokenizers, pairing or "
            "direction differ; compare runs that read the same samples"
        )
    raise UserError(
        f"the test corpora of {run.name} ({data}) and {baseline.name} ({baseline_data}) have different samples; "
        "specify one corpus for both with --data FILE"
    )


def _common_scores(run: Run, baseline: Run) -> list[str]:
    """The keys of the scores that mean the same for both runs: tokens are comparable if the tokenizers are equal."""
    same_tokens = are_equal(run.codecs.target.tokenizer, baseline.codecs.target.tokenizer)
    return [kind.key for kind in SCORES[run.config.task] if same_tokens or not kind.of_tokens]


def compare_with_baseline(
    run: Run, scores: CorpusScores, baseline: LoadedRun, baseline_scores: CorpusScores, predictions: Predictions
) -> dict[str, Any]:
    """Test the differences between the scores of two runs on the same samples by paired bootstrap.

    Args:
        predictions: Of the baseline.

    Returns:
        The ``run``, ``snapshot`` and ``step`` of the baseline, the file of its ``predictions``, and its ``scores``:
        the result of :meth:`Score.compare` for each key that both runs have in common.
    """
    common = _common_scores(run, baseline.run)
    return {
        "run": baseline.run.name,
        "snapshot": baseline.snapshot,
        "step": baseline.step,
        "predictions": str(predictions.path),
        "scores": {
            score.kind.key: score.compare(other)
            for score, other in zip(scores.scores, baseline_scores.scores, strict=True)
            if score.kind.key in common
        },
    }
