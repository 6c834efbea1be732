from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.data.samples import iterate_samples


@given(st.lists(st.integers(0, 7)))
def test_pairing_any_conversations(lengths: list[int]) -> None:
    utterances = [(c, (c, turn)) for c, length in enumerate(lengths) for turn in range(length)]
    sliding = list(iterate_samples(utterances, "sliding"))
    assert len(sliding) == sum(max(0, length - 1) for length in lengths)
    assert all(s == (t[0], t[1] - 1) for s, t in sliding)
    alternating = list(iterate_samples(utterances, "alternating"))
    assert alternating == [pair for pair in sliding if pair[0][1] % 2 == 0]
    assert sliding == sorted(sliding)


def test_samples_are_streamed() -> None:
    def endless():
        number = 0
        while True:
            yield 0, number
            number += 1

    samples = iterate_samples(endless(), "sliding")
    assert [next(samples) for _ in range(3)] == [(0, 1), (1, 2), (2, 3)]
