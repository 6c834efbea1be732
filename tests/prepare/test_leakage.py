"""Leakage and --drop-leaked, compared to lists and sets in plain Python."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.prepare.pipeline import prepare
from seq2seq_chat.prepare.settings import PrepareSettings
from seq2seq_chat.text.tokenizers import TokenizerSettings
from tests.prepare.oracle import read_corpus_files
from tests.prepare.raw import contents
from tests.prepare.test_engine import spark

__all__ = ["spark"]

Conversations = list[list[str]]
HELD_OUT = ("validation", "test")

conversation = st.lists(st.sampled_from(["a", "b", "c", "a b", "d"]), min_size=1, max_size=7)
corpora = st.fixed_dictionaries(
    {
        # The first conversation is a sample of train that never leaks.
        "train": st.lists(conversation, min_size=5, max_size=30).map(lambda rest: [["x", "x"], *rest]),
        "validation": st.lists(conversation, min_size=1, max_size=3),
        "test": st.lists(conversation, min_size=1, max_size=3),
    }
)
pairings = st.sampled_from(["sliding", "alternating"])


def write_corpus(folder: Path, corpus: dict[str, Conversations]) -> Path:
    """Write a corpus with an official split."""
    folder.mkdir()
    for split, conversations in corpus.items():
        lines = [" __eou__ ".join([*utterances, "\n"]) for utterances in conversations]
        (folder / f"dialogues_{split}.txt").write_text("".join(lines))
    return folder


def pairs(utterances: list[str], pairing: str) -> list[tuple[str, str]]:
    step = 1 if pairing == "sliding" else 2
    return list(zip(utterances[:-1:step], utterances[1::step], strict=True))


def all_pairs(conversations: Conversations, pairing: str) -> list[tuple[str, str]]:
    return [pair for utterances in conversations for pair in pairs(utterances, pairing)]


def leakage(corpus: dict[str, Conversations], pairing: str, dropped: int) -> dict[str, Any]:
    """What ``statistics.json`` must say."""
    train = all_pairs(corpus["train"], pairing)
    targets = {target for _, target in train}
    result: dict[str, Any] = {"dropped_samples": dropped}
    for split in HELD_OUT:
        samples = all_pairs(corpus[split], pairing)
        leaked = sum(sample in train for sample in samples)
        known = sum(target in targets for _, target in samples)
        result[split] = {
            "samples": leaked,
            "samples_percent": round(100 * leaked / max(1, len(samples)), 2),
            "targets": known,
            "targets_percent": round(100 * known / max(1, len(samples)), 2),
        }
    return result


def without_leaked(utterances: list[str], held_out: set[tuple[str, str]], pairing: str) -> Conversations:
    """The conversations that are left of one."""
    parts: Conversations = [[]]
    if pairing == "sliding":
        for previous, utterance in zip([None, *utterances], utterances, strict=False):
            if previous is not None and (previous, utterance) in held_out:
                parts.append([])
            parts[-1].append(utterance)
        return parts
    for start in range(0, len(utterances), 2):
        if tuple(utterances[start : start + 2]) in held_out:
            parts.append([])
        else:
            parts[-1] += utterances[start : start + 2]
    return [part for part in parts if part]


@settings(deadline=None, max_examples=4, suppress_health_check=[HealthCheck.too_slow])
@given(corpora, pairings)
def test_equals_plain_python(corpus: dict[str, Conversations], pairing: Any) -> None:
    with tempfile.TemporaryDirectory() as name:
        source = write_corpus(Path(name, "source"), corpus)
        options: dict[str, Any] = {"pairing": pairing, "jobs": 1, "vocabulary_size": 20}
        if not sum(len(all_pairs(conversations, pairing)) for conversations in corpus.values()):
            return
        statistics = prepare(PrepareSettings("dailydialog", **options), [source], Path(name, "all"))
        assert statistics["leakage"] == leakage(corpus, pairing, 0)
        assert read_corpus_files(Path(name, "all")) == corpus

        statistics = prepare(PrepareSettings("dailydialog", drop_leaked=True, **options), [source], Path(name, "less"))
        held_out = {pair for split in HELD_OUT for pair in all_pairs(corpus[split], pairing)}
        train = [part for texts in corpus["train"] for part in without_leaked(texts, held_out, pairing)]
        dropped = sum(pair in held_out for pair in all_pairs(corpus["train"], pairing))
        assert read_corpus_files(Path(name, "less")) == {**corpus, "train": train}
        assert statistics["leakage"] == leakage({**corpus, "train": train}, pairing, dropped)
        assert statistics["leakage"]["validation"]["samples"] == statistics["leakage"]["test"]["samples"] == 0
        left = len(all_pairs(corpus["train"], pairing)) - dropped
        assert statistics["train"]["samples"] == len(all_pairs(train, pairing)) == left
        if not dropped:
            assert contents(Path(name, "less")) == contents(Path(name, "all"))


def test_by_hand(tmp_path: Path) -> None:
    corpus = {
        "train": [["hi", "hello", "bye", "see you"], ["where", "here"]],
        "validation": [["hi", "hello", "ciao"]],  # 1 of 2 samples leaks
        "test": [["bye", "see you", "here", "hello"]],  # 1 of 3; 3 targets
    }
    source = write_corpus(tmp_path / "source", corpus)
    settings = PrepareSettings("dailydialog", drop_leaked=True)
    statistics = prepare(settings, [source], tmp_path / "out")
    assert (tmp_path / "out" / "train.txt").read_text().split("\n<<<<<END-CONV>>>>>\n") == [
        "hi",
        "hello\nbye",
        "see you",
        "where\nhere",
        "",
    ]
    assert statistics["leakage"] == {
        "validation": {"samples": 0, "samples_percent": 0.0, "targets": 0, "targets_percent": 0.0},
        "test": {"samples": 0, "samples_percent": 0.0, "targets": 1, "targets_percent": 33.33},  # here
        "dropped_samples": 2,
    }
    assert json.loads((tmp_path / "out" / "statistics.json").read_text())["leakage"] == statistics["leakage"]


def test_vocabulary_is_counted_without_dropped_text(tmp_path: Path) -> None:
    corpus = {"train": [["a", "b"], ["c", "d"]], "validation": [["a", "b"]], "test": [["e", "f"]]}
    source = write_corpus(tmp_path / "source", corpus)
    prepare(PrepareSettings("dailydialog", drop_leaked=True, pairing="alternating"), [source], tmp_path / "out")
    assert (tmp_path / "out" / "vocabulary.txt").read_text().split()[4:] == ["c", "d"]


def test_texts_are_compared_as_tokens(tmp_path: Path) -> None:
    """The corpus files hold the texts as they are."""
    corpus = {
        "train": [["Où est-il ?", "Là-bas!", "Ou est-il ?"], ["OÙ EST-IL?", "Ici."]],
        "validation": [["x", "y"]],
        "test": [["Où est-il?", "là-bas !"]],
    }
    source = write_corpus(tmp_path / "source", corpus)
    for lowercase, dropped in ((False, 0), (True, 1)):
        settings = PrepareSettings(
            "dailydialog", tokenizer=TokenizerSettings("unicode", lowercase=lowercase), drop_leaked=True
        )
        statistics = prepare(settings, [source], tmp_path / "out")
        assert statistics["leakage"]["dropped_samples"] == dropped
        train = [["Où est-il ?"], ["Là-bas!", "Ou est-il ?"], corpus["train"][1]] if dropped else corpus["train"]
        marked = ("".join(f"{text}\n" for text in texts) + "<<<<<END-CONV>>>>>\n" for texts in train)
        assert (tmp_path / "out" / "train.txt").read_text(encoding="utf-8") == "".join(marked)


def test_rows_of_pairs(tmp_path: Path) -> None:
    """The two sides are not mixed up: each row is a sample."""
    rows = {
        "train": [("a", "x"), ("b", "y"), ("x", "a"), ("a", "x"), ("c", "z")],
        "validation": [("a", "x"), ("c", "x")],
        "test": [("x", "b"), ("b", "y"), ("y", "b"), ("d", "y"), ("e", "a")],
    }
    for split, pairs_of_split in rows.items():
        (tmp_path / f"{split}.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs_of_split))
    inputs = [tmp_path / f"{split}.tsv" for split in rows]
    options: dict[str, Any] = {"pairing": "alternating", "vocabulary_size": 20}
    statistics = prepare(PrepareSettings("pairs", **options), inputs, tmp_path / "all")
    assert statistics["leakage"]["validation"] == {
        "samples": 1,
        "samples_percent": 50.0,
        "targets": 2,
        "targets_percent": 100.0,
    }
    assert statistics["leakage"]["test"] == {
        "samples": 1,
        "samples_percent": 20.0,
        "targets": 3,  # y, y, a
        "targets_percent": 60.0,
    }
    statistics = prepare(PrepareSettings("pairs", drop_leaked=True, **options), inputs, tmp_path / "less")
    assert statistics["leakage"]["dropped_samples"] == 3
    assert statistics["leakage"]["validation"]["samples"] == statistics["leakage"]["test"]["samples"] == 0
    assert (tmp_path / "less" / "train.tsv").read_text() == "x\ta\nc\tz\n"


@pytest.mark.parametrize("pairing", ["sliding", "alternating"])
def test_everything_leaks(tmp_path: Path, pairing: Any) -> None:
    source = write_corpus(tmp_path / "source", {split: [["a", "b"]] for split in ("train", *HELD_OUT)})
    with pytest.raises(CorpusError, match="--drop-leaked"):
        prepare(PrepareSettings("dailydialog", drop_leaked=True, pairing=pairing), [source], tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("pairing", ["sliding", pytest.param("alternating", marks=pytest.mark.nightly)])
def test_engines_agree(spark: None, tmp_path: Path, pairing: Any) -> None:
    texts = ["yes .", "no .", "why ?", "thanks .", "ok"]
    corpus = {
        split: [[texts[(n * k + i) % 5] for i in range(2 + n % 4)] for n in range(size)] + [["only", split]]
        for k, (split, size) in enumerate({"train": 40, "validation": 3, "test": 5}.items(), start=1)
    }
    source = write_corpus(tmp_path / "source", corpus)
    for engine in ("duckdb", "spark"):
        settings = PrepareSettings("dailydialog", engine=engine, pairing=pairing, drop_leaked=True)  # type: ignore[arg-type]
        statistics = prepare(settings, [source], tmp_path / engine)
        assert statistics["leakage"]["dropped_samples"] > 5
    assert contents(tmp_path / "duckdb") == contents(tmp_path / "spark")
