"""Choices of next words against plain sorts: equally probable words, boundaries of a nucleus, forbidden words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.search.engine import ALL_WORDS, NEG_INF, Edits, StepRequest, WordDistribution
from seq2seq_chat.search.logit_rules import (
    BLOCK,
    candidates,
    choose_among,
    choose_words,
    log_normalizer,
    sample_words,
    top_k,
    truncated_softmax,
)


@pytest.mark.parametrize("share", [0.01, 1])
@pytest.mark.parametrize("distinct", [1, 3, 10**6])
@pytest.mark.parametrize("size", [1, 50, 5 * BLOCK, 20 * BLOCK + 7, 40 * BLOCK])
def test_top_k_of_arrays_equals_a_stable_sort(size: int, distinct: int, share: float) -> None:
    """With few distinct values there are many ties, which are sorted by id, within blocks and across them.

    Args:
        share: of the values that are not 0, so that the maxima of blocks differ.
    """
    rng = np.random.default_rng(size)
    values = np.where(rng.random([9, size]) < share, rng.integers(0, distinct, (9, size)) + 1, 0).astype(np.float32)
    order = [sorted(range(size), key=lambda word: (-row[word], word)) for row in values]
    for count in range(1, min(10, size + 1)):
        assert top_k(values, count).tolist() == [row[:count] for row in order]


@pytest.mark.parametrize("words", [1, 2, 4, 8, 64])
def test_a_nucleus_at_its_boundary(words: int) -> None:
    """Of equally probable words, whose shares are exact, the fewest that add up to at least top_p."""
    for kept in range(1, words + 1):
        found = truncated_softmax(np.zeros([2, words], np.float32), WordDistribution(1.0, ALL_WORDS, kept / words))
        np.testing.assert_allclose(found, [[1 / kept] * kept + [0] * (words - kept)] * 2, rtol=1e-6)


def test_a_word_of_probability_zero_is_never_sampled() -> None:
    """Neither by the smallest nor by the largest of the random numbers."""
    probabilities = np.array([[0, 0.5, 0, 0.5, 0]], np.float32)
    numbers = [0.0, np.nextafter(0.5, 0), 0.5, np.nextafter(1, 0)]
    assert [int(sample_words(probabilities, np.array([number]))[0]) for number in numbers] == [1, 1, 3, 3]


@given(
    size=st.integers(4, 30),
    k=st.integers(1, 6),
    banned=st.sets(st.integers(0, 3)),
    forbidden=st.sets(st.tuples(st.integers(0, 2), st.integers(0, 29))),
    reported=st.integers(0, 5),
    seed=st.integers(0, 1000),
)
def test_a_choice_among_the_most_probable_words_is_that_among_all(
    size: int, k: int, banned: set[int], forbidden: set[tuple[int, int]], reported: int, seed: int
) -> None:
    """However many of them are forbidden, in whichever rows, and of however many ties."""
    logits = np.random.default_rng(seed).integers(-3, 3, (3, size)).astype(np.float32)
    entries = np.array(sorted((row, word) for row, word in forbidden if word < size), np.int32).reshape(-1, 2)
    edits = Edits(banned=tuple(sorted(banned)), forbidden=entries)
    request = StepRequest(np.zeros(3, np.int32), np.arange(3, dtype=np.int32), edits, k=k, reported=reported)
    count = candidates(request)
    assert count is not None
    words = top_k(logits, min(count, size))
    normalizer, nothing = log_normalizer(logits), np.zeros([3, 0], np.float32)
    few = choose_among(np.take_along_axis(logits, words, axis=1), words, normalizer, nothing, request)
    every = choose_words(logits.copy(), normalizer, nothing, request)
    allowed = every.log_probabilities > NEG_INF  # forbidden words may be any
    np.testing.assert_array_equal(few.log_probabilities[:, : allowed.shape[1]], every.log_probabilities)
    np.testing.assert_array_equal(few.words[allowed], every.words[allowed])
    assert (few.reported is None) == (every.reported is None) == (not reported)
    if few.reported is not None and every.reported is not None:
        for one, other in zip(few.reported, every.reported, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)
