"""Reply with beams of 1, 2, 5, … 200 hypotheses: print the replies, and draw scores, lengths and ranks.

python scripts/plot_beam_study.py latest --questions questions.txt --liked my_favorites.txt --output beams.png

my_favorites.txt contains lines of question<TAB>reply with your favorite replies, whose ranks in the beam are drawn.
"""

from __future__ import annotations

import click
from picture_script import Pictures, picture_options, results_option, snapshot_option

from seq2seq_chat.cli.running import run_command
from seq2seq_chat.runs.find import find_run
from seq2seq_chat.system.tables import format_table
from seq2seq_chat.system.versions import load_tensorflow


@click.command(help=__doc__)
@click.argument("run")
@click.option("--questions", metavar="FILE", help="Utterances to reply to, one per line.")
@click.option("--liked", metavar="FILE", help="Your favorite replies: lines of question<TAB>reply.")
@click.option(
    "--widest", default=200, show_default=True, type=click.IntRange(1, 1000), help="Width of the widest beam."
)
@click.option(
    "--sent2vec",
    metavar="FILE",
    help="Sent2Vec model, to find the reply nearest to a favorite that is not in the beam.",
)
@snapshot_option
@results_option
@picture_options
def main(
    run: str,
    questions: str | None,
    liked: str | None,
    widest: int,
    sent2vec: str | None,
    snapshot: str | None,
    results: str,
    pictures: Pictures,
) -> None:
    """Study how the replies of RUN change with the beam width."""
    trained_run = find_run(run, results)
    load_tensorflow()
    from seq2seq_chat.analysis.figures.beams import draw_beams
    from seq2seq_chat.analysis.loaded_run import LoadedRun
    from seq2seq_chat.analysis.model_view import beams
    from seq2seq_chat.analysis.replies import read_questions, read_transcript
    from seq2seq_chat.metrics.sent2vec import Sent2Vec

    utterances = read_questions(questions)
    favorites = read_transcript(liked, utterances).replies if liked else []
    vectors = Sent2Vec.load(sent2vec) if sent2vec else None
    widths = [width for width in beams.WIDTHS if width < widest] + [widest]
    loaded = LoadedRun(trained_run, snapshot)
    studies = beams.study_beams(loaded, utterances, widths)
    for study in studies:
        click.echo(study.utterance)
        rows = [("", str(best.width), f"{best.score:.2f}", best.text or "(empty)") for best in study.best]
        click.echo(format_table(rows, "lrrl"))
    ranks = beams.rank_favorites(studies, favorites, loaded.codecs.target.tokenizer, vectors) if favorites else []
    for rank in ranks:
        click.echo(f"{rank.utterance} → {rank.nearest}: rank {rank.rank} of {rank.size}")
    pictures.write(draw_beams(studies, ranks), "beam_study", main=True)


if __name__ == "__main__":
    run_command(main)
