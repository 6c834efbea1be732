"""The bundled conversations keep their promises to the newcomer."""

from __future__ import annotations

from collections import defaultdict
from importlib import resources

from seq2seq_chat.corpus import clean, iterate_samples, read_tokens, read_utterances

SAMPLE = resources.files("seq2seq_chat") / "corpus" / "sample"
OPENERS = ["hello !", "how are you ?", "who are you ?", "tell me a joke .", "are you a robot ?", "goodbye !"]


def replies() -> dict[str, set[str]]:
    found = defaultdict(set)
    for source, target in iterate_samples(read_tokens(str(SAMPLE / "conversations.txt"), "word"), "sliding"):
        found[" ".join(source)].add(" ".join(target))
    return found


def test_it_is_in_the_corpus_format_and_clean() -> None:
    for name in ("conversations.txt", "validation.txt"):
        lines = [line for _, line in read_utterances(str(SAMPLE / name))]
        assert [clean(line) for line in lines] == lines
        assert max(len(line.split()) for line in lines) <= 18


def test_it_is_large_varied_and_can_be_learned() -> None:
    found = replies()
    assert sum(map(len, found.values())) >= 300
    single = [source for source, targets in found.items() if len(targets) == 1]
    assert len(single) >= 0.97 * len(found)
    assert set(OPENERS) <= set(single), "the demonstration asks these"


def test_validation_asks_what_was_not_learned() -> None:
    held_out = iterate_samples(read_tokens(str(SAMPLE / "validation.txt"), "word"), "sliding")
    assert not {" ".join(source) for source, _ in held_out} & set(replies())
