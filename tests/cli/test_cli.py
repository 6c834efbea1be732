"""The command line: what it does, and what it says to people who ask for something impossible."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from seq2seq_chat.runs import Run

REPOSITORY = Path(__file__).resolve().parent.parent
DEADLINE = 400  # seconds that a training may take to show progress, on a machine that is very busy
MARKER = "<<<<<END-CONV>>>>>"
Cli = Callable[..., Any]


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder, but those that a refused training may touch."""
    touched = {"train.log", "lock"}
    files = [path for path in folder.rglob("*") if path.is_file() and "tensorboard" not in path.parts]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files if path.name not in touched}


def arrays(checkpoint: Path) -> dict[str, bytes]:
    """The bytes of every variable in a checkpoint, the optimizer's included."""
    with np.load(checkpoint) as archive:
        return {name: archive[name].tobytes() for name in archive.files if name != "metadata.json"}


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The objects of a file that has one on each line, and nothing else."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def train_lines(run: Path) -> list[dict[str, Any]]:
    return [line for line in lines_of(run / "metrics.jsonl") if line["kind"] == "train"]


# what goes well


def test_train_prints_the_folder_of_the_run_last(trained: tuple[Path, Any]) -> None:
    run, answer = trained
    assert answer.out.endswith(f"\n{run}\n")
    assert answer.err == ""
    assert run.name.endswith("_tiny")


def test_a_run_holds_all_that_was_promised(tiny_run: Path) -> None:
    names = {path.name for path in tiny_run.iterdir()}
    assert names == {
        *("config.json", "environment.json", "vocabulary.txt", "metrics.jsonl", "samples.jsonl", "train.log"),
        *("history.jsonl", "end.json"),
        *("checkpoints", "snapshots", "tensorboard", "lock"),
    }
    checkpoints = {path.name for path in (tiny_run / "checkpoints").iterdir()}
    assert checkpoints == {"0000000010.npz", "0000000015.npz", "0000000020.npz", "best.npz"}  # three are kept
    assert {path.name for path in (tiny_run / "snapshots").iterdir()} == {"10", "20"}
    assert list((tiny_run / "tensorboard").iterdir())
    environment = json.loads((tiny_run / "environment.json").read_text(encoding="utf-8"))
    assert environment["packages"]["tensorflow"].startswith("2.15")
    assert "step 20 of 20" in (tiny_run / "train.log").read_text(encoding="utf-8")


def test_metrics_and_samples_of_a_run(tiny_run: Path) -> None:
    metrics = lines_of(tiny_run / "metrics.jsonl")
    assert [(line["kind"], line["step"]) for line in metrics] == [
        *[("train", 5), ("train", 10), ("validation", 10), ("train", 15), ("train", 20), ("validation", 20)]
    ]
    for line in metrics:
        assert {"step", "kind", "loss", "perplexity", "tokens", "seconds"} <= set(line)
        assert line["perplexity"] == pytest.approx(math.exp(line["loss"]))
        assert line["tokens"] > 0
    assert metrics[-1]["loss"] < metrics[2]["loss"]  # it learns
    samples = lines_of(tiny_run / "samples.jsonl")
    assert [line["step"] for line in samples] == [10, 10, 20, 20]
    assert all(set(line) == {"step", "source", "reply", "target"} for line in samples)
    assert all(line["source"].endswith("?") for line in samples)
    assert samples[-1]["reply"]


def test_the_configuration_of_a_run_is_complete(tiny_run: Path, tiny_config: Path) -> None:
    from seq2seq_chat.config import load_config

    assert Run(tiny_run).config == load_config(tiny_config)
    assert json.loads((tiny_run / "config.json").read_text(encoding="utf-8"))["training"]["keep_checkpoints"] == 3


