"""Reading resumes, gives the same files with any number of processes, and survives interruptions."""

import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
import zipfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from seq2seq_chat.config import Data, parse_config
from seq2seq_chat.data.build_codecs import named_files
from seq2seq_chat.data.corpus_file import CorpusError, warn_of_edits
from seq2seq_chat.prepare import pipeline, workers
from seq2seq_chat.prepare.pipeline import prepare
from seq2seq_chat.prepare.readers import opensubtitles, reddit
from seq2seq_chat.prepare.settings import PrepareSettings
from seq2seq_chat.prepare.shards import ReaderSettings, ReadingStopped
from seq2seq_chat.runs.run import RunError
from seq2seq_chat.system.errors import UserError
from tests.conftest import run_command
from tests.prepare.raw import contents, dump, film
from tests.random_runs import random_language_run


def test_concurrent_preparations_are_rejected(months: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "output"

    def prepare_again(*arguments: object) -> list[object]:
        with pytest.raises(UserError, match="in use by another preparation"):
            prepare(PrepareSettings("reddit"), [months], output)
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules[prepare.__module__], "read_tasks", prepare_again)
    with pytest.raises(KeyboardInterrupt):
        prepare(PrepareSettings("reddit"), [months], output)


def test_a_file_system_without_locks_is_named(months: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline.fcntl, "flock", Mock(side_effect=OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))))
    with pytest.raises(UserError, match=r"could not be locked: No locks available\. Choose a folder on a local disk"):
        prepare(PrepareSettings("reddit"), [months], tmp_path / "output")


STOPPED = """
import os, signal, sys
from seq2seq_chat.cli import main
from seq2seq_chat.prepare import engine, pipeline, subwords, workers
subwords._MIN_PARALLEL_GROUPS = 1
workers._MIN_PARALLEL_BYTES, pipeline._RANGE_BYTES, pipeline._TASK_BYTES = 0, 10_000, 20_000
place, number = sys.argv.pop(), getattr(signal, sys.argv.pop())
def stopping(function, stops):
    def run(*arguments):
        for result in function(*arguments):
            if stops:
                os.kill(os.getpid(), number)
            yield result
    return run
def materialize_and_stop(self, *arguments):
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), number))
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    self._connection.con.sql("SELECT count(*) FROM range(100000000000) WHERE sqrt(range) = 0.5").fetchall()
workers._read_in_pool = stopping(workers._read_in_pool, place == "reading")
subwords.map_in_processes = stopping(subwords.map_in_processes, True)
if place == "engine":
    engine._DuckDB.materialize = materialize_and_stop
main()
"""


@pytest.mark.parametrize(
    ("place", "long", "name", "status"),
    [
        ("reading", False, "SIGKILL", -9),
        ("reading", False, "SIGINT", 130),
        ("reading", False, "SIGTERM", 143),
        ("reading", True, "SIGTERM", 143),
        ("tokenizing", False, "SIGINT", 130),
        ("engine", False, "SIGINT", 130),
        ("engine", False, "SIGTERM", 143),
        pytest.param("engine", True, "SIGINT", 130, marks=pytest.mark.slow),
    ],
    ids=lambda value: {False: "forked", True: "spawned"}.get(value, str(value)),
)
def test_a_preparation_that_was_stopped_resumes_and_leaves_no_temporary_files(
    months: Path, tmp_path: Path, place: str, long: bool, name: str, status: int
) -> None:
    # The socket of the fork server cannot be in a folder with a long name.
    with tempfile.TemporaryDirectory(prefix="x" * 90 if long else "x") as temporary:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": temporary}
        options = ["--tokenizer", "subword", "--vocabulary-size", "300"] if place == "tokenizing" else []
        options += ["--output", str(tmp_path / "output"), "--jobs", "2"]
        arguments = ["prepare", "reddit", str(months), *options, name, place]
        run = subprocess.run(
            [sys.executable, "-c", STOPPED, *arguments], env=environment, check=False, capture_output=True, timeout=240
        )
        message = "seq2seq-chat: stopped; run the same command again to continue"
        printed = [line for line in run.stderr.decode().splitlines() if line and "training a subword" not in line]
        assert run.returncode == status
        if name != "SIGKILL":
            assert printed == [message]
            assert not list(Path(temporary).iterdir())
    assert list((tmp_path / "output" / ".preparing").glob("*.json"))
    assert not (tmp_path / "output" / ".preparing" / "new").exists()
    assert (tmp_path / "output" / ".preparing").stat().st_mode & 0o777 == 0o700
    for output in ("output", "uninterrupted"):
        prepare(PrepareSettings("reddit", jobs=1), [months], tmp_path / output)
    assert contents(tmp_path / "output") == contents(tmp_path / "uninterrupted")


