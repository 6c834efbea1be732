"""BLEU against values computed by hand, and against the command line of sacrebleu."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

from seq2seq_chat.training.bleu import Bleu

REPLIES = ["yes , i do .", "i do not know what you mean .", "the cat is on the mat", "", "no ."]
EXPECTED = ["yes , i do not .", "what do you mean ?", "there is a cat on the mat", "hello !", "no ."]


def test_bleu_of_a_pair_by_hand() -> None:
    """5 of 6 words, 3 of 5 pairs, 1 of 4 triples, and 1/2 of 3 for no quadruple; as long as expected."""
    bleu = Bleu()
    bleu.add(["the cat sat on the mat"], ["the cat is on the mat"])
    # matches: the cat on the mat | the-cat on-the the-mat | on-the-mat | none, smoothed to 1 / (2 · 3)
    by_hand = 100 * math.exp((math.log(5 / 6) + math.log(3 / 5) + math.log(1 / 4) + math.log(1 / 6)) / 4)
    assert bleu.score == pytest.approx(by_hand)


def test_short_replies_are_penalized() -> None:
    """All words are right, but there are 4 where 8 were expected: e^(1 - 8 / 4)."""
    bleu = Bleu()
    bleu.add(["a b c d"], ["a b c d e f g h"])
    assert bleu.score == pytest.approx(100 * math.exp(1 - 8 / 4))


def test_bleu_equals_that_of_the_sacrebleu_command(tmp_path: Path) -> None:
    (tmp_path / "replies").write_text("\n".join(REPLIES) + "\n")
    (tmp_path / "expected").write_text("\n".join(EXPECTED) + "\n")
    command = [sys.executable, "-m", "sacrebleu", "expected", "-i", "replies", "-w", "10", "-b", "--force"]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=240).stdout
    at_once, in_blocks = Bleu(), Bleu()
    at_once.add(REPLIES, EXPECTED)
    for reply, expected in zip(REPLIES, EXPECTED, strict=True):
        in_blocks.add([reply], [expected])
    assert at_once.score == pytest.approx(float(printed), abs=1e-9)
    assert in_blocks.score == pytest.approx(float(printed), abs=1e-9)
    assert "tok:13a" in at_once.signature and "smooth:exp" in at_once.signature and "nrefs:1" in at_once.signature


def test_bleu_without_samples_is_none() -> None:
    assert Bleu().score is None
