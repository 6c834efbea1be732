"""Ask the same with beams of 1, 2, 5, … 200 hypotheses: print the replies, and draw scores, lengths and ranks.

python scripts/plot_beam_study.py latest --questions questions.txt --liked my_favourites.txt --output beams.png

my_favourites.txt has lines of question<TAB>reply: the replies you like best. The picture shows where beams have them.
"""

from __future__ import annotations

from typing import Optional

import click
from picture_script import Pictures, picture_options, results_option, snapshot_option, warn

from seq2seq_chat.environment import load_tensorflow
from seq2seq_chat.runs import find_run


@click.command(help=__doc__)
@click.argument("run")
@click.option("--questions", metavar="FILE", help="Utterances to ask, one a line.")
@click.option("--liked", metavar="FILE", help="The replies you like best: lines of question<TAB>reply.")
@click.option("--widest", default=200, show_default=True, type=click.IntRange(1, 1000), help="Leave out wider beams.")
@click.option("--sent2vec", metavar="FILE", help="Sent2Vec model, for liked replies that no beam has word by word.")
@snapshot_option
@results_option
@picture_options
def main(
    run: str,
    questions: Optional[str],
    liked: Optional[str],
    widest: int,
    sent2vec: Optional[str],
    snapshot: Optional[str],
    results: str,
    pictures: Pictures,
) -> None:
    """Study what a wider beam brings to RUN."""
    found = find_run(run, results)
    load_tensorflow()
    from seq2seq_chat.analysis import beams
    from seq2seq_chat.analysis.replies import read_questions, read_transcript
    from seq2seq_chat.analysis.sent2vec import Sent2Vec
    from seq2seq_chat.analysis.subject import Subject

    asked = read_questions(questions)
    favourites = read_transcript(liked, asked).answers if liked else []
    vectors = Sent2Vec.load(sent2vec) if sent2vec else None
    widths = [width for width in beams.WIDTHS if width < widest] + [widest]
    studies = beams.study_beams(Subject(found, snapshot, warn), asked, widths)
    for study in studies:
        click.echo(study.question)
        for best in study.best:
            click.echo(f"  {best.width:>4}  {best.score:8.2f}  {best.text or '(nothing)'}")
    ranks = beams.rank_liked(studies, favourites, vectors) if favourites else []
    for rank in ranks:
        click.echo(f"{rank.question} → {rank.nearest}: rank {rank.rank} of {rank.of}")
    pictures.write(beams.draw_beams(studies, ranks), "beam_study", main=True)


if __name__ == "__main__":
    main()