def test_killed_reader_process_keeps_finished_shards(
    months: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "_MIN_PARALLEL_BYTES", 0)
    monkeypatch.setattr(pipeline, "_RANGE_BYTES", 10_000)
    monkeypatch.setattr(pipeline, "_TASK_BYTES", 20_000)
    killed: list[int] = []

    class Pool(ProcessPoolExecutor):
        def submit(self, *arguments: Any) -> Any:  # type: ignore[override]
            if list((tmp_path / "out" / ".preparing").glob("*.json")) and not killed:
                killed.append(next(iter(self._processes)))
                os.kill(killed[0], signal.SIGKILL)
            return super().submit(*arguments)

    monkeypatch.setattr(workers, "ProcessPoolExecutor", Pool)
    with pytest.raises(ReadingStopped, match=r"was killed, possibly because memory ran out.*--jobs"):
        prepare(PrepareSettings("reddit", jobs=2), [months], tmp_path / "out")
    monkeypatch.undo()
    finished = {path.name for path in (tmp_path / "out" / ".preparing").glob("*.json")}
    assert finished
    prepare(PrepareSettings("reddit", jobs=1), [months], tmp_path / "out")
    prepare(PrepareSettings("reddit", jobs=1), [months], tmp_path / "uninterrupted")
    assert contents(tmp_path / "out") == contents(tmp_path / "uninterrupted")


