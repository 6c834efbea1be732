"""Draw the attention of replies: as a heat map, and as shading of the words of the utterance.

python scripts/plot_attention.py latest "where are you from?" --output attention/
python scripts/plot_attention.py latest "where are you from?" --beam-width 10 --n-best 3 --output attention.svg
"""

from __future__ import annotations

from typing import Any

import click
from picture_script import Pictures, picture_options, results_option, snapshot_option

from seq2seq_chat.cli.running import run_command
from seq2seq_chat.config import override_decoding
from seq2seq_chat.runs.find import find_run
from seq2seq_chat.system.versions import load_tensorflow


@click.command(help=__doc__)
@click.argument("run")
@click.argument("utterance", default="what did you do yesterday?")
@click.option("--beam-width", type=click.IntRange(1, 1000), metavar="N", help="Beam search.  [default: greedy]")
@click.option("--n-best", type=click.IntRange(1, 20), default=1, show_default=True, help="Replies to draw.")
@snapshot_option
@results_option
@picture_options
def main(
    run: str,
    utterance: str,
    beam_width: int | None,
    n_best: int,
    snapshot: str | None,
    results: str,
    pictures: Pictures,
) -> None:
    """Let RUN reply to UTTERANCE and draw the attention of its replies."""
    trained_run = find_run(run, results)
    width = beam_width or (n_best if n_best > 1 else None)
    method = "greedy" if width is None else "beam"
    changes: dict[str, Any] = {"method": method, "n_best": n_best} | ({"beam_width": width} if width else {})
    decoding = override_decoding(trained_run.config.decoding, **changes)
    load_tensorflow()
    from seq2seq_chat.analysis.figures.attention import draw_heat_maps, draw_overlay, ensure_attention
    from seq2seq_chat.chat.chatbot import Chatbot

    reply = Chatbot.load(trained_run, snapshot).reply(utterance, decoding)
    ensure_attention(reply)
    for hypothesis in reply.hypotheses:
        click.echo(f"{hypothesis.score:.2f}  {hypothesis.text}")
    pictures.write(draw_heat_maps(reply.source_words, reply.hypotheses), "attention", main=True)
    pictures.write(draw_overlay(reply.source_words, reply.hypotheses[0]), "attention_overlay")


if __name__ == "__main__":
    run_command(main)
