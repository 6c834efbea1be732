"""The bundled experiments learn in minutes what is new to them: fitting replies to openings, and dates."""

import json
import re
import time
from pathlib import Path

import numpy as np
import pytest

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.config import load_config
from seq2seq_chat.data.samples import Tokenizers, read_samples
from seq2seq_chat.runs.run import Run
from seq2seq_chat.text.tokenizers.english import EnglishTokenizer, clean
from tests.conftest import REPOSITORY, Cli

CONFIG = "configs/quickstart.json"
OPENINGS = {  # how fitting replies begin → what is said
    "hello": "Hello, Sequel my dear / hi there, dear computer / Hey, you / heello there",
    "good morning": "Good mornign, my friend",
    "good evening": "A very good evening!",
    "i am well": "hi, how are you doing tonight? / How's it going over there?",
    "not much": "what's up, bot?",
    "you are welcome": "Thanks, that is great! / Many many thanks / thnaks a lot / thx a lot, mate",
    "goodbye": "OK bye then / See you soon, Sequel! / I really have to go now / ttyl, sequel!",
    "good night": "good nigth",
    "good! | good.": "Yes, yes",
    "all right": "no no, sorry no / Nooo, thank you",
    "good.": "Okay, cool / okay then, cool",
    "that is an honest answer": "Maybe, who knows",
    "i wish i knew": "but why?",
    "as sure as": "Really? Are you sure?",
    "my name is sequel": "Hey, what's your name? / waht is yuor name",
    "i am sequel": "so who are you actually?",
    "i was trained": "And how old are you, Sequel?",
    "i live on the disk": "where exactly are you from?",
    "no human": "Are you a real human being?",
    "you trained me": "who created you, my friend?",
    "i can chat": "So what can you actually do?",
    "i will try": "Could you help me, please?",
    "i only have numbers": "do you really have feelings",
    "i never eat or sleep": "When do you go to sleep?",
    "i am sorry to hear": "I'm so very sad right now / today was a terrible day",
    "then lie down": "im tired, so tired",
    "ask me for a joke": "I am bored, bored, bored",
    "that is wonderful": "I'm super happy today!",
    "i am glad that i could": "Haha, you're funny",
    "i am sorry": "you are really so stupid",
    "that is sweet": "I love you, Sequel",
    "no harm done": "sorry, my mistake",
    "why did the neural": "Please tell me another joke! / gimme a good joke, sequel",
    "once upon a time": "can you please tell me a story?",
    "i have no clock": "What time is it there?",
    "i have no window": "how's the weather over there",
    "yes, very much": "Do you really like music?",
    "i like anything with a robot": "which movie should I watch?",
    "nice to meet you": "My name is Barbara",
    "the pleasure is mine": "So nice to meet you, Sequel!",
    "as you like": "maybe later, ok? / nvm, forget about it",
    "a good choice": "My favourite animal is a hedgehog! / my favorite movie is Casablanca",
    "i would love to talk": "wanna talk a bit now? / let's have a little chat",
    "what was the nicest": "now ask me smth",
    "all right, i will be quiet": "Please stop talking to me now!",
    "then you are much older": "I'm 19 years old",
    "that sounds interesting": "my friend and i visited a glass workshop",
}
SHORT = {  # in the corpus, a few times each among thousands of others
    "hello": "Hi",
    "all right": "no / No! / nope",
    "good!": "yes / Yeah / sure",
    "good.": "ok / Cool / hm",
    "i am glad that i could": "lol",
    "that is an honest answer": "maybe",
    "i wish i knew": "why?",
    "sorry, that was not very clear": "What?",
    "as sure as": "really?",
    "i will try": "help",
    "you are welcome": "thx",
    "goodbye": "bye",
    "as you like": "never mind",
    "then we have something in common": "me too",
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


def by_text(openings: dict[str, str]) -> dict[str, list[str]]:
    """What is said → how fitting replies begin."""
    return {text: begins.split(" | ") for begins, texts in openings.items() for text in texts.split(" / ")}


@pytest.mark.slow(minutes=2)
def test_quickstart_model_replies_to_new_openings(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    data = load_config(CONFIG).data
    tokenizer = EnglishTokenizer()
    samples = list(read_samples(data.train, data, Tokenizers(tokenizer, tokenizer)))
    assert not {clean(text) for text in by_text(OPENINGS) | UNKNOWN} & {
        " ".join(sample.source_tokens) for sample in samples
    }
    openings = by_text(OPENINGS) | by_text(SHORT) | UNKNOWN
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


@pytest.mark.slow(minutes=2)
def test_dates_are_rewritten_and_aligned(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model rewrites dates, and attends to what it writes."""
    monkeypatch.chdir(REPOSITORY)
    run = Path(cli("train", "configs/recipes/dates.json", "--results", tmp_path / "results").out.splitlines()[-1])
    cli("evaluate", run, "--json", tmp_path / "metrics.json")
    metrics = json.loads((tmp_path / "metrics.json").read_text(encoding="utf-8"))
    print(f"{metrics['exact_match']:.1%} of {metrics['samples']} unseen dates are correct")
    assert metrics["samples"] == 1000 and metrics["leaked_samples"] == metrics["leaked_targets"] == 0
    assert metrics["exact_match"] >= 0.99

    lines = Path("configs/sample/dates_test.tsv").read_text(encoding="utf-8").splitlines()
    sources = [line.split("\t")[0] for line in lines]
    years = {source: match.start() for source in sources if (match := re.search(r"\d{4}", source))}
    aligned = np.zeros(4)
    for reply, year in zip(Chatbot.load(Run(run)).replies(list(years)), years.values(), strict=True):
        attended = np.argmax(reply.hypotheses[0].attention, axis=1)
        aligned += attended[:4] - year == range(4)
    assert len(years) > 500
    assert np.all(aligned[2:] >= 0.9 * len(years)), aligned  # the first two digits are nearly always 19 or 20
