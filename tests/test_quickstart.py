"""The newcomer's first model: quick to train, and it knows its conversations by heart."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from seq2seq_chat.corpus import iterate_samples, read_tokens

REPOSITORY = Path(__file__).parents[1]
SAMPLE = "seq2seq_chat/corpus/sample/conversations.txt"


@pytest.mark.slow
def test_the_quickstart_model_repeats_the_bundled_replies(
    cli: Callable[..., object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(REPOSITORY)
    begun = time.monotonic()
    trained = cli("train", "configs/quickstart.json", "--results", tmp_path)
    minutes = (time.monotonic() - begun) / 60
    replies: dict[str, set[str]] = {}
    for source, target in iterate_samples(read_tokens(SAMPLE, "word"), "sliding"):
        replies.setdefault(" ".join(source), set()).add(" ".join(target))
    single = [(source, *targets) for source, targets in replies.items() if len(targets) == 1]
    asked = "".join(f"{source}\n" for source, _ in single).encode()
    said = cli("chat", trained.out.splitlines()[-1], stdin=asked).out.splitlines()
    right = sum(reply == target for reply, (_, target) in zip(said, single, strict=True))
    print(f"{right} of {len(single)} replies by heart after {minutes:.1f} minutes on {os.cpu_count()} cores")
    assert right >= 0.95 * len(single)
    assert minutes <= 10  # two when nothing else runs
