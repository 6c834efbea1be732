"""The quickstart model trains in minutes and gives fitting replies to openings that it was not trained on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from seq2seq_chat.config import Data
from seq2seq_chat.data.samples import read_samples
from seq2seq_chat.data.tokenizers.english import clean

REPOSITORY = Path(__file__).parents[1]
SAMPLE = "configs/sample/conversations.txt"
OPENINGS = {  # what is said → how fitting replies begin
    "Hello, Sequel my dear": ["hello"],
    "hi there computer": ["hello"],
    "Hey, you": ["hello"],
    "heello there": ["hello"],
    "Good mornign, my friend": ["good morning"],
    "A very good evening!": ["good evening"],
    "hi, how are you doing tonight?": ["i am well"],
    "How's it going over there?": ["i am well"],
    "what's up, bot?": ["not much"],
    "Thanks, that is great!": ["you are welcome"],
    "Many many thanks": ["you are welcome"],
    "thnaks a lot": ["you are welcome"],
    "OK bye then": ["goodbye"],
    "See you soon, Sequel!": ["goodbye"],
    "I really have to go now": ["goodbye"],
    "good nigth": ["good night"],
    "Yes, yes": ["good !", "good ."],
    "no, no": ["all right"],
    "Okay, cool": ["good ."],
    "Maybe, who knows": ["that is an honest answer"],
    "but why?": ["i wish i knew"],
    "Really? Are you sure?": ["as sure as"],
    "Hey, what's your name?": ["my name is sequel"],
    "waht is yuor name": ["my name is sequel"],
    "so who are you actually?": ["i am sequel"],
    "And how old are you, Sequel?": ["i was trained"],
    "where exactly are you from?": ["i live on the disk"],
    "Are you a real human being?": ["no human"],
    "who created you, my friend?": ["you trained me"],
    "So what can you actually do?": ["i can chat"],
    "Could you help me, please?": ["i will try"],
    "do you really have feelings": ["i only have numbers"],
    "When do you go to sleep?": ["i never eat or sleep"],
    "I'm so very sad right now": ["i am sorry to hear"],
    "im tired, so tired": ["then lie down"],
    "I am bored, bored, bored": ["ask me for a joke"],
    "I'm super happy today!": ["that is wonderful"],
    "today was a terrible day": ["i am sorry to hear"],
    "Haha, you're funny": ["i am glad that i could"],
    "you are really so stupid": ["i am sorry"],
    "I love you, Sequel": ["that is sweet"],
    "sorry, my mistake": ["no harm done"],
    "Please tell me another joke!": ["why did the neural"],
    "can you please tell me a story?": ["once upon a time"],
    "What time is it there?": ["i have no clock"],
    "how's the weather over there": ["i have no window"],
    "Do you really like music?": ["yes , very much"],
    "which movie should I watch?": ["i like anything with a robot"],
    "My name is Barbara": ["nice to meet you"],
    "So nice to meet you, Sequel!": ["the pleasure is mine"],
}


@pytest.mark.slow(minutes=2)
def test_quickstart_model_replies_to_new_openings(
    cli: Callable[..., object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(REPOSITORY)
    samples = [(" ".join(source), " ".join(target)) for source, target in read_samples(SAMPLE, Data(train=SAMPLE))]
    assert not {clean(text) for text in OPENINGS} & {source for source, _ in samples}
    start = time.monotonic()
    trained = cli("train", "configs/quickstart.json", "--results", tmp_path)
    minutes = (time.monotonic() - start) / 60
    utterances = "".join(f"{text}\n" for text in OPENINGS).encode()
    replies = cli("chat", trained.out.splitlines()[-1], stdin=utterances).out.splitlines()
    known = {target for _, target in samples}
    wrong = [
        f"{text} → {reply}"
        for (text, fitting), reply in zip(OPENINGS.items(), replies, strict=True)
        if not (reply in known and reply.startswith(tuple(fitting)))
    ]
    fitting_count = len(OPENINGS) - len(wrong)
    print(f"{fitting_count} of {len(OPENINGS)} replies fit after {minutes:.1f} minutes on {os.cpu_count()} cores")
    assert len(wrong) <= 0.1 * len(OPENINGS), "\n".join(wrong)
    assert minutes <= 10  # two on an idle machine