def test_evaluate(cli: Cli, own_run: Path, corpora: Path, tmp_path: Path) -> None:
    answer = cli("evaluate", own_run, "--json", tmp_path / "figures.json")
    assert (answer.status, answer.err) == (0, "")
    figures = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    last = lines_of(own_run / "metrics.jsonl")[-1]
    assert figures["loss"] == pytest.approx(last["loss"], rel=1e-6)  # measured on the validation corpus
    assert figures["tokens"] == last["tokens"]
    assert figures["step"] == 20
    assert f"{figures['loss']:.4f} nats" in answer.out
    on_training = cli(
        "evaluate", own_run.name, "--results", own_run.parent, "--data", corpora / "train.txt", "--snapshot", "10",
        *("--limit", 7, "--json", tmp_path / "figures.json"),
    )  # fmt: skip
    assert on_training.status == 0
    figures = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    assert (figures["samples"], figures["step"], figures["snapshot"]) == (7, 10, "10")


def test_schema(cli: Cli, tmp_path: Path) -> None:
    from seq2seq_chat.config import json_schema

    assert cli("schema") == (0, json_schema(), "")
    assert cli("schema", "--output", tmp_path / "schema.json") == (0, "", "")
    assert (tmp_path / "schema.json").read_text(encoding="utf-8") == json_schema()


def test_a_reader_that_has_seen_enough_is_no_fault() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with subprocess.Popen(
        [sys.executable, "-m", "seq2seq_chat", "schema"], cwd=REPOSITORY, stdout=writing, stderr=subprocess.PIPE
    ) as process:
        os.close(writing)
        assert process.communicate(timeout=DEADLINE)[1] == b""
    assert process.returncode == 1


