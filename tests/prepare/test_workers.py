"""Reading resumes, gives the same result with any number of processes, and reports damage."""

import dataclasses
import json
from pathlib import Path

import pytest

from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.prepare import pipeline, workers
from seq2seq_chat.prepare.pipeline import prepare
from seq2seq_chat.prepare.readers import reddit
from seq2seq_chat.prepare.settings import PrepareSettings
from seq2seq_chat.prepare.shards import ReaderSettings
from seq2seq_chat.system.errors import UserError
from tests.prepare.raw import contents, dump


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
    def full(*arguments: object, **settings: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("seq2seq_chat.prepare.shards.pq.ParquetWriter.write_table", full)
    with pytest.raises(UserError, match="could not be written: No space left"):
        prepare(PrepareSettings("reddit", jobs=1), [months], tmp_path / "output")
    monkeypatch.undo()
    prepare(PrepareSettings("reddit", jobs=1), [months], tmp_path / "output")


def test_shard_key_includes_the_lines_of_cornell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = tmp_path / "movie_lines.txt"
    separator = " +++$+++ "
    lines.write_text(
        f"{separator.join(['L1', 'u0', 'm0', 'A', 'Well.'])}\n{separator.join(['L2', 'u1', 'm0', 'B', 'No!'])}\n"
    )
    (tmp_path / "movie_conversations.txt").write_text("u0 +++$+++ u1 +++$+++ m0 +++$+++ ['L1', 'L2']\n")
    (first,) = pipeline.plan_tasks("cornell", ReaderSettings(), pipeline.find_inputs("cornell", [tmp_path]))
    key = first.key()
    lines.write_text(lines.read_text().replace("Well", "<u>Well</u> well"))
    assert first.key() != key
    prepare(PrepareSettings("cornell", split=(1, 0, 0)), [tmp_path], tmp_path / "out")
    assert (tmp_path / "out" / "train.txt").read_text().startswith("well well .\nno !\n")
