"""The command line: output, exit statuses, and error messages."""

import errno
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from seq2seq_chat.config import json_schema, load_config
from seq2seq_chat.runs.json_lines import read_json_lines
from seq2seq_chat.runs.run import Run
from tests.conftest import MARKER, REPOSITORY, Cli, edit_config
from tests.training.test_recovery import arrays, logged_lines

DEADLINE = 400  # seconds until a training run must show progress, even on a busy machine
SMALLER = [f"--set=model.{setting}" for setting in ("encoder_steps=2", "decoder_steps=2", "attention=none")]


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder, except those that a rejected training may modify."""
    modified = {"train.log", "lock"}
    files = [path for path in folder.rglob("*") if path.is_file() and "tensorboard" not in path.parts]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files if path.name not in modified}


def train_lines(run: Path) -> list[dict[str, Any]]:
    return [line for line in logged_lines(run / "metrics.jsonl") if line["kind"] == "train"]


# output


def test_the_files_of_a_run(trained: tuple[Path, Any], tiny_config: Path) -> None:
    run, result = trained
    assert result.out.endswith(f"\n{run}\n")
    assert result.err == ""
    assert run.name.endswith("_tiny")
    assert Run(run).config == load_config(tiny_config)
    assert json.loads((run / "config.json").read_text(encoding="utf-8"))["training"]["keep_checkpoints"] == 3
    assert {path.name for path in run.iterdir()} == {
        *("config.json", "environment.json", "vocabulary.txt", "metrics.jsonl", "samples.jsonl", "train.log"),
        *("history.jsonl", "MODEL_CARD.md", "end.json", "checkpoints", "snapshots", "tensorboard", "lock"),
    }
    checkpoints = {path.name for path in (run / "checkpoints").iterdir()}
    assert checkpoints == {"0000000010.npz", "0000000015.npz", "0000000020.npz", "best.npz"}  # three are kept
    assert {path.name for path in (run / "snapshots").iterdir()} == {"10", "20"}
    assert list((run / "tensorboard").iterdir())
    environment = json.loads((run / "environment.json").read_text(encoding="utf-8"))
    assert environment["packages"]["tensorflow"].startswith("2.15")
    assert "step 20 of 20" in (run / "train.log").read_text(encoding="utf-8")


def test_metrics_and_samples_of_a_run(tiny_run: Path) -> None:
    metrics = list(read_json_lines(tiny_run / "metrics.jsonl"))
    assert [(line["kind"], line["step"]) for line in metrics] == [
        *[("train", 5), ("train", 10), ("validation", 10), ("train", 15), ("train", 20), ("validation", 20)]
    ]
    for line in metrics:
        assert {"step", "kind", "loss", "perplexity", "tokens", "seconds"} <= set(line)
        assert line["perplexity"] == pytest.approx(math.exp(line["loss"]))
        assert line["tokens"] > 0
    assert metrics[-1]["loss"] < metrics[2]["loss"]  # it learns
    samples = logged_lines(tiny_run / "samples.jsonl")
    assert [line["step"] for line in samples] == [10, 10, 20, 20]
    assert all(set(line) == {"step", "source", "reply", "target"} for line in samples)
    assert all(line["source"].endswith("?") for line in samples)
    assert samples[-1]["reply"]


def test_schema(cli: Cli, tmp_path: Path) -> None:
    assert cli("schema") == (0, json_schema(), "")
    assert cli("schema", "--output", tmp_path / "schema.json") == (0, "", "")
    assert (tmp_path / "schema.json").read_text(encoding="utf-8") == json_schema()


def test_training_continues_if_stdout_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from seq2seq_chat.training.reporter import Console

    broken_pipe = Mock(side_effect=BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)))
    monkeypatch.setattr("seq2seq_chat.training.reporter.print", broken_pipe, raising=False)
    console = Console(tmp_path / "train.log")
    console.log("step 5")
    console.log("step 10")
    lines = (tmp_path / "train.log").read_text(encoding="utf-8").splitlines()
    assert [line[20:] for line in lines] == ["step 5", "step 10"]
    assert caplog.messages == [f"could not write the output: Broken pipe; training continues, see {tmp_path}/train.log"]


# rejected before training


UNKNOWN = "decoding.allow_unknown=true decoding.replace_unknown"
REJECTED = [  # invalid overrides, and parts of the message
    ("model.hiden_size=5", "unknown key model.hiden_size; did you mean model.hidden_size?"),
    ("model.hidden_size=1000000", "GB is available; lower|model.hidden_size"),
    ("training.batch_size=100000000", "GB is available; lower training.batch_size"),
    ("data.train=none.txt", "none.txt does not exist|relative to the working directory"),
    ("data.train=.", "is a folder. Name a file in it"),
    ("data.train=empty.txt", "empty.txt has no utterance|one utterance per line"),
    ("data.train=blank.txt", "blank.txt|needs"),
    ("data.train=latin.txt", "latin.txt, line 2|Convert the file to UTF-8"),
    ("data.train=cyrillic.txt", "removes 100 % of the letters in cyrillic.txt"),
    ("data.train=lonely.txt", "lonely.txt has no sample|two utterances or more"),
    (f"{UNKNOWN}=true decoding.lexicon=none.tsv", "decoding.lexicon: none.tsv does not exist"),
    ("data.validation=none.txt", "none.txt does not exist|validation: null"),
    ("data.validation=lonely.txt", "lonely.txt has no sample|validation: null"),
    ("data.vocabulary=none.txt", "none.txt does not exist"),
    ("data.vocabulary=words.txt", "words.txt is a plain list of words|<pad> <go>"),
    ("data.vocabulary=binary.txt", "binary.txt is not UTF-8"),
    ("model.pretrained_embeddings=none.txt", "none.txt|could not read pretrained embeddings"),
    ("model.pretrained_embeddings=vectors.txt", "line 1: 3 numbers|size is 8"),
]


@pytest.fixture
def invalid_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with invalid files."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "empty.txt").touch()
    (folder / "blank.txt").write_text(f"***\n \n{MARKER}\n", encoding="utf-8")
    (folder / "latin.txt").write_bytes("hello\ncafé\n".encode("latin-1"))
    (folder / "cyrillic.txt").write_text(f"Привет!\nКак дела?\n{MARKER}\n", encoding="utf-8")
    (folder / "lonely.txt").write_text(f"hello\n{MARKER}\nanybody ?\n{MARKER}\n", encoding="utf-8")
    (folder / "words.txt").write_text("hello\nworld\n", encoding="utf-8")
    (folder / "binary.txt").write_bytes(bytes(range(256)))
    (folder / "vectors.txt").write_text("hello 1 2 3\n", encoding="utf-8")
    (folder / "prepared").mkdir()
    (folder / "prepared" / "experiment.json").touch()
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(("overrides", "message"), REJECTED)
def test_an_invalid_training_is_rejected_and_leaves_nothing(
    cli: Cli, tiny_config: Path, invalid_files: Path, overrides: str, message: str
) -> None:
    before = set(invalid_files.iterdir())
    result = cli("train", tiny_config, *(f"--set={override}" for override in overrides.split()))
    assert all(part in result.error_message for part in message.split("|")), result.error_message
    left = {path for path in invalid_files.iterdir() if path.suffix != ".cache"} - before
    assert left <= {invalid_files / "results"}
    assert not list((invalid_files / "results").glob("*"))


REFUSED = [  # commands in the folder of invalid files, and a part of the message
    ("train none.json", "none.json: no such configuration file"),
    ("train {folder}", "{folder} is a folder; name a configuration file"),
    ("train prepared", "prepared is a folder; name a configuration file, such as prepared/experiment.json"),
    ("train", "specify a CONFIG to train, or a RUN to --resume"),
    ("train {config} --resume=", "the name of the run is empty"),
    ("train {config} --results words.txt/results", "could not be written: Not a directory"),
    *(
        (f"{verb} {{run}} --snapshot={name}", f"has no snapshot {name!r}; available: 10, 20, best, latest")
        for verb in ("chat", "evaluate")
        for name in ("30", "../../checkpoints", "")
    ),
    ("chat {run} --beam-width 3 --n-best 4", "n_best is 4, but beam search has 3 hypotheses; use beam search with a"),
    ("chat {run} --n-best 0", "--n-best"),
    ("chat {run} --beam-width 3 --set decoding.method=greedy", "omit them, or --set decoding.method=greedy"),
    ("evaluate {run} --beam-width 3 --set decoding.method=sample", "omit them, or --set decoding.method=sample"),
    ("evaluate {run} --output words.txt", "--output words.txt is a file; name a folder"),
    ("experiments compare {run} --votes", "there are no votes for these runs"),
    ("experiments compare {run} --json none/table.json", "--json none/table.json: the folder does not exist"),
    ("experiments compare {run} --json a.json --output none/a.png", "--output none/a.png: the folder does not exist"),
    ("serve --port 0 --log-file none/log", "--log-file none/log: the folder does not exist; create it first"),
    ("prepare words.txt --output x", "words.txt is an input; name the kind of corpus before it, such as"),
    ("schema --output {folder}", "--output {folder} is a folder; name a file in it"),
    ("schema --output=", "--output '' is a folder; name a file in it"),
    ("evaluate {run} --data none.txt --json figures.json", "none.txt does not exist"),
    ("evaluate {run} --data lonely.txt --json figures.json", "lonely.txt has no sample"),
    ("evaluate {run} --data latin.txt --json figures.json", "latin.txt, line 2: byte 9 of the text is not UTF-8"),
]
BEFORE_TENSORFLOW = [  # in the folder of a run, as far as it is read
    ("train {config} --set data.train=none.txt", "none.txt does not exist"),
    ("train {config} --set data.validation=none.txt", "none.txt does not exist"),
    (
        "evaluate . --data dailydialog/test.txt",
        "to create it: seq2seq-chat prepare dailydialog INPUT --output dailydialog",
    ),
    ("evaluate . --data copy_task/test.txt", "to create it: python scripts/generate_copy_task.py"),
    ("evaluate . --data none/train.tsv", "to create it: seq2seq-chat prepare pairs INPUT --output none"),
    ("report . --data none.txt", "none.txt does not exist"),
    ("evaluate . --json {folder}", "--json {folder} is a folder; name a file in it"),
    ("check {config} --json {folder}", "--json {folder} is a folder; name a file in it"),
    ("evaluate . --json none/figures.json", "figures.json: the folder does not exist"),
]


@pytest.mark.parametrize(("arguments", "message"), [*REFUSED, *BEFORE_TENSORFLOW])
def test_a_command_is_refused_and_writes_nothing(
    cli: Cli, tiny_config: Path, tiny_run: Path, invalid_files: Path, monkeypatch: Any, arguments: str, message: str
) -> None:
    if (arguments, message) in BEFORE_TENSORFLOW:
        monkeypatch.setattr("seq2seq_chat.system.versions.load_tensorflow", lambda: pytest.fail("TensorFlow is loaded"))
        shutil.copy(tiny_config, invalid_files / "config.json")
    before, names = set(invalid_files.rglob("*")), {"config": tiny_config, "run": tiny_run, "folder": invalid_files}
    result = cli(*arguments.format(**names).split(), stdin=b"hello\n")
    assert message.format(**names) in result.error_message
    assert result.out == ""
    assert {path for path in invalid_files.rglob("*") if ".cache" not in str(path)} == before


def test_a_run_instead_of_a_configuration(cli: Cli, tmp_path: Path) -> None:
    run = tmp_path / "results" / "2026-05-04_17-03-22_tiny"
    run.mkdir(parents=True)
    (run / "config.json").write_text("{}", encoding="utf-8")
    for name in (str(run), run.name, "2026", "tiny", "latest"):
        message = cli("train", name, "--results", run.parent).error_message
        assert message == f"{name} is a run; to continue it: seq2seq-chat train --resume {name}"


# invalid runs


@pytest.mark.parametrize("verb", ["chat", "evaluate", "train --resume"])
def test_a_run_that_is_unknown_or_without_its_configuration(cli: Cli, run_copy: Path, verb: str) -> None:
    results, damaged = run_copy.parent, run_copy.with_name("2030-01-02_00-00-00_damaged")

    def message(name: object) -> str:
        return cli(*verb.split(), name, "--results", results).error_message

    assert message("nonesuch") == f"no run 'nonesuch' in {results}; the newest is {run_copy.name}"
    damaged.mkdir()
    (damaged / "config.json").write_text("{}", encoding="utf-8")
    assert "config.json: name is missing" in message("latest")
    (damaged / "config.json").unlink()
    (damaged / "checkpoints").mkdir()
    run_copy.rename(results.parent / "moved")
    for name in (damaged, damaged.name, "damaged", "2030", "latest"):
        assert message(name).startswith(f"run {damaged.name} is damaged: config.json is missing; restore it")


def test_a_run_without_a_corpus_to_evaluate_on(cli: Cli, run_copy: Path) -> None:
    edit_config(run_copy, "data", validation=None)
    assert "specify one with --data FILE" in cli("evaluate", run_copy).error_message


def test_a_run_without_a_checkpoint(cli: Cli, run_copy: Path) -> None:
    shutil.rmtree(run_copy / "snapshots")
    shutil.rmtree(run_copy / "checkpoints")
    for verb in ("chat", "evaluate"):
        assert "has no checkpoint yet; its training ended before saving one" in cli(verb, run_copy).error_message


@pytest.mark.parametrize("damage", ["another size", "other words", "missing"])
def test_another_vocabulary(cli: Cli, run_copy: Path, damage: str) -> None:
    file = run_copy / "vocabulary.txt"
    words = file.read_text(encoding="utf-8").splitlines()
    expected = {
        "another size": f"is {len(words)} but the model's is {len(words) - 7};",
        "other words": "was trained with a different vocabulary",
        "missing": f"run {run_copy.name} is damaged: vocabulary.txt is missing; restore it",
    }
    if damage == "missing":
        file.unlink()
    else:
        changed = words[:-7] if damage == "another size" else [*words[:4], *reversed(words[4:])]
        file.write_text("\n".join(changed) + "\n", encoding="utf-8")
    before = contents(run_copy)
    for arguments in (["chat", run_copy], ["evaluate", run_copy], ["train", "--resume", run_copy]):
        assert expected[damage] in cli(*arguments, stdin=b"hello\n").error_message
    assert contents(run_copy) == before


# damaged checkpoints


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1000])


@pytest.mark.slow
def test_resuming_from_the_checkpoint_before_a_damaged_one(
    cli: Cli, run_copy: Path, tiny_run: Path, tmp_path: Path
) -> None:
    """With fewer steps and a moved corpus; the finished run is then trained for more steps."""
    newest, moved = run_copy / "checkpoints" / "0000000020.npz", tmp_path / "moved.txt"
    truncate(newest)
    shutil.copy(Run(run_copy).config.data.train, moved)
    changes = ["training.steps=18", "training.keep_checkpoints=1", f"data.train={moved}"]
    result = cli("train", "--resume", run_copy, *(f"--set={change}" for change in changes))
    assert result.status == 0
    assert "the checkpoint of step 20 is damaged" in result.out
    assert "resuming from step 15" in result.out
    assert [step for step, _ in Run(run_copy).checkpoints()] == [18, 20]  # the damaged one did not displace it
    assert [line["step"] for line in train_lines(run_copy)] == [5, 10, 15, 18]

    result = cli("train", "--resume", run_copy, "--set=training.steps=23", "--set=training.keep_checkpoints=3")
    assert result.status == 0
    assert "resuming from step 18" in result.out
    assert arrays(newest) == arrays(tiny_run / "checkpoints" / "0000000020.npz")
    assert [(line["kind"], line["step"]) for line in logged_lines(run_copy / "metrics.jsonl")] == [
        *[("train", 5), ("train", 10), ("validation", 10), ("train", 15), ("train", 18), ("validation", 18)],
        *[("train", 20), ("validation", 20), ("train", 23), ("validation", 23)],
    ]
    assert [line["step"] for line in logged_lines(run_copy / "samples.jsonl")] == [10, 10, 18, 18, 20, 20, 23, 23]
    assert [step for step, _ in Run(run_copy).checkpoints()] == [18, 20, 23]
    assert Run(run_copy).config.training.steps == 23


def test_all_checkpoints_are_damaged(cli: Cli, run_copy: Path) -> None:
    for path in [*run_copy.glob("checkpoints/*.npz"), *run_copy.glob("snapshots/*/weights.npz")]:
        truncate(path)
    before = contents(run_copy)
    result = cli("chat", run_copy, stdin=b"hello\n")
    assert f"run {run_copy.name}: 0000000020.npz is damaged, and so are all earlier ones" in result.error_message
    warnings = result.err.splitlines()[:5]
    assert all(line.startswith("seq2seq-chat: warning: ") for line in warnings), warnings
    assert "0000000020.npz" in warnings[0] and warnings[0].endswith("the file is damaged, using the previous one")
    assert result.out == ""
    assert "weights.npz is damaged" in cli("chat", run_copy, "--snapshot", "10").error_message
    result = cli("train", "--resume", run_copy, "--set", "training.steps=30")
    assert "every checkpoint is damaged; restore one from a backup, or start a new run" in result.error_message
    assert contents(run_copy) == before


@pytest.mark.parametrize("left", ["snapshots", "an empty folder", "nothing"])
def test_a_run_whose_checkpoints_were_deleted_is_not_resumed(cli: Cli, run_copy: Path, left: str) -> None:
    """Training from scratch would overwrite metrics.jsonl and samples.jsonl."""
    shutil.rmtree(run_copy / "checkpoints")
    if left != "snapshots":
        shutil.rmtree(run_copy / "snapshots")
    if left == "an empty folder":
        (run_copy / "checkpoints").mkdir()
    before = contents(run_copy)
    message = cli("train", "--resume", run_copy).error_message
    assert f"run {run_copy.name} cannot be resumed, because the files in its folder checkpoints/ are missing" in message
    assert ("to chat with and evaluate: 10, 20." in message) == (left == "snapshots")
    assert message.endswith(f"train again: seq2seq-chat train {run_copy / 'config.json'}")
    assert contents(run_copy) == before


def test_a_run_killed_before_its_first_checkpoint_starts_again(run_copy: Path) -> None:
    from seq2seq_chat.training.restore import TrainingInputs, load_newest_checkpoint

    for name in ("checkpoints", "snapshots"):
        shutil.rmtree(run_copy / name)
        (run_copy / name).mkdir()
    (run_copy / "end.json").unlink()
    unused: Any = None
    assert load_newest_checkpoint(TrainingInputs(Run(run_copy), unused, unused, unused), unused, print) is None


# resuming


def test_a_resumed_training_ends_bit_for_bit_the_same(
    cli: Cli, tiny_config: Path, tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With dropout and sampled softmax, stopped between two lines of metrics, and as if it had crashed later."""
    from seq2seq_chat.training.reporter import Console

    advance = Console.advance

    def stop_at_seven(self: Console, step: int, *arguments: Any) -> None:
        advance(self, step, *arguments)
        if step == 7:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Console, "advance", stop_at_seven)
        result = cli("train", tiny_config, "--results", tmp_path)
    assert result.status == 130
    run = Path(result.out.splitlines()[-1])
    assert f"stopped and saved; resume with: seq2seq-chat train --resume {run}\n" in result.err
    assert [step for step, _ in Run(run).checkpoints()] == [5, 7]
    last = train_lines(run)[-1]
    for name, unsaved in (("metrics.jsonl", last), ("samples.jsonl", {"source": "never"})):
        with open(run / name, "a", encoding="utf-8") as file:
            file.write(json.dumps({**unsaved, "step": 8}) + '\n{"step": 9, "ki')

    result = cli("train", "--resume", run.name, "--results", tmp_path)
    assert result.status == 0
    assert result.out.endswith(f"\n{run}\n")
    assert "resuming from step 7" in result.out
    newest, expected = (folder / "checkpoints" / "0000000020.npz" for folder in (run, tiny_run))
    assert arrays(newest) == arrays(expected)
    assert any(name.startswith("output/words/") for name in arrays(newest))  # the optimizer's slots
    assert Run(run).config == Run(tiny_run).config
    assert logged_lines(run / "metrics.jsonl") == logged_lines(tiny_run / "metrics.jsonl")
    assert logged_lines(run / "samples.jsonl") == logged_lines(tiny_run / "samples.jsonl")


