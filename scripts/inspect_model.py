"""Look inside a model: parameters by part, weight and gradient norms, gradients by time step, gates word by word.

python scripts/inspect_model.py latest "where are you from ?" --output inside/
"""

from __future__ import annotations

from typing import Optional

import click
from picture_script import Pictures, picture_options, results_option, snapshot_option, warn

from seq2seq_chat.environment import load_tensorflow
from seq2seq_chat.errors import UserError
from seq2seq_chat.runs import find_run


@click.command(help=__doc__)
@click.argument("run")
@click.argument("utterance", default="what did you do yesterday ?")
@click.option("--data", metavar="FILE", help="Corpus whose loss gives gradients.  [default: the test corpus]")
@snapshot_option
@results_option
@picture_options
def main(
    run: str, utterance: str, data: Optional[str], snapshot: Optional[str], results: str, pictures: Pictures
) -> None:
    """Print and draw what RUN is made of, and what its gates do while it reads UTTERANCE and replies."""
    found = find_run(run, results)
    load_tensorflow()
    from seq2seq_chat.analysis import inside
    from seq2seq_chat.analysis.evaluate import test_corpus
    from seq2seq_chat.analysis.subject import Subject
    from seq2seq_chat.model.seq2seq import parameters_by_part

    subject = Subject(found, snapshot, warn)
    for part, number in parameters_by_part(subject.model).items():
        click.echo(f"{part:<32}{number:>14,} parameters")
    for part, gates in inside.gates(subject, utterance).items():
        pictures.write(inside.draw_gates(gates, part), f"gates_{part}", main=part == "encoder")
    try:
        slopes = inside.gradients(subject, test_corpus(found, data))
    except UserError as fault:
        warn(f"no gradients: {fault}")
        return
    click.echo(f"{'variable':<32}{'norm':>12}{'rms':>12}{'gradient norm':>16}")
    for v in slopes.variables:
        click.echo(f"{v.name:<32}{v.norm:>12.3f}{v.rms:>12.4f}{v.gradient_norm:>16.3g}")
    pictures.write(inside.draw_variables(slopes.variables), "weights")
    pictures.write(inside.draw_gradients_by_step({subject.label: slopes.by_step}), "gradients_by_step")


if __name__ == "__main__":
    main()