@pytest.mark.parametrize("moves", range(5))
def test_a_preparation_killed_while_it_replaces_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moves: int
) -> None:
    """The new corpus is not used with the old vocabulary; the same command finishes."""
    (tmp_path / "a.txt").write_text("an old text\nof few words\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("something else that was written later\nand is longer\n", encoding="utf-8")
    output, command = tmp_path / "output", ("prepare", "text", "--tokenizer", "whitespace", "--split", "90,5,5")
    for name, folder in (("a", "output"), ("b", "expected")):
        result = run_command(*command, tmp_path / f"{name}.txt", "--output", tmp_path / folder)
        assert result.status == 0, result
    (output / "train.tsv").write_text("of the old preparation", encoding="utf-8")
    replace, replaced = os.replace, []

    def kill(source: Path, path: Path) -> None:
        if Path(source).parent.name == "complete":
            replaced.append(path)
            if len(replaced) > moves:
                raise KeyboardInterrupt
        replace(source, path)

    with monkeypatch.context() as patch:
        patch.setattr(pipeline.os, "replace", kill)
        assert run_command(*command, tmp_path / "b.txt", "--output", output).status == 130
    config = tmp_path / "config.json"
    data = {"train": str(output / "train.txt"), "vocabulary": str(output / "vocabulary.txt")}
    config.write_text(json.dumps({"name": "x", "task": "language_model", "data": data}), encoding="utf-8")
    for path in (output / "train.txt", output / "vocabulary.txt"):
        path.touch()  # as if nothing were missing
    assert f"{output} has files of two preparations" in run_command("train", config).error_message
    result = run_command(*command, tmp_path / "b.txt", "--output", output)
    assert result.status == 0, result
    assert contents(output).keys() == contents(tmp_path / "expected").keys()
    for name in ("train.txt", "vocabulary.txt", "statistics.json"):
        assert contents(output)[name] == contents(tmp_path / "expected")[name]


def test_edited_files_of_a_preparation_are_used_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from seq2seq_chat.report.evaluate import evaluate_language_model
    from seq2seq_chat.training import experiment

    (tmp_path / "text.txt").write_text("a few words\nin lines\n" * 50, encoding="utf-8")
    output = tmp_path / "output"
    result = run_command("prepare", "text", tmp_path / "text.txt", "--output", output, "--tokenizer", "whitespace")
    assert result.status == 0, result
    vocabulary = str(output / "vocabulary.txt")
    data = Data(train=str(output / "train.txt"), test=str(output / "test.txt"), vocabulary=vocabulary)
    warn_of_edits(named_files(data))
    assert caplog.messages == []
    (output / "train.txt").write_text("other words\n", encoding="utf-8")
    monkeypatch.setattr(experiment, "_set_up_devices", None)
    with pytest.raises(TypeError):  # after the warning
        experiment.train(parse_config({"name": "x", "task": "language_model", "data": data.model_dump()}, "x"))
    warning = f"{output / 'train.txt'} changed since `seq2seq-chat prepare` wrote it; it is used as it is"
    assert caplog.messages.count(warning) == 1
    with pytest.raises(RunError):  # after the warning
        evaluate_language_model(random_language_run(tmp_path, "words", steps=()), output / "train.txt")
    assert caplog.messages.count(warning) == 2
    (output / "statistics.json").write_text('{"train": {}}', encoding="utf-8")  # of a version without checksums
    warn_of_edits(named_files(data))
    assert caplog.messages.count(warning) == 2


def test_a_damaged_shard_is_read_again(months: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, output = PrepareSettings("reddit"), tmp_path / "output"
    prepare(settings, [months], tmp_path / "expected")

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(pipeline, "_assemble", Mock(side_effect=KeyboardInterrupt))
        prepare(settings, [months], output)
    for shard in (output / ".preparing").glob("*/rows.parquet"):
        content = bytearray(shard.read_bytes())
        content[len(content) // 2] ^= 1
        shard.write_bytes(content)
    prepare(settings, [months], output)
    assert contents(output) == contents(tmp_path / "expected")


def test_file_modified_during_reading(months: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = reddit.CORPUS

    def read_and_append(piece: Any, settings: Any, shard: Any) -> None:
        corpus.read(piece, settings, shard)
        with open(piece.path, "a") as file:
            file.write("{}\n")

    monkeypatch.setattr(reddit, "CORPUS", dataclasses.replace(corpus, read=read_and_append))
    with pytest.raises(ReadingStopped, match=r"RC_2010-01 .*changed while it was being read\. Run the command again"):
        prepare(PrepareSettings("reddit", jobs=1), [months], tmp_path / "out")
    assert not (tmp_path / "out").exists()  # nothing was finished
    monkeypatch.setattr(pipeline, "_TASK_BYTES", 1)
    modified = [months / "RC_2010-02"]

    def read_and_append_later(piece: Any, settings: Any, shard: Any) -> None:
        (read_and_append if piece.path in modified else corpus.read)(piece, settings, shard)

    monkeypatch.setattr(reddit, "CORPUS", dataclasses.replace(corpus, read=read_and_append_later))
    with pytest.raises(ReadingStopped, match="RC_2010-02 changed"):
        prepare(PrepareSettings("reddit", jobs=1), [months], tmp_path / "out")
    assert len(list((tmp_path / "out" / ".preparing").glob("*.json"))) == 1
    modified.clear()
    prepare(PrepareSettings("reddit", jobs=1, max_bad=100), [months], tmp_path / "out")


def test_archive_modified_during_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "films.zip"

    def write(names: list[str]) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            for name in names:
                archive.writestr(name, film("one/film"))

    write(["1999/1/1.xml", "1999/2/2.xml"])
    corpus = opensubtitles.CORPUS

    def remove_and_read(piece: Any, settings: Any, shard: Any) -> None:
        write(["1999/1/1.xml"])
        corpus.read(piece, settings, shard)

    monkeypatch.setattr(opensubtitles, "CORPUS", dataclasses.replace(corpus, read=remove_and_read))
    with pytest.raises(ReadingStopped, match="changed while it was being read"):
        prepare(PrepareSettings("opensubtitles"), [path], tmp_path / "out")


def test_result_does_not_depend_on_ranges_and_processes(
    months: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(PrepareSettings("reddit", jobs=1), [months], tmp_path / "one")
    monkeypatch.setattr(pipeline, "_RANGE_BYTES", 10_000)
    monkeypatch.setattr(pipeline, "_TASK_BYTES", 20_000)
    tasks = pipeline.plan_tasks("reddit", reddit.RedditSettings(), pipeline.find_inputs("reddit", [months]))
    assert len(tasks) > 10
    prepare(PrepareSettings("reddit", jobs=1), [months], tmp_path / "many")
    monkeypatch.setattr(workers, "_MIN_PARALLEL_BYTES", 0)
    prepare(PrepareSettings("reddit", jobs=2), [months], tmp_path / "processes")
    assert contents(tmp_path / "one") == contents(tmp_path / "many") == contents(tmp_path / "processes")
    assert json.loads(contents(tmp_path / "one")["statistics.json"])["total"]["samples"] == 3999 - 50


def test_finished_shards_are_not_read_again(months: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "output"
    bad = months / "RC_2010-03"
    dump(bad, range(4000, 4100))
    bad.write_text(bad.read_text() + "{broken}\n" * 300)
    monkeypatch.setattr(pipeline, "_TASK_BYTES", 1)
    with pytest.raises(CorpusError, match=r"RC_2010-03, byte \d+: invalid JSON\. In total, 300 of 4,399 lines"):
        prepare(PrepareSettings("reddit", jobs=1), [months], output)
    read: list[str] = []
    corpus = reddit.CORPUS

    def record_and_read(piece, settings, shard):  # type: ignore[no-untyped-def]
        read.append(piece.path.name)
        corpus.read(piece, settings, shard)

    monkeypatch.setattr(reddit, "CORPUS", dataclasses.replace(corpus, read=record_and_read))
    dump(bad, range(4000, 4100))
    statistics = prepare(PrepareSettings("reddit", jobs=1), [months], output)
    assert read == ["RC_2010-03"]
    assert statistics["reading"]["records"] == 4099
    assert not (output / ".preparing").exists()
    prepare(PrepareSettings("reddit", jobs=1), [months], tmp_path / "uninterrupted")
    assert read == ["RC_2010-03", "RC_2010-01", "RC_2010-02", "RC_2010-03"]
    assert contents(output) == contents(tmp_path / "uninterrupted")


def test_disk_full(tmp_path: Path, months: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = Mock(side_effect=OSError(28, "No space left on device"))
    monkeypatch.setattr("seq2seq_chat.prepare.shards.pq.ParquetWriter.write_table", full)
    with pytest.raises(UserError, match="could not be written: No space left"):
        prepare(PrepareSettings("reddit", jobs=1), [months], tmp_path / "output")
    monkeypatch.undo()
    prepare(PrepareSettings("reddit", jobs=1), [months], tmp_path / "output")


def test_shard_key_includes_the_lines_of_cornell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = tmp_path / "movie_lines.txt"
    lines.write_text(
        "L1 +++$+++ u0 +++$+++ m0 +++$+++ A +++$+++ Well.\nL2 +++$+++ u1 +++$+++ m0 +++$+++ B +++$+++ No!\n"
    )
    (tmp_path / "movie_conversations.txt").write_text("u0 +++$+++ u1 +++$+++ m0 +++$+++ ['L1', 'L2']\n")
    (first,) = pipeline.plan_tasks("cornell", ReaderSettings(), pipeline.find_inputs("cornell", [tmp_path]))
    key = first.key()
    lines.write_text(lines.read_text().replace("Well", "<u>Well</u> well"))
    assert first.key() != key
    prepare(PrepareSettings("cornell", split=(1, 0, 0)), [tmp_path], tmp_path / "out")
    assert (tmp_path / "out" / "train.txt").read_text().startswith("well well .\nno !\n")
