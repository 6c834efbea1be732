"""Train RNNenc and RNNsearch on sentences of up to 30 and up to 50 words, and draw their BLEU by sentence length.

python scripts/study_sentence_length.py fra-eng/fra.txt --output bleu_by_length.png

The sentence pairs are divided into train, validation and test and joined into longer ones. Each of the four models
takes at most 20 minutes on two cores. If the script is stopped, the same command continues. The experiment is that of
Bahdanau et al. 2014 (figure 2) at a smaller scale.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click

from seq2seq_chat.cli.options import results_option, run_command
from seq2seq_chat.config import Config, load_config
from seq2seq_chat.metrics.scores import bleu_by_source_length, length_bins
from seq2seq_chat.report.evaluate import FOLDER, evaluation_corpus
from seq2seq_chat.report.figures.curves import draw_bleu_by_length
from seq2seq_chat.report.figures.style import save
from seq2seq_chat.report.loaded_run import LoadedRun
from seq2seq_chat.report.predictions import evaluation_decoding, predict
from seq2seq_chat.report.scoring import format_lengths, score_predictions
from seq2seq_chat.runs.grid import Experiment, find_started, train_all
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import write_atomically, write_json
from seq2seq_chat.system.tables import format_table
from seq2seq_chat.system.versions import load_tensorflow
from seq2seq_chat.training.optimizers import why_unavailable

SCRIPTS = Path(__file__).resolve().parent
CONFIGS = SCRIPTS.parent / "configs"
LONGEST = 60  # words of a joined sentence; the models are trained on up to LENGTHS of them
LENGTHS = (30, 50)
MIN_PAIRS = 20  # that longer ones are joined from, of each split; fewer would be the same sentences again and again
PAIRS = {"train": 60_000, "validation": 500, "test": 1_500}


@click.command(help=__doc__)
@click.argument("pairs", metavar="INPUT...", nargs=-1, required=True)
@click.option(
    "--folder", default="data/sentences", show_default=True, metavar="DIR", help="Folder for the corpora it writes."
)
@click.option("--steps", type=click.IntRange(1), help="Training steps.  [default: those of configs/*_small.json]")
@click.option("--precision", type=click.Choice(["float32", "bfloat16"]), help="[default: the fastest available]")
@click.option("--beam-width", default=5, show_default=True, type=click.IntRange(1, 1000), help="For the figure.")
@click.option("--output", default="bleu_by_length.png", show_default=True, metavar="FILE", help="Picture to write.")
@results_option
def main(
    pairs: tuple[str, ...],
    folder: str,
    steps: int | None,
    precision: str | None,
    beam_width: int,
    output: str,
    results: str,
) -> None:
    """Prepare the corpora, train the four models, and draw the figure."""
    corpora = prepare_corpora(pairs, Path(folder))
    precision = precision or ("float32" if why_unavailable("bfloat16") else "bfloat16")
    overrides = [f"training.precision={precision}", *([f"training.steps={steps}"] if steps else [])]
    overrides += [f"data.{split}={path}" for split, path in corpora.items()]
    experiments = [
        write_experiment(kind, k, overrides, Path(folder)) for kind in ("rnnenc", "rnnsearch") for k in LENGTHS
    ]
    status = train_all(experiments, results)
    if status:
        sys.exit(status)
    runs = [run for _, config in experiments if (run := find_started(config, results))]
    draw_bleu(runs, beam_width, output)


def draw_bleu(runs: list[Run], beam_width: int, output: str) -> None:
    """Translate the test corpora with the best weights of each run; print and draw BLEU by the length of the source."""
    load_tensorflow()
    scores = {}
    for run in runs:
        overrides = ["decoding.method=beam", f"decoding.beam_width={beam_width}"]
        decoding = evaluation_decoding(run.config, overrides)
        predictions = predict(LoadedRun(run, "best"), evaluation_corpus(run), run.path / FOLDER, decoding=decoding)
        scores[run.config.name] = score_predictions(predictions, run.config.task)
    bins = length_bins(*(each.source_lengths for each in scores.values()))
    curves = {name: bleu_by_source_length(each, bins, lowercase=True) for name, each in scores.items()}
    for name, each in scores.items():
        bleu = each.bleu(lowercase=True)
        click.echo(f"{name}: {bleu.kind.label}, {bleu.signature}")
        click.echo(format_table(format_lengths(curves[name], "source", bleu.kind.label), "lr"))
    save(draw_bleu_by_length(curves, "source", bleu.kind.label), output)
    click.echo(f"written: {output}")


def prepare_corpora(pairs: tuple[str, ...], folder: Path) -> dict[str, Path]:
    """Split the pairs and join the pairs of each split; corpora that exist already are kept."""
    corpora = {split: folder / f"{split}.tsv" for split in PAIRS}
    short, record = folder / "short", folder / "inputs.json"
    inputs = {name: Path(name).stat().st_size for name in pairs if Path(name).is_file()}
    if record.exists() and json.loads(record.read_text(encoding="utf-8")) != inputs:
        raise UserError(f"{folder} has the study of other inputs, see {record.name}; choose another --folder")
    if not (short / "statistics.json").exists():
        command = ["prepare", "pairs", *pairs, "--tokenizer", "unicode", "--split", "90,5,5", "--output", str(short)]
        options = ["--max-ratio", "2", "--drop-duplicates"]
        if status := subprocess.call([sys.executable, "-m", "seq2seq_chat", *command, *options]):
            sys.exit(status)
    pairs_found = {split: json.loads((short / "statistics.json").read_text())[split]["pairs"] for split in PAIRS}
    if min(pairs_found.values()) < MIN_PAIRS:
        raise UserError(
            f"{short} has {pairs_found['validation']:,} validation and {pairs_found['test']:,} test pairs, but "
            f"at least {MIN_PAIRS} of each are needed. Use a larger corpus, with another --folder."
        )
    write_json(record, inputs)
    for split, path in corpora.items():
        options = ["--pairs", str(PAIRS[split]), "--words", "1", str(LONGEST)]
        command = [sys.executable, str(SCRIPTS / "join_sentences.py"), str(short / path.name), str(path), *options]
        if not path.exists() and subprocess.call(command):
            raise UserError(f"{path} could not be written")
    return corpora


def write_experiment(kind: str, length: int, overrides: list[str], folder: Path) -> Experiment:
    """Write the configuration of a model that is trained on samples of up to ``length`` words."""
    name = f"{kind}_{length}_small"
    settings = [f"name={name}", f"data.max_length={length}", *overrides]
    config: Config = load_config(CONFIGS / f"{kind}_small.json", settings)
    path = folder / f"{name}.json"
    write_atomically(path, config.to_json())
    return Experiment(path, config)


if __name__ == "__main__":
    run_command(main)
