"""Inspect a model: parameters by part, weight and gradient norms, gradients by time step, gates word by word.

python scripts/inspect_model.py latest "where are you from?" --output internals/
"""

from __future__ import annotations

import click
from picture_script import Pictures, picture_options, results_option, snapshot_option

from seq2seq_chat.architecture.variables import parameter_counts
from seq2seq_chat.cli.running import run_command
from seq2seq_chat.runs.find import find_run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.tables import format_table
from seq2seq_chat.system.versions import load_tensorflow


@click.command(help=__doc__)
@click.argument("run")
@click.argument("utterance", default="what did you do yesterday?")
@click.option("--data", metavar="FILE", help="Corpus for the gradients.  [default: the test corpus]")
@snapshot_option
@results_option
@picture_options
def main(run: str, utterance: str, data: str | None, snapshot: str | None, results: str, pictures: Pictures) -> None:
    """Print and draw the weights and gradients of RUN, and its gates while it reads UTTERANCE and replies."""
    trained_run = find_run(run, results)
    load_tensorflow()
    from seq2seq_chat.analysis.evaluate import evaluation_corpus
    from seq2seq_chat.analysis.figures.model_internals import draw_gates, draw_gradients_by_step, draw_variables
    from seq2seq_chat.analysis.loaded_run import LoadedRun
    from seq2seq_chat.analysis.model_view.model_internals import gate_activations, gradient_norms

    loaded = LoadedRun(trained_run, snapshot)
    counts = parameter_counts(loaded.config, *loaded.codecs.vocabulary_sizes)
    parameters = [(part, f"{number:,} parameters") for part, number in counts.items()]
    click.echo(format_table(parameters, "lr"))
    for part, gates in gate_activations(loaded, utterance).items():
        pictures.write(draw_gates(gates, part), f"gates_{part}", main=part == "encoder")
    try:
        gradients = gradient_norms(loaded, evaluation_corpus(trained_run, data))
    except UserError as error:
        click.echo(f"no gradients: {error}", err=True)
        return
    norms = [(v.name, f"{v.norm:.3f}", f"{v.rms:.4f}", f"{v.gradient_norm:.3g}") for v in gradients.variables]
    click.echo(format_table([("variable", "norm", "rms", "gradient norm"), *norms], "lr"))
    pictures.write(draw_variables(gradients.variables), "weights")
    pictures.write(draw_gradients_by_step({loaded.label: gradients.by_step}), "gradients_by_step")


if __name__ == "__main__":
    run_command(main)
