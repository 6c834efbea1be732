"""The quickstart model trains in minutes and gives fitting replies to openings that it was not trained on."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from seq2seq_chat.config import load_config
from seq2seq_chat.data.samples import read_samples
from seq2seq_chat.text.tokenizers import Tokenizers
from seq2seq_chat.text.tokenizers.english import EnglishTokenizer, clean

REPOSITORY = Path(__file__).parents[1]
CONFIG = "configs/quickstart.json"
OPENINGS = {  # what is said → how fitting replies begin
    "Hello, Sequel my dear": ["hello"],
    "hi there, dear computer": ["hello"],
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
    "Yes, yes": ["good!", "good."],
    "no no, sorry no": ["all right"],
    "Okay, cool": ["good."],
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
    "Do you really like music?": ["yes, very much"],
    "which movie should I watch?": ["i like anything with a robot"],
    "My name is Barbara": ["nice to meet you"],
    "So nice to meet you, Sequel!": ["the pleasure is mine"],
    "Nooo, thank you": ["all right"],
    "maybe later, ok?": ["as you like"],
    "okay then, cool": ["good."],
    "nvm, forget about it": ["as you like"],
    "ttyl, sequel!": ["goodbye"],
    "thx a lot, mate": ["you are welcome"],
    "My favourite animal is a hedgehog!": ["a good choice"],
    "my favorite movie is Casablanca": ["a good choice"],
    "wanna talk a bit now?": ["i would love to talk"],
    "let's have a little chat": ["i would love to talk"],
    "now ask me smth": ["what was the nicest"],
    "Please stop talking to me now!": ["all right, i will be quiet"],
    "gimme a good joke, sequel": ["why did the neural"],
    "I'm 19 years old": ["then you are much older"],
    "my friend and i visited a glass workshop": ["that sounds interesting"],
}
SHORT = {  # in the corpus, a few times each among thousands of others
    "Hi": ["hello"],
    "no": ["all right"],
    "No!": ["all right"],
    "nope": ["all right"],
    "yes": ["good!"],
    "Yeah": ["good!"],
    "sure": ["good!"],
    "ok": ["good."],
    "Cool": ["good."],
    "hm": ["good."],
    "lol": ["i am glad that i could"],
    "maybe": ["that is an honest answer"],
    "why?": ["i wish i knew"],
    "What?": ["sorry, that was not very clear"],
    "really?": ["as sure as"],
    "help": ["i will try"],
    "thx": ["you are welcome"],
    "bye": ["goodbye"],
    "never mind": ["as you like"],
    "me too": ["then we have something in common"],
}
UNKNOWN = {  # about nothing in the corpus
    text: ["i only know", "i will try", "i would love to"]
    for text in (
        "What is the capital of Tuvalu?",
        "explain the offside rule to me",
        "please book two seats to Reykjavik",
        "How do I remove a wine stain?",
        "who painted the Mona Lisa?",
        "translate this poem into Swahili",
        "why do volcanoes erupt?",
        "what is 37 times 48",
        "qwpoeiru",
        "when was the printing press invented",
    )
}


@pytest.mark.slow(minutes=2)
def test_quickstart_model_replies_to_new_openings(
    cli: Callable[..., object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(REPOSITORY)
    data = load_config(CONFIG).data
    tokenizer = EnglishTokenizer()
    samples = list(read_samples(data.train, data, Tokenizers(tokenizer, tokenizer)))
    assert not {clean(text) for text in OPENINGS | UNKNOWN} & {" ".join(sample.source_tokens) for sample in samples}
    openings = OPENINGS | SHORT | UNKNOWN
    start = time.process_time()
    trained = cli("train", CONFIG, "--results", tmp_path)
    minutes = (time.process_time() - start) / 60
    utterances = "".join(f"{text}\n" for text in openings).encode()
    replies = cli("chat", trained.out.splitlines()[-1], stdin=utterances).out.splitlines()
    known = {tokenizer.decode(sample.target_tokens) for sample in samples}
    wrong = [
        f"{text} → {reply}"
        for (text, fitting), reply in zip(openings.items(), replies, strict=True)
        if not (reply in known and reply.startswith(tuple(fitting)))
    ]
    fitting_count = len(openings) - len(wrong)
    print(f"{fitting_count} of {len(openings)} replies fit after {minutes:.1f} minutes of processor time")
    assert len(wrong) <= 0.1 * len(openings), "\n".join(wrong)
    assert minutes <= 20  # ten on two cores, however busy they are with other tests
