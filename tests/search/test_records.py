"""What became of each word of a beam search that is watched, by hand and against the search that is not."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from seq2seq_chat.config import Decoding
from seq2seq_chat.search.batches import ReplySearch
from seq2seq_chat.search.logit_rules import forbidding_setting, logit_rules
from seq2seq_chat.search.records import SearchStep
from seq2seq_chat.text.vocabulary import EOS, GO
from tests.search.table_model import LastWordModel, TableModel, sequences
from tests.search.table_model import settings as decoding

GARDEN = {GO: [0, 0, 0, 0, 0.6, 0.4], 4: [0, 0, 0.4, 0.3, 0.3, 0], 5: [0, 0, 0.9, 0.1, 0, 0]}
"""Word 4 has 0.6 and word 5 has 0.4, but after 4 the end has 0.4, and after 5 it has 0.9."""


def watch(
    next_words: dict[int, Sequence[float]], steps: int, settings: Decoding, prefix: Sequence[int] = ()
) -> list[SearchStep]:
    """next_words: the probabilities of all words after each word; others are followed by the end."""
    size = len(next(iter(next_words.values())))
    table = np.eye(size)[np.full(size, EOS)]
    for word, probabilities in next_words.items():
        table[word] = probabilities
    model = LastWordModel(np.log(np.maximum(table, 1e-30))[np.newaxis])
    search = ReplySearch(model, settings, steps, source_steps=0)
    return list(search.watch(np.zeros([1, 1], np.int32), np.ones(1, np.int32), prefix))


def fates(step: SearchStep) -> list[list[tuple[int, str]]]:
    """The words of each expansion, best first, and what became of them."""
    return [[(one.word, one.fate) for one in expansion.candidates] for expansion in step.expansions]


@pytest.mark.parametrize(
    "options",
    [
        {"beam_width": 1},
        {"beam_width": 4, "n_best": 1, "length_penalty": 1.0},
        {"beam_width": 9, "length_penalty": 3.0, "min_length": 2},
        {"beam_width": 5, "repetition_penalty": 1.7, "no_repeat_ngram_size": 2},
        {"beam_width": 6, "beam_groups": 3, "diversity_penalty": 2.0},
        {"beam_width": 4, "beam_groups": 4, "diversity_penalty": 0.3, "length_penalty": 0.7},
    ],
    ids=str,
)
@pytest.mark.parametrize("seed", range(3))
def test_the_last_beam_is_the_result(options: dict[str, Any], seed: int) -> None:
    model, settings = TableModel(7, 4, [seed]), decoding(**options)
    expected = model.search(settings)
    steps = model.watch(settings)
    found = steps[-1].beam[: settings.n_best]
    assert [node.words for node in found] == sequences(expected, 0)
    np.testing.assert_allclose([node.rank for node in found], expected.ranks[0, : len(found)], atol=1e-4)
    for node in found:
        histories = [1]  # that the model saw: its attention names them
        for word in node.words[:-1]:
            histories.append(histories[-1] * model.words + word)
        assert [int(row[0]) for row in node.attention] == histories
    numbers = [one.node.number for step in steps for e in step.expansions for one in e.candidates if one.node]
    assert sorted(numbers) == list(range(1, len(numbers) + 1))


def test_what_became_of_each_word() -> None:
    """By hand: 4 EOS has 0.24, 5 EOS 0.36, 4 3 and 4 4 have 0.18, 5 3 has 0.04; the beam keeps two."""
    first, second = watch(GARDEN, 2, decoding(beam_width=2))
    assert fates(first)[0][:2] == [(4, "kept"), (5, "kept")]
    assert fates(second)[0][:3] == [(EOS, "kept"), (3, "outranked"), (4, "outranked")]
    assert fates(second)[1][:2] == [(EOS, "kept"), (3, "outranked")]
    assert [node.words for node in second.beam] == [(5, EOS), (4, EOS)]
    candidate = second.expansions[1].candidates[1]
    assert candidate.log_probability == pytest.approx(math.log(0.1), rel=1e-5)
    assert candidate.score == candidate.rank == pytest.approx(math.log(0.4 * 0.1), rel=1e-5)


def test_words_that_a_rule_forbids_are_reported_with_the_probability_of_the_model() -> None:
    settings = decoding(beam_width=3, no_repeat_ngram_size=1)
    _, second, *_ = watch(GARDEN, 3, settings)
    words = {one.word: one for one in second.expansions[0].candidates}
    assert (words[4].fate, words[3].fate) == ("forbidden", "kept")
    assert words[4].log_probability == pytest.approx(math.log(0.3), rel=1e-5)
    assert forbidding_setting(logit_rules(settings), [4], 4) == "no_repeat_ngram_size"
    assert forbidding_setting(logit_rules(settings), [4], 3) is None


def test_other_words_than_a_forced_one_are_not_kept() -> None:
    """Word 3 is forced first, which has hardly any probability."""
    first, second = watch(GARDEN, 3, decoding(beam_width=2, n_best=1, no_repeat_ngram_size=1), prefix=[3])
    (words,) = fates(first)
    assert (3, "kept") in words
    assert {fate for word, fate in words if word != 3} == {"not_forced"}
    assert second.beam[0].words == (3, EOS)
    assert second.beam[0].score == pytest.approx(math.log(1e-30), rel=1e-3)


def test_a_forbidden_word_may_be_forced() -> None:
    *_, last = watch(GARDEN, 3, decoding(beam_width=2, no_repeat_ngram_size=1), prefix=[4, 4])
    assert [node.words[:2] for node in last.beam] == [(4, 4)] * len(last.beam)
    assert last.beam[0].score == pytest.approx(math.log(0.6 * 0.3 * 0.4), rel=1e-3)


def test_a_length_penalty_ranks_by_the_score_divided_by_the_divisor() -> None:
    """By hand: the end has 0.5 and divisor 5 / 6, word 3 has 0.48 and divisor 1: -0.83 and -0.73."""
    (step,) = watch({GO: [0, 0, 0.5, 0.48, 0.02]}, 1, decoding(beam_width=1, length_penalty=1.0))
    end, word = step.expansions[0].candidates[:2]
    assert (end.word, end.fate, word.word, word.fate) == (EOS, "outranked", 3, "kept")
    assert end.rank == pytest.approx(math.log(0.5) * 6 / 5, rel=1e-5)
    assert word.node is not None
    assert word.node.rank == pytest.approx(math.log(0.48), rel=1e-5)


def test_a_forced_end_finishes_the_search() -> None:
    (step,) = watch(GARDEN, 3, decoding(beam_width=2), prefix=[EOS])
    assert [node.words for node in step.beam] == [(EOS,)]