def test_a_training_goes_on_when_nobody_reads_what_it_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from seq2seq_chat.training.console import Console

    def gone(*arguments: object, **options: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("seq2seq_chat.training.console.print", gone, raising=False)
    Console(tmp_path / "train.log").say("step 5")
    assert (tmp_path / "train.log").read_text(encoding="utf-8").endswith(" step 5\n")


# what is refused before training: nothing is left of it


class Refused(NamedTuple):
    """A training that cannot be: what is asked for, and words of the message."""

    overrides: list[str]
    told: list[str]


REFUSED = {
    "unknown key": Refused(["model.hiden_size=5"], ["unknown key model.hiden_size; did you mean model.hidden_size?"]),
    "wrong type": Refused(["training.steps=many"], ["training.steps must be a valid integer", '"many"']),
    "impossible value": Refused(["model.dropout=1"], ["model.dropout must be less than 1"]),
    "malformed set": Refused(["training.steps"], ["--set training.steps: write KEY=VALUE"]),
    "too large": Refused(["model.hidden_size=1000000"], ["GB are free; lower", "model.hidden_size"]),
    "too large a batch": Refused(["training.batch_size=100000000"], ["GB are free; lower training.batch_size"]),
    "no corpus": Refused(["data.train=none.txt"], ["none.txt does not exist", "relative to the working directory"]),
    "corpus is a folder": Refused(["data.train=."], ["is a folder. Name a file in it"]),
    "empty corpus": Refused(["data.train=empty.txt"], ["empty.txt holds no utterance", "one utterance a line"]),
    "blank corpus": Refused(["data.train=blank.txt"], ["blank.txt", "needs"]),
    "corpus not UTF-8": Refused(["data.train=latin.txt"], ["latin.txt, line 2", "Convert the file to UTF-8"]),
    "no sample": Refused(["data.train=lonely.txt"], ["lonely.txt has no sample", "two utterances or more"]),
    "no validation corpus": Refused(["data.validation=none.txt"], ["none.txt does not exist"]),
    "no validation sample": Refused(["data.validation=lonely.txt"], ["lonely.txt has no sample"]),
    "no vocabulary": Refused(["data.vocabulary=none.txt"], ["none.txt does not exist"]),
    "not a vocabulary": Refused(["data.vocabulary=words.txt"], ["words.txt is a plain list of words", "<pad> <go>"]),
    "binary vocabulary": Refused(["data.vocabulary=binary.txt"], ["binary.txt, line 2", "not UTF-8"]),
    "no vectors": Refused(["model.pretrained_embeddings=none.txt"], ["none.txt", "cannot be read"]),
    "other vectors": Refused(["model.pretrained_embeddings=vectors.txt"], ["line 1: 3 numbers", "size is 8"]),
}


@pytest.fixture
def odd_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with files that are not what they should be."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "empty.txt").touch()
    (folder / "blank.txt").write_text(f"***\n \n{MARKER}\n", encoding="utf-8")
    (folder / "latin.txt").write_bytes("hello\ncafé\n".encode("latin-1"))
    (folder / "lonely.txt").write_text(f"hello\n{MARKER}\nanybody ?\n{MARKER}\n", encoding="utf-8")
    (folder / "words.txt").write_text("hello\nworld\n", encoding="utf-8")
    (folder / "binary.txt").write_bytes(bytes(range(256)))
    (folder / "vectors.txt").write_text("hello 1 2 3\n", encoding="utf-8")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("case", REFUSED.values(), ids=list(REFUSED))
def test_a_training_that_cannot_be(cli: Cli, tiny_config: Path, odd_files: Path, case: Refused) -> None:
    before = set(odd_files.iterdir())
    options = [part for override in case.overrides for part in ("--set", override)]
    answer = cli("train", tiny_config, *options)
    assert all(part in answer.complaint for part in case.told), answer.complaint
    left = {path for path in odd_files.iterdir() if path.suffix != ".cache"} - before
    assert left <= {odd_files / "results"}
    assert not list((odd_files / "results").glob("*"))


@pytest.mark.parametrize(
    ("raw", "told"),
    [(b'{"name": "x",\n  data: 1}', "line 2, column 3"), (b"[]", "not a list"), (b"caf\xe9", "not UTF-8 text (byte 3")],
    ids=["no JSON", "list", "no UTF-8"],
)
def test_a_file_that_is_no_configuration(cli: Cli, odd_files: Path, raw: bytes, told: str) -> None:
    (odd_files / "bad.json").write_bytes(raw)
    answer = cli("train", "bad.json")
    assert answer.complaint.startswith("bad.json: ")
    assert told in answer.complaint
    assert not (odd_files / "results").exists()


def test_no_configuration(cli: Cli, odd_files: Path) -> None:
    assert "no such configuration file" in cli("train", "none.json").complaint
    assert "name a CONFIG to train, or a RUN to --resume" in cli("train").complaint


def test_results_that_cannot_be_written(cli: Cli, tiny_config: Path, odd_files: Path) -> None:
    answer = cli("train", tiny_config, "--results", odd_files / "words.txt" / "results")
    assert "no run can be made here: Not a directory; choose another --results" in answer.complaint


def test_a_training_stopped_before_its_first_step_leaves_nothing(
    cli: Cli, tiny_config: Path, odd_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("seq2seq_chat.training.trainer.Trainer._announce", stop)
    answer = cli("train", tiny_config)
    assert (answer.status, answer.err) == (130, "\nseq2seq-chat: stopped\n")
    assert list((odd_files / "results").iterdir()) == []


# runs that are not what was asked for


@pytest.mark.parametrize("verb", [["chat"], ["evaluate"], ["train", "--resume"]], ids=["chat", "evaluate", "resume"])
def test_a_run_that_cannot_be_found(cli: Cli, own_run: Path, verb: list[str]) -> None:
    results = own_run.parent

    def told(run: str, where: Path = results) -> str:
        return str(cli(*verb, run, "--results", where).complaint)

    assert told("nonesuch") == f"no run 'nonesuch' below {results}; the newest there is {own_run.name}"
    assert "train one, or name its folder with --results" in told("latest", results / "none")
    own_run.rename(results / "2030-01-01_00-00-00_tiny")
    (results / "2030-01-02_00-00-00_tiny").mkdir()
    (results / "2030-01-02_00-00-00_tiny" / "config.json").write_text("{}", encoding="utf-8")
    for run in ("2030", "tiny"):
        assert "may be any of 2 runs" in told(run)
    assert "config.json: name is missing" in told("latest")


@pytest.mark.parametrize("verb", ["chat", "evaluate"])
def test_an_unknown_snapshot(cli: Cli, tiny_run: Path, verb: str) -> None:
    for name in ("30", "../../checkpoints", ""):
        answer = cli(verb, tiny_run, "--snapshot", name)
        assert answer.complaint == (f"run {tiny_run.name} has no snapshot {name!r}; there are: 10, 20, best, latest")
        assert answer.out == ""


def test_more_replies_than_hypotheses(cli: Cli, tiny_run: Path) -> None:
    told = cli("chat", tiny_run, "--beam-width", 3, "--n-best", 4, stdin=b"hello\n").complaint
    assert "n_best is 4, but beam search has 3 hypotheses; use beam search with a beam_width of at least n_best" in told
    assert "--n-best" in cli("chat", tiny_run, "--n-best", 0).complaint


def test_evaluating_on_nothing(cli: Cli, tiny_run: Path, odd_files: Path) -> None:
    for name, told in (("none.txt", "does not exist"), ("lonely.txt", "no sample"), ("latin.txt", "not UTF-8")):
        answer = cli("evaluate", tiny_run, "--data", name, "--json", "figures.json")
        assert name in answer.complaint
        assert told in answer.complaint
        assert not (odd_files / "figures.json").exists()
    answer = cli("evaluate", tiny_run, "--json", odd_files / "none" / "figures.json")
    assert "figures.json: its folder does not exist" in answer.complaint


def test_a_run_without_a_corpus_to_evaluate_on(cli: Cli, own_run: Path) -> None:
    settings = json.loads((own_run / "config.json").read_text(encoding="utf-8"))
    settings["data"]["validation"] = None
    (own_run / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    assert "give one with --data FILE" in cli("evaluate", own_run).complaint


def test_a_run_without_a_checkpoint(cli: Cli, own_run: Path) -> None:
    shutil.rmtree(own_run / "snapshots")
    shutil.rmtree(own_run / "checkpoints")
    for verb in ("chat", "evaluate"):
        assert "has no checkpoint yet; its training ended before one" in cli(verb, own_run).complaint


def test_a_vocabulary_of_another_size(cli: Cli, own_run: Path) -> None:
    words = (own_run / "vocabulary.txt").read_text(encoding="utf-8").splitlines()
    (own_run / "vocabulary.txt").write_text("\n".join(words[:-7]) + "\n", encoding="utf-8")
    before = contents(own_run)
    for arguments in (["chat", own_run], ["evaluate", own_run], ["train", "--resume", own_run]):
        answer = cli(*arguments, stdin=b"hello\n")
        assert "the vocabulary does not belong to these weights" in answer.complaint
        assert f"is {len(words)} but the model's is {len(words) - 7};" in answer.complaint
    assert contents(own_run) == before


def test_a_vocabulary_of_other_words(cli: Cli, own_run: Path) -> None:
    words = (own_run / "vocabulary.txt").read_text(encoding="utf-8").splitlines()
    (own_run / "vocabulary.txt").write_text("\n".join([*words[:4], *reversed(words[4:])]) + "\n", encoding="utf-8")
    before = contents(own_run)
    for arguments in (["chat", own_run], ["evaluate", own_run], ["train", "--resume", own_run]):
        assert "was learned with another vocabulary" in cli(*arguments, stdin=b"hello\n").complaint
    assert contents(own_run) == before


def test_a_vocabulary_that_is_gone(cli: Cli, own_run: Path) -> None:
    (own_run / "vocabulary.txt").unlink()
    for arguments in (["chat", own_run], ["train", "--resume", own_run]):
        assert "vocabulary.txt does not exist" in cli(*arguments).complaint


# damaged checkpoints


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1000])


def test_a_checkpoint_cut_short_is_told_and_the_one_before_used(cli: Cli, own_run: Path) -> None:
    question = b"you see the tree1 ?\n"
    shutil.rmtree(own_run / "snapshots")  # one of the same step would serve as well
    newest = cli("chat", own_run, "--n-best", 3, stdin=question)
    (own_run / "checkpoints" / "0000000020.npz").rename(own_run / "20.npz")
    before = cli("chat", own_run, "--n-best", 3, stdin=question)
    assert before.status == newest.status == 0
    assert before.out != newest.out
    (own_run / "20.npz").rename(own_run / "checkpoints" / "0000000020.npz")

    cut_short(own_run / "checkpoints" / "0000000020.npz")
    answer = cli("chat", own_run, "--n-best", 3, stdin=question)
    assert (answer.status, answer.out) == (0, before.out)
    assert answer.err.startswith("warning: ")
    assert "0000000020.npz" in answer.err
    assert answer.err.endswith("this file is damaged, using the one before\n")
    assert "(step 15)" in cli("evaluate", own_run).out


def test_going_on_from_the_checkpoint_before_a_damaged_one(cli: Cli, own_run: Path, tiny_run: Path) -> None:
    newest = own_run / "checkpoints" / "0000000020.npz"
    cut_short(newest)
    answer = cli("train", "--resume", own_run, "--set", "training.steps=18", "--set", "training.keep_checkpoints=1")
    assert answer.status == 0
    assert "the checkpoint of step 20 is damaged" in answer.out
    assert "going on from step 15" in answer.out
    assert [step for step, _ in Run(own_run).checkpoints()] == [18, 20]  # the damaged one did not drive it out
    assert [line["step"] for line in train_lines(own_run)] == [5, 10, 15, 18]

    answer = cli("train", "--resume", own_run, "--set", "training.steps=20")
    assert answer.status == 0
    assert "going on from step 18" in answer.out
    assert arrays(newest) == arrays(tiny_run / "checkpoints" / "0000000020.npz")


def test_checkpoints_that_are_all_damaged(cli: Cli, own_run: Path) -> None:
    for path in [*own_run.glob("checkpoints/*.npz"), *own_run.glob("snapshots/*/weights.npz")]:
        cut_short(path)
    before = contents(own_run)
    answer = cli("chat", own_run, stdin=b"hello\n")
    assert f"run {own_run.name}: 0000000020.npz is damaged, and so are all before it" in answer.complaint
    assert answer.err.count("warning: ") == 5
    assert answer.out == ""
    assert "weights.npz is damaged" in cli("chat", own_run, "--snapshot", "10").complaint
    answer = cli("train", "--resume", own_run, "--set", "training.steps=30")
    assert "every checkpoint is damaged; bring back a copy of one, or start a new run" in answer.complaint
    assert contents(own_run) == before  # what was reported is not forgotten


# going on


def test_a_resumed_training_ends_in_the_same_bits(
    cli: Cli, tiny_config: Path, tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With dropout and sampled softmax, stopped between two lines of metrics, and as if it had crashed later."""
    from seq2seq_chat.training.console import Console

    advance = Console.advance

    def stop_at_seven(self: Console, step: int, *arguments: Any) -> None:
        advance(self, step, *arguments)
        if step == 7:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Console, "advance", stop_at_seven)
        answer = cli("train", tiny_config, "--results", tmp_path)
    assert answer.status == 130
    run = Path(answer.out.splitlines()[-1])
    assert [step for step, _ in Run(run).checkpoints()] == [5, 7]
    last = train_lines(run)[-1]
    for name, unsaved in (("metrics.jsonl", last), ("samples.jsonl", {"source": "never"})):
        with open(run / name, "a", encoding="utf-8") as file:
            file.write(json.dumps({**unsaved, "step": 8}) + '\n{"step": 9, "ki')

    answer = cli("train", "--resume", run.name, "--results", tmp_path)
    assert answer.status == 0
    assert answer.out.endswith(f"\n{run}\n")
    assert "going on from step 7" in answer.out
    newest, expected = (folder / "checkpoints" / "0000000020.npz" for folder in (run, tiny_run))
    assert arrays(newest) == arrays(expected)
    assert any(name.startswith("output/words/") for name in arrays(newest))  # what the optimizer remembers as well
    assert Run(run).config == Run(tiny_run).config
    assert reported(run) == reported(tiny_run)
    assert lines_of(run / "samples.jsonl") == lines_of(tiny_run / "samples.jsonl")


def reported(run: Path) -> list[dict[str, Any]]:
    """The metrics of a run, but for the time that was needed."""
    return [{**line, "seconds": None, "data_seconds": None} for line in lines_of(run / "metrics.jsonl")]


def test_a_training_goes_on_to_more_steps(cli: Cli, own_run: Path) -> None:
    answer = cli("train", "--resume", own_run, "--set", "training.steps=23")
    assert answer.status == 0
    assert [(line["kind"], line["step"]) for line in lines_of(own_run / "metrics.jsonl")] == [
        *[("train", 5), ("train", 10), ("validation", 10), ("train", 15), ("train", 20), ("validation", 20)],
        *[("train", 23), ("validation", 23)],
    ]
    assert [line["step"] for line in lines_of(own_run / "samples.jsonl")] == [10, 10, 20, 20, 23, 23]
    assert [step for step, _ in Run(own_run).checkpoints()] == [15, 20, 23]
    assert Run(own_run).config.training.steps == 23


def test_a_run_that_is_finished(cli: Cli, own_run: Path) -> None:
    before = contents(own_run)
    answer = cli("train", "--resume", own_run)
    assert answer.status == 0
    assert "already trained for 20 steps; raise training.steps to go on" in answer.out
    assert answer.out.endswith(f"\n{own_run}\n")
    assert contents(own_run) == before


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("model.hidden_size=32", "model.hidden_size (16 → 32)"),
        ("data.reverse_input=true", "data.reverse_input (false → true)"),
        ("seed=4", "seed (3 → 4)"),
        ("training.optimizer=sgd", 'training.optimizer ("adam" → "sgd")'),
        ("model.hiden_size=32", "did you mean model.hidden_size?"),
        ("training.batch_size=100000000", "GB are free; lower training.batch_size"),
    ],
)
def test_changes_that_a_run_cannot_take(cli: Cli, own_run: Path, override: str, told: str) -> None:
    before = contents(own_run)
    assert told in cli("train", "--resume", own_run, "--set", override).complaint
    assert contents(own_run) == before


def test_a_run_goes_on_with_its_corpus_wherever_that_lies(cli: Cli, own_run: Path, tmp_path: Path) -> None:
    """A step number is a place in the corpus: another corpus is refused, the same one elsewhere is not."""
    learned = Path(json.loads((own_run / "config.json").read_text(encoding="utf-8"))["data"]["train"])
    moved, other = tmp_path / "moved.txt", tmp_path / "other.txt"
    shutil.copy(learned, moved)
    lines = learned.read_text(encoding="utf-8").splitlines(keepends=True)
    other.write_text("".join(lines[: len(lines) // 2]), encoding="utf-8")
    more = ("--set", "training.steps=21")
    told = cli("train", "--resume", own_run, "--set", f"data.train={other}", *more).complaint
    assert "is not the corpus that run" in told
    assert cli("train", "--resume", own_run, "--set", f"data.train={moved}", *more).status == 0
    assert (own_run / "checkpoints" / "0000000021.npz").is_file()


def test_a_loss_that_is_no_number_stops_and_leaves_what_was_good(cli: Cli, own_run: Path, tiny_config: Path) -> None:
    """The update itself makes the weights infinite; the loss before it is still a number."""
    wild = ("--set", "training.optimizer=sgd", "--set", "training.learning_rate=1e38", "--set", "training.steps=1")
    answer = cli("train", tiny_config, "--results", own_run.parents[1] / "new", *wild)
    assert answer.status == 1
    assert "not a finite number any more at step 1; nothing was saved. Try a lower training.learning_rate" in answer.err
    assert not list((own_run.parents[1] / "new").iterdir()), "a run that saved nothing is of no use"

    kept = {path.name for path in (own_run / "checkpoints").iterdir()}
    faster = ("--set", "training.learning_rate=1e38", "--set", "training.steps=40")
    answer = cli("train", "--resume", own_run, *faster)
    assert answer.status == 1
    assert "the checkpoint of step 20 is from before" in answer.err
    assert {path.name for path in (own_run / "checkpoints").iterdir()} == kept
    assert cli("chat", own_run, stdin=b"you see the tree1 ?\n").out.strip()


def test_a_run_that_is_being_trained(cli: Cli, own_run: Path) -> None:
    before = contents(own_run)
    with Run(own_run).lock():
        told = cli("train", "--resume", own_run, "--set", "training.steps=30").complaint
    assert f"is being trained by process {os.getpid()} on " in told
    assert contents(own_run) == before


# signals


class Stopped(NamedTuple):
    """A training that was stopped by a signal."""

    status: int
    out: str
    err: str
    run: Path


@pytest.fixture(scope="module")
def stopped(tiny_config: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[signal.Signals, Stopped]]:
    """Two trainings without end, of which one got SIGINT and the other SIGTERM after a few steps."""
    results = {number: tmp_path_factory.mktemp(number.name) for number in (signal.SIGINT, signal.SIGTERM)}
    endless = [f"--set=training.{setting}" for setting in ("steps=1000000", "log_every=1", "checkpoint_every=1000000")]
    processes = {
        number: subprocess.Popen(
            [sys.executable, "-m", "seq2seq_chat", "train", tiny_config, "--results", folder, *endless],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number, folder in results.items()
    }
    answers = {}
    try:
        for number, process in processes.items():
            deadline = time.monotonic() + DEADLINE
            while not any(path.read_bytes().count(b"\n") >= 3 for path in results[number].glob("*/metrics.jsonl")):
                assert time.monotonic() < deadline, "no progress"
                try:
                    process.wait(timeout=0.05)
                except subprocess.TimeoutExpired:
                    continue
                pytest.fail(f"ended by itself: {process.communicate()}")
            process.send_signal(number)
            out, err = process.communicate(timeout=DEADLINE)
            (run,) = results[number].iterdir()
            answers[number] = Stopped(process.returncode, out, err, run)
        yield answers
    finally:
        for process in processes.values():
            process.kill()
            process.communicate()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_and_saves(stopped: dict[signal.Signals, Stopped], number: signal.Signals, status: int) -> None:
    answer = stopped[number]
    assert answer.status == status
    assert answer.out.endswith(f"\n{answer.run}\n")
    assert f"stopped and saved; go on with: seq2seq-chat train --resume {answer.run}\n" in answer.err
    assert "Traceback" not in answer.err
    (checkpoint,) = Run(answer.run).checkpoints()
    assert checkpoint[0] == train_lines(answer.run)[-1]["step"] >= 3
    assert not Run(answer.run).is_locked()


def test_a_training_stopped_by_a_signal_goes_on(cli: Cli, stopped: dict[signal.Signals, Stopped]) -> None:
    run = stopped[signal.SIGINT].run
    done = Run(run).checkpoints()[-1][0]
    answer = cli("train", "--resume", run, "--set", f"training.steps={done + 4}")
    assert answer.status == 0
    assert f"going on from step {done}\n" in answer.out
    assert [line["step"] for line in train_lines(run)] == list(range(1, done + 5))
    assert Run(run).checkpoints()[-1][0] == done + 4