def test_resuming_a_locked_or_finished_run_changes_nothing(cli: Cli, run_copy: Path) -> None:
    before = contents(run_copy)
    with Run(run_copy).lock():
        message = cli("train", "--resume", run_copy, "--set", "training.steps=30").error_message
    assert f"is being trained by process {os.getpid()} on " in message
    result = cli("train", "--resume", run_copy)
    assert result.status == 0
    assert "already trained for 20 steps; raise training.steps to continue" in result.out
    assert result.out.endswith(f"\n{run_copy}\n")
    assert contents(run_copy) == before


def test_settings_that_cannot_change_on_resume(cli: Cli, run_copy: Path) -> None:
    before = contents(run_copy)
    changes = ("--set=seed=4", "--set=data.reverse_input=true", "--set=training.optimizer=sgd")
    message = cli("train", "--resume", run_copy, *changes).error_message
    for change in ("seed (3 → 4)", "data.reverse_input (false → true)", 'training.optimizer ("adam" → "sgd")'):
        assert change in message
    assert contents(run_copy) == before


def test_a_run_resumes_only_with_its_own_corpus(cli: Cli, run_copy: Path, tmp_path: Path) -> None:
    """A step is a position in the corpus: another corpus is rejected; a copy at another path is not, see above."""
    lines = Path(Run(run_copy).config.data.train).read_text(encoding="utf-8").splitlines(keepends=True)
    other = tmp_path / "other.txt"
    other.write_text("".join(lines[: len(lines) // 2]), encoding="utf-8")
    more = ("--set", "training.steps=21")
    message = cli("train", "--resume", run_copy, "--set", f"data.train={other}", *more).error_message
    assert "is not the corpus that run" in message


@pytest.mark.slow
def test_a_loss_that_is_not_finite_stops_and_keeps_the_checkpoints(cli: Cli, run_copy: Path, tiny_config: Path) -> None:
    """The update makes the weights infinite; the loss before it is finite."""
    wild = ("--set", "training.optimizer=sgd", "--set", "training.learning_rate=1e38", "--set", "training.steps=1")
    result = cli("train", tiny_config, "--results", run_copy.parents[1] / "new", *wild, *SMALLER)
    assert result.status == 1
    assert "not finite at step 1; nothing was saved. Try a lower training.learning_rate" in result.err
    assert not list((run_copy.parents[1] / "new").iterdir()), "a run that saved nothing is of no use"

    kept = {path.name for path in (run_copy / "checkpoints").iterdir()}
    faster = ("--set", "training.learning_rate=1e38", "--set", "training.steps=40")
    result = cli("train", "--resume", run_copy, *faster)
    assert result.status == 1
    assert "the checkpoint of step 20 was saved before that" in result.err
    end = json.loads((run_copy / "end.json").read_text(encoding="utf-8"))
    assert end["state"] == "failed" and "not finite" in end["reason"]
    assert {path.name for path in (run_copy / "checkpoints").iterdir()} == kept
    assert cli("chat", run_copy, stdin=b"you see the tree1 ?\n").out.strip()


# signals


@pytest.mark.slow
def test_sigterm_stops_and_saves(tiny_config: Path, tmp_path: Path) -> None:
    """An endless training in a process of its own, after a few steps. SIGINT: see above."""
    endless = [f"--set=training.{setting}" for setting in ("steps=1000000", "log_every=1", "checkpoint_every=1000000")]
    command = [sys.executable, "-m", "seq2seq_chat", "train", tiny_config, "--results", tmp_path, *endless, *SMALLER]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, cwd=REPOSITORY, stdout=pipe, stderr=pipe, text=True)
    try:
        deadline = time.monotonic() + DEADLINE
        while not any(path.read_bytes().count(b"\n") >= 3 for path in tmp_path.glob("*/metrics.jsonl")):
            assert time.monotonic() < deadline, "no progress"
            try:
                process.wait(timeout=0.05)
            except subprocess.TimeoutExpired:
                continue
            pytest.fail(f"ended by itself: {process.communicate()}")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=DEADLINE)
    finally:
        process.kill()
        process.communicate()
    (run,) = tmp_path.iterdir()
    assert process.returncode == 143
    assert out.endswith(f"\n{run}\n")
    assert f"stopped and saved; resume with: seq2seq-chat train --resume {run}\n" in err
    assert "Traceback" not in err
    (checkpoint,) = Run(run).checkpoints()
    assert checkpoint[0] == train_lines(run)[-1]["step"] >= 3
    assert not Run(run).is_locked()


NOTHING = "no checkpoint was saved yet; start training again"
AGAIN = "run the same command again to continue; finished replies are kept"
RESUME = "the checkpoint of step 20 is saved; resume with: seq2seq-chat train --resume {run}"


@pytest.mark.parametrize(
    ("command", "function", "consequence"),
    [
        ("train {config}", "training.assemble._report_devices_and_memory", NOTHING),
        ("train --resume {run}", "training.experiment._start", RESUME),
        ("evaluate {run}", "report.evaluate.predict", AGAIN),
        ("report {run}", "report.build.write_report", AGAIN),
    ],
)
def test_what_becomes_of_the_work_of_an_interrupted_command(
    cli: Cli,
    tiny_config: Path,
    run_copy: Path,
    invalid_files: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    function: str,
    consequence: str,
) -> None:
    monkeypatch.setattr(f"seq2seq_chat.{function}", Mock(side_effect=KeyboardInterrupt))
    result = cli(*command.format(config=tiny_config, run=run_copy).split())
    assert (result.status, result.err) == (130, f"\nseq2seq-chat: stopped; {consequence.format(run=run_copy)}\n")
    assert not list(invalid_files.glob("results/*")), "a training without a checkpoint leaves nothing"


def test_the_place_of_results(cli: Cli, tiny_config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The option wins over the file, and the file over the environment."""
    monkeypatch.setenv("SEQ2SEQ_CHAT_RESULTS", str(tmp_path / "environment"))
    few = ["--set", "training.steps=1", "--set", "training.validate_every=1"]
    file = ["--set", f"results={tmp_path / 'file'}"]
    for options, folder in (([], "environment"), (file, "file"), ([*file, "--results", tmp_path / "option"], "option")):
        result = cli("train", tiny_config, *few, *options)
        assert result.status == 0, result
        assert Path(result.out.splitlines()[-1]).parent == tmp_path / folder
    changes = ("--set", f"results={tmp_path / 'ignored'}", "--set", "training.steps=2")
    assert cli("train", "--resume", next((tmp_path / "file").iterdir()), *changes).status == 0
    assert not (tmp_path / "ignored").exists()
