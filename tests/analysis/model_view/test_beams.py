"""Beam studies and ranks of favorite replies."""

from __future__ import annotations

from seq2seq_chat.report.figures.beams import BeamStudy, BestReply, Rank, draw_beams, rank_favorites, study_beams
from seq2seq_chat.report.loaded_run import LoadedRun
from seq2seq_chat.text.tokenizers.english import EnglishTokenizer

QUESTION = "you see the tree1 ?"


def test_replies_by_beam_width(loaded: LoadedRun) -> None:
    greedy, _ = loaded.chatbot.replies([QUESTION, "we know it"])
    with_words, without_words = study_beams(loaded, [QUESTION, "***"], [1, 3, 5])
    assert [best.width for best in with_words.best] == [1, 3, 5]
    assert with_words.best[0].text == greedy.text
    assert with_words.best[-1].text == with_words.widest[0][0]
    assert len(with_words.widest) == 5
    assert without_words.best == without_words.widest == []
    assert len(draw_beams([with_words, without_words], []).axes) == 2


def test_ranks_by_hand() -> None:
    tokenizer = EnglishTokenizer()
    study = BeamStudy("q", [BestReply(3, "x", -1.0, 1)], [("x", -1.0), ("yes, y!", -2.0), ("z", -3.0)])
    for favorite in ("yes, y!", "yes , y !", "Yes,y!"):
        assert rank_favorites([study], [favorite], tokenizer, None) == [Rank("q", favorite, "yes, y!", 2, 3)]
    assert rank_favorites([study, study], ["not in the beam", ""], tokenizer, None) == []
